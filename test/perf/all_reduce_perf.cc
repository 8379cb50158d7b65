#include "test/perf/program.h"

namespace nccom::perf {

const PerfOp kPerfOp{
    .name = "AllReduce",
    .reduces = true,
    .rooted = false,
    .inPlace = InPlace::Checked,
    .powerOfTwo = false,
    .counts = wholeCounts,
    .steps = oneStep,
    .enqueue =
        [](const Call& call, int /*step*/) {
          return ncclAllReduce(call.send, call.receive, call.count, call.type, call.op, call.comm,
                               call.stream);
        },
    .expected =
        [](int /*rank*/, int /*nRanks*/, int /*root*/, size_t count) {
          return std::vector<Piece>{{kReduced, count, 0}};
        },
    .algorithmBytes = bytesOfCount,
    // Each element is sent n-1 times to be reduced and n-1 times to be spread, by n ranks.
    .busFactor = [](int nRanks) { return 2 * factorOthers(nRanks); },
};

}  // namespace nccom::perf
