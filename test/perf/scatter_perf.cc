#include "test/perf/program.h"

namespace nccom::perf {

const PerfOp kPerfOp{
    .name = "Scatter",
    .reduces = false,
    .rooted = true,
    .inPlace = InPlace::Checked,
    .powerOfTwo = false,
    .counts =
        [](size_t elements, size_t typeBytes, int nRanks) {
          const size_t block = blockOf(elements, typeBytes, nRanks);
          return Counts{.send = block * static_cast<size_t>(nRanks),
                        .receive = block,
                        .count = block,
                        .sendInPlace = 0,
                        .receiveInPlace = block};
        },
    .steps = oneStep,
    .enqueue =
        [](const Call& call, int /*step*/) {
          return ncclScatter(call.send, call.receive, call.count, call.type, call.root, call.comm,
                             call.stream);
        },
    .expected =
        [](int rank, int /*nRanks*/, int root, size_t count) {
          return std::vector<Piece>{{root, count, static_cast<size_t>(rank) * count}};
        },
    .algorithmBytes = bytesOfAllBlocks,
    .busFactor = factorOthers,
};

}  // namespace nccom::perf
