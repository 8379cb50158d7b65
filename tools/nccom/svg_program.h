// A space-time drawing of a schedule: ranks are rows, time goes to the right.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "enc/program.h"
#include "misc/result.h"

namespace nccom {

/// More than that many rows nobody can read.
constexpr int kMaxDrawnRanks = 64;

struct ProgramDrawing {
  std::string title;       // what is drawn
  std::vector<int> nodes;  // [rank] ranks of equal number share memory
  std::vector<int> names;  // [rank] the ranks of the machine, if those are others; else empty
  int focus = -1;          // the rank whose arrows are drawn where there are too many; -1: first
};

struct DrawnProgram {
  std::string svg;
  std::string note;  // what was left out; empty: nothing
};

/// Each transfer of a unit-time run is a bar in the row of the rank that does it, a row a queue,
/// coloured by its step or event; arrows lead from the rank whose bytes it reads to the one whose
/// bytes it writes, dashed over the network. Grey: a queue waits.
///
/// @param programs  of all ranks
/// @error ncclInvalidArgument  more than kMaxDrawnRanks ranks
/// @error ncclInternalError    queues that wait for ever
Result<DrawnProgram> drawProgram(std::span<const encProgram> programs,
                                 const ProgramDrawing& drawing);

}  // namespace nccom
