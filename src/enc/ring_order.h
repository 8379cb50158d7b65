// An order of ranks in which the rings of groups that run at the same time on one machine cannot
// deadlock against each other.
//
// All groups agree on one cycle of the machine's devices, over links, and each ring passes its
// ranks in the order in which the cycle does. What groups share, the links and the buffers behind
// them, is then numbered so that a chunk takes it by rising numbers, from wherever it starts:
//
//   early: links before the end of the cycle    late: the same links, after it
//
// A chunk visits every rank of a ring once, hence less than one lap, and passes the end at most
// once. Waiting for higher numbers only, no set of chunks can wait for each other in a circle,
// whatever groups they belong to. In any other order a chunk may need several laps.
//
// Devices without a cycle are ordered as a line: the hop that closes a ring takes the way back.
// Between servers a hop ends in a slot that no other group uses, and holds nothing.
//
// The runtime has such an order too (get_sorted_ranks); how it is made is not public.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "enc/comm_info.h"
#include "graph/fabric.h"
#include "misc/result.h"

namespace nccom {

/// The order of a server's devices, the same for all groups on it.
struct encDeviceOrder {
  std::vector<int> devices;  // by place
  std::vector<int> places;   // [device]
  bool isCycle = false;      // a link leads from the last to the first
  bool operator==(const encDeviceOrder&) const = default;
};

/// From device 0 on, towards the lower of its two neighbours in the cycle.
encDeviceOrder encOrderDevices(const NeuronFabric& fabric);

/// Of the servers that a communicator's ranks are on. On this machine: as they are numbered.
/// @error ncclInvalidArgument  it is not known where the ranks are
Result<encDeviceOrder> encDeviceOrderOf(const enc_comm_info& info);

/// A ring of all ranks: by server, by the place of their device, by core.
/// @error ncclInvalidArgument  it is not known where the ranks are
Result<std::vector<int>> encSortedRanks(const enc_comm_info& info);

/// Puts the rings of a group that leaves cores of its servers to others, who may run at the same
/// time, in that order; groups of whole servers keep theirs. A ring still passes the servers in its
/// own order, and comes to each at the same rank. Odd channels go the other way round, over the
/// links of the other direction. Where no platform is known, no links are shared.
/// @error ncclInvalidArgument  as encDeviceOrderOf
Status encOrderRings(enc_comm_info& info);

/// A link that a chunk takes. Chunks take them by rising order.
struct encWayPart {
  enum class Lap : uint8_t { Early, Back, Late };
  int server = 0;
  Lap lap = Lap::Early;
  int step = 0;  // along the lap: the place of the device before it; Back: from the end
  auto operator<=>(const encWayPart&) const = default;
};
/// Parts of which each is given back when the next one is taken.
using encWaySegment = std::vector<encWayPart>;

/// The way of a chunk that starts at `start` and goes along `ring` to all other ranks, between
/// devices that are not neighbours along the cycle. A segment for each stay on a server.
///
/// @param order  encDeviceOrderOf(info)
/// @param ring   any order of all ranks
/// @param start  place in it
std::vector<encWaySegment> encChunkWay(const enc_comm_info& info, const encDeviceOrder& order,
                                       const std::vector<int>& ring, size_t start);

}  // namespace nccom
