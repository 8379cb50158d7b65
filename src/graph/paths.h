// The best path between any two nodes that traffic starts or ends at, and what follows from it.
#pragma once

#include <optional>
#include <vector>

#include "graph/topo.h"

namespace nccom {

/// What a user may switch off or move; the defaults are NCCL's.
struct ncclTopoPathOptions {
  bool nvb = true;  // device fabric paths through one other device
  bool pxn = true;  // to a NIC through the device next to it
  /// Direct device-to-device traffic up to this distance, through a CPU's memory beyond. Default:
  /// PXB; SYS where there are at most two devices on AMD CPUs.
  std::optional<ncclTopoPathType> p2pLevel;
  /// NICs reach device memory directly up to this distance.
  ncclTopoPathType gdrLevel = ncclTopoPathType::P2c;
  /// Devices that both reach a NIC (PXB or closer) faster than each other use the network between
  /// them, as do those of different hosts that have no direct way: their path gets the type NET,
  /// and ncclTopoTrimSystem parts them. NCCL's communicators do so, its topology dumps do not.
  bool netIntra = false;
  bool operator==(const ncclTopoPathOptions&) const = default;
};

/// Computes the paths from every node to all GPUs, DEVs, CPUs, NVSs, NETs, GINs and RMAs, as
/// NCCL does: breadth first from each target; closer type first, then wider, then fewer links;
/// no traffic through a device except as NVB. Then it diverts what cannot go directly through the
/// local CPU, and finds PXN paths. Sets net.localGpu. Existing paths are replaced.
void ncclTopoComputePaths(ncclTopoSystem& system, const ncclTopoPathOptions& options = {});

/// Takes out the GPUs that `rank` cannot reach without the network, and sets `system.inter` when
/// ranks remain outside. Paths must be computed before, and again afterwards.
/// @param nRanks  of the communicator
void ncclTopoTrimSystem(ncclTopoSystem& system, int rank, int nRanks);

/// Nodes of `type` that are best to reach from `from`: widest path, then closest type.
std::vector<int> ncclTopoGetLocal(const ncclTopoSystem& system, ncclTopoNodeRef from,
                                  ncclTopoNodeType type);

/// CPU index nearest to a GPU.
int ncclGetLocalCpu(const ncclTopoSystem& system, int gpu);

/// NET index that a GPU uses for a channel: its local NETs are shared out among the GPUs that
/// have the same ones. -1: it reaches none.
int ncclTopoGetLocalNet(const ncclTopoSystem& system, int gpu, int channel);

/// GPU index that prefers this NET; -1: none does.
int ncclTopoGetLocalGpu(const ncclTopoSystem& system, int net);

/// The rank that the path from `gpu` to `net` goes through: another one on a PXN path, else its
/// own.
int ncclTopoGetIntermediateRank(const ncclTopoSystem& system, int gpu, int net);

/// Closest and farthest path type from any GPU to any other node of `type` (SYS and LOC, if there
/// is none).
struct ncclTopoPathRange {
  ncclTopoPathType min = ncclTopoPathType::Sys;
  ncclTopoPathType max = ncclTopoPathType::Loc;
};
ncclTopoPathRange ncclTopoGetGpuPathRange(const ncclTopoSystem& system, ncclTopoNodeType type);

/// Node at the far end of a hop.
inline ncclTopoNodeRef hopTarget(const ncclTopoSystem& system, const ncclTopoHop& hop) {
  return system.at(hop.from).links[hop.link].remote;
}

/// `value` with its bits below `pow2` mirrored: 1 of 8 is 4.
int mirrorBits(int value, int pow2);
inline bool isPow2(int value) {
  return (value & (value - 1)) == 0;
}

}  // namespace nccom
