#include "graph/search_candidates.h"

#include <tuple>

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using Path = ncclTopoPathType;

constexpr int kChannelsTried = 64;  // NCCL's MAXCHANNELS: when listing a GPU's NETs
constexpr int kTypes = static_cast<int>(Path::Dis) + 2;  // and none

void appendUnique(std::vector<int>& list, int value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

}  // namespace

SearchCandidates::SearchCandidates(const ncclTopoSystem& system)
    : system_(system),
      nGpus_(system.count(Type::Gpu)),
      nNets_(system.count(Type::Net)),
      hasSwitch_(!system.nodes(Type::Nvs).empty()),
      ranked_(static_cast<size_t>(nGpus_) * (nNets_ + 1)),
      preferredNets_(nGpus_ + 1),
      nets_(static_cast<size_t>(nGpus_ + 1) * kTypes),
      startGpus_(nNets_) {}

/// All GPUs with a path from `gpu`, best first; with a NET, those best connected to it first.
const std::vector<SearchCandidates::RankedGpu>& SearchCandidates::rankedGpus(int gpu, int net) {
  std::vector<RankedGpu>& ranked = ranked_[static_cast<size_t>(gpu) * (nNets_ + 1) + (net + 1)];
  if (!ranked.empty()) return ranked;
  using Score = std::tuple<int, int, int, int, int, int>;
  std::vector<Score> scores;
  for (int i = 1; i < nGpus_; i++) {
    const int other = (gpu + i) % nGpus_;
    const ncclTopoPath& path = system_.path(gpuRef(gpu), gpuRef(other));
    if (path.hops.empty()) continue;
    int netGBps = 0;
    int netHops = 0;
    if (net != -1) {
      const ncclTopoPath& fromNet = system_.path(netRef(net), gpuRef(other));
      netGBps = static_cast<int>(fromNet.bwGBps);
      netHops = static_cast<int>(fromNet.hops.size());
    }
    scores.emplace_back(-netGBps, netHops, -static_cast<int>(path.bwGBps),
                        static_cast<int>(path.hops.size()), i, other);
  }
  std::sort(scores.begin(), scores.end());
  constexpr int kMaxHops = 1 << 10;
  for (const auto& [netGBps, netHops, gbps, hops, i, other] : scores)
    ranked.push_back({.gpu = other, .netGBps = -netGBps, .score = -gbps * kMaxHops + hops});
  return ranked;
}

/// Behind a switch all are alike, and switches like few peers: only the neighbours by index.
void SearchCandidates::keepNeighbours(const Next& next, size_t begin, std::vector<int>& out) const {
  const int after = (next.gpu + 1) % nGpus_;
  const int before = (next.gpu + nGpus_ - 1) % nGpus_;
  const std::vector<int> known(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end());
  out.resize(begin);
  const auto keep = [&](int gpu) {
    if (std::find(known.begin(), known.end(), gpu) != known.end()) out.push_back(gpu);
  };
  if (after == before || next.pattern == ncclTopoPattern::Tree) {
    keep(after);
  } else if (next.pattern == ncclTopoPattern::Ring) {
    keep(before);
    keep(after);
  } else {
    keep(after);
    keep(before);
  }
}

/// The NETs that a GPU uses by default, over its channels.
void SearchCandidates::listPreferredNets(int gpu, std::vector<int>& nets) const {
  for (int channel = 0; channel < kChannelsTried; channel++) {
    const int net = ncclTopoGetLocalNet(system_, gpu, channel);
    if (net == -1 || (channel > 0 && net == nets[0])) return;
    nets.push_back(net);
  }
}

const std::vector<int>& SearchCandidates::preferredNets(int gpu) {
  std::vector<int>& nets = preferredNets_[gpu + 1];
  if (!nets.empty()) return nets;
  if (gpu != -1) {
    listPreferredNets(gpu, nets);
    return nets;
  }
  size_t nChannels = 0;
  for (int g = 0; g < nGpus_; g++)
    nChannels = std::max(nChannels, preferredNets(g).size());
  const auto list = [&](int g, size_t channel) {
    const std::vector<int>& own = preferredNets(g);
    if (channel < own.size()) appendUnique(preferredNets_[0], own[channel]);
  };
  if (system_.hostHashes.size() > 1) {
    // Several hosts in one system: every host's first choice before any second choice.
    for (size_t channel = 0; channel < nChannels; channel++) {
      for (int g = 0; g < nGpus_; g++)
        list(g, channel);
    }
    return preferredNets_[0];
  }
  for (int g = 0; g < nGpus_; g++) {
    for (size_t channel = 0; channel < nChannels; channel++)
      list(g, channel);
  }
  return preferredNets_[0];
}

const std::vector<int>& SearchCandidates::nets(int typeInter, int gpu) {
  std::vector<int>& nets = nets_[static_cast<size_t>(gpu + 1) * kTypes + (typeInter + 1)];
  if (!nets.empty()) return nets;
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

const std::vector<int>& SearchCandidates::startGpus(int net) {
  std::vector<int>& gpus = startGpus_[net];
  if (!gpus.empty()) return gpus;
  const int preferred = system_.nodes(Type::Net)[net].net.localGpu;
  if (preferred != -1) gpus.push_back(preferred);
  for (const int gpu : ncclTopoGetLocal(system_, netRef(net), Type::Gpu))
    appendUnique(gpus, gpu);
  return gpus;
}

}  // namespace nccom
