#include "graph/search.h"

#include <algorithm>
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

}  // namespace

bool ncclTopoGraph::operator==(const ncclTopoGraph& other) const {
  const auto members = [](const ncclTopoGraph& g) {
    return std::tie(g.id, g.pattern, g.crossNic, g.collNet, g.minChannels, g.maxChannels,
                    g.nChannels, g.bwIntra, g.bwInter, g.latencyInter, g.typeIntra, g.typeInter,
                    g.sameChannels, g.nHops, g.crossRackToRack, g.intra, g.inter);
  };
  return members(*this) == members(other);
}

void ncclTopoSearchInit(ncclTopoSystem& system) {
  system.maxBw = system.totalBw = 0;
  if (!system.inter && system.count(Type::Gpu) == 1) {
    system.maxBw = system.totalBw = kLocalGBps;
    return;
  }
  for (const ncclTopoNode& dev : system.nodes(Type::Dev)) {
    for (const ncclTopoPath& path :
         dev.paths[static_cast<int>(system.inter ? Type::Net : Type::Dev)]) {
      if (!path.hops.empty()) system.maxBw = std::max(system.maxBw, path.bwGBps);
    }
    float fabric = 0;
    float pci = 0;
    for (const ncclTopoLink& link : dev.links) {
      if (link.type == ncclTopoLinkType::Nvl) fabric += link.bwGBps;
      if (link.type == ncclTopoLinkType::Pci) pci = link.bwGBps;
    }
    system.totalBw = std::max({system.totalBw, fabric, pci});
  }
}

Result<ncclTopoGraph> ncclTopoCompute(const ncclTopoSystem& system, const ncclTopoGraph& wanted,
                                      ncclTopoSearch search) {
  if (wanted.pattern < ncclTopoPattern::BalancedTree || wanted.pattern > ncclTopoPattern::Ring) {
    return fail(ncclInvalidUsage,
                "no search for graph pattern %d; expected 1 to 3 (trees), 4 (ring)",
                static_cast<int>(wanted.pattern));
  }
  if (system.nodes(Type::Gpu).empty()) {
    return fail(ncclInvalidArgument, "the system has no device with a rank");
  }
  if (wanted.minChannels < 1 || wanted.maxChannels < wanted.minChannels ||
      wanted.maxChannels > kMaxChannels) {
    return fail(ncclInvalidArgument, "%d to %d channels wanted, expected bounds within 1..%d",
                wanted.minChannels, wanted.maxChannels, kMaxChannels);
  }
  SearchCandidates candidates(system);
  if (search == ncclTopoSearch::Nccl) {
    ChannelSearch finder(system, candidates);
    return SearchLadder(system, wanted, SearchBudgets(), candidates, finder).climb();
  }
  const bool guide = isGuided(system, minSm(system));
  ChannelPacker finder(system, wanted, candidates,
                       guide ? searchOrder(system) : std::vector<int>());
  const SearchBudgets budgets = guide ? guidedBudgets(system, wanted.maxChannels) : SearchBudgets();
  return SearchLadder(system, wanted, budgets, candidates, finder).climb();
}

}  // namespace nccom
