// The order in which a search tries the next device and the NICs.
#include <algorithm>
#include <tuple>

#include "graph/search_dfs.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using Path = ncclTopoPathType;

constexpr int kChannelsTried = 64;  // NCCL's MAXCHANNELS: when listing a GPU's NETs

void appendUnique(std::vector<int>& list, int value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

}  // namespace

/// Puts the GPUs to try after `gpu` on the stack of candidates.
void ChannelSearch::nextGpus(int gpu, int step, const Shape& shape, Order order) {
  switch (order) {
    case Order::Pci:
      candidates_.push_back(step + 1);
      return;
    case Order::Replay:
      candidates_.push_back(replayed(step));
      return;
    case Order::Hint:
      candidates_.push_back(orderNext_[gpu]);
      return;
    case Order::Free:
      break;
  }
  // The GPU before the last should be near the NET, the others rather not use up what is near it.
  const int sortNet = shape.backToNet == -1 ? 0 : (shape.backToNet == step + 1 ? 1 : -1);
  appendFree(gpu, sortNet);
}

void ChannelSearch::appendFree(int gpu, int sortNet) {
  const uint64_t flag = uint64_t{1} << nChannels_;
  const size_t begin = candidates_.size();
  bool isUniform = true;
  const auto score = [&](int other) {
    const ncclTopoPath& path = system_.path(gpuRef(gpu), gpuRef(other));
    return std::pair(static_cast<int>(path.bwGBps), path.hops.size());
  };
  const int net = sortNet == 0 ? -1 : netIn_[nChannels_];
  netScores_.clear();
  for (const RankedGpu& ranked : sortedGpus(gpu, net)) {
    if ((used_[ranked.gpu] & flag) != 0) continue;
    if (net == -1) {
      candidates_.push_back(ranked.gpu);
    } else {
      insertByNetScore(ranked, begin);
    }
    if (sortNet == -1) {
      isUniform = isUniform && score(ranked.gpu) == score(candidates_[begin]);
    }
  }
  if (sortNet == -1 && isUniform) {
    std::reverse(candidates_.begin() + static_cast<std::ptrdiff_t>(begin), candidates_.end());
  }
  if (!system_.nodes(Type::Nvs).empty()) preferNeighbours(gpu, begin);
}

/// Best connected to the NET first, then with the most PCI bandwidth left, then as they came.
void ChannelSearch::insertByNetScore(const RankedGpu& ranked, size_t begin) {
  const std::pair own = {ranked.netGBps, freePciBandwidth(ranked.gpu)};
  size_t place = netScores_.size();
  while (place > 0 && netScores_[place - 1] < own)
    place--;
  const auto offset = static_cast<std::ptrdiff_t>(place);
  netScores_.insert(netScores_.begin() + offset, own);
  candidates_.insert(candidates_.begin() + static_cast<std::ptrdiff_t>(begin) + offset, ranked.gpu);
}

/// Behind a switch all are alike, and switches like few peers: only the neighbours by index.
void ChannelSearch::preferNeighbours(int gpu, size_t begin) {
  const int next = (gpu + 1) % nGpus_;
  const int previous = (gpu + nGpus_ - 1) % nGpus_;
  if (next == previous || wanted_.pattern == ncclTopoPattern::Tree) {
    keepCandidates({next}, begin);
  } else if (wanted_.pattern == ncclTopoPattern::Ring) {
    keepCandidates({previous, next}, begin);
  } else {
    keepCandidates({next, previous}, begin);
  }
}

/// Reduces the candidates from `begin` on to those that are wanted, in that order.
void ChannelSearch::keepCandidates(const std::vector<int>& wanted, size_t begin) {
  const auto first = candidates_.begin() + static_cast<std::ptrdiff_t>(begin);
  const std::vector<int> known(first, candidates_.end());
  candidates_.resize(begin);
  for (const int gpu : wanted) {
    if (std::find(known.begin(), known.end(), gpu) != known.end()) candidates_.push_back(gpu);
  }
}

/// All GPUs with a path from `gpu`, best first; with a NET, those best connected to it first.
const std::vector<ChannelSearch::RankedGpu>& ChannelSearch::sortedGpus(int gpu, int net) {
  std::vector<RankedGpu>& sorted = sortedGpus_[static_cast<size_t>(gpu) * (nNets_ + 1) + (net + 1)];
  if (sorted.empty()) {
    using Score = std::tuple<int, int, int, int, int, int>;
    std::vector<Score> scores;
    for (int i = 1; i < nGpus_; i++) {
      const int other = (gpu + i) % nGpus_;
      const ncclTopoPath& path = system_.path(gpuRef(gpu), gpuRef(other));
      if (path.hops.empty()) continue;
      const ncclTopoPath toNet =
          net == -1 ? ncclTopoPath() : system_.path(netRef(net), gpuRef(other));
      scores.emplace_back(-static_cast<int>(toNet.bwGBps), static_cast<int>(toNet.hops.size()),
                          -static_cast<int>(path.bwGBps), static_cast<int>(path.hops.size()), i,
                          other);
    }
    std::sort(scores.begin(), scores.end());
    for (const Score& score : scores)
      sorted.push_back({.gpu = std::get<5>(score), .netGBps = -std::get<0>(score)});
  }
  return sorted;
}

/// Whole GB/s left on the PCI link of a GPU's device; -1 if it has none.
int ChannelSearch::freePciBandwidth(int gpu) const {
  const int link = pciLinks_[gpu];
  if (link == -1) return -1;
  return static_cast<int>(std::min(links_[link].bwGBps, links_[links_[link].reverse].bwGBps));
}

/// The NETs that GPUs use by default, over channels and GPUs.
std::vector<int> ChannelSearch::preferredNets(int gpu) const {
  std::vector<int> nets;
  std::vector<int> firstNets(nGpus_, -1);
  std::vector<bool> done(nGpus_, false);
  const auto listNet = [&](int g, int channel) {
    const int net = done[g] ? -1 : ncclTopoGetLocalNet(system_, g, channel);
    if (channel == 0) firstNets[g] = net;
    done[g] = done[g] || net == -1 || (channel > 0 && net == firstNets[g]);
    if (!done[g]) appendUnique(nets, net);
  };
  const int firstGpu = gpu == -1 ? 0 : gpu;
  const int endGpu = gpu == -1 ? nGpus_ : gpu + 1;
  if (system_.hostHashes.size() > 1) {
    // Several hosts in one system: every host's first choice before any second choice.
    for (int channel = 0; channel < kChannelsTried; channel++) {
      for (int g = firstGpu; g < endGpu; g++)
        listNet(g, channel);
    }
    return nets;
  }
  for (int g = firstGpu; g < endGpu; g++) {
    for (int channel = 0; channel < kChannelsTried && !done[g]; channel++)
      listNet(g, channel);
  }
  return nets;
}

const std::vector<int>& ChannelSearch::selectNets(int typeInter, int gpu) {
  const auto [place, isNew] = selectedNets_.try_emplace({gpu, typeInter});
  if (!isNew) return place->second;
  std::vector<int>& nets = place->second;
  nets = preferredNets(gpu);
  for (int type = 0; type <= typeInter; type++) {
    for (int g = gpu == -1 ? 0 : gpu; g < (gpu == -1 ? nGpus_ : gpu + 1); g++) {
      for (int n = 0; n < nNets_; n++) {
        const Path distance = system_.path(gpuRef(g), netRef(n)).type;
        if (static_cast<int>(distance) == type) appendUnique(nets, n);
      }
    }
  }
  return nets;
}

}  // namespace nccom
