// The direct composer, for ranks that share memory and are no farther from each other than memory
// is: every input is read once and every output written once.
//
//   operation      | rank r                                                  | read    | written
//   AllReduce      | folds slice r of all INPUTs into all OUTPUTs            | n S     | n S
//   Reduce         | folds slice r of all INPUTs into OUTPUT of the root     | n S     | S
//   Broadcast      | copies slice r of the root's INPUT to all OUTPUTs       | S       | n S
//   ReduceScatter  | folds part r of all INPUTs into its OUTPUT              | n S     | S
//   AllGather      | copies its INPUT to part r of all OUTPUTs               | S       | n S
//   AlltoAll       | copies its part of each INPUT to its OUTPUT             | n S     | n S
//
// read and written are totals over all n ranks; S are the bytes of the operation's largest buffer,
// for AllReduce, Reduce and Broadcast of the message. A ring reads and writes about twice as much
// and more; its steps depend on each other.
//
// Where INPUTs have at most kMaxValueBytes, and few ranks take part, each rank gives the others a
// copy of its INPUT and makes all of its OUTPUT itself: one exchange instead of two. Roots of
// Broadcast, and all but the root of Reduce, wait for nobody.
//
// Naming a peer's buffers waits for its launch, so nobody has to say that it has come. In the end
// all ranks meet, as nobody may touch a buffer after its owner has gone: few ranks tell all others;
// of more, in round i of ceil(log2 n), rank r tells rank r + 2^i and hears of rank r - 2^i
// (Hensgen, Finkel and Manber, Two algorithms for barrier synchronization, 1988). Each semaphore
// has one raiser for ever.
#pragma once

#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// Whether one of the algorithms for groups whose ranks all share memory has the operation, and the
/// group is one.
/// @param algorithm  that is asked for, for the text
/// @error ncclInvalidArgument  the rule that is broken, and by what
Status encCheckShared(const char* algorithm, const enc_comm_info& info, const encTask& task);

/// Whether direct composes the operation on this group: as encCheckShared(), and no PreMulSum.
/// @error ncclInvalidArgument  the rule that is broken, and by what
Status encCheckDirect(const enc_comm_info& info, const encTask& task);

/// Whether ranks give each other copies of their INPUTs, and touch no buffer of another.
bool encDirectIsShort(const encTask& task, int nRanks);

/// This rank's program. Slices begin on cache lines of the message; those behind its end are empty.
/// @error ncclInvalidArgument  as encCheckDirect; info or task are wrong by themselves
Result<encProgram> encComposeDirect(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
