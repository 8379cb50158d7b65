// What every composer must give: right values in every order of events, programs that a rank alone
// composes as all together would, and the traffic that its docstring promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "enc/comm_shape.h"
#include "enc/hier.h"
#include "enc/kangaring.h"
#include "enc/select.h"
#include "misc/datatype.h"
#include "test/unit/enc/mesh_worlds.h"

namespace nccom {
namespace {

using test::World;

constexpr encSizes kTiny{256, 256};  // 64-byte slots: many passes of few bytes
constexpr encSizes kSmall{4096, 1024};

std::string label(const World& world, const encTask& task) {
  return std::string(encOpName(task.op)) + " " + std::to_string(task.count) + " " +
         ncclTypeName(task.type) + " " + ncclOpName(task.redOp) + " root " +
         std::to_string(task.root) + ", " + world.text();
}

const std::vector<World> kWorlds{
    {{1}, 0},           {{2}, 1},
    {{3}, 2, kTiny},    {{5}, 3, kTiny},
    {{1, 1}, 1},        {{1, 1}, 2, kTiny},
    {{3, 2}, 2, kTiny}, {{2, 2, 1}, 4, kTiny},
    {{8}, 2, kSmall},   {{2, 2, 2, 2}, 3, kTiny, true},
};

TEST(Compose, EveryOpGivesTheRightValues) {
  uint64_t seed = 0;
  for (const World& world : kWorlds) {
    for (const encOp op : test::kCollectives) {
      for (const uint64_t count : {1, 2, 17, 64, 301, 1024, 3001}) {
        const int root = static_cast<int>(seed % world.rank_n());
        const encTask task = test::collective(op, count, ncclInt32, ncclSum, root);
        for (const bool inPlace : {false, true}) {
          if (inPlace && op == encOp::AlltoAll) continue;
          ASSERT_EQ(test::check(world, task, ++seed, inPlace), "")
              << label(world, task) << (inPlace ? " in place" : "") << " seed " << seed;
        }
      }
    }
  }
}

TEST(Compose, EveryOperatorAndTypeGivesTheRightValues) {
  const World world{{2, 1}, 2, kTiny};
  uint64_t seed = 0;
  for (const World& w : {world, World{{1}, 0}}) {
    for (const encOp op : {encOp::AllReduce, encOp::ReduceScatter, encOp::Reduce}) {
      for (const ncclDataType_t type :
           {ncclInt8, ncclUint8, ncclInt32, ncclInt64, ncclFloat32, ncclFloat64}) {
        for (int redOp = 0; redOp <= static_cast<int>(kRedOpPreMulSum); redOp++) {
          const encTask task = test::collective(op, 333, type, static_cast<ncclRedOp_t>(redOp), 0);
          ASSERT_EQ(test::check(w, task, ++seed), "") << label(w, task) << " seed " << seed;
        }
      }
    }
  }
}

TEST(Compose, EndsInEveryOrderOfEvents) {
  const World world{{2, 2}, 2, kTiny};
  for (const encOp op : test::kCollectives) {
    const encTask task = test::collective(op, 200, ncclInt32, ncclSum, 3);
    for (uint64_t seed = 0; seed < 125; seed++) {
      ASSERT_EQ(test::check(world, task, seed), "") << label(world, task) << " seed " << seed;
    }
  }
}

// Slots and semaphores are used over and over, by operations of every kind, with ranks far apart.
TEST(Compose, OperationsFollowOneAnother) {
  for (const World& world : {World{{4}, 2, kTiny}, World{{2, 1, 1}, 2, kTiny}}) {
    for (uint64_t seed = 0; seed < 20; seed++) {
      std::vector<test::Launch> launches;
      for (uint64_t i = 0; i < 10; i++) {
        const encOp op = test::kCollectives[(seed * 3 + i * 5) % test::kCollectives.size()];
        const encTask task = test::collective(op, (seed + i * 37) % 200, ncclInt32, ncclSum,
                                              static_cast<int>(i) % 4);
        launches.push_back(test::makeLaunch(world, test::composeAll(world, task), false));
      }
      const std::vector<test::Launch> before = launches;
      ASSERT_EQ(test::interpret(world, launches, seed).error, "")
          << world.text() << " seed " << seed;
      for (size_t i = 0; i < launches.size(); i++) {
        ASSERT_EQ(test::compare(world, before[i], launches[i]), "")
            << "operation " << i << ": " << label(world, before[i].programs[0].task) << " seed "
            << seed;
      }
    }
  }
}

/// Bytes between ranks, over all ranks: the closed forms of ring.h and p2p.h.
uint64_t promisedTraffic(const encTask& task, uint64_t n) {
  const uint64_t bytes = task.count * ncclTypeSize(task.type);
  switch (task.op) {
    case encOp::AllReduce:
      return 2 * (n - 1) * bytes;
    case encOp::AllGather:
    case encOp::ReduceScatter:
    case encOp::AlltoAll:
      return n * (n - 1) * bytes;
    case encOp::Broadcast:
    case encOp::Reduce:
    case encOp::Gather:
    case encOp::Scatter:
      return (n - 1) * bytes;
    case encOp::SendRecv:
    case encOp::Permute:
    case encOp::PermuteReduce:
      break;
  }
  return 0;
}

TEST(Compose, MovesTheBytesThatItPromises) {
  for (const World& world : kWorlds) {
    for (const encOp op : test::kCollectives) {
      const encTask task = test::collective(op, 999);
      std::vector<test::Launch> launches{
          test::makeLaunch(world, test::composeAll(world, task), false)};
      EXPECT_EQ(test::interpret(world, launches, 1).sentBetweenRanks,
                promisedTraffic(task, world.rank_n()))
          << label(world, task);
    }
  }
}

TEST(Compose, IsAFunctionOfItsArguments) {
  for (const World& world : kWorlds) {
    for (const encOp op : test::kCollectives) {
      const encTask task = test::collective(op, 4321);
      const auto together = test::composeAll(world, task);
      for (int rank = world.rank_n() - 1; rank >= 0; rank--) {
        EXPECT_EQ(encCompose(world.info(rank), task).value(), together[rank]);
      }
    }
  }
}

TEST(Compose, DescriptorsDoNotGrowWithTheMessage) {
  const auto descriptors = [](const World& world, const encTask& task) {
    size_t count = 0;
    const encProgram program = encCompose(world.info(1), task).value();
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks)
        count += block.descs.size();
    }
    return count;
  };
  for (const World& world : {World{{8}, 4}, World{{3, 2}, 2}}) {
    for (const encOp op : test::kCollectives) {
      const size_t large = descriptors(world, test::collective(op, 10000001));
      const size_t huge = descriptors(world, test::collective(op, 1000000000001));
      EXPECT_LE(huge, 2 * large) << label(world, test::collective(op, 0));
    }
  }
}

TEST(Select, SaysWhatItChoseAndWhy) {
  const auto choice = [](const World& world, encOp op) {
    return encSelect(world.info(0), test::collective(op, 1)).value();
  };
  EXPECT_EQ(choice({{2}}, encOp::AllReduce).algorithm, encAlgorithmOf(enc_alg_type::Ring));
  EXPECT_EQ(choice({{2}}, encOp::AlltoAll).algorithm, encAlgorithm::P2p);
  EXPECT_EQ(choice({{1}, 0}, encOp::AllReduce).algorithm, encAlgorithm::Copy);
  EXPECT_EQ(choice({{1}, 0}, encOp::AllReduce).why, "AllReduce: there is one rank");
}

TEST(Select, NamesTheArgumentThatIsWrong) {
  const auto message = [](const enc_comm_info& info, const encTask& task) {
    const auto program = encCompose(info, task);
    return program.ok() ? "" : program.error().message;
  };
  enc_comm_info info = World{{3}}.info(0);
  EXPECT_EQ(message(info, test::collective(encOp::Broadcast, 1, ncclInt8, ncclSum, 3)),
            "Broadcast: root 3: want 0 to 2");
  EXPECT_EQ(message(info, test::collective(encOp::AllGather, UINT64_MAX / 2, ncclInt32)),
            "AllGather: count 9223372036854775807 of 4 bytes on 3 ranks: too large");
  EXPECT_EQ(message(info, test::collective(encOp::AllReduce, 1, static_cast<ncclDataType_t>(12))),
            "AllReduce: data type 12: want 0 to 11");
  info.rings[0] = {0, 1, 1};
  EXPECT_EQ(message(info, test::collective(encOp::AllReduce, 1)),
            "ring 0 has rank 1 twice or out of range: want each of 3");
}

TEST(Select, LeavesScalarsOfRanksToRings) {
  World world;
  world.comm = encShapeComm({nullptr, 1, kNoPod, 8}, {{0, 1, 2, 3}}).value();
  const encTask task = test::collective(encOp::AllReduce, 100, ncclInt32, kRedOpPreMulSum);
  EXPECT_EQ(encSelect(world.info(0), task).value().algorithm, encAlgorithmOf(enc_alg_type::Ring));
  world.comm->options.forced = enc_alg_type::Mesh;
  EXPECT_THAT(encSelect(world.info(0), task).error().message,
              testing::HasSubstr("NCCOM_ALG names mesh, which reads the inputs of other ranks"));
}

// Whoever composes by an algorithm that reads the inputs of others, hears that it cannot.
TEST(Compose, MultipliesNoRanksInputByTheScalarOfAnother) {
  const World server = test::worldOf({"trn2.48xlarge", 1, 16});
  const World servers = test::worldOf({"trn1.32xlarge", 2, 16});
  const World chips = test::worldOf({"trn2.48xlarge", 1, 64});
  struct Case {
    World world;
    test::Composer compose;
    std::string name;
  };
  const std::vector<Case> cases{{server, test::meshComposer(), "mesh"},
                                {servers, encComposeHier, "hier"},
                                {chips, encComposeKangaring, "kangaring"}};
  for (const Case& c : cases) {
    for (const encOp op : {encOp::AllReduce, encOp::ReduceScatter}) {
      const auto program =
          c.compose(c.world.info(1), test::collective(op, 100, ncclFloat32, kRedOpPreMulSum));
      ASSERT_FALSE(program.ok()) << c.name;
      EXPECT_EQ(program.error().code, ncclInvalidArgument);
      EXPECT_THAT(program.error().message,
                  testing::HasSubstr(" by " + c.name +
                                     ": rank 1: PreMulSum multiplies by a scalar of each rank"));
      EXPECT_TRUE(c.compose(c.world.info(1), test::collective(op, 100, ncclFloat32, ncclAvg)).ok());
    }
    const encTask gather = test::collective(encOp::AllGather, 100, ncclInt8, kRedOpPreMulSum);
    EXPECT_TRUE(c.compose(c.world.info(1), gather).ok());
  }
}

}  // namespace
}  // namespace nccom
