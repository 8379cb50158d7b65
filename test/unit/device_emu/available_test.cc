#include "plugins/device_emu/available.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace nccom::emu {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kKiB = 1024;

// A folder with a procfs and control groups as a test says.
class Available : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "nccom-available-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  bool strict() const { return strictOvercommit(root_ / "proc"); }
  uint64_t left() const { return memoryLeft(root_ / "proc", root_ / "cgroup"); }

 private:
  fs::path root_;
};

TEST_F(Available, KnowsNothingWithoutFiles) {
  EXPECT_EQ(left(), UINT64_MAX);
}

TEST_F(Available, AddsFreeSwapToAvailableMemory) {
  put("proc/meminfo",
      "MemTotal:  9000 kB\nMemAvailable:   5000 kB\nSwapTotal: 90 kB\nSwapFree:  70 kB\n");
  EXPECT_EQ(left(), 5070 * kKiB);
}

TEST_F(Available, TakesTheTightestGroupOfVersion2) {
  put("proc/meminfo", "MemAvailable: 5000 kB\n");
  put("proc/self/cgroup", "0::/outer/inner\n");
  put("cgroup/outer/inner/memory.max", "max\n");
  put("cgroup/outer/inner/memory.current", "1000\n");
  put("cgroup/outer/memory.max", "1000000\n");
  put("cgroup/outer/memory.current", "400000\n");
  put("cgroup/outer/memory.stat", "anon 1\ninactive_file 100000\nactive_file 50000\nshmem 3\n");
  EXPECT_EQ(left(), 750'000u);
}

TEST_F(Available, ReadsTheRootOfAContainersMount) {
  put("proc/self/cgroup", "0::/../of/the/host\n");
  put("cgroup/memory.max", "5000\n");
  put("cgroup/memory.current", "4000\n");
  EXPECT_EQ(left(), 1000u);
}

TEST_F(Available, ReadsGroupsOfVersion1) {
  put("proc/self/cgroup", "7:cpu,cpuacct:/x\n4:memory:/a\n0::/\n");
  put("cgroup/memory/a/memory.limit_in_bytes", "9000\n");
  put("cgroup/memory/a/memory.usage_in_bytes", "5000\n");
  put("cgroup/memory/a/memory.stat", "inactive_file 4000\ntotal_inactive_file 300\n");
  EXPECT_EQ(left(), 4300u);
}

TEST_F(Available, LeavesNothingBeyondTheLimit) {
  put("proc/self/cgroup", "0::/\n");
  put("cgroup/memory.max", "5000\n");
  put("cgroup/memory.current", "6000\n");
  EXPECT_EQ(left(), 0u);
}

TEST_F(Available, ReadsThisMachine) {
  EXPECT_GT(systemMemoryLeft(), 0u);
  EXPECT_LT(systemMemoryLeft(), UINT64_MAX);
}

TEST_F(Available, KnowsStrictOvercommit) {
  EXPECT_FALSE(strict());
  put("proc/sys/vm/overcommit_memory", "0\n");
  EXPECT_FALSE(strict());
  put("proc/sys/vm/overcommit_memory", "2\n");
  EXPECT_TRUE(strict());
}

}  // namespace
}  // namespace nccom::emu
