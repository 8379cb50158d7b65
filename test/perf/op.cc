#include "test/perf/op.h"

namespace nccom::perf {

Bandwidth bandwidthOf(const PerfOp& op, const Counts& counts, size_t typeBytes, int nRanks,
                      double seconds) {
  if (seconds <= 0) return {0, 0};
  const double bytes = op.algorithmBytes(counts.count, typeBytes, nRanks);
  const double algorithm = bytes / 1e9 / seconds;
  return {algorithm, algorithm * op.busFactor(nRanks)};
}

Counts wholeCounts(size_t elements, size_t /*typeBytes*/, int /*nRanks*/) {
  return {.send = elements, .receive = elements, .count = elements};
}

size_t blockOf(size_t elements, size_t typeBytes, int nRanks) {
  const size_t unit = 16 / typeBytes;
  const size_t block = elements / static_cast<size_t>(nRanks);
  return block - block % unit;
}

std::vector<Piece> gathered(int nRanks, size_t count) {
  std::vector<Piece> pieces;
  pieces.reserve(static_cast<size_t>(nRanks));
  for (int source = 0; source < nRanks; source++)
    pieces.push_back({source, count, 0});
  return pieces;
}

int oneStep(int /*nRanks*/) {
  return 1;
}

double bytesOfCount(size_t count, size_t typeBytes, int /*nRanks*/) {
  return static_cast<double>(count) * static_cast<double>(typeBytes);
}

double bytesOfAllBlocks(size_t count, size_t typeBytes, int nRanks) {
  return bytesOfCount(count, typeBytes, nRanks) * nRanks;
}

double factorOne(int /*nRanks*/) {
  return 1;
}

double factorOthers(int nRanks) {
  return static_cast<double>(nRanks - 1) / nRanks;
}

}  // namespace nccom::perf
