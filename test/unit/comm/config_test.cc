#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "comm/comm.h"

namespace nccom {
namespace {

using ::testing::HasSubstr;

TEST(Config, OfNullIsTheParameters) {
  ncclParams params;
  params.maxChannels = 7;
  const auto config = commConfigOf(nullptr, params);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().maxChannels, 7);
  EXPECT_TRUE(config.value().blocking);
}

TEST(Config, FieldsWinOverParameters) {
  ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
  given.minCTAs = 2;
  given.maxCTAs = 3;
  given.netName = "Socket";
  const auto config = commConfigOf(&given, ncclParams{});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().minChannels, 2);
  EXPECT_EQ(config.value().maxChannels, 3);
  EXPECT_EQ(config.value().netName, "Socket");
}

TEST(Config, OfAnOlderReleaseEndsWhereItsSizeSays) {
  ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
  given.size = offsetof(ncclConfig_t, maxCTAs);
  given.maxCTAs = 1;  // beyond what that release had
  const auto config = commConfigOf(&given, ncclParams{});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config.value().maxChannels, 32);
}

TEST(Config, RefusesBadFieldsByName) {
  ncclConfig_t magic = NCCL_CONFIG_INITIALIZER;
  magic.magic = 1;
  EXPECT_THAT(commConfigOf(&magic, {}).error().message, HasSubstr("magic"));
  ncclConfig_t size = NCCL_CONFIG_INITIALIZER;
  size.size = 3;
  EXPECT_THAT(commConfigOf(&size, {}).error().message, HasSubstr("size"));
  ncclConfig_t order = NCCL_CONFIG_INITIALIZER;
  order.minCTAs = 5;
  order.maxCTAs = 4;
  EXPECT_THAT(commConfigOf(&order, {}).error().message, HasSubstr("minCTAs"));
  ncclConfig_t blocking = NCCL_CONFIG_INITIALIZER;
  blocking.blocking = 2;
  EXPECT_THAT(commConfigOf(&blocking, {}).error().message, HasSubstr("blocking"));
}

}  // namespace
}  // namespace nccom
