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

#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// This rank's program. A rank touches its own INPUT and OUTPUT and the next rank's receive slots,
/// nothing else, so no rank waits for another's buffers to be known.
///
/// @param info  at least two ranks
/// @param task  one of the five operations above
/// @error ncclInvalidArgument  info or task are wrong by themselves
Result<encProgram> encComposeRing(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
