// The ring composer: AllReduce, AllGather, ReduceScatter, Broadcast and Reduce along the rings of a
// communicator, one ring to a channel.
//
// Bytes that a rank sends to next, in all, for n ranks and B bytes of the call's count:
//   AllReduce       2 (n-1)/n B on average over the ranks, 2 (n-1) B over all of them
//   AllGather       (n-1) B
//   ReduceScatter   (n-1) B
//   Broadcast       B, but for the last of the chain
//   Reduce          B, but for the root
#pragma once

#include <vector>

#include "enc/builder.h"
#include "enc/comm_info.h"
#include "enc/pipe.h"
#include "enc/program.h"
#include "enc/stage.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// A ring of a stage: its members in order, and the pipe that joins each to the next.
struct encRingOrder {
  std::vector<int> members;
  encPipeMap pipe;
  encReceives receives = encReceives::Ahead;
  /// [place in members] the hop from there to the next ends at a gateway, which takes what is sent
  /// into its buffer, never the next one's OUTPUT; empty: none does.
  std::vector<bool> gateways = {};
};

/// Appends the steps of a stage of at least two members, one of the five operations above. Uses as
/// many of the rings as the message is worth.
void encStageRing(encBuilder& builder, const encStage& stage,
                  const std::vector<encRingOrder>& rings);

/// This rank's program; over the rings of hybrid.h, where the communicator is such a group and its
/// options do not say otherwise. A rank touches its own INPUT and OUTPUT, and of the next rank the
/// receive slots and, if it is on the same host, OUTPUT: memory accesses per hop of a chunk are 3
/// while it is reduced (2 reads, 1 write) and 2 while it is gathered.
///
/// @param info  at least two ranks
/// @param task  one of the five operations above
/// @error ncclInvalidArgument  info or task are wrong by themselves
Result<encProgram> encComposeRing(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
