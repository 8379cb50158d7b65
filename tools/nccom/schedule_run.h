// A run of all ranks' programs in unit time: each transfer takes one step, everything else none.
// What a schedule looks like if nothing but its own order held it up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "enc/program.h"
#include "misc/result.h"

namespace nccom {

enum class RunSpanKind : uint8_t {
  Transfer,
  Wait,  // of a queue, for longer than nothing
  Net,   // from one rank to another
};

/// Something that took time. Times are steps.
struct RunSpan {
  RunSpanKind kind = RunSpanKind::Transfer;
  int rank = 0;      // whose queue does it; of Net: the sender
  size_t queue = 0;  // of Net: the one that posted the send
  int64_t begin = 0, end = 0;
  const encDesc* desc = nullptr;
  uint64_t iteration = 0;  // of the descriptor's block
  int peer = -1;           // of Net: the receiver
  size_t peerQueue = 0;    // of Net: the one that posted the receive
};

struct ScheduleRun {
  std::vector<RunSpan> spans;
  int64_t steps = 0;
  bool isCut = false;  // there are more spans than were asked for: whole steps are left out
};

/// @param programs  of all ranks, which must outlive the result
/// @param maxSpans  to keep
/// @error ncclInternalError  queues that wait for ever
Result<ScheduleRun> runSchedule(std::span<const encProgram> programs, size_t maxSpans);

}  // namespace nccom
