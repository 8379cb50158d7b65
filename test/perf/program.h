// The program around an operation.
#pragma once

#include "test/perf/op.h"
#include "test/perf/processes.h"

namespace nccom::perf {

/// What this program measures; defined in its X_perf.cc.
extern const PerfOp kPerfOp;

/// Reads the command line, runs the operation over all sizes and prints the table.
/// @return  the exit status: 0; 1 if a result was wrong or anything failed
int runProgram(const PerfOp& op, Processes& processes, int argc, char** argv);

}  // namespace nccom::perf
