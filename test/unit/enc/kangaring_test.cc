#include "enc/kangaring.h"

#include <numeric>

#include "enc/flat.h"
#include "enc/hier.h"
#include "enc/ring.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::World;

constexpr encSizes kTiny{256, 256, 1 << 16};  // 64-byte slots: many passes of few bytes
const std::vector<encOp> kOps{encOp::AllGather, encOp::ReduceScatter, encOp::AllReduce};

encOperation composed(const World& world, const encTask& task) {
  return test::composeAll(world, task, encComposeKangaring);
}

/// All groups of whole devices that have paths.
std::vector<World> allWorlds(encSizes sizes) {
  std::vector<World> worlds;
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    for (const int lnc : platform->lncs) {
      for (const int devices : {2, 3, 4, 6, 8, 16}) {
        // Large groups are slow to verify; machines alike in all that counts here need them once.
        const bool isLarge = platform->name == "trn2.48xlarge" || platform->name == "trn3.48xlarge";
        if (devices > platform->deviceCount() || (devices > 4 && !isLarge)) continue;
        World world = test::wholeDevices(std::string(platform->name), lnc, devices, sizes);
        if (!world.comm->kangaring.paths.empty()) worlds.push_back(std::move(world));
      }
    }
  }
  return worlds;
}

const World& pairs() {  // dies of two
  static const World world = test::wholeDevices("trn2.48xlarge", 2, 4, kTiny);
  return world;
}
const World& fours() {  // dies of four
  static const World world = test::wholeDevices("trn2.48xlarge", 1, 2, kTiny);
  return world;
}
const World& server() {
  static const World world = test::wholeDevices("trn2.48xlarge", 2, 16, {});
  return world;
}

TEST(Kangaring, VerifiesOnEveryMachine) {
  size_t programs = 0, worlds = 0;
  for (const World& world : allWorlds({1024, 256, 1 << 16})) {
    worlds++;
    for (const encOp op : kOps) {
      const encTask task = test::collective(op, 701, ncclInt32, ncclAvg);
      const encOperation operation = composed(world, task);
      ASSERT_EQ(test::verified(world, {operation}, worlds % 2 == 0), "")
          << test::label(world, task);
      programs += operation.size();
    }
  }
  EXPECT_GT(worlds, 45U);
  EXPECT_GT(programs, 4000U);
}

TEST(Kangaring, VerifiesForEverySizeAndSequence) {
  for (const World& world : {pairs(), fours()}) {
    for (const bool inPlace : {false, true}) {
      std::vector<encOperation> sequence;
      for (const encOp op : kOps) {
        for (const uint64_t count : {0, 1, 2, 17, 64, 301, 1024, 3001}) {
          const encTask task = test::collective(op, count, ncclInt32, ncclAvg);
          sequence.push_back(composed(world, task));
          ASSERT_EQ(test::verified(world, {sequence.back()}, inPlace), "")
              << test::label(world, task);
        }
      }
      EXPECT_EQ(test::verified(world, sequence, inPlace), "");
      std::reverse(sequence.begin(), sequence.end());
      EXPECT_EQ(test::verified(world, sequence, inPlace), "");
    }
  }
}

TEST(Kangaring, GivesTheRightValues) {
  uint64_t seed = 0;
  for (const World& world : {pairs(), fours()}) {
    for (const encOp op : kOps) {
      for (const uint64_t count : {1, 17, 301, 3001}) {
        for (const bool inPlace : {false, true}) {
          const encTask task = test::collective(op, count, ncclInt32);
          ASSERT_EQ(test::check(world, composed(world, task), ++seed, inPlace), "")
              << test::label(world, task) << " seed " << seed;
        }
      }
    }
  }
}

TEST(Kangaring, KnowsEveryOperatorAndType) {
  uint64_t seed = 0;
  for (const encOp op : {encOp::AllReduce, encOp::ReduceScatter}) {
    for (const ncclDataType_t type :
         {ncclInt8, ncclUint8, ncclInt32, ncclInt64, ncclFloat32, ncclFloat64}) {
      for (int redOp = 0; redOp < static_cast<int>(kRedOpPreMulSum); redOp++) {
        const encTask task = test::collective(op, 333, type, static_cast<ncclRedOp_t>(redOp), 0);
        ASSERT_EQ(test::check(fours(), composed(fours(), task), ++seed), "")
            << test::label(fours(), task) << " seed " << seed;
      }
    }
  }
}

TEST(Kangaring, EndsInEveryOrderOfEvents) {
  for (const encOp op : kOps) {
    const encOperation operation = composed(pairs(), test::collective(op, 200, ncclInt32));
    for (uint64_t seed = 0; seed < 50; seed++) {
      ASSERT_EQ(test::check(pairs(), operation, seed), "") << encOpName(op) << " seed " << seed;
    }
  }
}

/// n ranks on m dies: the table of kangaring.h, in bytes of the call's count.
uint64_t promisedAccesses(encOp op, uint64_t n, uint64_t m) {
  if (op == encOp::AllGather) return n * (n + m);
  if (op == encOp::ReduceScatter) return n * (n + 2 * m - 1);
  return 2 * n + 3 * (m - 1);
}
uint64_t ringAccesses(encOp op, uint64_t n) {
  if (op == encOp::AllGather) return n * (2 * n - 1);
  if (op == encOp::ReduceScatter) return n * (3 * n - 1);
  return 5 * n - 4;
}

TEST(Kangaring, TouchesMemoryAsOftenAsItPromises) {
  for (const World& world : {pairs(), fours(), server()}) {
    const auto n = static_cast<uint64_t>(world.rank_n());
    const uint64_t m = n / (world.comm->lnc == 1 ? 4 : 2);
    for (const encOp op : kOps) {
      const encTask task = test::collective(op, 5000);
      EXPECT_EQ(test::memoryAccesses(composed(world, task)), promisedAccesses(op, n, m) * 20000)
          << test::label(world, task);
      EXPECT_EQ(test::memoryAccesses(test::composeAll(world, task, encComposeRing)),
                ringAccesses(op, n) * 20000)
          << test::label(world, task);
    }
  }
}

TEST(Kangaring, SparesAPairOneAccessInFourAndTwoInSix) {
  const uint64_t pairsOfServer = 32, n = 64;
  const auto perPair = [&](encOp op, bool ring) {
    const encTask task = test::collective(op, 5000);
    const uint64_t bytes = test::memoryAccesses(
        ring ? test::composeAll(server(), task, encComposeRing) : composed(server(), task));
    return (bytes + n * pairsOfServer * 10000) / (n * pairsOfServer * 20000);  // nearest
  };
  EXPECT_EQ(perPair(encOp::AllGather, false), 3U);
  EXPECT_EQ(perPair(encOp::AllGather, true), 4U);
  EXPECT_EQ(perPair(encOp::ReduceScatter, false), 4U);
  EXPECT_EQ(perPair(encOp::ReduceScatter, true), 6U);
}

TEST(Kangaring, SecondariesOfAPathOnlyWait) {
  const NeuronKangaring& paths = server().comm->kangaring;
  const encTask task = test::collective(encOp::AllReduce, 10 << 20);
  const encOperation operation = composed(server(), task);
  size_t active = 0;
  for (int rank = 0; rank < server().rank_n(); rank++) {
    for (const encQueue& queue : operation[rank].queues) {
      bool moves = false;
      for (const encBlock& block : queue.blocks) {
        for (const encDesc& desc : block.descs)
          moves |= desc.type == encDescType::Transfer;
      }
      const auto& roles = paths.paths[queue.channel].roles;
      const auto role = std::find_if(roles.begin(), roles.end(),
                                     [&](const KangaringRole& r) { return r.rank == rank; });
      EXPECT_EQ(moves, role->isPrimary) << "rank " << rank << " path " << queue.channel;
      active += moves ? 1 : 0;
    }
    EXPECT_EQ(operation[rank].queues.size(), 4U);
  }
  EXPECT_EQ(active, 4U * 32U);
}

TEST(Kangaring, DescriptorsDoNotGrowWithTheMessage) {
  for (const encOp op : kOps) {
    const auto count = [&](uint64_t elements) {
      return test::descriptors(
          encComposeKangaring(server().info(1), test::collective(op, elements)).value());
    };
    EXPECT_LE(count(1000000000001), 2 * count(100000001)) << encOpName(op);
    const encTask task = test::collective(op, 100000001);
    EXPECT_EQ(test::verified(pairs(), {composed(pairs(), task)}), "") << encOpName(op);
  }
}

TEST(Kangaring, IsAFunctionOfItsArguments) {
  const encTask task = test::collective(encOp::AllReduce, 4321);
  const encOperation together = composed(fours(), task);
  for (int rank = fours().rank_n() - 1; rank >= 0; rank--)
    EXPECT_EQ(encComposeKangaring(fours().info(rank), task).value(), together[rank]);
}

// ---- as stages of a larger operation ----------------------------------------------------------

encPages pages(encBuffer buffer, uint64_t base) {
  encPages result;
  result.buffer = buffer;
  result.base = static_cast<int64_t>(base);
  return result;
}

/// AllReduce: a reduce-scatter into the work area, an all-gather from there; one queue.
Result<encProgram> twoStages(const enc_comm_info& info, const encTask& task) {
  encBuilder builder(info, task, "kangaring");
  encStage reduce = encFlatStage(info, task);
  const auto n = static_cast<uint64_t>(info.rank_n);
  reduce.op = encOp::ReduceScatter;
  reduce.partBytes = (task.count + n - 1) / n * reduce.elementBytes;
  reduce.output = pages(encBuffer::Scratch, reduce.workBegin);
  reduce.maxChannels = 1;
  reduce.mayLoop = false;
  encStage gather = reduce;
  gather.op = encOp::AllGather;
  gather.input = reduce.output;
  gather.output = pages(encBuffer::Output, 0);
  gather.scaleInputs = gather.divide = gather.first = false;
  encStageKangaring(builder, reduce, info.kangaring);
  encStageKangaring(builder, gather, info.kangaring);
  return std::move(builder).finish();
}

/// The same; the finished part goes to its place first, and the all-gather runs in place.
Result<encProgram> inPlaceStages(const enc_comm_info& info, const encTask& task) {
  encBuilder builder(info, task, "kangaring");
  encStage reduce = encFlatStage(info, task);
  const auto n = static_cast<uint64_t>(info.rank_n);
  reduce.op = encOp::ReduceScatter;
  reduce.partBytes = (task.count + n - 1) / n * reduce.elementBytes;
  reduce.output = pages(encBuffer::Scratch, reduce.workBegin);
  reduce.maxChannels = 1;
  reduce.mayLoop = false;
  encStage gather = reduce;
  gather.op = encOp::AllGather;
  gather.inPlace = true;
  gather.input = pages(encBuffer::Output, gather.part(info.rank).begin);
  gather.output = pages(encBuffer::Output, 0);
  gather.scaleInputs = gather.divide = gather.first = false;
  encStageKangaring(builder, reduce, info.kangaring);
  builder.transfer(builder.mainQueue(0), {.sources = {reduce.out(info.rank, 0)},
                                          .destinations = {gather.in(info.rank, 0)},
                                          .bytes = gather.part(info.rank).bytes});
  encStageKangaring(builder, gather, info.kangaring);
  return std::move(builder).finish();
}

/// AllReduce within the work area, as the stage between two others.
Result<encProgram> middleStage(const enc_comm_info& info, const encTask& task) {
  encBuilder builder(info, task, "kangaring");
  encStage stage = encFlatStage(info, task);
  const encAddress in{info.rank, encBuffer::Input}, out{info.rank, encBuffer::Output};
  const encAddress work = stage.work(stage.self, 0);
  const size_t queue = builder.mainQueue(0);
  builder.transfer(queue, {.sources = {in}, .destinations = {work}, .bytes = stage.messageBytes});
  stage.input = stage.output = pages(encBuffer::Scratch, stage.workBegin);
  stage.first = stage.mayLoop = false;
  stage.maxChannels = 1;
  encStageKangaring(builder, stage, info.kangaring);
  builder.transfer(queue, {.sources = {work}, .destinations = {out}, .bytes = stage.messageBytes});
  return std::move(builder).finish();
}

TEST(Kangaring, IsAStageOfOthers) {
  uint64_t seed = 0;
  for (const World& world : {pairs(), fours()}) {
    for (const auto& composer : {twoStages, inPlaceStages, middleStage}) {
      for (const bool inPlace : {false, true}) {
        std::vector<encOperation> sequence;
        for (const uint64_t count : {1, 17, 301, 3001}) {  // the first: parts without bytes
          const encTask task = test::collective(encOp::AllReduce, count, ncclInt32, ncclAvg);
          sequence.push_back(test::composeAll(world, task, composer));
          ASSERT_EQ(test::check(world, sequence.back(), ++seed, inPlace), "")
              << test::label(world, task) << " seed " << seed;
          sequence.push_back(composed(world, task));
        }
        EXPECT_EQ(test::verified(world, sequence, inPlace), "");
      }
    }
  }
}

TEST(Kangaring, IsTheInnerStageOfHierarchies) {
  std::vector<int> cores(16);
  std::iota(cores.begin(), cores.end(), 0);
  World world = test::shaped("trn2.48xlarge", 2, {cores, cores}, {4096, 4096, 16384});
  world.comm->options.allowed = uint64_t{1} << algBit(enc_alg_type::Hier, enc_comm_type::Inter);
  for (const enc_alg_type alg :
       {enc_alg_type::Ring, enc_alg_type::Kangaring, enc_alg_type::SingleCycleRing}) {
    world.comm->options.allowed |= uint64_t{1} << algBit(alg, enc_comm_type::Intra);
    world.comm->options.allowed |= uint64_t{1} << algBit(alg, enc_comm_type::Inter);
  }
  for (const bool inPlace : {false, true}) {
    std::vector<encOperation> sequence;
    for (const encOp op : {encOp::AllReduce, encOp::AllGather, encOp::ReduceScatter}) {
      for (const uint64_t count : {1, 200, 5000}) {
        const encTask task = test::collective(op, count, ncclInt32, ncclAvg);
        sequence.push_back(test::composeAll(world, task, encComposeHier));
        const encLayout layout = encLayout::of(*world.comm);
        const uint32_t first = layout.pipe(encPipeKind::Kangaring, 0).semaphores;
        EXPECT_TRUE(std::any_of(sequence.back()[0].totals.begin(), sequence.back()[0].totals.end(),
                                [&](const auto& total) {
                                  return total.first >= first &&
                                         total.first < first + kPipeSemaphores;
                                }))
            << "the kangaring is not chosen";
        ASSERT_EQ(test::check(world, sequence.back(), count, inPlace), "")
            << test::label(world, task);
      }
    }
    EXPECT_EQ(test::verified(world, sequence, inPlace), "");
  }
}

TEST(Kangaring, SharesQueuesWhenThereAreFew) {
  for (const int queues : {1, 2, 3}) {
    const auto few = [&](const enc_comm_info& info, const encTask& task) -> Result<encProgram> {
      encBuilder builder(info, task, "kangaring");
      encStage stage = encFlatStage(info, task);
      stage.maxChannels = queues;
      encStageKangaring(builder, stage, info.kangaring);
      return std::move(builder).finish();
    };
    const World world = test::wholeDevices("trn2.48xlarge", 2, 16, kTiny);
    std::vector<encOperation> sequence;
    for (const encOp op : kOps) {
      sequence.push_back(test::composeAll(world, test::collective(op, 301, ncclInt32), few));
      if (op == encOp::AllReduce) continue;  // not worth more than one path
      EXPECT_EQ(sequence.back()[5].queues.size(), static_cast<size_t>(queues));
    }
    EXPECT_EQ(test::verified(world, sequence), "") << queues;
  }
}

TEST(Kangaring, SaysWhyItCannotBe) {
  const auto message = [](const World& world, encOp op) {
    const auto program = encComposeKangaring(world.info(0), test::collective(op, 1));
    return program.ok() ? "" : program.error().message;
  };
  EXPECT_EQ(message(pairs(), encOp::Broadcast),
            "kangaring: Broadcast: want AllGather, ReduceScatter or AllReduce");
  EXPECT_EQ(message(test::wholeDevices("trn2.48xlarge", 2, 1), encOp::AllReduce),
            "kangaring: there is no path");
  EXPECT_EQ(
      message(test::shaped("trn2.48xlarge", 2, {{0, 1, 2, 3}, {0, 1, 2, 3}}), encOp::AllReduce),
      "kangaring: a group of 2 servers: want one");
  World broken = pairs();
  std::swap(broken.comm->kangaring.paths[1].roles[3].rank,
            broken.comm->kangaring.paths[1].roles[0].rank);
  broken.comm->kangaring.paths[1].roles[2].rank = broken.comm->kangaring.paths[1].roles[0].rank;
  EXPECT_NE(message(broken, encOp::AllReduce).find("twice or out of range: want each of 16"),
            std::string::npos);
  broken = pairs();
  broken.comm->kangaring.paths[0].roles[1].isPrimary = true;
  EXPECT_NE(message(broken, encOp::AllReduce).find("of dies that differ"), std::string::npos);
}

}  // namespace
}  // namespace nccom
