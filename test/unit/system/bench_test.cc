// The benchmark's programs work, and bench.py makes of them what its options promise. No figure is
// judged here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "test/unit/system/run.h"

namespace nccom::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kBrief = " --sizes 8,64K --repetitions 1 --limit 0.1 --budget-ms 0.1";

/// A line of each operation and size, whose last column, the wrong elements, is 0.
void expectAllRight(const Outcome& outcome, const std::string& name) {
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const char* op : {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "alltoall",
                         "sendrecv", "pingpong", "barrier"})
    EXPECT_THAT(outcome.output, HasSubstr(name + "," + op + ",2,"));
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(!line.starts_with(name) || line.ends_with(",0")) << line;
  }
}

TEST(Bench, OursIsRightInEachOfItsForms) {
  for (const std::string mode : {"procs", "malloc", "threads"}) {
    SCOPED_TRACE(mode);
    expectAllRight(run("bin/bench_nccom --name ours --mode " + mode + kBrief), "ours");
  }
}

TEST(Bench, TheFloorIsRightInEachOfItsForms) {
  for (const std::string mode : {"procs", "threads"}) {
    SCOPED_TRACE(mode);
    expectAllRight(run("bin/bench_floor --name floor --mode " + mode + kBrief), "floor");
  }
}

TEST(Bench, TheFloorIsRightWithMoreRanksThanCores) {
  const Outcome outcome =
      run(std::string("bin/bench_floor --name floor --mode threads --ranks 5") + kBrief);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("floor,sendrecv,5,"));
}

TEST(Bench, AWrongOptionIsNamed) {
  const Outcome outcome = run("bin/bench_floor --ops all_reduce,twist");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, HasSubstr("'twist'"));
}

TEST(Bench, TheDriverStoresResultsATableAndCurves) {
  if (system("python3 -c pass") != 0) GTEST_SKIP() << "no python3 here";
  const std::string out = buildDir() + "/bench_test";
  std::filesystem::remove_all(out);
  const std::string command = "python3 test/bench/bench.py --quick --peers none --build " +
                              buildDir() + " --out " + out +
                              " --ops all_reduce,barrier --sizes 512K --rounds 1 --repetitions 1";
  const int status = system((command + " > " + buildDir() + "/bench_test.log 2>&1").c_str());
  std::stringstream log;
  log << std::ifstream(buildDir() + "/bench_test.log").rdbuf();
  // 1 says that a limit was missed, which is no business of this test.
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1) << log.str();
  std::stringstream csv;
  csv << std::ifstream(out + "/results.csv").rdbuf();
  for (const char* name : {"nccom/procs,all_reduce", "nccom/malloc,all_reduce",
                           "nccom/procs,barrier", "floor/procs,all_reduce"})
    EXPECT_THAT(csv.str(), HasSubstr(name));
  EXPECT_THAT(log.str(), HasSubstr("ours/floor"));
  EXPECT_THAT(log.str(), Not(HasSubstr("FAILED")));
  EXPECT_TRUE(std::filesystem::exists(out + "/table.md"));
  EXPECT_TRUE(std::filesystem::exists(out + "/all_reduce-2.svg"));
}

}  // namespace
}  // namespace nccom::test
