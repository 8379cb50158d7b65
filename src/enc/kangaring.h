// The kangaring composer: AllGather, ReduceScatter and AllReduce along rings of primaries, one for
// each die, who read and write for the other ranks of their dies, the secondaries.
//
// A chunk goes from die to die, not from rank to rank. For n ranks on m dies, and a part (or a
// message) of B bytes, reads and writes of memory over all ranks, in B:
//                  kangaring            ring               of a pair (n = 2m), large m
//   AllGather      n + m                2n - 1             3, ring 4
//   ReduceScatter  n + 2m - 1           3n - 1             4, ring 6
//   AllReduce      2n + 3(m - 1)        5n - 4             7, ring 10
// of AllGather and ReduceScatter for each of the n parts. Between primaries each part crosses m - 1
// hops (AllReduce: the message 2(m - 1)), everything else stays within dies.
//
// The runtime's own step lists are not public; these follow from what is said of it: step 0 sends
// what the die has, received chunks are read once and written for the whole die and for the next,
// partial sums are folded with all INPUTs of a die at once, and a path's secondaries are idle.
#pragma once

#include "enc/builder.h"
#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/stage.h"
#include "enc/task.h"
#include "graph/kangaring.h"
#include "misc/result.h"

namespace nccom {

/// Appends a stage of one of the three operations. Large messages use all paths at once, as far as
/// the stage has queues: roles differ from path to path, so that no rank only waits.
///
/// Unlike rings, kangarings write the stage's OUTPUT of other members even where that is scratch:
/// whenever it is, or an earlier stage has used the buffers, ranks say first that theirs are ready,
/// and hear at the end that all writers have finished.
///
/// @param stage  all members share memory
/// @param paths  whose positions are members of the stage; as encCheckKangaring accepts them
void encStageKangaring(encBuilder& builder, const encStage& stage, const NeuronKangaring& paths);

/// Whether the paths join `members` members: dies of equal size, each member once.
/// @error ncclInvalidArgument  no paths, or what is wrong with which
Status encCheckKangaring(const NeuronKangaring& paths, int members);

/// This rank's program.
///
/// @param info  one server, all cores of at least two joined devices
/// @param task  one of the three operations
/// @error ncclInvalidArgument  another operation; a group over several servers, or without paths
Result<encProgram> encComposeKangaring(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
