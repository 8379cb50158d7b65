// Every algorithm on the emulated device, by the test programs: real data, all kinds of groups.
// LIBNCCOM_VERIFY_ALL=1 runs all sizes and types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "test/unit/system/run.h"

namespace nccom::test {
namespace {

using ::testing::HasSubstr;

bool wantsAll() {
  const char* all = std::getenv("LIBNCCOM_VERIFY_ALL");
  return all != nullptr && std::string(all) == "1";
}

/// A group on which an algorithm is admitted, within one process or over several.
struct Group {
  const char* alg;
  const char* machine;  // NCCOM_CLUSTER
  int ranks;
  const char* lnc = "0";
  std::vector<const char*> ops = {"all_reduce", "all_gather", "reduce_scatter"};
  int processes = 1;  // that share the ranks; 1: threads only
};

const std::vector<const char*> kAllReduce{"all_reduce"};

const std::vector<Group> kGroups{
    {"ring", "1xtrn2.48xlarge", 8},
    {"ring", "1xtrn1.32xlarge", 6, "0", {"all_reduce", "all_gather", "reduce_scatter"}, 2},
    {"kangaring", "1xtrn2.48xlarge", 64},
    {"kangaring", "1xtrn2.48xlarge", 16, "1"},
    {"kangaring", "1xtrn2.48xlarge", 16, "2", {"all_reduce", "all_gather", "reduce_scatter"}, 4},
    {"mesh", "1xtrn2.48xlarge", 64},
    {"mesh", "1xtrn2.48xlarge", 16, "1", {"all_reduce", "alltoall"}},
    {"mesh", "1xtrn1.32xlarge", 8, "0", {"all_reduce", "all_gather", "reduce_scatter"}, 4},
    {"mesh", "1xinf2.48xlarge", 12},
    {"mesh", "1xinf2.24xlarge", 2},
    {"mesh", "1xhost:8", 8},
    {"mesh", "4xtrn2.48xlarge:1", 4},
    {"single_step_mesh", "1xtrn2.48xlarge", 8, "0", kAllReduce},
    {"single_step_mesh", "1xtrn1.32xlarge", 4, "0", kAllReduce, 2},
    {"intra_rdh", "1xtrn2.48xlarge", 64},
    {"intra_rdh", "1xtrn2.48xlarge", 8, "0", {"all_reduce", "all_gather", "reduce_scatter"}, 4},
    {"intra_rdh", "1xtrn2.48xlarge", 32, "1"},
    {"inter_rdh", "8xtrn2.48xlarge:1", 8},
    {"single_cycle_ring", "3xtrn2.48xlarge:1", 3, "0", kAllReduce},
    {"hier", "2xtrn2.48xlarge:8", 16},
    {"hier", "3xtrn1.32xlarge:2", 6, "0", {"all_reduce", "all_gather", "reduce_scatter"}, 3},
    {"two_step_pod_mesh", "trn2-ultraserver:4", 16},
    {"latency_opt_mesh", "1xtrn3e.24xlarge", 16, "0", {"all_reduce", "all_gather"}},
    {"bw_opt_mesh", "1xtrn3e.24xlarge", 16, "2", {"all_reduce", "all_gather"}},
};

Outcome runGroup(const Group& group, const std::string& op, Env env) {
  env["NCCOM_CLUSTER"] = group.machine;
  env["NCCOM_ALG"] = group.alg;
  env["NEURON_LOGICAL_NC_CONFIG"] = group.lnc;
  env["NCCL_DEBUG"] = "INFO";
  env["NCCL_DEBUG_SUBSYS"] = "COLL";
  const std::string sizes =
      wantsAll() ? " -b 8 -e 16M -f 4 -d all -n 1 -w 1" : " -b 8 -e 1M -f 32 -d float -n 2 -w 1";
  const int perProcess = group.ranks / group.processes;
  const std::string rest = "_perf" + std::string(group.processes > 1 ? "_mpi" : "") + sizes +
                           " -g " + std::to_string(perProcess);
  if (group.processes == 1) return run("bin/" + op + rest, env, 900);
  return mpirun(group.processes, "bin/" + op + rest, env, 900);
}

void expectGood(const Group& group, const Outcome& outcome) {
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Out of bounds values : 0 OK"));
  EXPECT_THAT(outcome.output, HasSubstr("algorithm " + std::string(group.alg)));
}

TEST(Algorithms, AreRightOnEveryKindOfGroup) {
  for (const Group& group : kGroups) {
    if (group.processes > 1 && !haveMpi()) continue;
    for (const char* op : group.ops) {
      SCOPED_TRACE(std::string(group.alg) + " " + op + " on " + group.machine);
      expectGood(group, runGroup(group, op, {}));
    }
  }
}

/// Each process is a virtual host of its own.
TEST(Algorithms, BetweenHostsAreRightOnEveryNet) {
  if (!haveMpi()) GTEST_SKIP() << "no mpirun here";
  for (const char* net : {"socket", "ofi"}) {
    for (const Group& group : std::vector<Group>{{"inter_rdh", "8xtrn2.48xlarge:1", 8},
                                                 {"hier", "8xtrn2.48xlarge:2", 16}}) {
      Group spread = group;
      spread.processes = 8;
      SCOPED_TRACE(std::string(group.alg) + " over " + net);
      expectGood(group, runGroup(spread, "all_reduce",
                                 {{"NCCL_NET_PLUGIN", net}, {"FI_PROVIDER", "tcp"}}));
    }
  }
}

TEST(Algorithms, ThatAreNotAdmittedAreErrorsWithTheRule) {
  const Group tooMany{"inter_rdh", "12xtrn2.48xlarge:1", 12};
  const Outcome outcome = runGroup(tooMany, "all_reduce", {});
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("rank_n is a power of two, 8 or more"));
  EXPECT_THAT(outcome.output, HasSubstr("rank_n 12"));
}

}  // namespace
}  // namespace nccom::test
