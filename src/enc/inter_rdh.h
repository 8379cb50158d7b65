// Recursive halving and doubling between servers: n = 2^k members, each of which ends
// reduce-scatter with partition r of n, and starts all-gather from it.
//
//   reduce-scatter  round b = 0 .. k-1: with r ^ 2^b, lowest bit first
//   all-gather      axis  a = 0 .. k-1: with r ^ 2^(k-1-a): the same way back
//   all-reduce      the one, then the other
//
// For B bytes of the message a member sends and receives (n-1)/n B for each of the halves, in k
// messages or more; it reads 3 and writes 2 times what it receives while reducing (the copy into a
// slot, the fold), and reads and writes twice what it receives while gathering.
//
// What is exchanged is planned first (rdh_inter_plan.h), in tiles of at most a slot; the plan of a
// window is then put into effect: receives are posted before anything is sent, those of the next
// round with those of the current one, and as many tiles are under way as a pipe has slots.
//
// Of AllReduce, partition p is the bitreverse(p)-th of the message. Then the partitions that a
// member still holds after some rounds are one range, and a round is few transfers, whatever n is.
// Parts of ReduceScatter and AllGather have their given places.
#pragma once

#include "enc/builder.h"
#include "enc/rdh_inter_plan.h"
#include "enc/stage.h"
#include "misc/result.h"

namespace nccom {

/// As in the runtime: fewer have nothing to gain over a mesh or a ring.
inline constexpr int kMinInterRdhMembers = 8;

/// Appends a stage of AllReduce, ReduceScatter or AllGather. Messages that the work area or the
/// slots are too small for go in windows.
/// @error ncclInvalidArgument  not a power of two of at least kMinInterRdhMembers members, or
/// another
///                             operation; a work area that is too small for one element of each
///                             partition: names the first member and the rule
Status encStageInterRdh(encBuilder& builder, const encStage& stage);

}  // namespace nccom
