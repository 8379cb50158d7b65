#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "comm/launch.h"

namespace nccom {
namespace {

float scaleOf(uint32_t bits, ncclDataType_t type) {
  const uint64_t wide = launchScaleOf(&bits, type);
  float value = 0;
  memcpy(&value, &wide, sizeof value);
  return value;
}

TEST(LaunchScale, WidensNarrowFloatsExactly) {
  EXPECT_EQ(scaleOf(0x3c00, ncclFloat16), 1.0F);
  EXPECT_EQ(scaleOf(0xc500, ncclFloat16), -5.0F);
  EXPECT_EQ(scaleOf(0x0001, ncclFloat16), std::ldexp(1.0F, -24));
  EXPECT_EQ(scaleOf(0x7bff, ncclFloat16), 65504.0F);
  EXPECT_EQ(scaleOf(0x3fc0, ncclBfloat16), 1.5F);
  EXPECT_EQ(scaleOf(0x0001, ncclBfloat16), std::ldexp(1.0F, -133));
  EXPECT_EQ(scaleOf(0x38, ncclFloat8e4m3), 1.0F);
  EXPECT_EQ(scaleOf(0x7e, ncclFloat8e4m3), 448.0F);
  EXPECT_EQ(scaleOf(0x01, ncclFloat8e4m3), std::ldexp(1.0F, -9));
  EXPECT_EQ(scaleOf(0x3c, ncclFloat8e5m2), 1.0F);
  EXPECT_EQ(scaleOf(0xfb, ncclFloat8e5m2), -57344.0F);
}

TEST(LaunchScale, KeepsInfinitiesAndNaNs) {
  EXPECT_EQ(scaleOf(0x7c00, ncclFloat16), INFINITY);
  EXPECT_EQ(scaleOf(0xff80, ncclBfloat16), -INFINITY);
  EXPECT_EQ(scaleOf(0x7c, ncclFloat8e5m2), INFINITY);
  EXPECT_TRUE(std::isnan(scaleOf(0x7f, ncclFloat8e4m3)));
  EXPECT_TRUE(std::isnan(scaleOf(0x7e, ncclFloat8e5m2)));
  EXPECT_TRUE(std::isnan(scaleOf(0x7fc0, ncclBfloat16)));
}

TEST(LaunchScale, LeavesWideTypesAsTheyAre) {
  const int64_t whole = -3;
  EXPECT_EQ(launchScaleOf(&whole, ncclInt64), static_cast<uint64_t>(whole));
  const float single = 0.25F;
  EXPECT_EQ(scaleOf(0x3e800000, ncclFloat32), single);
}

}  // namespace
}  // namespace nccom
