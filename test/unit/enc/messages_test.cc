// Groups of sends and receives: right bytes in every order of events, matching over groups.
#include <gtest/gtest.h>

#include <random>

#include "enc/select.h"
#include "test/unit/enc/reference.h"

namespace nccom {
namespace {

using test::World;

constexpr encSizes kTiny{256, 256};

std::vector<encTask> emptyGroups(const World& world) {
  encTask task;
  task.op = encOp::SendRecv;
  task.type = ncclInt8;
  return std::vector<encTask>(world.rank_n(), task);
}

void message(std::vector<encTask>& tasks, int from, int to, uint64_t bytes) {
  tasks[from].sends.push_back({to, bytes, static_cast<uint16_t>(tasks[from].sends.size())});
  tasks[to].recvs.push_back({from, bytes, static_cast<uint16_t>(tasks[to].recvs.size())});
}

std::string run(const World& world, const std::vector<std::vector<encTask>>& groups,
                uint64_t seed) {
  std::vector<test::Launch> launches;
  for (const auto& tasks : groups) {
    launches.push_back(test::makeLaunch(world, test::composeAll(world, tasks), false));
  }
  const std::vector<test::Launch> before = launches;
  const test::RunResult result = test::interpret(world, launches, seed);
  if (!result.error.empty()) return result.error;
  // Messages match over all groups, so one launch of all messages is what to compare with.
  for (size_t i = 0; i < launches.size() && groups.size() == 1; i++) {
    const std::string wrong = test::compare(world, before[i], launches[i]);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST(Messages, RandomGroupsArriveInEveryOrderOfEvents) {
  for (const World& world :
       {World{{4}}, World{{2, 2}, 1, kTiny}, World{{3, 1, 1}, 1, kTiny}, World{{1}, 0}}) {
    for (uint64_t seed = 0; seed < 60; seed++) {
      std::mt19937_64 random(seed);
      std::vector<encTask> tasks = emptyGroups(world);
      const int n = world.rank_n();
      for (uint64_t i = random() % 40; i > 0; i--) {
        const uint64_t bytes = random() % 4 == 0 ? 0 : random() % (i % 5 == 0 ? 3000 : 90);
        message(tasks, static_cast<int>(random() % n), static_cast<int>(random() % n), bytes);
      }
      ASSERT_EQ(run(world, {tasks}, seed), "") << world.text() << " seed " << seed;
    }
  }
}

TEST(Messages, MoreThanFitThePostsOfAPeerGoInWaves) {
  const World world{{3}};
  std::vector<encTask> tasks = emptyGroups(world);
  for (uint64_t i = 0; i < 200; i++) {
    message(tasks, 0, 1, i % 3);
    message(tasks, 1, 0, 5);
    if (i % 2 == 0) message(tasks, 1, 2, 7);
    if (i % 3 == 0) message(tasks, 2, 0, 9);
  }
  for (uint64_t seed = 0; seed < 20; seed++)
    ASSERT_EQ(run(world, {tasks}, seed), "") << seed;
}

// Rank 0 sends twice in one group, rank 1 receives in two groups of its own.
TEST(Messages, MatchInOrderOverGroups) {
  for (const World& world : {World{{2}}, World{{1, 1}}}) {
    for (uint64_t seed = 0; seed < 50; seed++) {
      std::vector<encTask> first = emptyGroups(world), second = emptyGroups(world);
      first[0].sends = {{1, 8, 0}, {1, 16, 1}};
      first[1].recvs = {{0, 8, 0}};
      second[1].recvs = {{0, 16, 0}};
      std::vector<test::Launch> launches{
          test::makeLaunch(world, test::composeAll(world, first), false),
          test::makeLaunch(world, test::composeAll(world, second), false)};
      const auto inputs = launches[0].inputs[0];
      ASSERT_EQ(test::interpret(world, launches, seed).error, "")
          << world.text() << " seed " << seed;
      EXPECT_EQ(launches[0].outputs[1][0], inputs[0]);
      EXPECT_EQ(launches[1].outputs[1][0], inputs[1]);
    }
  }
}

TEST(Messages, ToOneselfMustMatchOneByOne) {
  encTask task;
  task.op = encOp::SendRecv;
  const World world{{1}, 0};
  task.sends = {{0, 8, 0}};
  const auto missing = encCompose(world.info(0), task);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ncclInvalidUsage);
  EXPECT_NE(missing.error().message.find("1 sends to itself, 0 receives"), std::string::npos);
  task.recvs = {{0, 4, 0}};
  const auto differs = encCompose(world.info(0), task);
  ASSERT_FALSE(differs.ok());
  EXPECT_NE(differs.error().message.find("8 bytes"), std::string::npos) << differs.error().message;
  EXPECT_NE(differs.error().message.find("4: want"), std::string::npos) << differs.error().message;
}

TEST(Messages, NameThePeerThatIsNoRank) {
  encTask task;
  task.op = encOp::SendRecv;
  task.sends = {{7, 8, 0}};
  const auto program = encCompose(World{{2}}.info(0), task);
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().message.find("peer 7: want 0 to 1"), std::string::npos)
      << program.error().message;
}

}  // namespace
}  // namespace nccom
