// Groups of sends and receives: right bytes in every order of events, matching over groups.
#include <gtest/gtest.h>

#include <random>

#include "enc/layout.h"
#include "enc/select.h"
#include "enc/verify.h"
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

// Nobody waits for the reader of a short message: its sender ends, and its buffer is rubbish then.
TEST(Messages, ShortOnesOutliveTheProgramOfTheirSender) {
  const World world{{2}};
  std::vector<encTask> sends = emptyGroups(world), recvs = emptyGroups(world);
  constexpr int kMessages = kMaxPostedValues;
  for (uint16_t i = 0; i < kMessages; i++) {
    sends[0].sends.push_back({1, 16, i});
    recvs[1].recvs.push_back({0, 16, i});
  }
  for (uint64_t seed = 0; seed < 20; seed++) {
    // Rank 1 receives in its second group, so that rank 0 must have ended its first without it.
    std::vector<test::Launch> launches{
        test::makeLaunch(world, test::composeAll(world, sends), false),
        test::makeLaunch(world, test::composeAll(world, recvs), false)};
    for (const encProgram& program : launches[0].programs) {
      EXPECT_TRUE(program.totals.empty());
      EXPECT_FALSE(program.peerInputs);
    }
    const auto inputs = launches[0].inputs[0];
    ASSERT_EQ(test::interpret(world, launches, seed).error, "") << seed;
    EXPECT_EQ(launches[1].outputs[1], inputs);
  }
}

TEST(Messages, TheLastByteDecidesWhetherOneGoesByValue) {
  const World world{{2}};
  for (const uint64_t bytes : {uint64_t{0}, kMaxValueBytes, kMaxValueBytes + 1}) {
    std::vector<encTask> tasks = emptyGroups(world);
    message(tasks, 0, 1, bytes);
    const bool byValue = bytes <= kMaxValueBytes;
    const encOperation operation = test::composeAll(world, tasks);
    const std::vector<encDesc>& posts = operation[0].queues[0].blocks[0].descs;
    EXPECT_EQ(posts[0].byValue, byValue) << bytes;
    EXPECT_EQ(posts.size(), byValue ? 1u : 2u) << bytes;
    EXPECT_EQ(operation[0].totals.empty(), byValue) << bytes;
    EXPECT_EQ(operation[1].queues[0].blocks[0].descs.size(), byValue ? 1u : 2u) << bytes;
    EXPECT_TRUE(operation[1].totals.empty());
  }
}

// More than have room: posts wait until the receiver has read earlier ones.
TEST(Messages, ManyOfBothKindsAreReadLate) {
  const World world{{2}};
  for (const uint64_t step : {1, 2, 9}) {
    std::vector<encTask> tasks = emptyGroups(world);
    for (uint64_t i = 0; i < 150; i++) {
      message(tasks, 0, 1, i % step == 0 ? 24 : 600);
      message(tasks, 1, 0, i % step == 0 ? 700 : 3);
    }
    for (uint64_t seed = 0; seed < 10; seed++)
      ASSERT_EQ(run(world, {tasks, tasks}, seed), "") << step << " seed " << seed;
    const std::vector<encOperation> twice(2, test::composeAll(world, tasks));
    const Status status = encVerify(world.info(0), twice);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
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
