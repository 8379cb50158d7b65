// The hierarchical composer: within servers, between them, within again.
//
//   AllReduce      intra reduce-scatter   inter all-reduce       intra all-gather
//   ReduceScatter  intra reduce-scatter   inter reduce-scatter
//   AllGather      inter all-gather       intra all-gather
//
// AllGather goes between servers first, while the data is small. Partial results go from stage to
// stage through the work area: the second stage reads them there, never the caller's INPUT. Each
// stage has an algorithm of its own (alg_stages.h). Partial results have half of the work area, at
// most as much as the runtime sets aside for them; messages that need more go in windows.
//
// For X servers of Y ranks and B bytes of the call's count, a rank sends over the network
// 2 (X-1)/X B/Y for AllReduce, (X-1) B for AllGather and ReduceScatter: each byte crosses between
// two servers once, whatever Y is.
//
// Pipelined, the message is cut in slices and each stage has a queue of its own: a stage works on a
// slice while the next one is busy with the slice before. Its stages are rings, and the program
// must have one stream; how the runtime interleaves them is not public.
#pragma once

#include <cstdint>

#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// Bytes that the runtime sets aside for partial results, once for all communicators: 128 MiB on
/// Trainium2 and 3, 32 MiB elsewhere.
uint64_t encHierScratchBytes(const encSituation& situation);

/// This rank's program: pipelined if info.options.hierPipelineSlices says so.
///
/// @param task  AllReduce, ReduceScatter or AllGather
/// @error ncclInvalidArgument  info or task are wrong by themselves; hierarchy is not admitted,
/// with
///                             the rule
Result<encProgram> encComposeHier(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
