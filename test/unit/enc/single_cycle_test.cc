#include "enc/single_cycle.h"

#include <cstring>
#include <random>

#include "enc/hier.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::World;

/// One rank on each of so many servers.
World serversOf(int servers, encSizes sizes, const std::string& platform = "trn2.48xlarge") {
  return test::shaped(platform, 2, std::vector<std::vector<int>>(servers, {0}), sizes);
}

constexpr encSizes kTiny{256, 256, 4096};  // 64-byte slots: many windows of few bytes

encOperation composed(const World& world, const encTask& task) {
  return test::composeAll(world, task, encComposeSingleCycle);
}

TEST(SingleCycle, VerifiesForEverySizeAndSequence) {
  for (const int servers : {2, 3, 4, 5, 8, 16}) {
    const World world = serversOf(servers, kTiny);
    for (const bool inPlace : {false, true}) {
      std::vector<encOperation> sequence;
      for (const uint64_t count : {0, 1, 2, 17, 32, 33, 301, 1024}) {
        const encTask task = test::collective(encOp::AllReduce, count, ncclInt32, ncclAvg);
        sequence.push_back(composed(world, task));
        ASSERT_EQ(test::verified(world, {sequence.back()}, inPlace), "")
            << test::label(world, task);
      }
      EXPECT_EQ(test::verified(world, sequence, inPlace), "") << servers;
    }
  }
}

// More ranks than a transfer has sources: partial sums go to OUTPUT, which may be INPUT.
TEST(SingleCycle, FoldsMoreRanksThanATransferHasSources) {
  const World world = serversOf(66, {4096, 256, 1 << 16});
  for (const ncclRedOp_t op : {ncclAvg, kRedOpPreMulSum}) {
    const encTask task = test::collective(encOp::AllReduce, 70, ncclFloat64, op);
    const encOperation operation = composed(world, task);
    EXPECT_EQ(test::verified(world, {operation, operation}, true), "");
    EXPECT_EQ(test::check(world, operation, 7, true), "");
  }
}

TEST(SingleCycle, GivesTheRightValues) {
  uint64_t seed = 0;
  for (const int servers : {2, 5}) {
    const World world = serversOf(servers, kTiny);
    for (const ncclDataType_t type :
         {ncclInt8, ncclUint8, ncclInt32, ncclInt64, ncclFloat32, ncclFloat64}) {
      for (int op = 0; op <= static_cast<int>(kRedOpPreMulSum); op++) {
        for (const uint64_t count : {1, 301}) {
          const encTask task =
              test::collective(encOp::AllReduce, count, type, static_cast<ncclRedOp_t>(op));
          ASSERT_EQ(test::check(world, composed(world, task), ++seed, count > 1), "")
              << test::label(world, task) << " seed " << seed;
        }
      }
    }
  }
}

TEST(SingleCycle, EndsInEveryOrderOfEvents) {
  const World world = serversOf(4, kTiny);
  const encOperation operation =
      composed(world, test::collective(encOp::AllReduce, 200, ncclInt32));
  for (uint64_t seed = 0; seed < 100; seed++)
    ASSERT_EQ(test::check(world, operation, seed), "") << "seed " << seed;
}

// Sums of floats depend on their order: all ranks must fold in the same one, that of the ranks.
TEST(SingleCycle, GivesBitwiseEqualResultsInRankOrder) {
  const World world = serversOf(7, kTiny);
  const encTask task = test::collective(encOp::AllReduce, 301, ncclFloat32);
  std::vector<test::Launch> launches{test::makeLaunch(world, composed(world, task), false)};
  std::mt19937 random(1);
  std::normal_distribution<float> values(0, 1e3F);
  std::vector<float> sums(task.count, 0);
  for (auto& inputs : launches[0].inputs) {
    for (size_t i = 0; i < task.count; i++) {
      const float value = values(random);
      memcpy(&inputs[0][i * sizeof value], &value, sizeof value);
      sums[i] = &inputs == launches[0].inputs.data() ? value : sums[i] + value;
    }
  }
  ASSERT_EQ(test::interpret(world, launches, 3).error, "");
  for (const auto& outputs : launches[0].outputs)
    EXPECT_EQ(memcmp(outputs[0].data(), sums.data(), outputs[0].size()), 0);
}

TEST(SingleCycle, MovesTheBytesThatItPromises) {
  for (const uint64_t n : {2, 5, 8}) {
    const World world = serversOf(static_cast<int>(n), kTiny);
    const encOperation operation = composed(world, test::collective(encOp::AllReduce, 1000));
    EXPECT_EQ(test::memoryAccesses(operation), n * (2 * n + 2 * n - 1) * 4000);
    std::vector<test::Launch> launches{test::makeLaunch(world, operation, false)};
    EXPECT_EQ(test::interpret(world, launches, 1).sentBetweenRanks, n * (n - 1) * 4000);
  }
}

TEST(SingleCycle, DescriptorsDoNotGrowWithTheMessage) {
  const World world = serversOf(8, {});
  const auto count = [&](uint64_t elements) {
    const encTask task = test::collective(encOp::AllReduce, elements);
    return test::descriptors(encComposeSingleCycle(world.info(1), task).value());
  };
  EXPECT_LE(count(100000000001), 2 * count(10000001));
  const encTask task = test::collective(encOp::AllReduce, 10000001);
  EXPECT_EQ(test::verified(world, {composed(world, task)}, true), "");
}

TEST(SingleCycle, RunsWithinAPodWithoutTheNetwork) {
  encMachine machine;
  machine.platform = findPlatform("trn2u.48xlarge").value();
  machine.lnc = 2;
  machine.shape = findPodShape(*machine.platform, "X4").value();
  World world;
  world.comm = encShapeComm(machine, std::vector<std::vector<int>>(4, {5})).value();
  world.comm->sizes = kTiny;
  const encTask task = test::collective(encOp::AllReduce, 301, ncclInt32);
  const encOperation operation = composed(world, task);
  EXPECT_TRUE(operation[0].connections.empty());
  EXPECT_EQ(test::verified(world, {operation, operation}), "");
  EXPECT_EQ(test::check(world, operation, 5), "");
}

TEST(SingleCycle, IsTheOuterStageOfHierarchies) {
  World world = test::shaped("trn2.48xlarge", 2, std::vector<std::vector<int>>(5, {0, 1}),
                             {4096, 4096, 8192});
  world.comm->options.singleCycleRing = 1;
  world.comm->options.allowed = 0;
  for (const enc_alg_type alg :
       {enc_alg_type::Ring, enc_alg_type::Hier, enc_alg_type::SingleCycleRing}) {
    for (const enc_comm_type scope : {enc_comm_type::Intra, enc_comm_type::Inter})
      world.comm->options.allowed |= uint64_t{1} << algBit(alg, scope);
  }
  for (const bool inPlace : {false, true}) {
    std::vector<encOperation> sequence;
    for (const uint64_t count : {1, 200, 5000}) {
      const encTask task = test::collective(encOp::AllReduce, count, ncclInt32, ncclAvg);
      sequence.push_back(test::composeAll(world, task, encComposeHier));
      size_t folds = 0;  // of the servers
      for (const encDesc& desc : sequence.back()[0].queues[0].blocks[0].descs)
        folds += desc.sources.size() == 5 ? 1 : 0;
      EXPECT_GT(folds, 0U) << "the single cycle is not chosen";
      ASSERT_EQ(test::check(world, sequence.back(), count, inPlace), "")
          << test::label(world, task);
    }
    EXPECT_EQ(test::verified(world, sequence, inPlace), "");
  }
}

TEST(SingleCycle, SaysWhyItCannotBe) {
  const auto message = [](const World& world, encOp op) {
    const auto program = encComposeSingleCycle(world.info(0), test::collective(op, 1));
    return program.ok() ? "" : program.error().message;
  };
  EXPECT_EQ(message(serversOf(4, {}), encOp::AllGather),
            "single_cycle_ring: AllGather: want AllReduce");
  EXPECT_EQ(message(test::shaped("trn2.48xlarge", 2, {{0, 1}, {0, 1}}), encOp::AllReduce),
            "single_cycle_ring: 4 ranks on 2 servers: want one on each of at least two");
  EXPECT_EQ(message(serversOf(4, {4096, 256, 128}), encOp::AllReduce),
            "single_cycle_ring: 4 ranks and a work area of 128 bytes: want 64 for each");
}

}  // namespace
}  // namespace nccom
