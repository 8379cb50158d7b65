#include "test/perf/program.h"

namespace nccom::perf {

const PerfOp kPerfOp{
    .name = "AlltoAll",
    .reduces = false,
    .rooted = false,
    .inPlace = InPlace::Checked,
    .powerOfTwo = false,
    .counts =
        [](size_t elements, size_t typeBytes, int nRanks) {
          const size_t block = blockOf(elements, typeBytes, nRanks);
          const size_t all = block * static_cast<size_t>(nRanks);
          return Counts{.send = all, .receive = all, .count = block};
        },
    .steps = oneStep,
    .enqueue =
        [](const Call& call, int /*step*/) {
          return ncclAlltoAll(call.send, call.receive, call.count, call.type, call.comm,
                              call.stream);
        },
    .expected =
        [](int rank, int nRanks, int /*root*/, size_t count) {
          std::vector<Piece> pieces = gathered(nRanks, count);
          for (Piece& piece : pieces)
            piece.phase = static_cast<size_t>(rank) * count;
          return pieces;
        },
    .algorithmBytes = bytesOfAllBlocks,
    .busFactor = factorOthers,
};

}  // namespace nccom::perf
