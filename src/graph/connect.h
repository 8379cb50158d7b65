// From each host's channels to rings and trees over all ranks. Pure functions of values: every
// rank, given the same records, comes to the same answer.
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
  // A host's part of a tree is a chain with the parent end at its head. Other hosts below it hang
  // on two of its ranks; which ones, the pattern of the tree graph says.
  std::array<int32_t, kMaxChannels> treeToParent = {};  // rank whose parent is on another host
  std::array<int32_t, kMaxChannels> treeToChild0 = {};  // rank that has the first host below
  std::array<int32_t, kMaxChannels> treeToChild1 = {};  // rank that has the second host below
  std::array<int32_t, kMaxChannels> treeUp = {};        // within the host; -1 at the head
  std::array<int32_t, kMaxChannels> treeDown = {};      // within the host; -1 at the tail
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

/// A rank's place in one tree of all ranks. -1 where there is none.
struct ncclTree {
  int up = -1;
  std::array<int, 3> down = {-1, -1, -1};  // filled from the front
  bool operator==(const ncclTree&) const = default;
};

/// The channels of a whole communicator.
struct ncclGlobalChannels {
  int nSearched = 0;  // as in ncclRings
  float bwIntra = 0;
  float bwInter = 0;
  int treeDepth = 0;                         // hops from the root at most, estimated as NCCL does
  std::vector<std::vector<int>> rings;       // [channel][nRanks] in ring order, from rank 0 on
  std::vector<std::vector<ncclTree>> trees;  // [channel][rank]
  bool operator==(const ncclGlobalChannels&) const = default;
};

constexpr int kMaxJoinedChannels = 64;  // NCCL's MAXCHANNELS; a device of ours has kMaxChannels

struct ChannelBounds {
  int min = 1;
  int max = kMaxChannels;  // at most kMaxJoinedChannels
  /// Least generation of all devices. From 90 on, hosts whose channels carry more than 45 GB/s
  /// inside get four copies of a channel where that makes less than 32 in all.
  int minSm = 0;
};

/// This rank's record. Without a tree graph the ring's order serves as the trees' chain.
/// @error ncclInvalidArgument  `rank` is not in every channel of a graph
Result<ncclTopoRanks> ncclTopoPreset(const ncclTopoGraph& ring, int rank);
Result<ncclTopoRanks> ncclTopoPreset(const ncclTopoGraph& ring, const ncclTopoGraph& tree,
                                     int rank);

/// The same for every rank of the graphs at once, into `all` at its rank.
/// @error ncclInvalidArgument  a channel has no ranks, or one that `all` has no place for
Status ncclTopoPresetHost(const ncclTopoGraph& ring, const ncclTopoGraph& tree,
                          std::vector<ncclTopoRanks>& all);

/// Host index of each rank, as NCCL counts: ranks are on one host if their first channel has one
/// head, and hosts are numbered as their first rank comes. (A host whose devices reach each other
/// worse than its NICs has several heads.)
std::vector<int> ncclTopoNodesOf(const std::vector<ncclTopoRanks>& all);

/// Joins the hosts' channels, in the order of host indices, into rings; doubles them (copies run
/// the same way: more parallelism on the same links), then keeps to `bounds`.
///
/// @param rank       whose view of the rings is wanted
/// @param nodeOf     [nRanks] host index of each rank, 0 .. nHosts-1
/// @param all        [nRanks] the records
/// @param hostOrder  [nHosts] host indices in the order in which rings pass them, such as pod by
///                   pod; empty: by index
/// @error ncclInvalidArgument  sizes or indices that do not fit together
/// @error ncclInternalError    "ring r does not loop back ..." or "... does not contain rank ...":
///                             the records contradict each other
Result<ncclRings> ncclTopoPostset(int rank, const std::vector<int>& nodeOf,
                                  std::vector<ncclTopoRanks> all, const ChannelBounds& bounds,
                                  const std::vector<int>& hostOrder = {});

/// The rings of all ranks, and the double binary trees over them: channel c < nSearched has the
/// first tree of the hosts, its copy the second. Takes and fails as ncclTopoPostset; one
/// ring check serves for all ranks.
Result<ncclGlobalChannels> ncclTopoConnect(const std::vector<int>& nodeOf,
                                           std::vector<ncclTopoRanks> all,
                                           const ChannelBounds& bounds,
                                           const std::vector<int>& hostOrder = {});

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
