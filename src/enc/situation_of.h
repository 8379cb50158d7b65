// The situation of a task on a communicator.
#pragma once

#include "enc/alg_situation.h"
#include "enc/comm_info.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// info.situation with the task's operation and size.
/// @error ncclInvalidArgument  the communicator's machine is not known, or the operation is none of
///                             the runtime's
Result<encSituation> encSituationOf(const enc_comm_info& info, const encTask& task);

/// The runtime's number of an operation; Invalid: it has none.
enc_op_type encOpTypeOf(encOp op);

}  // namespace nccom
