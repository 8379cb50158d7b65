#include "enc/direct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <utility>

#include "misc/datatype.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::World;
using testing::HasSubstr;

const std::vector<encOp> kOps{encOp::AllReduce,     encOp::Reduce,    encOp::Broadcast,
                              encOp::ReduceScatter, encOp::AllGather, encOp::AlltoAll};

World ranks(int n) {
  return World{{n}, 1};
}

encOperation composed(const World& world, const encTask& task) {
  return test::composeAll(world, task, encComposeDirect);
}

bool mayBeInPlace(encOp op) {
  return op != encOp::AlltoAll;
}

TEST(Direct, ComputesWhatNcclDoes) {
  uint64_t seed = 0;
  for (const int n : {1, 2, 3, 5, 8, 17, 70}) {
    for (const encOp op : kOps) {
      for (const uint64_t count : {0, 1, 7, 64, 1000}) {
        for (const ncclRedOp_t redOp : {ncclSum, ncclAvg, ncclMax}) {
          if (n > 8 && redOp != ncclAvg) continue;
          const encTask task =
              test::collective(op, count, seed % 2 ? ncclInt32 : ncclInt8, redOp, n * 2 / 3);
          const bool inPlace = seed++ % 2 == 0 && mayBeInPlace(op);
          ASSERT_EQ(test::check(ranks(n), composed(ranks(n), task), seed, inPlace), "")
              << test::label(ranks(n), task) << (inPlace ? " in place" : "");
        }
      }
    }
  }
}

TEST(Direct, EndsInEveryOrderOfEvents) {
  for (const encOp op : kOps) {
    const encOperation operation = composed(ranks(5), test::collective(op, 50, ncclInt32));
    for (uint64_t seed = 0; seed < 50; seed++)
      ASSERT_EQ(test::check(ranks(5), operation, seed), "") << encOpName(op) << " seed " << seed;
  }
}

TEST(Direct, IsVerifiedForEveryNumberOfRanks) {
  for (int n = 1; n <= 72; n += n < 18 ? 1 : 9) {
    for (const encOp op : kOps) {
      for (const uint64_t count : {1, 37, 5000}) {
        const encTask task = test::collective(op, count, ncclFloat32, ncclAvg, n - 1);
        for (const bool inPlace : {false, true}) {
          if (inPlace && !mayBeInPlace(op)) continue;
          const encOperation operation = composed(ranks(n), task);
          ASSERT_EQ(test::verified(ranks(n), {operation, operation}, inPlace), "")
              << test::label(ranks(n), task) << (inPlace ? " in place" : "");
        }
      }
    }
  }
}

TEST(Direct, FollowsAndPrecedesOtherOperations) {
  const World world = ranks(6);
  std::vector<encOperation> sequence;
  for (int turn = 0; turn < 24; turn++) {
    const encTask task = test::collective(kOps[static_cast<size_t>(turn * 5) % kOps.size()],
                                          turn % 3 == 0 ? 1000 : 3, ncclInt32, ncclSum, turn % 6);
    sequence.push_back(composed(world, task));
    sequence.push_back(turn % 2 == 0 ? test::composeAll(world, task) : sequence.back());
  }
  EXPECT_EQ(test::verified(world, sequence), "");
}

/// Bytes that all transfers read, and write.
std::pair<uint64_t, uint64_t> traffic(const encOperation& operation) {
  std::pair<uint64_t, uint64_t> total;
  for (const encProgram& program : operation) {
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks) {
        for (const encDesc& desc : block.descs) {
          total.first += block.repeat * desc.bytes * desc.sources.size();
          total.second += block.repeat * desc.bytes * desc.destinations.size();
        }
      }
    }
  }
  return total;
}

TEST(Direct, TouchesMemoryAsOftenAsItSays) {
  const uint64_t n = 6, count = 1200;
  const uint64_t message = count * 4, whole = n * message;
  const auto of = [&](encOp op) {
    return traffic(composed(ranks(static_cast<int>(n)), test::collective(op, count)));
  };
  using Bytes = std::pair<uint64_t, uint64_t>;
  EXPECT_EQ(of(encOp::AllReduce), Bytes(n * message, n * message));
  EXPECT_EQ(of(encOp::Reduce), Bytes(n * message, message));
  EXPECT_EQ(of(encOp::Broadcast), Bytes(message, n * message));
  EXPECT_EQ(of(encOp::ReduceScatter), Bytes(n * whole, whole));
  EXPECT_EQ(of(encOp::AllGather), Bytes(whole, n * whole));
  EXPECT_EQ(of(encOp::AlltoAll), Bytes(n * whole, n * whole));
}

TEST(Direct, SlicesShareNoLines) {
  for (const uint64_t count : {1, 100, 4097}) {
    for (const encProgram& program :
         composed(ranks(7), test::collective(encOp::AllReduce, count, ncclInt8))) {
      for (const encQueue& queue : program.queues) {
        for (const encBlock& block : queue.blocks) {
          for (const encDesc& desc : block.descs) {
            if (desc.type != encDescType::Transfer) continue;
            EXPECT_EQ(desc.destinations[0].offset % 64, 0);
          }
        }
      }
    }
  }
}

// Few ranks tell all others that they are through, more go in rounds.
TEST(Direct, NeverComposesMoreDescriptorsThanTheMeetingAsks) {
  for (const int n : {2, 8, 64, 1000}) {
    const World world = ranks(n);
    const encProgram program =
        encComposeDirect(world.info(1), test::collective(encOp::AllReduce, 1 << 20)).value();
    size_t descs = 0;
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks)
        descs += block.descs.size();
    }
    const auto others = static_cast<unsigned>(n - 1);
    const size_t heard = n <= 8 ? others : static_cast<size_t>(std::bit_width(others));
    const auto transfers = static_cast<size_t>(n > 64 ? 2 * (n / 63 + 1) : 1);
    EXPECT_LE(descs, 2 * heard + transfers) << n;
  }
}

// Copies of INPUTs need no goodbye, and roots wait for nobody.
TEST(Direct, ShortMessagesTakeOneExchange) {
  for (const encOp op : kOps) {
    for (const encProgram& program :
         composed(ranks(4), test::collective(op, 8, ncclInt32, ncclSum, 2))) {
      const bool isRoot = program.rank == 2;
      EXPECT_TRUE(program.totals.empty()) << encOpName(op);
      EXPECT_FALSE(program.peerOutputs) << encOpName(op);
      EXPECT_EQ(program.inputByValue, op != encOp::Broadcast || isRoot) << encOpName(op);
      EXPECT_EQ(program.queues.empty(), op == encOp::Reduce && !isRoot) << encOpName(op);
    }
  }
  const encOperation longer = composed(ranks(4), test::collective(encOp::AllReduce, 129));
  EXPECT_FALSE(longer[0].inputByValue);
  const encOperation many = composed(ranks(17), test::collective(encOp::AllReduce, 1));
  EXPECT_FALSE(many[0].inputByValue);
}

TEST(Direct, ValuesAreShort) {
  encOperation operation = composed(ranks(2), test::collective(encOp::AllReduce, 200));
  operation[1].inputByValue = true;
  EXPECT_THAT(test::verified(ranks(2), {operation}),
              HasSubstr("rank 1 gives 800 bytes of INPUT by value: at most 512"));
}

TEST(Direct, SaysWhatItCannotDo) {
  const auto message = [](const World& world, const encTask& task) {
    const auto program = encComposeDirect(world.info(0), task);
    return program.ok() ? "" : program.error().message;
  };
  EXPECT_THAT(message(World{{2, 2}}, test::collective(encOp::AllReduce, 1)),
              HasSubstr("direct: rank 2 shares no memory with rank 0"));
  EXPECT_THAT(message(ranks(2), test::collective(encOp::Gather, 1)),
              HasSubstr("direct: Gather: want AllReduce"));
  EXPECT_THAT(
      message(ranks(2), test::collective(encOp::AllReduce, 1, ncclFloat32, kRedOpPreMulSum)),
      HasSubstr("PreMulSum multiplies by a scalar of each rank"));
}

}  // namespace
}  // namespace nccom
