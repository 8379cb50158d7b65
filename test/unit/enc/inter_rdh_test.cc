#include "enc/inter_rdh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "enc/comm_shape.h"
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
  for (const int n : {2, 4, 8, 16}) {
    const World world = hosts(n);
    for (const encOp op : kOps) {
      for (const uint64_t count : {1, 7, 100, 1000, 6000}) {
        for (const bool inPlace : {false, true}) {
          if (n > 4 && count > 1000) continue;
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

TEST(InterRdh, RefusesOtherNumbersOfRanks) {
  const World world = hosts(12);
  const auto program = compose(world.info(0), test::collective(encOp::AllReduce, 4));
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.error().message, testing::HasSubstr("12 ranks"));
}

}  // namespace
}  // namespace nccom
