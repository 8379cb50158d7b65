#include "enc/inter_rdh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "enc/comm_shape.h"
#include "enc/cost.h"
#include "enc/flat.h"
#include "enc/select.h"
#include "enc/verify.h"
#include "test/unit/enc/reference.h"
#include "test/unit/enc/worlds.h"

namespace nccom {
namespace {

using test::World;

const std::vector<encOp> kOps{encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather};

World hosts(int n, encSizes sizes = {1024, 1024, 8192}) {
  const encMachine machine{nullptr, 1, kNoPod, 1};
  World world;
  world.comm = encShapeComm(machine, encDealtCores(machine, n, n).value()).value();
  world.comm->sizes = sizes;
  return world;
}

Result<encProgram> compose(const enc_comm_info& info, const encTask& task) {
  encBuilder builder(info, task, "inter_rdh");
  TRY(encStageInterRdh(builder, encFlatStage(info, task)));
  return std::move(builder).finish();
}

TEST(InterRdh, WhatOneSendsItsPeerReceives) {
  for (int bits = 3; bits <= 12; bits++) {
    for (int r = 0; r < 1 << bits; r += bits < 8 ? 1 : 37) {
      for (int i = 0; i < bits; i++) {
        EXPECT_EQ(encRdhReduceIndices(r, i, bits, true),
                  encRdhReduceIndices(encRdhReducePeer(r, i), i, bits, false));
        EXPECT_NE(encRdhReduceIndices(r, i, bits, true),
                  encRdhReduceIndices(encRdhReducePeer(r, i), i, bits, true));
        EXPECT_EQ(encRdhGatherIndices(r, i, bits, true),
                  encRdhGatherIndices(encRdhGatherPeer(r, i, bits), i, bits, false));
      }
    }
  }
}

TEST(InterRdh, EndsWithItsOwnPartitionAndGathersAllFromIt) {
  for (int bits = 3; bits <= 12; bits++) {
    for (int r = 0; r < 1 << bits; r += bits < 8 ? 1 : 53) {
      std::set<int> held;
      for (int p = 0; p < 1 << bits; p++)
        held.insert(p);
      for (int round = 0; round < bits; round++) {
        for (const int p : encRdhReduceIndices(r, round, bits, true))
          EXPECT_EQ(held.erase(p), 1u);
        const std::vector<int> kept = encRdhReduceIndices(r, round, bits, false);
        EXPECT_EQ(held, std::set<int>(kept.begin(), kept.end()));
      }
      EXPECT_EQ(held, std::set<int>{r});
      for (int axis = 0; axis < bits; axis++) {
        const std::vector<int> given = encRdhGatherIndices(r, axis, bits, true);
        EXPECT_EQ(held, std::set<int>(given.begin(), given.end()));
        for (const int p : encRdhGatherIndices(r, axis, bits, false))
          EXPECT_TRUE(held.insert(p).second);
      }
      EXPECT_EQ(held.size(), size_t{1} << bits);
    }
  }
}

TEST(InterRdh, ComputesWhatNcclDoes) {
  for (const int n : {8, 16}) {
    const World world = hosts(n);
    for (const encOp op : kOps) {
      for (const uint64_t count : {1, 7, 100, 1000, 6000}) {
        for (const bool inPlace : {false, true}) {
          if (n > 8 && count > 1000) continue;
          const auto programs =
              test::composeAll(world, test::collective(op, count, ncclInt32, ncclAvg), compose);
          EXPECT_EQ(test::check(world, programs, count, inPlace), "")
              << world.text() << " " << encOpName(op) << " " << count;
        }
      }
    }
  }
}

TEST(InterRdh, IsVerifiedInSequences) {
  for (const int n : {8, 32}) {
    const World world = hosts(n);
    std::vector<encOperation> operations;
    for (const encOp op : kOps) {
      for (const uint64_t count : {3, 3000, 100000}) {
        if (n > 8 && count > 3000) continue;
        operations.push_back(test::composeAll(world, test::collective(op, count), compose));
      }
    }
    for (const bool inPlace : {false, true}) {
      const Status status = encVerify(world.info(0), operations, {.inPlace = inPlace});
      EXPECT_TRUE(status.ok()) << world.text() << ": " << status.error().message;
    }
  }
}

TEST(InterRdh, CostsAMemberLogarithmicallyManySteps) {
  for (const int n : {8, 64, 256}) {
    const World world = hosts(n, {});
    const encProgram program =
        compose(world.info(n - 1), test::collective(encOp::AllReduce, 1024)).value();
    size_t transfers = 0;
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks) {
        for (const encDesc& desc : block.descs)
          transfers += desc.type == encDescType::Transfer ? 1 : 0;
      }
    }
    const int bits = n == 8 ? 3 : n == 64 ? 6 : 8;
    EXPECT_LE(transfers, 4u * static_cast<unsigned>(bits));
  }
}

// The composer itself, and the gate before it: both have the same rule.
TEST(InterRdh, RefusesOtherNumbersOfRanks) {
  for (const int n : {2, 3, 4, 6, 7, 9, 12, 24, 63}) {
    World world = hosts(n);
    const auto program = compose(world.info(0), test::collective(encOp::AllReduce, 4));
    ASSERT_FALSE(program.ok()) << n;
    EXPECT_EQ(program.error().message, "inter_rdh: " + std::to_string(n) +
                                           " ranks from rank 0 on: want a power of two, 8 or more");
    world.comm->options.forced = enc_alg_type::InterRdh;
    const auto forced = encCompose(world.info(0), test::collective(encOp::AllReduce, 4));
    ASSERT_FALSE(forced.ok()) << n;
    EXPECT_THAT(forced.error().message, testing::HasSubstr("rank_n is a power of two, 8 or more"));
  }
}

// What peers exchange, and what the docstring promises of memory: all of a member's part but what
// is its own crosses the network once for each half.
TEST(InterRdh, MovesTheBytesThatItPromises) {
  for (const uint64_t n : {8, 16, 64}) {
    const World world = hosts(static_cast<int>(n), {4096, 1024, 1 << 20});
    for (const encOp op : kOps) {
      const uint64_t part = 64 * 5, message = n * part;
      const uint64_t count = op == encOp::AllReduce ? message : part;
      const test::Composer composer = compose;
      const encOperation operation =
          test::composeAll(world, test::collective(op, count, ncclInt8), composer);
      const encCost cost = encCostOf(world.info(0), operation).value();
      const uint64_t exchanged = n * (message - part);  // by all members, for each of the halves
      const uint64_t halves = op == encOp::AllReduce ? 2 : 1;
      EXPECT_EQ(cost.netBytes, halves * exchanged) << encOpName(op) << " " << n;
      // Transfers: the copy into a slot, and the fold of two or the copy out of a slot; networks
      // read and write slots once more. All-gather moves its own part on the way to a slot.
      const uint64_t own = op == encOp::AllGather ? message : 0;
      const uint64_t reads = (op == encOp::AllGather ? 2 : op == encOp::ReduceScatter ? 3 : 5);
      const uint64_t writes = 2 * halves;
      EXPECT_EQ(cost.readBytes, (reads + halves) * exchanged) << encOpName(op) << " " << n;
      EXPECT_EQ(cost.writtenBytes, (writes + halves) * exchanged + own)
          << encOpName(op) << " " << n;
    }
  }
}

}  // namespace
}  // namespace nccom
