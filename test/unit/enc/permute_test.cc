#include "enc/permute.h"

#include <numeric>
#include <random>

#include "enc/select.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::World;

constexpr encSizes kTiny{256, 256};  // 64-byte slots

encTask permute(const encPairSet& pairs, uint64_t count, ncclDataType_t type = ncclInt32) {
  encTask task = test::collective(encOp::Permute, count, type);
  task.pairs = pairs;
  return task;
}

encTask along(encOp op, uint64_t count, ncclRedOp_t redOp = ncclSum) {
  return test::collective(op, count, ncclInt32, redOp);
}

encOperation composed(const World& world, const encTask& task) {
  return test::composeAll(world, task, encComposePermute);
}

const std::vector<World> kWorlds{
    {{1}, 0},           {{2}, 1},           {{5}, 2, kTiny},
    {{1, 1}, 1, kTiny}, {{3, 2}, 2, kTiny}, {{2, 2, 1}, 4, kTiny, true},
};

/// Some ranks in rings, by chance.
encPairSet pairsOf(int ranks, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> chosen(static_cast<size_t>(ranks));
  std::iota(chosen.begin(), chosen.end(), 0);
  std::shuffle(chosen.begin(), chosen.end(), random);
  chosen.resize(1 + random() % chosen.size());
  std::vector<uint32_t> targets = chosen;
  std::shuffle(targets.begin(), targets.end(), random);
  encPairSet pairs;
  for (size_t i = 0; i < chosen.size(); i++)
    pairs.push_back({chosen[i], targets[i]});
  return pairs;
}

TEST(Permute, MovesEachSourceToItsTarget) {
  for (const World& world : kWorlds) {
    for (uint64_t seed = 0; seed < 30; seed++) {
      const encTask task = permute(pairsOf(world.rank_n(), seed), 1 + seed * 41);
      const encOperation operation = composed(world, task);
      ASSERT_EQ(test::check(world, operation, seed), "") << test::label(world, task) << seed;
      ASSERT_EQ(test::verified(world, {operation}), "") << test::label(world, task) << seed;
    }
  }
}

TEST(Permute, GoesAlongTheRingWithoutPairs) {
  uint64_t seed = 0;
  for (const World& world : kWorlds) {
    for (const encOp op : {encOp::Permute, encOp::PermuteReduce}) {
      for (const uint64_t count : {0, 1, 17, 301, 3001}) {
        const encTask task = along(op, count);
        const encOperation operation = composed(world, task);
        ASSERT_EQ(test::check(world, operation, ++seed), "") << test::label(world, task);
        ASSERT_EQ(test::verified(world, {operation}), "") << test::label(world, task);
      }
    }
  }
}

TEST(Permute, ReducesWithEveryOperatorAndType) {
  const World world{{2, 1}, 1, kTiny};
  for (const ncclDataType_t type : {ncclInt8, ncclUint8, ncclInt64, ncclFloat32, ncclFloat64}) {
    for (const ncclRedOp_t op : {ncclSum, ncclProd, ncclMax, ncclMin}) {
      const encTask task = test::collective(encOp::PermuteReduce, 301, type, op);
      ASSERT_EQ(test::check(world, composed(world, task), 1), "") << test::label(world, task);
    }
  }
}

TEST(Permute, FollowsAndPrecedesOtherOperations) {
  for (const World& world : {World{{4}, 2, kTiny}, World{{2, 1, 1}, 2, kTiny}}) {
    for (uint64_t seed = 0; seed < 20; seed++) {
      std::vector<encOperation> sequence;
      std::vector<test::Launch> launches;
      for (uint64_t i = 0; i < 8; i++) {
        const uint64_t count = 1 + (seed + i * 37) % 200;
        const std::vector<encTask> tasks{
            permute(pairsOf(4, seed * 8 + i), count), along(encOp::PermuteReduce, count),
            along(encOp::AllReduce, count), along(encOp::AlltoAll, count),
            along(encOp::Permute, count)};
        sequence.push_back(
            test::composeAll(world, tasks[(seed + i * 3) % tasks.size()], encCompose));
        launches.push_back(test::makeLaunch(world, sequence.back(), false));
      }
      ASSERT_EQ(test::verified(world, sequence), "") << world.text() << " seed " << seed;
      const std::vector<test::Launch> before = launches;
      ASSERT_EQ(test::interpret(world, launches, seed).error, "")
          << world.text() << " seed " << seed;
      for (size_t i = 0; i < launches.size(); i++)
        ASSERT_EQ(test::compare(world, before[i], launches[i]), "") << i << " seed " << seed;
    }
  }
}

TEST(Permute, MovesTheBytesThatItPromises) {
  const auto accesses = [](const World& world, encOp op) {
    return test::memoryAccesses(composed(world, along(op, 1000)));
  };
  const World one{{4}, 1}, four{{1, 1, 1, 1}, 1, kTiny};
  EXPECT_EQ(accesses(one, encOp::Permute), 4U * 2 * 4000);
  EXPECT_EQ(accesses(one, encOp::PermuteReduce), 4U * 3 * 4000);
  EXPECT_EQ(accesses(four, encOp::Permute), 4U * 4 * 4000);
  EXPECT_EQ(accesses(four, encOp::PermuteReduce), 4U * 5 * 4000);
  for (const World& world : {one, four}) {
    std::vector<test::Launch> launches{
        test::makeLaunch(world, composed(world, along(encOp::Permute, 1000)), false)};
    EXPECT_EQ(test::interpret(world, launches, 1).sentBetweenRanks, 4U * 4000);
  }
}

TEST(Permute, DescriptorsDoNotGrowWithTheMessage) {
  const World world{{1, 1, 1}, 1};
  for (const encOp op : {encOp::Permute, encOp::PermuteReduce}) {
    const auto count = [&](uint64_t elements) {
      return test::descriptors(encComposePermute(world.info(1), along(op, elements)).value());
    };
    EXPECT_LE(count(100000000001), 2 * count(1000001));
    const encOperation operation = composed(world, along(op, 10000001));
    EXPECT_EQ(test::verified(world, {operation, operation}), "");
  }
}

TEST(Permute, WhoIsInNoPairHasNoProgram) {
  const encOperation operation = composed({{4}, 1}, permute({{1, 2}, {2, 1}}, 10));
  EXPECT_TRUE(operation[0].queues.empty());
  EXPECT_FALSE(operation[1].queues.empty());
  EXPECT_FALSE(operation[2].queues.empty());
  EXPECT_TRUE(operation[3].queues.empty());
}

TEST(Permute, IsChosenByItsOperation) {
  const World world{{3}, 1};
  EXPECT_EQ(encCompose(world.info(0), permute({{0, 1}, {1, 0}}, 4)).value().algorithm, "permute");
  EXPECT_STREQ(
      encAlgorithmName(encSelect(world.info(0), along(encOp::PermuteReduce, 1)).value().algorithm),
      "permute");
}

TEST(Permute, NamesTheRankAndTheRuleThatItBreaks) {
  const auto message = [](const encTask& task) {
    const auto program = encComposePermute(World{{4}, 1}.info(0), task);
    return program.ok() ? "" : program.error().message;
  };
  EXPECT_EQ(message(permute({{0, 1}, {1, 4}}, 1)), "Permute: pair [1,4] names rank 4: want 0 to 3");
  EXPECT_NE(message(permute({{0, 1}, {0, 2}}, 1)).find("rank 0 is a source twice"),
            std::string::npos);
  EXPECT_NE(message(permute({{0, 1}, {2, 1}}, 1)).find("rank 1 is a target twice"),
            std::string::npos);
  EXPECT_NE(message(permute({{0, 1}}, 1)).find("rank 1 is a target and never a source"),
            std::string::npos);
  encTask task = permute({{0, 1}, {1, 0}}, 1);
  task.op = encOp::PermuteReduce;
  EXPECT_EQ(message(task), "PermuteReduce: 2 pairs: it goes along the ring only, and takes none");
  EXPECT_EQ(message(along(encOp::PermuteReduce, 1, ncclAvg)),
            "PermuteReduce: operator avg: two inputs of 4 have no average over the ranks");
  EXPECT_EQ(message(along(encOp::PermuteReduce, 1, kRedOpPreMulSum)),
            "PermuteReduce: operator mulsum: a target folds the input of its source, whose scalar "
            "it does not know");
  EXPECT_EQ(message(along(encOp::AllReduce, 1)),
            "permute: AllReduce: want Permute or PermuteReduce");
}

}  // namespace
}  // namespace nccom
