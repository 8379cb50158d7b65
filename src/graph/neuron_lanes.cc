#include "graph/neuron_lanes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace nccom {
namespace {

/// Where a copy of a path is cut open, and the NICs at its ends.
struct Cut {
  int visit = 0;
  int64_t head = 0, tail = 0;
};

/// Chooses the cuts of all pairs so that no NIC is the end of many, by bounded depth-first search
/// under a limit that is raised until it succeeds.
class CutSearch {
 public:
  CutSearch(const std::vector<NeuronBasePath>& paths, const NeuronNets& nets, bool crossNic)
      : paths_(paths), nets_(nets), crossNic_(crossNic) {}

  std::vector<Cut> find(int nPairs) {
    const auto nNets = static_cast<int>(nets_.all().size());
    const int ends = crossNic_ ? 2 : 1;
    // With a limit of all ends the first choices always do.
    for (limit_ = (ends * nPairs + nNets - 1) / nNets;; limit_++) {
      constexpr int kSteps = 20000;
      steps_ = limit_ < ends * nPairs ? kSteps : nPairs * kSteps;
      cuts_.clear();
      uses_.clear();
      if (choose(nPairs)) return cuts_;
    }
  }

 private:
  int64_t leastUsed(int core) const {
    const std::vector<int64_t>& near = nets_.nearest[core];
    return *std::min_element(near.begin(), near.end(), [this](int64_t a, int64_t b) {
      return std::pair(usesOf(a), a) < std::pair(usesOf(b), b);
    });
  }

  int usesOf(int64_t net) const {
    const auto found = uses_.find(net);
    return found == uses_.end() ? 0 : found->second;
  }

  std::vector<Cut> candidates(const NeuronBasePath& base) {
    std::vector<Cut> cuts;
    const std::vector<int>& cores = base.path.cores;
    const size_t nVisits = base.closed ? base.path.visits.size() : 1;
    for (size_t visit = 0; visit < nVisits; visit++) {
      const int first = base.path.visits[visit];
      const int last = first == 0 ? static_cast<int>(cores.size()) - 1 : first - 1;
      Cut cut;
      cut.visit = static_cast<int>(visit);
      cut.head = leastUsed(cores[first]);
      if (crossNic_) uses_[cut.head]++;  // the tail should take another one
      cut.tail = crossNic_ ? leastUsed(cores[last]) : cut.head;
      if (crossNic_) uses_[cut.head]--;
      cuts.push_back(cut);
    }
    const auto key = [this](const Cut& cut) {
      const int a = usesOf(cut.head);
      const int b = usesOf(cut.tail);
      return std::tuple(std::max(a, b) + (cut.head == cut.tail ? 1 : 0), a + b);
    };
    std::stable_sort(cuts.begin(), cuts.end(),
                     [&key](const Cut& a, const Cut& b) { return key(a) < key(b); });
    return cuts;
  }

  bool choose(int nPairs) {
    if (static_cast<int>(cuts_.size()) == nPairs) return true;
    for (const Cut& cut : candidates(paths_[cuts_.size() % paths_.size()])) {
      if (--steps_ < 0) return false;
      addUses(cut, 1);
      cuts_.push_back(cut);
      const bool fits = usesOf(cut.head) <= limit_ && usesOf(cut.tail) <= limit_;
      if (fits && choose(nPairs)) return true;
      cuts_.pop_back();
      addUses(cut, -1);
    }
    return false;
  }

  void addUses(const Cut& cut, int by) {
    uses_[cut.head] += by;
    if (crossNic_) uses_[cut.tail] += by;
  }

  const std::vector<NeuronBasePath>& paths_;
  const NeuronNets& nets_;
  const bool crossNic_;
  int limit_ = 0;
  int steps_ = 0;
  std::vector<Cut> cuts_;
  std::map<int64_t, int> uses_;  // pairs that have an end at the NIC
};

void addPair(std::vector<NeuronChannel>& channels, const std::vector<int>& cores, const Cut& cut) {
  NeuronChannel channel{cores, {cut.head, cut.tail}};
  channels.push_back(channel);
  std::reverse(channel.cores.begin(), channel.cores.end());
  std::swap(channel.nets[0], channel.nets[1]);
  channels.push_back(channel);
}

std::vector<NeuronChannel> localPairs(const std::vector<NeuronBasePath>& paths) {
  std::vector<NeuronChannel> channels;
  for (const NeuronBasePath& base : paths)
    addPair(channels, base.path.cores, {});
  return channels;
}

/// A core on its own has no order to turn: a channel a NIC.
std::vector<NeuronChannel> singleCore(int core, const NeuronNets& nets) {
  std::vector<NeuronChannel> channels;
  for (const int64_t net : nets.nearest[core])
    channels.push_back({{core}, {net, net}});
  return channels;
}

std::vector<NeuronChannel> networkPairs(const std::vector<NeuronBasePath>& paths,
                                        const NeuronNets& nets, const LaneOptions& options) {
  const auto nPaths = static_cast<int>(paths.size());
  const auto nNets = static_cast<int>(nets.all().size());
  const int wanted = std::max(nPaths, options.crossNic ? (nNets + 1) / 2 : nNets);
  const int nPairs = std::min(wanted, std::max(1, options.maxChannels / 2));
  std::vector<NeuronChannel> channels;
  const std::vector<Cut> cuts = CutSearch(paths, nets, options.crossNic).find(nPairs);
  for (int pair = 0; pair < nPairs; pair++) {
    const NeuronCorePath& path = paths[pair % nPaths].path;
    addPair(channels, rotatePath(path, cuts[pair].visit).cores, cuts[pair]);
  }
  return channels;
}

}  // namespace

std::vector<int64_t> NeuronNets::all() const {
  std::set<int64_t> ids;
  for (const std::vector<int64_t>& some : nearest)
    ids.insert(some.begin(), some.end());
  return {ids.begin(), ids.end()};
}

std::vector<NeuronChannel> duplicatePaths(const std::vector<NeuronBasePath>& paths,
                                          const NeuronNets& nets, const LaneOptions& options) {
  const std::vector<int>& cores = paths[0].path.cores;
  const bool hasNets = options.inter && !nets.all().empty();
  std::vector<NeuronChannel> channels;
  if (cores.size() == 1) {
    channels = hasNets ? singleCore(cores[0], nets) : std::vector<NeuronChannel>{{cores, {}}};
  } else {
    channels = hasNets ? networkPairs(paths, nets, options) : localPairs(paths);
  }
  // Two ranks make one ring, whichever way.
  if (!options.inter && cores.size() == 2) channels.resize(1);
  const size_t n = channels.size();
  for (size_t c = n; c < static_cast<size_t>(options.minChannels); c++)
    channels.push_back(channels[c - n]);
  if (channels.size() > static_cast<size_t>(options.maxChannels))
    channels.resize(options.maxChannels);
  return channels;
}

}  // namespace nccom
