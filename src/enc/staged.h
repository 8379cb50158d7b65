// The staged composer, for ranks that share memory but cannot reach each other's buffers: the
// direct composer's operations (direct.h), where INPUT or OUTPUT are plain memory of another
// process. Each rank copies what others are to read to its work area, in windows that stay in its
// caches; two windows are under way at once.
//
//   operation      | rank r, for each window                            | stages  | reads of others
//   AllReduce      | stages all but its slice, folds slice r, stages    | S       | 2 S (n-1)/n
//                  | the sum, collects the others' sums                 |         |
//     two ranks    | stages the window, folds all of it                 | S       | S
//   Reduce         | as AllReduce, but only the root collects           | S       | S; root 2 S
//   Broadcast      | the root stages; the others copy                   | S, root | S
//   ReduceScatter  | stages the others' parts, folds part r             | S       | S (n-1)/n
//   AllGather      | stages its part, copies the others'                | S/n     | S (n-1)/n
//   AlltoAll       | stages the others' parts, copies those for r       | S       | S (n-1)/n
//
// S are the bytes of the operation's largest buffer. Sums have the order of direct's: results are
// the same, bit for bit. PreMulSum, which direct does not compose, multiplies what is staged.
#pragma once

#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// Whether encComposeStaged() composes what this program does without others' buffers. The same on
/// every rank of the group.
bool encHasStaged(const encProgram& program);

/// This rank's program. It touches nobody's INPUT and OUTPUT but its own.
/// @error ncclInvalidArgument  as encCheckShared; info or task are wrong by themselves; the work
///                             area has no room for a line of each rank
Result<encProgram> encComposeStaged(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
