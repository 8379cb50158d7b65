// The point-to-point composer: AlltoAll, Gather, Scatter, and groups of sends and receives.
//
// Within a host data is pulled: the rank that needs it reads it where its owner has it, in one
// pass. Nobody may touch a buffer after its owner's program ended, so the reader tells the owner
// when it is done, and the owner's program ends with waiting for all its readers. Between hosts
// messages are staged (p2p_net.h).
#pragma once

#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// This rank's program for AlltoAll, Gather or Scatter. For n ranks and B bytes of the call's
/// count, AlltoAll moves (n-1) B into each rank, Gather into the root, Scatter out of it.
Result<encProgram> encComposeP2pCollective(const enc_comm_info& info, const encTask& task);

/// This rank's program for a group of sends and receives. Between two ranks, the k-th send matches
/// the k-th receive, over all groups.
/// @error ncclInvalidUsage  sends and receives of this rank to itself do not match
Result<encProgram> encComposeSendRecv(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
