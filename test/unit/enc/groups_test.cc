#include <gtest/gtest.h>

#include <random>

#include "enc/groups_file.h"
#include "enc/replica_groups.h"

namespace nccom {
namespace {

using Topologies = std::vector<encGroupSet>;

std::string errorOf(const enc_glb_comm& global, const Topologies& topologies) {
  const auto groups = encParseReplicaGroups(global, topologies);
  return groups.ok() ? "" : groups.error().message;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(ReplicaGroups, GiveEachRankItsPlaceInItsGroupOfEachTopology) {
  const Topologies topologies{{{3, 0}, {1, 2}}, {{0, 1, 2, 3}}};
  for (uint32_t me = 0; me < 4; me++) {
    const auto groups = encParseReplicaGroups({me, 4}, topologies);
    ASSERT_TRUE(groups.ok()) << groups.error().message;
    ASSERT_EQ(groups.value().size(), 2U);
    for (int i = 0; i < 2; i++) {
      const enc_replica_group_info& group = groups.value()[i];
      EXPECT_EQ(group.group_id, i);
      EXPECT_EQ(group.src_target_pairs_id, -1);
      EXPECT_EQ(group.participants.at(group.rank), me);
      EXPECT_EQ(group.rank_n, static_cast<int>(group.participants.size()));
      EXPECT_EQ(group.bootstrap_participants, group.participants);
      EXPECT_EQ(group.bootstrap_rank, group.rank);
    }
  }
  EXPECT_EQ(encParseReplicaGroups({0, 4}, topologies).value()[0].rank, 1);  // not sorted
}

TEST(ReplicaGroups, WithoutAGroupAreEverybody) {
  for (const encGroupSet& nobody : {encGroupSet{}, encGroupSet{{}}}) {
    const auto groups = encParseReplicaGroups({2, 5}, {nobody});
    ASSERT_TRUE(groups.ok());
    EXPECT_EQ(groups.value()[0].participants, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(groups.value()[0].rank, 2);
    EXPECT_HAS(errorOf({2, 5}, {{{0, 1, 2, 3, 4}}, nobody}),
               "replica groups (1/2) names nobody; that stands for everybody only where");
  }
}

TEST(ReplicaGroups, NameGroupRankAndRule) {
  EXPECT_HAS(errorOf({0, 4}, {{{0, 1}}, {{2, 3}}}), "replica groups (1/2) does not have myself 0");
  EXPECT_HAS(errorOf({0, 4}, {{{0, 1}, {2, 4}}}),
             "replica groups (0/1): group 1 names rank 4; ranks of this world are 0 to 3");
  EXPECT_HAS(errorOf({0, 4}, {{{0, 1}, {2, 2}}}),
             "replica groups (0/1): group 1 names rank 2 twice; a rank is in it once");
  EXPECT_HAS(errorOf({0, 4}, {{{0, 1}, {2, 1}}}), "rank 1 is in groups 0 and 1");
  EXPECT_HAS(errorOf({0, 4}, {{{0, 1}, {}}}), "group 1 has no rank");
  EXPECT_HAS(errorOf({0, 4}, {{{0, 1}, {2, 3}}, {{0, 1}}}), "has 2 ranks, the first one 4");
  EXPECT_HAS(errorOf({0, 1}, Topologies(17, {{0}})), "17 replica groups");
}

TEST(ReplicaGroups, ThatAreWrongAreWrongOnEveryRank) {
  for (uint32_t me = 0; me < 4; me++) {
    EXPECT_HAS(errorOf({me, 4}, {{{0, 1}, {2, 2, 3}}}), "names rank 2 twice");
  }
}

TEST(ReplicaGroups, FollowTheDebugSwitches) {
  const encGroupSet topology{{3, 0, 2}, {1}};
  const auto sorted = encParseReplicaGroup({0, 4}, topology, 0, 1, {.sortGroups = true});
  EXPECT_EQ(sorted.value().participants, (std::vector<uint32_t>{0, 2, 3}));
  EXPECT_EQ(sorted.value().rank, 0);
  EXPECT_EQ(sorted.value().bootstrap_participants, (std::vector<uint32_t>{3, 0, 2}));
  EXPECT_EQ(sorted.value().bootstrap_rank, 1);
  const auto alone = encParseReplicaGroup({2, 4}, topology, 0, 1, {.forceSingleRank = true});
  EXPECT_EQ(alone.value().participants, std::vector<uint32_t>{2});
  EXPECT_EQ(alone.value().rank, 0);
}

TEST(GroupsFile, IsReadInAllItsForms) {
  const auto groups = encParseGroupsFile(
      R"({"replica_groups": [[[0,1],[2,3]],[[0,2],[1,3]]],
          "src_target_pairs": [[[0,1],[1,0],[2,2]],[[3,3]]], "#rank_world_size": 4})",
      "g.json");
  ASSERT_TRUE(groups.ok()) << groups.error().message;
  encGroupsFile expected;
  expected.replicaGroups = {{{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}};
  expected.srcTargetPairs = {{{0, 1}, {1, 0}, {2, 2}}, {{3, 3}}};
  expected.worldSize = 4;
  EXPECT_EQ(groups.value(), expected);

  const auto brief = encParseGroupsFile(
      R"({"replica_groups": [[0,1],[2,3]], "src_target_pairs": [[0,1],[1,0]]})", "g.json");
  ASSERT_TRUE(brief.ok()) << brief.error().message;
  EXPECT_EQ(brief.value().replicaGroups, (Topologies{{{0, 1}, {2, 3}}}));
  EXPECT_EQ(brief.value().srcTargetPairs, (std::vector<encPairSet>{{{0, 1}, {1, 0}}}));
  EXPECT_EQ(brief.value().smallestWorld(), 4U);

  const auto everybody = encParseGroupsFile(R"({"replica_groups": [[]]})", "g.json");
  ASSERT_TRUE(everybody.ok());
  EXPECT_EQ(encGroupsOf(everybody.value(), "g.json", {1, 3}).value().replica_groups[0].rank_n, 3);
}

TEST(GroupsFile, SaysWhereItIsWrong) {
  const auto error = [](const std::string& text) {
    const auto groups = encParseGroupsFile(text, "g.json");
    return groups.ok() ? "" : groups.error().message;
  };
  EXPECT_HAS(error(R"({"replica_groups": [[[0,1]], "x": 1})"), "g.json: no JSON");
  EXPECT_HAS(error(R"([1])"), "g.json: the whole is [1]; an object {...} is wanted");
  EXPECT_HAS(error(R"({"replica_groups": [[0]], "groups": []})"),
             "g.json: unknown key \"groups\"; known are replica_groups, src_target_pairs");
  EXPECT_HAS(error(R"({"replica_groups": [[0]], "replica_groups": [[1]]})"),
             "key \"replica_groups\" is there twice");
  EXPECT_HAS(error(R"({"replica_groups": [[[0,-1]]]})"),
             "g.json: replica_groups[0][0][1] is -1; a rank, a number from 0 on is wanted");
  EXPECT_HAS(error(R"({"replica_groups": [[[0,4294967296]]]})"), "[0][0][1] is 4294967296");
  EXPECT_HAS(error(R"({"replica_groups": [[[0,1.5]]]})"), "[0][0][1] is 1.5");
  EXPECT_HAS(error(R"({"replica_groups": [[0],[[1]]]})"), "replica_groups[1][0] is [1]");
  EXPECT_HAS(error(R"({"replica_groups": "all"})"), "a list of topologies is wanted");
  EXPECT_HAS(error(R"({"src_target_pairs": [[[0,1,2]]]})"),
             "src_target_pairs[0][0] is [0,1,2]; a pair [source, target] is wanted");
  EXPECT_HAS(error(R"({"#rank_world_size": 4})"), "neither replica_groups nor src_target_pairs");
  EXPECT_HAS(error(R"({"replica_groups": [[0,4]], "#rank_world_size": 4})"),
             "#rank_world_size is 4, and the file names rank 4");
  EXPECT_HAS(
      error(R"({"replica_groups": )" + std::string(100000, '[') + std::string(100000, ']') + "}"),
      "brackets within more than 6 others");
  EXPECT_HAS(error(std::string("{\"\xff\": 1}")), "g.json: no JSON");
}

TEST(GroupsFile, NamesItselfGroupRankAndRuleOfWhatItsGroupsGetWrong) {
  const auto error = [](const std::string& text, const enc_glb_comm& global) {
    const auto file = encParseGroupsFile(text, "g.json");
    EXPECT_TRUE(file.ok());
    const auto groups = encGroupsOf(file.value(), "g.json", global);
    return groups.ok() ? "" : groups.error().message;
  };
  EXPECT_HAS(error(R"({"replica_groups": [[0,1],[2,2]]})", {0, 4}),
             "g.json: replica groups (0/1): group 1 names rank 2 twice; a rank is in it once");
  EXPECT_HAS(error(R"({"replica_groups": [[0,1],[2,3]]})", {4, 5}),
             "g.json: replica groups (0/1) does not have myself 4");
  EXPECT_HAS(error(R"({"replica_groups": [[0,1],[2,9]]})", {0, 4}), "group 1 names rank 9");
  EXPECT_HAS(error(R"({"replica_groups": [[0,1]], "#rank_world_size": 8})", {0, 4}),
             "g.json: rank 0 of a world of 4; the groups need a world of 8");
  EXPECT_HAS(error(R"({"src_target_pairs": [[0,1],[1,0]]})", {2, 3}),
             "g.json: Failed to parse replica group generated from source_target_pairs 0");
}

TEST(GroupsFile, SurvivesAnyDamage) {
  const std::string text =
      R"({"replica_groups": [[[0,1],[2,3]]], "src_target_pairs": [[[0,1],[1,0]]]})";
  std::mt19937 random(1);
  int read = 0;
  for (int trial = 0; trial < 3000; trial++) {
    std::string damaged = text;
    for (uint32_t i = 0; i <= random() % 3; i++) {
      damaged[random() % damaged.size()] = "[]{},:\"0129- x\x80"[random() % 15];
    }
    const auto groups = encParseGroupsFile(damaged, "g.json");
    if (groups.ok()) {
      read++;
      (void)encGroupsOf(groups.value(), "g.json", {0, groups.value().smallestWorld()}).ok();
    } else {
      EXPECT_HAS(groups.error().message, "g.json: ");
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace nccom
