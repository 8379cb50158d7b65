#include <cstdlib>
#include <vector>

#include "enc/alg_table.h"
#include "enc/situation_of.h"
#include "tool_test_util.h"
#include "tools/nccom/algs_answer.h"

namespace nccom {
namespace {

/// The command's answer; the process's environment has none of the switches.
Json answer(std::vector<const char*> args) {
  args.insert(args.begin(), "algs");
  args.push_back("--json");
  const Outcome outcome = run(args);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return outcome.status == 0 ? Json::parse(outcome.out) : Json();
}

Outcome refused(std::vector<const char*> args) {
  args.insert(args.begin(), "algs");
  Outcome outcome = run(args);
  EXPECT_EQ(outcome.status, kExitUsage) << outcome.out;
  EXPECT_EQ(outcome.out, "");
  return outcome;
}

/// A variable for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(Algs, ATrainium2HostHasTheDocumentedRegimes) {
  const std::vector<std::pair<const char*, const char*>> winners = {
      {"64K", "mesh"},     {"1M", "mesh"},       {"1048577", "intra_rdh"},
      {"8M", "intra_rdh"}, {"56M", "intra_rdh"}, {"58720257", "kangaring"},
      {"1G", "kangaring"}};
  for (const auto& [bytes, winner] : winners) {
    const Json json = answer({"--platform", "trn2.48xlarge", "--ranks", "64", "--bytes", bytes});
    EXPECT_EQ(json["winner"]["algorithm"], winner) << bytes;
  }
}

TEST(Algs, RegimesBeginWhereTheWinnerChanges) {
  const Json json = answer({"--platform", "trn2.48xlarge"});
  EXPECT_EQ(json["sizes"].size(), 21);
  std::vector<std::pair<uint64_t, std::string>> regimes;
  for (const Json& regime : json["regimes"])
    regimes.emplace_back(regime["first"], regime["winner"]["algorithm"]);
  const std::vector<std::pair<uint64_t, std::string>> expected = {{1024, "single_step_mesh"},
                                                                  {8 * kKiB + 1, "mesh"},
                                                                  {kMiB + 1, "intra_rdh"},
                                                                  {56 * kMiB + 1, "kangaring"}};
  EXPECT_EQ(regimes, expected);
}

TEST(Algs, EveryRegimeHoldsUpToTheNext) {
  for (const char* platform : {"trn2.48xlarge", "trn1.32xlarge", "4xtrn2.48xlarge",
                               "trn2-ultraserver", "trn3-gen2-ultraserver", "inf2.48xlarge"}) {
    SCOPED_TRACE(platform);
    ScheduleOptions options;
    options.world.platform = platform;
    ASSERT_OK(asked, makeCase(options, false));
    ASSERT_OK(sweep, sweepAlgs(asked));
    for (size_t i = 1; i < sweep.regimes.size(); i++) {
      const AlgsRegime& regime = sweep.regimes[i];
      ASSERT_OK(before, answerAlgs(asked, regime.first - 1));
      EXPECT_EQ(before.algorithm, sweep.regimes[i - 1].answer.algorithm);
      EXPECT_EQ(before.subtype, sweep.regimes[i - 1].answer.subtype);
      const bool isOther = before.algorithm != regime.answer.algorithm ||
                           before.subtype != regime.answer.subtype || before.hierarchy;
      EXPECT_TRUE(isOther) << regime.first;
    }
  }
}

TEST(Algs, GivesEveryLoserARule) {
  const Outcome outcome = run({"algs", "--bytes", "8M"});
  EXPECT_EQ(outcome.status, 0);
  for (const encAlgRow& row : encAlgTable())
    expectPart(outcome.out, row.name);
  const Json json = answer({"--bytes", "8M"});
  EXPECT_EQ(json["verdicts"].size(), static_cast<size_t>(kEncAlgs));
  int chosen = 0;
  for (const Json& verdict : json["verdicts"]) {
    EXPECT_NE(verdict["why"], "") << verdict["algorithm"];
    chosen += verdict["verdict"] == "chosen" ? 1 : 0;
  }
  EXPECT_EQ(chosen, 1);
}

TEST(Algs, JsonHasWhatSelectionSaid) {
  ScheduleOptions options;
  options.world.platform = "4xtrn2.48xlarge";
  ASSERT_OK(asked, makeCase(options, false));
  encTask task;
  task.count = 64 * kMiB;
  ASSERT_OK(choice, encSelect(asked.info, task));
  ASSERT_TRUE(choice.selection.has_value());
  const Json json = answer({"--platform", "4xtrn2.48xlarge", "--bytes", "64M"});
  for (const Json& verdict : json["verdicts"]) {
    const encVerdict& said = choice.selection->verdicts[verdict["value"].get<size_t>()];
    EXPECT_EQ(verdict["algorithm"], encAlgName(said.alg));
    EXPECT_EQ(verdict["verdict"], toText(said.kind));
    EXPECT_EQ(verdict["why"], said.why);
    EXPECT_EQ(verdict["admitted"], said.isAdmitted());
  }
  EXPECT_EQ(json["possible"]["hierarchical"], choice.selection->possible.hierarchical);
  EXPECT_EQ(json["situation"]["rank_n"], 256);
}

TEST(Algs, AHierarchyNamesTheAlgorithmOfEachStage) {
  const Json json = answer({"--platform", "4xtrn2.48xlarge", "--bytes", "64M"});
  EXPECT_EQ(json["winner"]["algorithm"], "hier");
  ScheduleOptions options;
  options.world.platform = "4xtrn2.48xlarge";
  ASSERT_OK(asked, makeCase(options, false));
  encTask task;
  task.count = 64 * kMiB;
  ASSERT_OK(situation, encSituationOf(asked.info, task));
  ASSERT_OK(choices, encSelectHier(situation, asked.info.options));
  const Json& hierarchy = json["winner"]["hierarchy"];
  ASSERT_EQ(hierarchy.size(), choices.size());
  for (size_t slot = 0; slot < choices.size(); slot++) {
    EXPECT_EQ(hierarchy[slot]["slot"], toText(static_cast<encHierSlot>(slot)));
    EXPECT_EQ(hierarchy[slot]["algorithm"], encAlgName(choices[slot].alg));
    EXPECT_EQ(hierarchy[slot]["losers"].size(), choices[slot].losers.size());
  }
  const Outcome text = run({"algs", "--platform", "4xtrn2.48xlarge", "--bytes", "64M"});
  expectPart(text.out, "alg_inter_allr");
  expectPart(text.out, encHierText(choices));
}

TEST(Algs, EveryPlatformOperationAndSizeHasAnAnswer) {
  for (const std::string& platform : platformNames()) {
    for (const char* op : {"all_reduce", "AllGather", "reduce-scatter", "alltoall", "broadcast",
                           "gather", "sendrecv", "permute_implicit", "send"}) {
      const Outcome outcome = run({"algs", "--platform", platform.c_str(), "--op", op});
      EXPECT_EQ(outcome.status, 0) << platform << " " << op << ": " << outcome.err;
    }
  }
}

TEST(Algs, AForcedAlgorithmWinsWhereItIsAdmitted) {
  const Json json = answer({"--bytes", "8", "--force", "kangaring"});
  EXPECT_EQ(json["winner"]["algorithm"], "kangaring");
  EXPECT_EQ(answer({"--bytes", "8", "--alg", "rdh"})["winner"]["algorithm"], "intra_rdh");
  const Outcome outcome = refused({"--ranks", "12", "--alg", "rdh", "--bytes", "8M"});
  expectPart(outcome.err, "intra_rdh, which is not admitted for trn2 LNC 2, 12 ranks");
  expectPart(outcome.err, "2, 4, 8, 16, 32 or 64 ranks of a node");
  expectPart(refused({"--ranks", "7", "--alg", "mesh"}).err, "7 ranks");
}

TEST(Algs, ReadsTheSwitchesOfTheLibrary) {
  const Variable off("NEURON_RT_DBG_RDH_CC", "0");
  const Json json = answer({"--bytes", "8M"});
  EXPECT_EQ(json["winner"]["algorithm"], "mesh");
  EXPECT_NE(json["machine"]["switches"].get<std::string>().find("RDH_CC"), std::string::npos);
  const Variable forced("NCCOM_ALG", "ring");
  EXPECT_EQ(answer({"--bytes", "8M"})["winner"]["algorithm"], "ring");
  EXPECT_EQ(answer({"--bytes", "8M", "--alg", "mesh"})["winner"]["algorithm"], "mesh");
  const Variable wrong("NEURON_RT_CC_ALG_TYPES", "x");
  expectPart(refused({"--bytes", "8M"}).err, "NEURON_RT_CC_ALG_TYPES");
}

TEST(Algs, AGroupIsAnsweredForItself) {
  const TempFile file(R"({"replica_groups": [[[0,1,2,3],[4,5,6,7]], [[0,4],[1,5],[2,6],[3,7]]]})",
                      ".json");
  const Json first = answer({"--groups", file.path().c_str(), "--bytes", "8"});
  EXPECT_EQ(first["situation"]["rank_n"], 4);
  EXPECT_EQ(first["machine"]["group"]["members"], Json::array({0, 1, 2, 3}));
  const Json second =
      answer({"--groups", file.path().c_str(), "--group", "1", "--rank", "6", "--bytes", "8"});
  EXPECT_EQ(second["machine"]["group"]["members"], Json::array({2, 6}));
  EXPECT_EQ(second["situation"]["devices"], 2);
}

TEST(Algs, SaysWhatIsWrongWithAGroup) {
  const auto said = [](const char* text, std::vector<const char*> more = {}) {
    const TempFile file(text, ".json");
    std::vector<const char*> args = {"--bytes", "8", "--groups", file.path().c_str()};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = refused(args);
    expectPart(outcome.err, file.path());
    return outcome.err;
  };
  expectPart(said(R"({"replica_groups": [[0,1],[2,1]]})"),
             "rank 1 is in groups 0 and 1; a rank is in one group");
  expectPart(said(R"({"replica_groups": [[0,1,1]]})"), "group 0 names rank 1 twice");
  expectPart(said(R"({"replica_groups": [[0,1],[2,3]]})", {"--rank", "5"}),
             "does not have myself 5");
  expectPart(said(R"({"replica_groups": [[0,64]]})"), "rank 64; ranks of this world are 0 to 63");
  expectPart(said(R"({"groups": [[0,1]]})"), "unknown key \"groups\"");
  expectPart(said(R"({"replica_groups": [[0,1]], "#rank_world_size": 128})"), "128");
  expectPart(said("[1"), "no JSON");
  expectPart(said(R"({"replica_groups": [[0,1]]})", {"--group", "1"}), "group 1; it has 1");
  expectPart(said(R"({"src_target_pairs": [[0,1],[2,3]]})", {"--rank", "4"}), "myself 4");
  expectPart(said(R"({"replica_groups": [[0,1,2,3,4,5,6,7,8,9,10,11]]})", {"--alg", "rdh"}),
             "group 0: NCCOM_ALG names intra_rdh, which is not admitted");
  expectPart(said(R"({"replica_groups": [[0,1,2,3,4,5,6]]})", {"--alg", "mesh"}), "7 ranks");
  expectPart(refused({"--groups", "/nowhere.json"}).err, "/nowhere.json: cannot be read");
}

TEST(Algs, FilesOfGroupsThatAreNoFilesAreRefused) {
  expectPart(refused({"--groups", "/"}).err, "/: cannot be read: Is a directory");
  expectPart(refused({"--groups", "/dev/null"}).err, "/dev/null: no JSON");
  expectPart(refused({"--groups", "/dev/zero"}).err, "/dev/zero: a file of groups has at most");
}

TEST(Algs, RefusesWhatMakesNoSense) {
  expectPart(refused({"--platform", "trn9"}).err, "trn2.48xlarge");
  expectPart(refused({"--op", "allsum"}).err, "all_gather, all_reduce");
  expectPart(refused({"--alg", "tree"}).err, "kangaring");
  expectPart(refused({"--bytes", "8X"}).err, "8X");
  expectPart(refused({"--bytes", "-8"}).err, "-8");
  expectPart(refused({"--bytes", "8", "--sweep"}).err, "--bytes beside --sweep");
  expectPart(refused({"--ranks", "65"}).err, "65 ranks on 1 node;");
  expectPart(refused({"--ranks", "65", "--nodes", "2"}).err, "65 ranks on 2 nodes");
  expectPart(refused({"--ranks", "64", "--platform", "trn2.48xlarge:8"}).err, "offers 8");
  expectPart(refused({"--lnc", "3"}).err, "3");
  expectPart(refused({"--lnc", "1", "--platform", "host"}).err, "--lnc");
  expectPart(refused({"--pod", "X9", "--platform", "trn2u.48xlarge"}).err, "X4");
  expectPart(refused({"--pod", "X4", "--platform", "trn2u.48xlarge", "--nodes", "6"}).err,
             "whole pods");
  expectPart(refused({"--nodes", "2", "--platform", "4xtrn1.32xlarge"}).err, "4 hosts");
  expectPart(refused({"--platform", "trn1.32xlarge,trn2.48xlarge"}).err, "several kinds");
  expectPart(refused({"--group", "1"}).err, "--groups");
  expectPart(refused({"--rank", "1"}).err, "--groups");
  expectPart(refused({"--op", "permute_reduce", "--bytes", "8"}).err, "PermuteReduce");
  expectPart(refused({"--no-such"}).err, "--no-such");
}

}  // namespace
}  // namespace nccom
