#include "test/perf/place.h"

#include <gtest/gtest.h>

namespace nccom::perf {
namespace {

TEST(Place, CountsTheProcessesOfTheSameHost) {
  const std::vector<std::string> keys{"a", "b", "a", "a", "b"};
  EXPECT_EQ(placeAmong(keys, 0).localRank, 0);
  EXPECT_EQ(placeAmong(keys, 1).localRank, 0);
  EXPECT_EQ(placeAmong(keys, 3).localRank, 2);
  EXPECT_EQ(placeAmong(keys, 4).localRank, 1);
  EXPECT_EQ(placeAmong(keys, 3).localCount, 3);
  EXPECT_EQ(placeAmong(keys, 4).localCount, 2);
}

Status check(const std::vector<const char*>& arguments, int localCount, Resources resources) {
  const Options options = parseOptions(arguments).value();
  return checkResources(options, {.host = "node7", .localRank = 0, .localCount = localCount},
                        resources);
}

TEST(Place, MoreDevicesThanTheHostHasIsAnErrorWithBothNumbers) {
  constexpr size_t kPlenty = size_t{1} << 50;
  EXPECT_TRUE(check({"-g", "8", "-t", "2"}, 4, {.devices = 64, .memory = kPlenty}).ok());
  const Status status = check({"-g", "9", "-t", "2"}, 4, {.devices = 64, .memory = kPlenty});
  ASSERT_FALSE(status.ok());
  for (const char* part : {"72 devices", "has 64", "node7", "-g 9", "-t 2", "4 processes"}) {
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  }
  EXPECT_FALSE(
      check({"-g", "2147483647", "-t", "2147483647"}, 1000, {.devices = 64, .memory = kPlenty})
          .ok());
}

TEST(Place, MoreMemoryThanTheHostHasIsAnError) {
  const Resources small{.devices = 64, .memory = size_t{1} << 30};
  EXPECT_TRUE(check({"-g", "8", "-e", "64M"}, 1, small).ok());
  const Status status = check({"-g", "8", "-e", "64M"}, 2, small);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("2.0 GiB of buffers, 1.0 GiB"), std::string::npos)
      << status.error().message;
}

TEST(Place, SomeMemoryIsAvailable) {
  EXPECT_GT(availableMemory(), size_t{1} << 20);
  EXPECT_LT(availableMemory(), size_t{1} << 60);
}

TEST(Place, OneProcessIsAloneOnItsHost) {
  OneProcess processes;
  const Place place = findPlace(processes);
  EXPECT_EQ(place.localRank, 0);
  EXPECT_EQ(place.localCount, 1);
  EXPECT_FALSE(place.host.empty());
}

}  // namespace
}  // namespace nccom::perf
