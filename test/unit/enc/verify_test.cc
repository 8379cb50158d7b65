// The verifier accepts every program of the composers. The product of all parameters is sampled;
// with NCCOM_TEST_FULL=1 more of it is run.
#include "enc/verify.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "misc/datatype.h"
#include "test/unit/enc/worlds.h"

namespace nccom {
namespace {

using test::World;

constexpr encSizes kTiny{256, 256};
constexpr encSizes kSmall{2048, 1024};
constexpr encSizes kOdd{1000, 5000};  // not multiples of anything

bool full() {
  return getenv("NCCOM_TEST_FULL") != nullptr;
}

std::string verify(const World& world, const std::vector<encTask>& tasks,
                   const encVerifyOptions& options = {}) {
  std::vector<encOperation> operations;
  for (const encTask& task : tasks) {
    operations.push_back(test::composeAll(world, task));
    if (operations.back().empty()) return "not composed";
  }
  const Status status = encVerify(world.info(0), operations, options);
  return status.ok() ? "" : status.error().message;
}

std::string label(const World& world, const encTask& task) {
  return std::string(encOpName(task.op)) + " " + std::to_string(task.count) + " " +
         ncclTypeName(task.type) + " " + ncclOpName(task.redOp) + " root " +
         std::to_string(task.root) + ", " + world.text();
}

/// All operations with one of the parameters of everything else, which rotate.
class Sampler {
 public:
  void run(const World& world, const std::vector<uint64_t>& counts) {
    for (const encOp op : test::kCollectives) {
      for (const uint64_t count : counts) {
        const auto type = static_cast<ncclDataType_t>(turn_ % ncclNumTypes);
        const auto redOp = static_cast<ncclRedOp_t>(turn_ % (kRedOpPreMulSum + 1));
        const int root = static_cast<int>(turn_ * 7 % world.rank_n());
        const encTask task = test::collective(op, count, type, redOp, root);
        const bool inPlace = turn_ % 2 == 0;
        turn_++;
        ASSERT_EQ(verify(world, {task}, {inPlace, true}), "")
            << label(world, task) << (inPlace ? " in place" : "");
      }
    }
  }

 private:
  unsigned turn_ = 0;
};

std::vector<encSizes> sizes() {
  return {kTiny, encSizes{}, kSmall, kOdd};
}

TEST(Verify, AcceptsEveryNumberOfRanksOnOneHost) {
  Sampler sampler;
  for (int ranks = 1; ranks <= 64; ranks += full() || ranks < 9 ? 1 : 11) {
    const World world{{ranks}, ranks % 8 + 1, sizes()[ranks % 4], ranks % 3 == 0};
    sampler.run(world, {0, 1, 61, 1021});
  }
  for (int ranks = 1; ranks <= (full() ? 20 : 12); ranks++) {
    sampler.run(World{{ranks}, 1 + (64 - ranks) % 8, sizes()[ranks % 4]}, {10007, 1000003});
  }
}

TEST(Verify, AcceptsEveryShapeOfHosts) {
  Sampler sampler;
  const std::vector<std::vector<int>> hosts{{1, 1}, {2, 1},    {1, 2},       {3, 2},       {4, 4},
                                            {7, 1}, {1, 1, 1}, {1, 1, 1, 1}, {2, 3, 1, 2}, {5, 5}};
  for (size_t i = 0; i < hosts.size(); i++) {
    for (size_t s = 0; s < (full() ? 4 : 2); s++) {
      const World world{hosts[i], static_cast<int>(i % 8) + 1, sizes()[(i + s) % 4], i % 3 == 2};
      sampler.run(world, {1, 127, 4999, 100003});
    }
  }
  sampler.run(World{{33, 31}, 2, kSmall}, {1});
  sampler.run(World{{16, 16, 16, 16}, 2}, {1});
  sampler.run(World{{9, 8}, 2, kSmall}, {5003});
  sampler.run(World{{4, 4, 4, 4}, 2}, {5003});
  if (full()) sampler.run(World{{33, 31}, 2, kSmall}, {5003});
  if (full()) sampler.run(World{{16, 16, 16, 16}, 2}, {5003});
  if (full()) sampler.run(World{{32, 32}, 8}, {1, 5003});
}

TEST(Verify, AcceptsLargeMessagesAtTheCostOfSmallOnes) {
  for (const World& world : {World{{8}, 8}, World{{3, 2}, 4}}) {
    for (const encOp op : test::kCollectives) {
      for (const uint64_t count : {100'000'007ULL, 1'000'000'000'039ULL}) {
        const encTask task = test::collective(op, count, ncclFloat32, ncclAvg, 1);
        EXPECT_EQ(verify(world, {task}), "") << label(world, task);
      }
    }
  }
}

// Whatever a run with jumps accepts, a run of all iterations accepts.
TEST(Verify, AgreesWithItselfWithoutJumps) {
  for (const World& world : {World{{4}, 2, kTiny}, World{{2, 1}, 2, kTiny}}) {
    for (const encOp op : test::kCollectives) {
      for (const uint64_t count : {4001, 8009}) {
        for (const bool inPlace : {false, true}) {
          const encTask task = test::collective(op, count, ncclInt32, ncclSum, 1);
          EXPECT_EQ(verify(world, {task}, {inPlace, true}), "") << label(world, task);
          EXPECT_EQ(verify(world, {task}, {inPlace, false}), "") << label(world, task);
        }
      }
    }
  }
}

TEST(Verify, AcceptsOperationsThatFollowOneAnother) {
  for (const World& world : {World{{5}, 3, kTiny}, World{{2, 2}, 2, kTiny}, World{{3, 1}, 2}}) {
    for (uint64_t seed = 0; seed < (full() ? 40 : 6); seed++) {
      std::mt19937_64 random(seed);
      std::vector<encTask> tasks;
      for (int i = 0; i < 8; i++) {
        tasks.push_back(test::collective(test::kCollectives[random() % test::kCollectives.size()],
                                         random() % 1500, ncclInt32, ncclSum,
                                         static_cast<int>(random() % world.rank_n())));
      }
      ASSERT_EQ(verify(world, tasks), "") << world.text() << " seed " << seed;
    }
  }
}

TEST(Verify, AcceptsGroupsOfMessages) {
  for (const World& world :
       {World{{4}}, World{{2, 2}, 1, kTiny}, World{{1}, 0}, World{{3, 1, 1}}}) {
    for (uint64_t seed = 0; seed < (full() ? 200 : 25); seed++) {
      std::mt19937_64 random(seed);
      std::vector<encOperation> operations;
      for (int group = 0; group < 3; group++) {
        std::vector<encTask> tasks(world.rank_n(), test::collective(encOp::SendRecv, 0, ncclInt8));
        for (uint64_t i = random() % (seed == 0 ? 600 : 30); i > 0; i--) {
          encTask& from = tasks[random() % tasks.size()];
          encTask& to = tasks[random() % tasks.size()];
          const uint64_t bytes = random() % 5 == 0 ? 0 : random() % 3000;
          from.sends.push_back({static_cast<int>(&to - tasks.data()), bytes,
                                static_cast<uint16_t>(from.sends.size())});
          to.recvs.push_back({static_cast<int>(&from - tasks.data()), bytes,
                              static_cast<uint16_t>(to.recvs.size())});
        }
        operations.push_back(test::composeAll(world, tasks));
      }
      const Status status = encVerify(world.info(0), operations);
      ASSERT_TRUE(status.ok()) << world.text() << " seed " << seed << "\n"
                               << status.error().message;
    }
  }
}

// One rank may send in one group what the other receives in two.
TEST(Verify, MatchesMessagesOverGroups) {
  for (const World& world : {World{{2}}, World{{1, 1}}}) {
    std::vector<encTask> first(2, test::collective(encOp::SendRecv, 0)), second = first;
    first[0].sends = {{1, 8, 0}, {1, 16, 1}};
    first[1].recvs = {{0, 8, 0}};
    second[1].recvs = {{0, 16, 0}};
    const std::vector<encOperation> operations{test::composeAll(world, first),
                                               test::composeAll(world, second)};
    const Status status = encVerify(world.info(0), operations);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
}

}  // namespace
}  // namespace nccom
