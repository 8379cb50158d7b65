#include "test/perf/program.h"

namespace nccom::perf {

const PerfOp kPerfOp{
    .name = "Gather",
    .reduces = false,
    .rooted = true,
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
          return ncclGather(call.send, call.receive, call.count, call.type, call.root, call.comm,
                            call.stream);
        },
    .expected =
        [](int rank, int nRanks, int root, size_t count) {
          if (rank == root) return gathered(nRanks, count);
          return std::vector<Piece>{{kKept, count * static_cast<size_t>(nRanks), 0}};
        },
    .algorithmBytes = bytesOfAllBlocks,
    .busFactor = factorOthers,
};

}  // namespace nccom::perf
