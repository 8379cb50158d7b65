#include "test/perf/program.h"

namespace nccom::perf {
namespace {

// Every rank sends to the next and receives from the one before, in one group.
ncclResult_t exchange(const Call& call, int /*step*/) {
  const int next = (call.rank + 1) % call.nRanks;
  const int previous = (call.rank + call.nRanks - 1) % call.nRanks;
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) return result;
  result = ncclSend(call.send, call.count, call.type, next, call.comm, call.stream);
  if (result == ncclSuccess) {
    result = ncclRecv(call.receive, call.count, call.type, previous, call.comm, call.stream);
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

}  // namespace

const PerfOp kPerfOp{
    .name = "SendRecv",
    .reduces = false,
    .rooted = false,
    .inPlace = InPlace::Unchecked,
    .powerOfTwo = false,
    .counts = wholeCounts,
    .steps = oneStep,
    .enqueue = exchange,
    .expected =
        [](int rank, int nRanks, int /*root*/, size_t count) {
          return std::vector<Piece>{{(rank + nRanks - 1) % nRanks, count, 0}};
        },
    .algorithmBytes = bytesOfCount,
    .busFactor = factorOne,
};

}  // namespace nccom::perf
