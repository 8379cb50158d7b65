#include "test/perf/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace nccom::perf {
namespace {

uint64_t bitsOf(const Tile& tile, size_t element) {
  uint64_t bits = 0;
  std::memcpy(&bits, tile.bytes.data() + element * tile.typeBytes, tile.typeBytes);
  return bits;
}

bool isSigned(ncclDataType_t type) {
  return type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
}

// The bits as the number they stand for.
int64_t toInteger(ncclDataType_t type, uint64_t bits, size_t bytes) {
  const int unused = 64 - 8 * static_cast<int>(bytes);
  return isSigned(type) ? static_cast<int64_t>(bits << unused) >> unused
                        : static_cast<int64_t>(bits << unused >> unused);
}

uint64_t truncated(uint64_t bits, size_t bytes) {
  return bytes == 8 ? bits : bits & ((uint64_t{1} << (8 * bytes)) - 1);
}

// Reduces one element in a given order of ranks, rounding to the type after every step: the least
// favourable way a library could go about it. Averages are left undivided.
uint64_t reduceInOrder(const Pattern& pattern, size_t element, const std::vector<size_t>& order) {
  const PatternKey& key = pattern.key;
  const FloatFormat* const format = formatOf(key.type);
  const size_t bytes = pattern.reduced.typeBytes;
  uint64_t result = 0;
  for (size_t at = 0; at < order.size(); at++) {
    uint64_t bits = bitsOf(pattern.inputs[order[at]], element);
    const uint64_t scalar = truncated(mulSumScalar(key.type, static_cast<int>(order[at])), bytes);
    const auto apply = [&](Operator op, uint64_t a, uint64_t b) -> uint64_t {
      if (format != nullptr) {
        const double x = decodeFloat(*format, a);
        const double y = decodeFloat(*format, b);
        const double z = op == Operator::Prod  ? x * y
                         : op == Operator::Max ? std::max(x, y)
                         : op == Operator::Min ? std::min(x, y)
                                               : x + y;
        return encodeFloat(*format, z);
      }
      const int64_t x = toInteger(key.type, a, bytes);
      const int64_t y = toInteger(key.type, b, bytes);
      const bool less = isSigned(key.type) ? x < y : a < b;
      if (op == Operator::Max) return less ? b : a;
      if (op == Operator::Min) return less ? a : b;
      return truncated(op == Operator::Prod ? a * b : a + b, bytes);
    };
    if (key.op == Operator::MulSum) bits = apply(Operator::Prod, bits, scalar);
    const Operator op =
        key.op == Operator::MulSum || key.op == Operator::Avg ? Operator::Sum : key.op;
    result = at == 0 ? bits : apply(op, result, bits);
  }
  return result;
}

const std::vector<int> kRanks{1, 2, 3, 8, 37, 64, 300};

// Calls test(pattern) for every type, these operators and these numbers of ranks.
template <class Test>
void forEachReduction(const std::vector<Operator>& operators, const std::vector<int>& ranks,
                      size_t elements, Test test) {
  for (const TypeName& type : allTypes()) {
    for (const OperatorName& op : allOperators()) {
      if (std::find(operators.begin(), operators.end(), op.op) == operators.end()) continue;
      for (const int nRanks : ranks) {
        SCOPED_TRACE(std::string(type.name) + " " + op.name + " " + std::to_string(nRanks));
        test(makePattern({type.type, true, op.op, nRanks, elements, 5}));
      }
    }
  }
}

TEST(Pattern, ReductionIsTheSameInEveryOrder) {
  std::mt19937_64 random(1);
  const std::vector<Operator> exact{Operator::Sum, Operator::Prod, Operator::Max, Operator::Min,
                                    Operator::MulSum};
  forEachReduction(exact, kRanks, 40, [&](const Pattern& pattern) {
    std::vector<size_t> order(pattern.inputs.size());
    for (size_t at = 0; at < order.size(); at++)
      order[at] = at;
    for (size_t element = 0; element < pattern.reduced.elements(); element++) {
      std::shuffle(order.begin(), order.end(), random);
      ASSERT_EQ(reduceInOrder(pattern, element, order), bitsOf(pattern.reduced, element));
    }
  });
}

TEST(Pattern, AverageIsTheExactSumDividedOnce) {
  forEachReduction({Operator::Avg}, kRanks, 40, [&](const Pattern& pattern) {
    const PatternKey& key = pattern.key;
    const FloatFormat* const format = formatOf(key.type);
    const size_t bytes = pattern.reduced.typeBytes;
    for (size_t element = 0; element < pattern.reduced.elements(); element++) {
      int64_t sum = 0;  // the inputs are integers, in floating point too
      int64_t magnitudes = 0;
      for (const Tile& input : pattern.inputs) {
        const uint64_t bits = bitsOf(input, element);
        const int64_t value = format != nullptr ? std::llround(decodeFloat(*format, bits))
                                                : toInteger(key.type, bits, bytes);
        sum += value;
        magnitudes += std::abs(value);
      }
      const uint64_t got = bitsOf(pattern.reduced, element);
      if (format != nullptr) {
        EXPECT_LE(magnitudes, int64_t{1} << format->precision()) << "a partial sum may round";
        EXPECT_EQ(got, encodeFloat(*format, static_cast<double>(sum) / key.nRanks));
      } else {
        EXPECT_EQ(toInteger(key.type, truncated(static_cast<uint64_t>(sum), bytes), bytes), sum)
            << "the sum wraps";
        EXPECT_EQ(toInteger(key.type, got, bytes), sum / key.nRanks);
      }
    }
  });
}

TEST(Pattern, ContributionOfEveryRankShows) {
  const std::vector<Operator> sparse{Operator::Sum, Operator::Prod, Operator::MulSum};
  forEachReduction(sparse, {8, 300}, 3000, [&](const Pattern& pattern) {
    const PatternKey& key = pattern.key;
    const bool adds = key.op != Operator::Prod;
    for (const Tile& input : pattern.inputs) {
      size_t contributions = 0;
      for (size_t element = 0; element < input.elements(); element++) {
        const uint64_t bits = bitsOf(input, element);
        const FloatFormat* const format = formatOf(key.type);
        const double value =
            format != nullptr ? decodeFloat(*format, bits) : static_cast<double>(bits);
        contributions += value != (adds ? 0 : 1) ? 1 : 0;
      }
      EXPECT_GT(contributions, 10U);
    }
  });
}

TEST(Pattern, MovedDataIsOtherDataForEachRankAndRound) {
  for (const TypeName& type : allTypes()) {
    const PatternKey key{type.type, false, Operator::Sum, 3, kPeriod * 10, 1};
    const Pattern pattern = makePattern(key);
    PatternKey next = key;
    next.round = 2;
    ASSERT_EQ(pattern.inputs.size(), 3U);
    for (const Tile& tile : pattern.inputs) {
      EXPECT_EQ(tile.elements(), kPeriod);
      EXPECT_EQ(tile.typeBytes, type.bytes);
    }
    EXPECT_NE(pattern.inputs[0].bytes, pattern.inputs[1].bytes);
    EXPECT_NE(pattern.inputs[1].bytes, pattern.inputs[2].bytes);
    EXPECT_NE(pattern.inputs[0].bytes, makePattern(next).inputs[0].bytes);
    EXPECT_EQ(pattern.inputs[0].bytes, makePattern(key).inputs[0].bytes) << "same key, same data";
  }
}

TEST(Pattern, TilesAreNoLongerThanTheBuffer) {
  const Pattern pattern = makePattern({ncclFloat, true, Operator::Sum, 64, 5, 1});
  EXPECT_EQ(pattern.reduced.elements(), 5U);
  EXPECT_EQ(pattern.inputs[63].elements(), 5U);
}

TEST(Pattern, PeriodIsPrime) {
  for (size_t divisor = 2; divisor * divisor <= kPeriod; divisor++) {
    EXPECT_NE(kPeriod % divisor, 0U) << divisor;
  }
}

TEST(PatternCache, KeepsTheLastPattern) {
  PatternCache cache;
  const PatternKey key{ncclFloat, true, Operator::Sum, 4, 100, 1};
  PatternKey other = key;
  other.round = 2;
  const auto first = cache.get(key);
  EXPECT_EQ(cache.get(key), first);
  EXPECT_NE(cache.get(other)->reduced.bytes, first->reduced.bytes);
}

}  // namespace
}  // namespace nccom::perf
