// The data of a test: what each rank sends, and what a reduction of it must give.
//
// Every rank's data is a sequence that repeats after kPeriod elements, so that a tile of that
// length stands for a buffer of any size: buffers are filled by copying it and checked by comparing
// with it. The period is prime, hence no offset that an algorithm would take by mistake maps the
// sequence onto itself.
//
// The numbers that are reduced are chosen so that the result does not depend on the order of the
// reduction: integers wrap around, and floating-point numbers are such that every partial result
// is exact. Where a format is too narrow for contributions from all ranks, only some ranks, other
// ones for each element, contribute more than the neutral element. Only the last step of a
// floating-point average rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "include/nccl.h"
#include "test/perf/element.h"

namespace nccom::perf {

constexpr size_t kPeriod = 7993;

/// The elements of one period of a sequence, or as many of them as are needed.
struct Tile {
  size_t typeBytes = 1;
  std::vector<std::byte> bytes;

  size_t elements() const { return bytes.size() / typeBytes; }
};

/// What determines the data.
struct PatternKey {
  ncclDataType_t type = ncclFloat;
  bool reduces = false;  // else the elements are arbitrary bits
  Operator op = Operator::Sum;
  int nRanks = 1;
  size_t elements = 0;  // of the longest buffer; tiles need not be longer
  uint64_t round = 0;   // other data each time

  bool operator==(const PatternKey&) const = default;
};

struct Pattern {
  PatternKey key;
  std::vector<Tile> inputs;  // [nRanks] what each rank sends
  Tile reduced;              // the reduction of all inputs; empty unless key.reduces
};

Pattern makePattern(const PatternKey& key);

/// The factor of `rank` for Operator::MulSum, as one element of `type` in the first bytes.
uint64_t mulSumScalar(ncclDataType_t type, int rank);

/// How far from the expected number a result may be, in spacings of its format: 0, except for
/// floating-point averages, where the library may round the quotient, or the reciprocal and the
/// product.
double toleranceOf(const PatternKey& key);

/// The last pattern made, for all threads of the process.
class PatternCache {
 public:
  std::shared_ptr<const Pattern> get(const PatternKey& key);

 private:
  std::mutex mutex_;  // guards last_
  std::shared_ptr<const Pattern> last_;
};

}  // namespace nccom::perf
