#include "test/perf/program.h"

namespace nccom::perf {

const PerfOp kPerfOp{
    .name = "Reduce",
    .reduces = true,
    .rooted = true,
    .inPlace = InPlace::Checked,
    .powerOfTwo = false,
    .counts = wholeCounts,
    .steps = oneStep,
    .enqueue =
        [](const Call& call, int /*step*/) {
          return ncclReduce(call.send, call.receive, call.count, call.type, call.op, call.root,
                            call.comm, call.stream);
        },
    .expected =
        [](int rank, int /*nRanks*/, int root, size_t count) {
          return std::vector<Piece>{{rank == root ? kReduced : kKept, count, 0}};
        },
    .algorithmBytes = bytesOfCount,
    .busFactor = factorOne,
};

}  // namespace nccom::perf
