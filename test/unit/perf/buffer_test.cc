#include "test/perf/buffer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace nccom::perf {
namespace {

Pattern someBits(ncclDataType_t type, size_t elements) {
  return makePattern({type, false, Operator::Sum, 1, elements, 3});
}

TEST(Buffer, FilledWithASequenceIsEqualToItAtThatPhaseOnly) {
  for (const TypeName& type : allTypes()) {
    const Pattern pattern = someBits(type.type, 3 * kPeriod);
    for (const size_t elements : {size_t{0}, size_t{1}, size_t{100}, 2 * kPeriod + 17}) {
      for (const size_t phase : {size_t{0}, size_t{1}, kPeriod - 1, kPeriod, 5 * kPeriod + 3}) {
        std::vector<std::byte> buffer(elements * type.bytes);
        fillSequence(buffer, pattern.inputs[0], phase);
        const Expectation same{.tile = pattern.inputs.data(), .phase = phase % kPeriod};
        const Expectation shifted{.tile = pattern.inputs.data(), .phase = phase + 1};
        EXPECT_EQ(compareSequence(buffer, same).wrong, 0U);
        if (elements >= 100) {
          EXPECT_GT(compareSequence(buffer, shifted).wrong, elements / 2);
        }
      }
    }
  }
}

TEST(Buffer, EveryWrongElementIsCountedAndTheFirstNamed) {
  const Pattern pattern = someBits(ncclFloat16, 3 * kPeriod);
  std::vector<std::byte> buffer(2 * (2 * kPeriod + 5));
  fillSequence(buffer, pattern.inputs[0], 9);
  for (const size_t element : {size_t{77}, size_t{78}, kPeriod - 9, 2 * kPeriod + 4}) {
    buffer[2 * element + 1] ^= std::byte{0x80};
  }
  const Difference difference =
      compareSequence(buffer, {.tile = pattern.inputs.data(), .phase = 9});
  EXPECT_EQ(difference.wrong, 4U);
  EXPECT_EQ(difference.first, 77U);
}

Tile tileOfFloats(const std::vector<float>& values) {
  Tile tile{.typeBytes = 4, .bytes = std::vector<std::byte>(4 * values.size())};
  std::memcpy(tile.bytes.data(), values.data(), tile.bytes.size());
  return tile;
}

size_t wrongFloats(float got, float want, double tolerance) {
  const Tile tile = tileOfFloats({want});
  const Tile buffer = tileOfFloats({got});
  return compareSequence(buffer.bytes,
                         {.tile = &tile, .format = formatOf(ncclFloat), .tolerance = tolerance})
      .wrong;
}

TEST(Buffer, NumbersMayDifferByTheToleranceAndNoMore) {
  const float next = std::nextafter(1.0F, 2.0F);
  const float third = std::nextafter(std::nextafter(next, 2.0F), 2.0F);
  EXPECT_EQ(wrongFloats(next, 1, 0), 1U);
  EXPECT_EQ(wrongFloats(next, 1, 2), 0U);
  EXPECT_EQ(wrongFloats(third, 1, 2), 1U);
  EXPECT_EQ(wrongFloats(-0.0F, 0, 0), 0U);
  EXPECT_EQ(wrongFloats(std::numeric_limits<float>::quiet_NaN(), 1, 2), 1U);
  EXPECT_EQ(wrongFloats(std::numeric_limits<float>::infinity(), 1, 2), 1U);
}

TEST(Buffer, FillerThatWasTouchedIsFound) {
  std::vector<std::byte> buffer(4000, std::byte{0x5a});
  EXPECT_EQ(compareFiller(buffer, std::byte{0x5a}, 4).wrong, 0U);
  EXPECT_EQ(compareFiller(buffer, std::byte{0x5b}, 4).wrong, 1000U);
  EXPECT_EQ(compareFiller({}, std::byte{0x5a}, 4).wrong, 0U);
  for (const size_t at : {size_t{0}, size_t{1}, size_t{2002}, size_t{3999}}) {
    buffer[at] = std::byte{0};
    const Difference difference = compareFiller(buffer, std::byte{0x5a}, 4);
    EXPECT_EQ(difference.wrong, 1U);
    EXPECT_EQ(difference.first, at / 4);
    buffer[at] = std::byte{0x5a};
  }
}

}  // namespace
}  // namespace nccom::perf
