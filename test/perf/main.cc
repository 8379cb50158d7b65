// Entry point of the programs X_perf: one process.
#include "test/perf/program.h"

int main(int argc, char** argv) {
  nccom::perf::OneProcess processes;
  return runProgram(nccom::perf::kPerfOp, processes, argc, argv);
}
