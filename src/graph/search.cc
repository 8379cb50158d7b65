#include "graph/search.h"

#include <algorithm>
#include <tuple>

#include "graph/search_best.h"

namespace nccom {

using Type = ncclTopoNodeType;

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
  return search == ncclTopoSearch::Nccl ? searchAsNccl(system, wanted) : searchBest(system, wanted);
}

}  // namespace nccom
