// The test programs as a user runs them: threads, processes, virtual hosts, bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "test/unit/system/run.h"

namespace nccom::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void expectGood(const Outcome& outcome, size_t atLeastRows) {
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_GE(rows(outcome.output).size(), atLeastRows) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Out of bounds values : 0 OK"));
}

TEST(Threads, EveryCollectiveIsRightOnEightRanks) {
  for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                         "alltoall", "sendrecv", "gather", "scatter", "hypercube"}) {
    SCOPED_TRACE(op);
    expectGood(run(std::string("bin/") + op + "_perf -b 8 -e 2M -f 8 -g 8 -n 2 -w 1"), 6);
  }
}

TEST(Threads, AllTypesAndOperatorsAreRight) {
  expectGood(run("bin/all_reduce_perf -b 1 -e 64K -f 9 -t 4 -g 2 -d all -o all -n 1 -w 1"), 200);
}

TEST(Threads, AWholeTrn2Works) {
  const Outcome outcome = run("bin/all_reduce_perf -b 8 -e 1M -f 16 -g 64 -n 2 -w 1", {}, 180);
  expectGood(outcome, 3);
}

TEST(Threads, OddRankCountsAndSizesAreRight) {
  for (const char* ranks : {"1", "2", "3", "5", "7"}) {
    SCOPED_TRACE(ranks);
    expectGood(
        run(std::string("bin/all_reduce_perf -b 1 -e 1000003 -f 7 -d int8 -n 1 -w 1 -g ") + ranks),
        7);
  }
}

TEST(Processes, FourProcessesAreRight) {
  if (!haveMpi()) GTEST_SKIP() << "no mpirun here";
  for (const char* op : {"all_reduce", "all_gather", "alltoall", "sendrecv"}) {
    SCOPED_TRACE(op);
    expectGood(mpirun(4, std::string("bin/") + op + "_perf_mpi -b 8 -e 8M -f 16 -n 2 -w 1"), 5);
  }
}

TEST(Processes, ThirtyTwoOversubscribedRanksMakeProgress) {
  if (!haveMpi()) GTEST_SKIP() << "no mpirun here";
  expectGood(mpirun(4, "bin/all_reduce_perf_mpi -b 8 -e 8 -g 8 -n 20 -w 2"), 1);
}

/// Two virtual hosts of two ranks each.
std::string twoHosts(const std::string& program) {
  const std::string file = buildDir() + "/two_hosts.sh";
  std::ofstream(file) << "#!/bin/sh\nexport NCCL_HOSTID=h$((OMPI_COMM_WORLD_RANK/2))\nexec "
                      << buildDir() << "/" << program << "\n";
  return "sh " + file;
}

TEST(VirtualHosts, TheRingCrossesLibfabric) {
  if (!haveMpi()) GTEST_SKIP() << "no mpirun here";
  const Outcome outcome = mpirun(4, twoHosts("bin/all_reduce_perf_mpi -b 8 -e 4M -f 8 -n 2 -w 1"),
                                 {{"NCCL_NET_PLUGIN", "ofi"},
                                  {"FI_PROVIDER", "tcp"},
                                  {"NCCL_DEBUG", "INFO"},
                                  {"NCCL_DEBUG_SUBSYS", "NET"}});
  expectGood(outcome, 5);
  EXPECT_THAT(outcome.output, HasSubstr("via NET/"));
}

TEST(VirtualHosts, TheRingCrossesTheSocketNet) {
  if (!haveMpi()) GTEST_SKIP() << "no mpirun here";
  for (const char* op :
       {"all_reduce", "alltoall", "sendrecv", "gather", "scatter", "broadcast", "reduce"}) {
    SCOPED_TRACE(op);
    const Outcome outcome =
        mpirun(4, twoHosts(std::string("bin/") + op + "_perf_mpi -b 8 -e 4M -f 8 -n 2 -w 1"),
               {{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", "NET"}});
    expectGood(outcome, 5);
    EXPECT_THAT(outcome.output, HasSubstr("via NET/Socket"));
  }
}

TEST(BadInput, AMissingPluginIsAnErrorThatNamesIt) {
  const Outcome outcome = run("bin/all_reduce_perf -g 2", {{"NCCL_NET_PLUGIN", "nosuch"}});
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("nosuch"));
  EXPECT_THAT(outcome.output, HasSubstr("cannot open shared object file"));
}

TEST(BadInput, AnUnknownPlatformIsAnErrorThatListsThem) {
  const Outcome outcome = run("bin/all_reduce_perf -g 2", {{"NCCOM_PLATFORM", "nosuch"}});
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("nosuch"));
  EXPECT_THAT(outcome.output, HasSubstr("trn2.48xlarge"));
}

TEST(BadInput, ABadParameterIsAnErrorThatNamesIt) {
  const Outcome outcome = run("bin/all_reduce_perf -g 2", {{"NCCL_BUFFSIZE", "-5"}});
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("NCCL_BUFFSIZE"));
}

TEST(BadInput, OddBufferSizesGiveRightData) {
  for (const char* bytes : {"1", "63", "1000", "1000000"}) {
    SCOPED_TRACE(bytes);
    expectGood(
        run("bin/all_reduce_perf -b 8 -e 1M -f 32 -g 4 -n 1 -w 1", {{"NCCL_BUFFSIZE", bytes}}), 4);
  }
}

TEST(Topology, ADumpLoadsAgain) {
  const std::string file = buildDir() + "/topo_dump.xml";
  remove(file.c_str());
  expectGood(run("bin/all_reduce_perf -g 8 -n 1 -w 1", {{"NCCL_TOPO_DUMP_FILE", file}}), 1);
  ASSERT_TRUE(std::ifstream(file).good());
  expectGood(run("bin/all_reduce_perf -g 8 -n 1 -w 1", {{"NCCL_TOPO_FILE", file}}), 1);
}

TEST(Topology, ThisMachineIsAPlatform) {
  expectGood(
      run("bin/all_reduce_perf -b 8 -e 1M -f 32 -g 2 -n 1 -w 1", {{"NCCOM_PLATFORM", "host"}}), 3);
}

TEST(Engine, NoWorkersAndNoCrossMemoryAttachStillWork) {
  if (!haveMpi()) GTEST_SKIP() << "no mpirun here";
  for (const char* op : {"all_reduce", "alltoall", "sendrecv"}) {
    SCOPED_TRACE(op);
    expectGood(mpirun(2, std::string("bin/") + op + "_perf_mpi -b 8 -e 1M -f 32 -n 2 -w 1",
                      {{"NCCOM_ENGINE_THREADS", "0"}, {"NCCOM_CMA", "0"}}),
               3);
  }
}

}  // namespace
}  // namespace nccom::test
