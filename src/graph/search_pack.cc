// What an attempt asks for, and whether it can succeed.
#include "graph/search_pack.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "graph/search_ladder.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using Path = ncclTopoPathType;
using Verdict = SearchTrial::Verdict;

constexpr int kMaxSpreads = 8;
constexpr int kSpreadSteps = 1 << 12;
constexpr size_t kSeenStates = size_t{1} << 14;  // a power of two

/// GB/s that the channels of a graph could ever book on one link inside a device.
float enoughGBps(const ncclTopoSystem& system, const ncclTopoGraph& wanted) {
  const float fastest = searchSpeeds(system)[0];
  const float flows = system.inter ? 2 : 1;  // to the next GPU, and to the NET
  return flows * fastest * static_cast<float>(wanted.maxChannels);
}

}  // namespace

ChannelPacker::ChannelPacker(const ncclTopoSystem& system, const ncclTopoGraph& wanted,
                             SearchCandidates& candidates, std::vector<int> order)
    : system_(system),
      candidates_(candidates),
      nGpus_(system.count(Type::Gpu)),
      nNets_(system.count(Type::Net)),
      hasSwitch_(!system.nodes(Type::Nvs).empty()),
      order_(std::move(order)),
      orderNext_(nGpus_, -1),
      model_(system, enoughGBps(system, wanted)),
      bound_(model_),
      capacity_(model_.capacity()),
      refusals_(capacity_.size(), 0),
      seen_(kSeenStates, 0) {
  for (size_t i = 0; i < order_.size(); i++) {
    orderNext_[order_[i]] = order_[(i + 1) % order_.size()];
  }
  for (const ncclTopoNode& net : system.nodes(Type::Net))
    netUnits_.push_back(SearchModel::toUnits(net.net.bwGBps));
  listTypes();
}

void ChannelPacker::listTypes() {
  const auto add = [](uint32_t& types, const Edge& edge) {
    types |= 1U << static_cast<int>(edge.type) | 1U << static_cast<int>(edge.reverseType);
  };
  for (int g = 0; g < nGpus_; g++) {
    for (int other = 0; other < nGpus_; other++)
      add(intraTypes_, model_.gpuToGpu(g, other));
    for (int net = 0; system_.inter && net < nNets_; net++)
      add(interTypes_, model_.gpuToNet(g, net));
  }
}

/// Types that do not occur make no difference: the farthest that does stands for them.
void ChannelPacker::setTask(const ncclTopoGraph& asked) {
  const auto occurring = [](uint32_t types, Path limit) {
    const uint32_t within = types & ((2U << static_cast<int>(limit)) - 1);
    return static_cast<Path>(within == 0 ? 0 : std::bit_width(within) - 1);
  };
  const Units intra = SearchModel::toUnits(asked.bwIntra);
  const Units inter = SearchModel::toUnits(asked.bwInter);
  const bool isBalanced = asked.pattern == ncclTopoPattern::BalancedTree;
  task_ = {.pattern = asked.pattern,
           .typeIntra = occurring(intraTypes_, asked.typeIntra),
           .typeInter = occurring(interTypes_, asked.typeInter),
           .intra = SearchModel::costsOf(intra),
           .inter = SearchModel::costsOf(inter),
           .toNet = SearchModel::costsOf(isBalanced ? inter / 2 : inter),
           .netCost = SearchModel::toUnits(std::trunc(asked.bwInter)),
           .hasNets = system_.inter};
  const uint64_t speed =
      mixBits(std::bit_cast<uint32_t>(asked.bwIntra)) ^ std::bit_cast<uint32_t>(asked.bwInter);
  if (speed == speed_) return;
  speed_ = speed;
  tried_.clear();
  known_.clear();
}

/// What the links that the task allows can hold.
ChannelPacker::Known ChannelPacker::learn() {
  const uint64_t key = speed_ ^ mixBits(static_cast<uint64_t>(task_.pattern) << 16 |
                                        static_cast<uint64_t>(task_.typeIntra) << 8 |
                                        static_cast<uint64_t>(task_.typeInter));
  for (const Known& known : known_) {
    if (known.key == key) return known;
  }
  bound_.prepare(task_, netUnits_);
  preparedFor_ = key;
  known_.push_back({key, bound_.fingerprint(), bound_.atMost(), bound_.boundingLink()});
  return known_.back();
}

/// How few channels of `asked` are better than `best`.
int ChannelPacker::neededChannels(const ncclTopoGraph& asked, const ncclTopoGraph& best) const {
  if (best.nChannels == 0) return asked.minChannels;
  const float known = static_cast<float>(best.nChannels) * best.bwIntra;
  int needed = static_cast<int>(known / asked.bwIntra);
  while (static_cast<float>(needed) * asked.bwIntra > known)
    needed--;
  while (static_cast<float>(needed) * asked.bwIntra < known)
    needed++;
  const bool isTie = static_cast<float>(needed) * asked.bwIntra == known;
  const bool isCloser =
      std::pair(asked.typeIntra, asked.typeInter) < std::pair(best.typeIntra, best.typeInter);
  if (isTie && !isCloser) needed++;
  return std::max(needed, asked.minChannels);
}

bool ChannelPacker::isRepeat(uint64_t fingerprint, int nNeeded) {
  for (const Seen& tried : tried_) {
    if (tried.fingerprint == fingerprint && tried.nNeeded <= nNeeded) return true;
  }
  tried_.push_back({fingerprint, nNeeded});
  return false;
}

bool ChannelPacker::mayBeRing() const {
  return !task_.hasNets && task_.isTree();
}

SearchTrial ChannelPacker::run(const ncclTopoGraph& asked, ncclTopoGraph& best, int budget) {
  SearchTrial trial;
  trial.timeLeft = budget;
  trial.nNeeded = neededChannels(asked, best);
  setTask(asked);
  const Known known = learn();
  const int most = std::min(known.atMost, asked.maxChannels);
  if (most < trial.nNeeded) {
    trial.verdict = Verdict::CannotFit;
    trial.nLaid = most;
    trial.link = known.boundingLink;
    return trial;
  }
  const uint64_t fingerprint =
      known.fingerprint ^ mixBits(static_cast<uint64_t>(asked.pattern) << 32 |
                                  static_cast<uint64_t>(asked.crossNic) << 1 |
                                  static_cast<uint64_t>(asked.sameChannels));
  if (isRepeat(fingerprint, trial.nNeeded)) {
    trial.verdict = Verdict::Repeats;
    return trial;
  }
  if (preparedFor_ != known.key) bound_.prepare(task_, netUnits_);
  preparedFor_ = known.key;
  asked_ = &asked;
  best_ = &best;
  nNeeded_ = trial.nNeeded;
  search(budget, !task_.hasNets && !task_.isTree());
  // What is no tree yet may be a ring, and a ring is a tree once it is opened.
  if (!hasFound_ && time_ == 0 && mayBeRing()) search(budget, true);
  if (!hasFound_ && time_ == 0 && !asked.sameChannels && nSpreads_ < kMaxSpreads) {
    nSpreads_++;
    search(kSpreadSteps, !task_.hasNets && !task_.isTree(), true);
  }
  trial.timeLeft = time_;
  trial.nLaid = nMostChannels_;
  if (hasFound_) {
    trial.verdict = Verdict::Found;
    trial.nLaid = best.nChannels;
  } else {
    if (time_ == 0) trial.verdict = Verdict::Spent;
    const auto refused = std::max_element(refusals_.begin(), refusals_.end());
    if (*refused > 0) trial.link = static_cast<int>(refused - refusals_.begin());
  }
  return trial;
}

}  // namespace nccom
