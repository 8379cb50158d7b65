// The permute composer: each source gives its INPUT to its target. Permute moves it, along pairs
// or, without any, from each rank to the next of the first ring; PermuteReduce, along the ring
// only, folds it with the target's own INPUT.
//
// Pairs form rings: a rank is a source as often as a target, once or not at all. Who is in no pair
// has nothing to do, and keeps its OUTPUT. The runtime wants neighbours to be connected directly;
// here any way between them serves, over several links if need be.
//
// B bytes cross each pair once. Within a host the target reads them where they are: B read and
// written (PermuteReduce: 2 B read); between hosts they are staged through the point-to-point slots
// of the two: 2 B read and written (PermuteReduce: 3 B read).
#pragma once

#include <optional>

#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// Who gives to a rank, and whom it gives to; both or neither.
struct encPermuteEnds {
  std::optional<int> source = std::nullopt, target = std::nullopt;
};

/// @param task  Permute or PermuteReduce, as encCheckPermute accepts it
encPermuteEnds encPermuteEndsOf(const enc_comm_info& info, const encTask& task, int rank);

/// @error ncclInvalidArgument  a pair with a rank that there is not; pairs that form no ring, with
///                             the rank and the rule; PermuteReduce with pairs, of averages, of
///                             scalars
Status encCheckPermute(const enc_comm_info& info, const encTask& task);

/// This rank's program.
/// @error ncclInvalidArgument  another operation; info or task are wrong by themselves
Result<encProgram> encComposePermute(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
