#include "enc/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "enc/kangaring.h"
#include "enc/ring.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::collective;
using test::World;

encCost costOf(const World& world, const encOperation& operation,
               const encVerifyOptions& options = {}) {
  auto cost = encCostOf(world.info(0), operation, options);
  EXPECT_TRUE(cost.ok()) << cost.error().message;
  return cost.ok() ? std::move(cost).value() : encCost{};
}

encCost ringCost(const World& world, const encTask& task, const encVerifyOptions& options = {}) {
  return costOf(world, test::composeAll(world, task, encComposeRing), options);
}

// A part of an all-gather is copied once by its owner, then passed on n - 1 times, of which the
// first reads INPUT for both: 2 accesses a hop. A part of a reduce-scatter is sent, then n - 1
// times folded: 3 accesses a hop.
TEST(Cost, OfRingsIsTwoOrThreeAccessesAHop) {
  for (const int n : {2, 3, 8, 16}) {
    const World world{{n}, 2};
    const double hops = n - 1;
    EXPECT_DOUBLE_EQ(ringCost(world, collective(encOp::AllGather, 4096)).touches(), 2 * hops + 1);
    EXPECT_DOUBLE_EQ(ringCost(world, collective(encOp::ReduceScatter, 4096)).touches(),
                     3 * hops + 2);
    EXPECT_DOUBLE_EQ(ringCost(world, collective(encOp::AllReduce, 4096 * n)).touches(),
                     5.0 * n - 4);
  }
}

// The pair of ranks of a die, far from the ends of the path: 3 against 4 accesses of all-gather, 4
// against 6 of reduce-scatter.
TEST(Cost, OfKangaringsIsThreeAndFourAPair) {
  const World world = test::wholeDevices("trn2.48xlarge", 2, 16);
  const int n = world.rank_n(), pairs = n / 2;
  const auto pair = [&](encOp op, const test::Composer& composer) {
    const encTask task = collective(op, 4096);
    const encCost cost = costOf(world, test::composeAll(world, task, composer));
    return cost.touches() / pairs;
  };
  EXPECT_DOUBLE_EQ(pair(encOp::AllGather, encComposeKangaring), 3);
  EXPECT_DOUBLE_EQ(pair(encOp::AllGather, encComposeRing), 4 - 1.0 / pairs);
  EXPECT_DOUBLE_EQ(pair(encOp::ReduceScatter, encComposeKangaring), 4 - 1.0 / pairs);
  EXPECT_DOUBLE_EQ(pair(encOp::ReduceScatter, encComposeRing), 6 - 1.0 / pairs);
}

TEST(Cost, OfNetworksIsWhatRingsSay) {
  const int n = 5;
  const World world{std::vector<int>(n, 1), 2};
  const uint64_t bytes = 4000 * 4;
  const auto sent = [&](encOp op) { return ringCost(world, collective(op, 4000)).netBytes; };
  EXPECT_EQ(sent(encOp::AllReduce), 2u * (n - 1) * bytes);
  EXPECT_EQ(sent(encOp::AllGather), uint64_t{n} * (n - 1) * bytes);
  EXPECT_EQ(sent(encOp::ReduceScatter), uint64_t{n} * (n - 1) * bytes);
  EXPECT_EQ(sent(encOp::Broadcast), (n - 1) * bytes);
  EXPECT_EQ(sent(encOp::Reduce), (n - 1) * bytes);
}

TEST(Cost, OfLinksIsWhatRingsSay) {
  const World world = test::wholeDevices("trn2.48xlarge", 2, 16);
  const encCost cost = ringCost(world, collective(encOp::AllGather, 4096));
  ASSERT_TRUE(cost.hasLinks);
  EXPECT_EQ(cost.mostHops, 1);
  // All rings pass each device once: of their n hops 16 lead to another one.
  EXPECT_EQ(cost.linkBytes, 16u * 63 * 4096 * 4);
  EXPECT_LE(cost.mostLinkBytes * 16, cost.linkBytes);
}

// A chain passes one element on; on hosts of their own each hop is a copy out, a message and a copy
// in, and the next copy out.
TEST(Cost, StepsAreTheLongestChain) {
  for (const int n : {2, 3, 9}) {
    EXPECT_EQ(ringCost(World{{n}}, collective(encOp::Broadcast, 1)).steps, uint64_t(n) - 1);
    EXPECT_EQ(ringCost(World{{n}}, collective(encOp::Reduce, 1)).steps, uint64_t(n));
    EXPECT_EQ(ringCost(World{std::vector<int>(n, 1)}, collective(encOp::Broadcast, 1)).steps,
              2 * uint64_t(n) - 1);
  }
}

TEST(Cost, StepsOfLongBlocksAreThoseOfAllIterations) {
  for (const World& world : {World{{4}, 1, {256, 256}}, World{{2, 1}, 1, {256, 256}}}) {
    for (const encOp op : {encOp::Broadcast, encOp::Reduce, encOp::AllReduce, encOp::AllGather,
                           encOp::ReduceScatter}) {
      const encTask task = collective(op, 6001);
      const uint64_t all = ringCost(world, task, {.jump = false}).steps;
      const uint64_t jumped = ringCost(world, task).steps;
      EXPECT_NEAR(static_cast<double>(jumped), static_cast<double>(all),
                  0.02 * static_cast<double>(all))
          << encOpName(op) << " " << world.text();
    }
  }
}

TEST(Cost, CountsAllIterationsOfABlock) {
  const World world{{3}, 1, {256, 256}};
  const encOperation operation =
      test::composeAll(world, collective(encOp::Broadcast, 6000), encComposeRing);
  const encCost cost = costOf(world, operation);
  EXPECT_EQ(cost.readBytes + cost.writtenBytes, test::memoryAccesses(operation));
  EXPECT_GT(cost.transfers, cost.descriptors);
  EXPECT_EQ(cost.messageBytes, 24000u);
  EXPECT_EQ(cost.ranks, 3);
}

TEST(Cost, IsToldToPeopleAndPrograms) {
  const World world = test::wholeDevices("trn2.48xlarge", 2, 2);
  const encCost cost = ringCost(world, collective(encOp::AllGather, 64));
  EXPECT_THAT(cost.values(), testing::Contains(std::pair<std::string, std::string>(
                                 "touchesPerElement", std::to_string(2 * world.rank_n() - 1))));
  EXPECT_THAT(cost.text(), testing::HasSubstr("NeuronLink"));
}

TEST(Cost, IsOfGoodProgramsOnly) {
  const World world{{3}};
  encOperation operation = test::composeAll(world, collective(encOp::AllReduce, 100));
  operation[1].totals[0].second++;
  EXPECT_FALSE(encCostOf(world.info(0), operation).ok());
}

}  // namespace
}  // namespace nccom
