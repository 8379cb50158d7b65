#include "test/perf/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace nccom::perf {
namespace {

TEST(Element, TypesAreNcclsInOrder) {
  ASSERT_EQ(allTypes().size(), static_cast<size_t>(ncclNumTypes));
  for (size_t at = 0; at < allTypes().size(); at++) {
    EXPECT_EQ(static_cast<size_t>(allTypes()[at].type), at);
    EXPECT_EQ(typeNamed(allTypes()[at].name).value().type, allTypes()[at].type);
  }
}

TEST(Element, EveryNarrowNumberSurvivesDecodingAndEncoding) {
  for (const TypeName& type : allTypes()) {
    const FloatFormat* const format = formatOf(type.type);
    if (format == nullptr || type.bytes > 2) continue;
    for (uint64_t bits = 0; bits < uint64_t{1} << (8 * type.bytes); bits++) {
      const double value = decodeFloat(*format, bits);
      if (std::isfinite(value)) {
        EXPECT_EQ(encodeFloat(*format, value), bits) << type.name;
      }
    }
  }
}

TEST(Element, KnownNumbersHaveTheirKnownBits) {
  const auto bits = [](ncclDataType_t type, double value) {
    return encodeFloat(*formatOf(type), value);
  };
  EXPECT_EQ(bits(ncclFloat16, 1), 0x3c00U);
  EXPECT_EQ(bits(ncclFloat16, -65504), 0xfbffU);
  EXPECT_EQ(bits(ncclFloat16, std::ldexp(1, -24)), 0x0001U);
  EXPECT_EQ(bits(ncclBfloat16, -1.5), 0xbfc0U);
  EXPECT_EQ(bits(ncclFloat8e4m3, 448), 0x7eU);
  EXPECT_EQ(bits(ncclFloat8e4m3, -1), 0xb8U);
  EXPECT_EQ(bits(ncclFloat8e5m2, 57344), 0x7bU);
  EXPECT_EQ(bits(ncclFloat8e5m2, 1), 0x3cU);
  EXPECT_TRUE(std::isnan(decodeFloat(*formatOf(ncclFloat8e4m3), 0x7f)));
  EXPECT_TRUE(std::isinf(decodeFloat(*formatOf(ncclFloat8e5m2), 0x7c)));
  EXPECT_TRUE(std::isnan(decodeFloat(*formatOf(ncclFloat8e5m2), 0x7d)));
}

TEST(Element, SingleIsEncodedAsTheMachineDoes) {
  std::mt19937_64 random(1);
  const FloatFormat& format = *formatOf(ncclFloat32);
  for (int i = 0; i < 100000; i++) {
    // Exponents from below the subnormals to the largest, fractions near ties too.
    const double value = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                    static_cast<int>(random() % 270) - 215);
    if (std::fabs(value) > 3e38) continue;
    EXPECT_EQ(encodeFloat(format, value), std::bit_cast<uint32_t>(static_cast<float>(value)))
        << value;
  }
}

TEST(Element, TiesGoToEvenAndTheTooLargeToTheLargest) {
  const FloatFormat& e4m3 = *formatOf(ncclFloat8e4m3);  // 16, 18, 20 are neighbours
  EXPECT_EQ(decodeFloat(e4m3, encodeFloat(e4m3, 17)), 16);
  EXPECT_EQ(decodeFloat(e4m3, encodeFloat(e4m3, 19)), 20);
  EXPECT_EQ(decodeFloat(e4m3, encodeFloat(e4m3, -1e9)), -448);
  EXPECT_EQ(spacingAt(e4m3, 17), 2);
  EXPECT_EQ(spacingAt(e4m3, 0), std::ldexp(1, -9));
}

}  // namespace
}  // namespace nccom::perf
