// The single-cycle ring: AllReduce in one traversal instead of two, for few ranks and short
// messages.
//
// Each rank's block goes once around, n - 1 steps, and everybody keeps it; then each rank folds the
// blocks of all, in order of the members, in one transfer. The order is the same on every rank, so
// that results are bitwise equal. Long messages go in windows of two slots.
//
// For n members and B bytes a member sends (n - 1) B, where a ring sends 2 (n - 1)/n B in twice as
// many steps; it reads 2 n B and writes (2 n - 1) B of memory (with more members than a transfer
// has sources, partial sums and its own block come on top; its own block also where inputs are
// scaled).
//
// The runtime's own steps are not public; these follow from what is said of it: one traversal,
// whole blocks, and all-reduce only.
#pragma once

#include "enc/builder.h"
#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/ring.h"
#include "enc/stage.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// Appends a stage of AllReduce. Members touch none of each other's buffers, only slots.
///
/// @param stage  AllReduce, at least two members
/// @param ring   all members of the stage
/// @error ncclInvalidArgument  the work area does not hold a line of each member
Status encStageSingleCycle(encBuilder& builder, const encStage& stage, const encRingOrder& ring);

/// This rank's program, along the first ring.
///
/// @param info  several servers, one rank on each
/// @param task  AllReduce
/// @error ncclInvalidArgument  another operation or group
Result<encProgram> encComposeSingleCycle(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
