// From each host's channels to rings over all ranks. Pure functions of values: every rank, given
// the same records, comes to the same rings.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "graph/search.h"

namespace nccom {

/// What one rank tells all others about its place in its host's channels: a flat record of fixed
/// layout, for an all-gather between equal processes of one version. -1 where there is none.
struct ncclTopoRanks {
  int32_t nChannels = 0;
  int32_t crossNicRing = 0;
  int32_t sameChannels = 1;
  int32_t typeIntra = 0;  // ncclTopoPathType
  int32_t typeInter = 0;
  float bwIntra = 0;
  float bwInter = 0;
  std::array<int32_t, kMaxChannels> ringRecv = {};  // rank that receives from the network
  std::array<int32_t, kMaxChannels> ringSend = {};  // rank that sends to the network
  std::array<int32_t, kMaxChannels> ringPrev = {};  // within the host; -1 at the head
  std::array<int32_t, kMaxChannels> ringNext = {};  // within the host; -1 at the tail
  bool operator==(const ncclTopoRanks&) const = default;
};
static_assert(std::is_trivially_copyable_v<ncclTopoRanks>);

struct ncclRing {
  int prev = -1;
  int next = -1;
  std::vector<int> userRanks;  // [nRanks] in ring order, from this rank on
  bool operator==(const ncclRing&) const = default;
};

struct ncclRings {
  std::vector<ncclRing> channels;
  int nSearched = 0;  // channels that the hosts' graphs have; the rest are their copies
  float bwIntra = 0;  // the least of all hosts, GB/s of a searched channel
  float bwInter = 0;
  bool operator==(const ncclRings&) const = default;
};

struct ChannelBounds {
  int min = 1;
  int max = kMaxChannels;
};

/// This rank's record.
/// @error ncclInvalidArgument  `rank` is not in every channel of the graph
Result<ncclTopoRanks> ncclTopoPreset(const ncclTopoGraph& graph, int rank);

/// Joins the hosts' channels, in the order of host indices, into rings; doubles them (copies run
/// the same way: more parallelism on the same links), then keeps to `bounds`.
///
/// @param rank    whose view of the rings is wanted
/// @param nodeOf  [nRanks] host index of each rank, 0 .. nHosts-1
/// @param all     [nRanks] the records
/// @error ncclInvalidArgument  sizes or indices that do not fit together
/// @error ncclInternalError    "ring r does not loop back ..." or "... does not contain rank ...":
///                             the records contradict each other
Result<ncclRings> ncclTopoPostset(int rank, const std::vector<int>& nodeOf,
                                  std::vector<ncclTopoRanks> all, const ChannelBounds& bounds);

/// Rings from successor tables, checked: each starts at `rank`, returns to it after nRanks steps
/// and contains every rank.
/// @param prev, next  [channel][nRanks]
Result<std::vector<ncclRing>> ncclBuildRings(int rank, const std::vector<std::vector<int>>& prev,
                                             const std::vector<std::vector<int>>& next);

struct NetDeviceChoice {
  int64_t id = -1;  // of the NET node
  int dev = -1;     // the plugin's device
  bool operator==(const NetDeviceChoice&) const = default;
};

/// NIC of `rank` on a channel: the head of the host's part receives on the first NET of the
/// channel, every other rank sends on the second. With no graph, the rank's own local NIC.
/// @error ncclInvalidArgument  the graph has no NETs, or the system does not know them
Result<NetDeviceChoice> ncclTopoGetNetDev(const ncclTopoSystem& system, const ncclTopoGraph& graph,
                                          int channel, int rank);
Result<NetDeviceChoice> ncclTopoGetLocalNetDev(const ncclTopoSystem& system, int channel, int rank);

struct P2pChannels {
  int nChannels = 1;  // power of two
  int perPeer = 1;    // power of two, at most nChannels
  /// Channel of part `part` of the traffic with the peer `distance` ranks away.
  int channelOf(int distance, int part) const;
  bool operator==(const P2pChannels&) const = default;
};

/// Channels of point-to-point traffic: as many as fast paths to all local peers can fill.
/// @param nChannels  of the collectives
/// @error ncclInvalidArgument  `rank` is not in the system
Result<P2pChannels> ncclTopoComputeP2pChannels(const ncclTopoSystem& system, int rank,
                                               int nChannels, int maxChannels = kMaxChannels);

}  // namespace nccom
