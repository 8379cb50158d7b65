#include "graph/search_best.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/search_dfs.h"
#include "graph/search_ladder.h"
#include "graph/search_order.h"
#include "graph/search_pack.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;

constexpr int kSmallSystem = 16;  // GPUs up to which NCCL's budgets are quick

/// Whether to suggest an order (search_order.h) and to get by with fewer steps for it: on many
/// devices, and on Trainium, whose sparse fabric has few rings for a search to stumble on.
bool isGuided(const ncclTopoSystem& system, int sm) {
  return isNeuronSm(sm) || system.count(Type::Gpu) > kSmallSystem;
}

/// Guided searches get enough steps to lay every channel, and a few detours. A search in vain
/// costs the global budget, some 20 ms.
SearchBudgets guidedBudgets(const ncclTopoSystem& system, int maxChannels) {
  const int layAll = (system.count(Type::Gpu) + 2) * (maxChannels + 2);
  return {.attempt = 2 * layAll, .sameChannels = layAll, .global = 1 << 15};
}

/// Bandwidth in all, then how close the paths are: more is better.
using Value = std::tuple<float, int, int>;

Value valueOf(const ncclTopoSystem& system, const ncclTopoGraph& graph) {
  const float gbps = system.inter ? std::min(graph.bwIntra, graph.bwInter) : graph.bwIntra;
  return {static_cast<float>(graph.nChannels) * gbps, -static_cast<int>(graph.typeIntra),
          -static_cast<int>(graph.typeInter)};
}

/// The ladder over ChannelPacker.
class BestLadder {
 public:
  BestLadder(const ncclTopoSystem& system, const ncclTopoGraph& wanted, bool guide,
             const SearchBudgets& budgets)
      : candidates_(system),
        finder_(system, wanted, candidates_, guide ? searchOrder(system) : std::vector<int>()),
        ladder_(system, wanted, budgets, candidates_, finder_) {}

  SearchLadder& operator*() { return ladder_; }
  SearchLadder* operator->() { return &ladder_; }

 private:
  SearchCandidates candidates_;
  ChannelPacker finder_;
  SearchLadder ladder_;
};

/// Half of NCCL's steps in all: no state takes two of them.
constexpr SearchBudgets kBestBudgets = {
    .attempt = 1 << 14, .sameChannels = 1 << 8, .global = 1 << 18};

/// Steps for trees that are only weighed, not kept.
constexpr SearchBudgets kTreeBudgets = {
    .attempt = 1 << 12, .sameChannels = 1 << 8, .global = 1 << 15};

class BestRing {
 public:
  BestRing(const ncclTopoSystem& system, const ncclTopoGraph& wanted)
      : system_(system), wanted_(wanted) {}

  /// @param ladder  that has climbed to `found`
  ncclTopoGraph choose(SearchLadder& ladder, ncclTopoGraph found) {
    std::vector<ncclTopoGraph> earlier;
    for (const ncclTopoGraph& incumbent : ladder.incumbents())
      earlier.push_back(ladder.finish(incumbent));
    const bool isFine = std::all_of(earlier.begin(), earlier.end(), [&](const auto& ring) {
      return ring.nChannels == found.nChannels || gbps(tree(ring)) <= gbps(tree(found));
    });
    if (isFine) return found;
    ncclTopoGraph best = searchAsNccl(system_, wanted_);
    const Value least = tree(best);
    earlier.push_back(found);
    for (ncclTopoGraph& ring : earlier) {
      if (valueOf(system_, ring) >= valueOf(system_, best) && tree(ring) >= least) {
        best = std::move(ring);
      }
    }
    if (best == found) return found;
    std::vector<std::string> why = std::move(found.why);
    why.push_back(std::to_string(found.nChannels) + " channels would be wider as a ring but " +
                  "narrower as a tree: " + std::to_string(best.nChannels) + " kept");
    best.why = std::move(why);
    return best;
  }

 private:
  static float gbps(const Value& value) { return std::get<0>(value); }

  /// What a tree of as many channels is worth.
  Value tree(const ncclTopoGraph& ring) {
    const auto [place, isNew] = trees_.try_emplace(ring.nChannels);
    if (!isNew) return place->second;
    ncclTopoGraph wanted = wanted_;
    wanted.pattern = ncclTopoPattern::BalancedTree;
    wanted.minChannels = wanted.maxChannels = ring.nChannels;
    place->second = valueOf(system_, BestLadder(system_, wanted, false, kTreeBudgets)->climb());
    return place->second;
  }

  const ncclTopoSystem& system_;
  const ncclTopoGraph& wanted_;
  std::map<int, Value> trees_;  // by channels
};

constexpr int kBothSearches = 64;  // GPUs up to which NCCL's search takes a fraction of a second

/// Where a guided search may miss what NCCL's finds in bearable time: a fabric without switches.
bool isWorthBoth(const ncclTopoSystem& system) {
  return isGuided(system, minSm(system)) && system.count(Type::Gpu) <= kBothSearches &&
         system.nodes(Type::Nvs).empty();
}

/// A guided search may run out of steps where NCCL's happens on something better.
ncclTopoGraph notBelowNccl(const ncclTopoSystem& system, const ncclTopoGraph& wanted,
                           ncclTopoGraph found) {
  ncclTopoGraph nccl = searchAsNccl(system, wanted);
  if (valueOf(system, nccl) <= valueOf(system, found)) return found;
  nccl.why = std::move(found.why);
  nccl.why.push_back("NCCL's own order of trying finds " + std::to_string(nccl.nChannels) +
                     " channels instead of " + std::to_string(found.nChannels) + ": kept");
  return nccl;
}

}  // namespace

ncclTopoGraph searchAsNccl(const ncclTopoSystem& system, const ncclTopoGraph& wanted) {
  SearchCandidates candidates(system);
  ChannelSearch finder(system, candidates);
  return SearchLadder(system, wanted, SearchBudgets(), candidates, finder).climb();
}

ncclTopoGraph searchBest(const ncclTopoSystem& system, const ncclTopoGraph& wanted) {
  const bool guide = isGuided(system, minSm(system));
  const SearchBudgets budgets = guide ? guidedBudgets(system, wanted.maxChannels) : kBestBudgets;
  BestLadder ladder(system, wanted, guide, budgets);
  ncclTopoGraph found = ladder->climb();
  if (isWorthBoth(system)) return notBelowNccl(system, wanted, std::move(found));
  if (guide) return found;
  const bool mayHarmTree =
      wanted.pattern == ncclTopoPattern::Ring && ladder->incumbents().size() > 1;
  return mayHarmTree ? BestRing(system, wanted).choose(*ladder, std::move(found)) : found;
}

}  // namespace nccom
