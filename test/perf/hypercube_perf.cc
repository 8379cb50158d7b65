// An all-gather over the edges of a hypercube: in step k a rank exchanges all that it has with the
// rank that differs in bit k.
#include <bit>

#include "test/perf/program.h"

namespace nccom::perf {
namespace {

// Sends and receives in one group.
ncclResult_t exchange(const Call& call, const void* send, void* receive, size_t count, int peer) {
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) return result;
  result = ncclSend(send, count, call.type, peer, call.comm, call.stream);
  if (result == ncclSuccess) {
    result = ncclRecv(receive, count, call.type, peer, call.comm, call.stream);
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

ncclResult_t enqueue(const Call& call, int step) {
  const size_t blockBytes = call.count * call.typeBytes;
  auto* const blocks = static_cast<std::byte*>(call.receive);
  const auto block = [&](int rank) { return blocks + static_cast<size_t>(rank) * blockBytes; };
  if (step == 0) {  // the own block into its place, in stream order: a message to itself
    if (call.send == block(call.rank)) return ncclSuccess;
    return exchange(call, call.send, block(call.rank), call.count, call.rank);
  }
  const int bit = 1 << (step - 1);
  const int mine = call.rank & ~(bit - 1);  // first of the `bit` blocks that this rank has
  return exchange(call, block(mine), block(mine ^ bit), call.count * static_cast<size_t>(bit),
                  call.rank ^ bit);
}

}  // namespace

const PerfOp kPerfOp{
    .name = "HyperCube",
    .reduces = false,
    .rooted = false,
    .inPlace = InPlace::Checked,
    .powerOfTwo = true,
    .counts =
        [](size_t elements, size_t typeBytes, int nRanks) {
          const size_t block = blockOf(elements, typeBytes, nRanks);
          return Counts{.send = block,
                        .receive = block * static_cast<size_t>(nRanks),
                        .count = block,
                        .sendInPlace = block,
                        .receiveInPlace = 0};
        },
    .steps =
        [](int nRanks) { return static_cast<int>(std::bit_width(static_cast<unsigned>(nRanks))); },
    .enqueue = enqueue,
    .expected = [](int /*rank*/, int nRanks, int /*root*/,
                   size_t count) { return gathered(nRanks, count); },
    // What a rank receives; its own block is not counted.
    .algorithmBytes =
        [](size_t count, size_t typeBytes, int nRanks) {
          return bytesOfCount(count, typeBytes, nRanks) * (nRanks - 1);
        },
    .busFactor = factorOne,
};

}  // namespace nccom::perf
