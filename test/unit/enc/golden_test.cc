// Programs as text, so that a change of a schedule shows in review. LIBNCCOM_GOLDEN_WRITE=1
// rewrites the files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "test/unit/enc/worlds.h"

namespace nccom {
namespace {

using test::World;

struct Golden {
  const char* file;
  World world;
  encTask task;
};

std::string dumpAll(const Golden& golden) {
  std::string text;
  for (const encProgram& program : test::composeAll(golden.world, golden.task)) {
    text += encDump(program);
  }
  return text;
}

TEST(Schedule, IsAsTheGoldenFilesSay) {
  const World two{{2}}, three{{2, 1}, 1, {256, 256}};
  const std::vector<Golden> goldens{
      {"allreduce_2_ranks.txt", two, test::collective(encOp::AllReduce, 1000)},
      {"allreduce_2_hosts.txt", three, test::collective(encOp::AllReduce, 1000)},
      {"broadcast_2_hosts.txt", three, test::collective(encOp::Broadcast, 1000)},
      {"alltoall_2_hosts.txt", three, test::collective(encOp::AlltoAll, 10)},
  };
  for (const Golden& golden : goldens) {
    const std::string path = std::string("test/golden/schedule/") + golden.file;
    const std::string text = dumpAll(golden);
    if (getenv("LIBNCCOM_GOLDEN_WRITE") != nullptr) std::ofstream(path) << text;
    std::ifstream file(path);
    ASSERT_TRUE(file) << path << ": run from the root of the repository";
    std::stringstream wanted;
    wanted << file.rdbuf();
    EXPECT_EQ(text, wanted.str()) << path;
  }
}

}  // namespace
}  // namespace nccom
