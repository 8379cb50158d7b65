// Internal to graph: what a search tries next, in NCCL's order, which decides how soon it finds.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/paths.h"
#include "graph/search.h"

namespace nccom {

/// Lists are made when they are first asked for, and kept.
class SearchCandidates {
 public:
  struct RankedGpu {
    int gpu = -1;
    int netGBps = 0;  // whole GB/s of the path from the NET
    int score = 0;    // bandwidth and hops from the GPU before; equal for equally good ones
  };
  /// The GPU after `gpu` in a channel. Before the channel returns to its NET, those near `net` come
  /// first; on the way there, those that are not needed for it.
  struct Next {
    int gpu = -1;
    int net = -1;  // -1: the NET does not matter
    bool mayReverse = false;
    ncclTopoPattern pattern = ncclTopoPattern::Ring;
  };

  explicit SearchCandidates(const ncclTopoSystem& system);

  /// NET indices worth trying from `gpu` (-1: from any), preferred ones first, then those within
  /// `typeInter` (-1: none).
  const std::vector<int>& nets(int typeInter, int gpu);

  /// GPU indices to start at from `net`: the one that prefers it, then those next to it.
  const std::vector<int>& startGpus(int net);

  /// Appends the GPUs to try next, without those that `isUsed`. Of GPUs that are alike to the NET,
  /// those with the most freePci(gpu) come first: whole GB/s left on their PCI link.
  template <class IsUsed, class FreePci>
  void appendNext(const Next& next, const IsUsed& isUsed, const FreePci& freePci,
                  std::vector<int>& out) {
    const size_t begin = out.size();
    const auto first = [&] { return out.begin() + static_cast<std::ptrdiff_t>(begin); };
    const std::vector<RankedGpu>& ranking = rankedGpus(next.gpu, next.net);
    bool isUniform = next.mayReverse;
    int firstScore = -1;
    netScores_.clear();
    for (const RankedGpu& ranked : ranking) {
      if (isUsed(ranked.gpu)) continue;
      if (firstScore == -1) firstScore = ranked.score;
      isUniform = isUniform && ranked.score == firstScore;
      if (next.net == -1) {
        out.push_back(ranked.gpu);
        continue;
      }
      const std::pair own = {ranked.netGBps, freePci(ranked.gpu)};
      size_t place = netScores_.size();
      while (place > 0 && netScores_[place - 1] < own)
        place--;
      const auto offset = static_cast<std::ptrdiff_t>(place);
      netScores_.insert(netScores_.begin() + offset, own);
      out.insert(first() + offset, ranked.gpu);
    }
    if (isUniform) std::reverse(first(), out.end());
    if (hasSwitch_) keepNeighbours(next, begin, out);
  }

 private:
  const std::vector<RankedGpu>& rankedGpus(int gpu, int net);
  void keepNeighbours(const Next& next, size_t begin, std::vector<int>& out) const;
  const std::vector<int>& preferredNets(int gpu);
  void listPreferredNets(int gpu, std::vector<int>& nets) const;

  const ncclTopoSystem& system_;
  const int nGpus_;
  const int nNets_;
  const bool hasSwitch_;
  std::vector<std::vector<RankedGpu>> ranked_;   // [gpu * (nNets + 1) + net + 1]
  std::vector<std::vector<int>> preferredNets_;  // [gpu + 1]
  std::vector<std::vector<int>> nets_;           // [(gpu + 1) * kTypes + type + 1]
  std::vector<std::vector<int>> startGpus_;      // [net]
  std::vector<std::pair<int, int>> netScores_;   // of the list that is being made
};

}  // namespace nccom
