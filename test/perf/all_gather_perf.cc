#include "test/perf/program.h"

namespace nccom::perf {

const PerfOp kPerfOp{
    .name = "AllGather",
    .reduces = false,
    .rooted = false,
    .inPlace = InPlace::Checked,
    .powerOfTwo = false,
    .counts =
        [](size_t elements, size_t typeBytes, int nRanks) {
          const size_t block = blockOf(elements, typeBytes, nRanks);
          return Counts{.send = block,
                        .receive = block * static_cast<size_t>(nRanks),
                        .count = block,
                        .sendInPlace = block,
                        .receiveInPlace = 0};
        },
    .steps = oneStep,
    .enqueue =
        [](const Call& call, int /*step*/) {
          return ncclAllGather(call.send, call.receive, call.count, call.type, call.comm,
                               call.stream);
        },
    .expected = [](int /*rank*/, int nRanks, int /*root*/,
                   size_t count) { return gathered(nRanks, count); },
    .algorithmBytes = bytesOfAllBlocks,
    .busFactor = factorOthers,
};

}  // namespace nccom::perf
