#include "enc/intra_rdh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "enc/comm_shape.h"
#include "enc/cost.h"
#include "enc/flat.h"
#include "enc/verify.h"
#include "graph/platform.h"
#include "test/unit/enc/reference.h"
#include "test/unit/enc/worlds.h"

namespace nccom {
namespace {

using test::World;

const std::vector<encOp> kOps{encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather};

World devices(const std::string& name, int lnc, int count, encSizes sizes = {1024, 1024, 8192}) {
  const NeuronPlatform* platform = findPlatform(name).value();
  const encMachine machine{platform, lnc, kNoPod, 0};
  std::vector<int> cores;
  // Devices that form a cube: those of the first routing ids.
  for (int id = 0; id < count; id++) {
    for (int core = 0; core < platform->logicalCores(lnc); core++) {
      const NeuronCore at = platform->coreAt(core, lnc);
      if (platform->devices[at.device].routingId == id) cores.push_back(core);
    }
  }
  World world;
  world.comm = encShapeComm(machine, {cores}).value();
  world.comm->sizes = sizes;
  return world;
}

Result<encProgram> compose(const enc_comm_info& info, const encTask& task) {
  encBuilder builder(info, task, "intra_rdh");
  const encStage stage = encFlatStage(info, task);
  const encRdhGeometry geometry = TRY(encRdhGeometryOf(info, stage.ranks));
  TRY(encStageIntraRdh(builder, stage, geometry));
  return std::move(builder).finish();
}

std::vector<World> worlds() {
  std::vector<World> all;
  for (const char* name : {"trn2.48xlarge", "trn3p.48xlarge"}) {
    for (const int lnc : {2, 1}) {
      for (const int count : {1, 2, 4})
        all.push_back(devices(name, lnc, count));
    }
  }
  all.push_back(devices("trn2.48xlarge", 2, 16));
  return all;
}

TEST(IntraRdh, ComputesWhatNcclDoes) {
  for (const World& world : worlds()) {
    for (const encOp op : kOps) {
      for (const uint64_t count : {1, 37, 700}) {
        for (const bool inPlace : {false, true}) {
          const auto programs =
              test::composeAll(world, test::collective(op, count, ncclInt32, ncclAvg), compose);
          EXPECT_EQ(test::check(world, programs, count, inPlace), "")
              << world.text() << " " << encOpName(op) << " " << count;
        }
      }
    }
  }
}

TEST(IntraRdh, IsVerifiedInSequences) {
  std::vector<World> all = worlds();
  all.push_back(devices("trn2.48xlarge", 1, 16));
  for (const World& world : all) {
    std::vector<encOperation> operations;
    for (const encOp op : kOps) {
      for (const uint64_t count : {3, 1000, 12000}) {
        if (count > 1000 && world.rank_n() > 16) continue;
        operations.push_back(test::composeAll(world, test::collective(op, count), compose));
      }
    }
    for (const bool inPlace : {false, true}) {
      const Status status = encVerify(world.info(0), operations, {.inPlace = inPlace});
      EXPECT_TRUE(status.ok()) << world.text() << ": " << status.error().message;
    }
  }
}

// The closed form of the header, for every shape; windows make no difference.
TEST(IntraRdh, MovesTheBytesThatItPromises) {
  std::vector<World> all = worlds();
  all.push_back(devices("trn2.48xlarge", 1, 16));
  for (const World& world : all) {
    const auto n = static_cast<uint64_t>(world.rank_n());
    const auto d = static_cast<uint64_t>(world.comm->situation.devices), l = n / d;
    const bool halves = world.comm->platform->family != NeuronFamily::Mariana;
    const uint64_t h = l >= 4 && halves ? 1 : 0, b = l == 8 ? 1 : 0;
    for (const encOp op : kOps) {
      const uint64_t part = 320, message = n * part;
      const encTask task = test::collective(op, op == encOp::AllReduce ? message : part, ncclInt8);
      const test::Composer composer = compose;
      const encCost cost =
          encCostOf(world.info(0), test::composeAll(world, task, composer)).value();
      uint64_t reads = n + d - 1, writes = d;
      if (op == encOp::AllGather) reads = 2 * d - 1 + (h + 4 * b) * d;
      if (op == encOp::AllReduce) reads = n + 3 * d - 3 + (h + 4 * b) * d;
      if (op == encOp::AllGather) writes = n;
      if (op == encOp::AllReduce) writes = n + d - 1;
      EXPECT_EQ(cost.readBytes, reads * message) << encOpName(op) << " " << world.text();
      EXPECT_EQ(cost.writtenBytes, writes * message) << encOpName(op) << " " << world.text();
      const uint64_t crossings = op == encOp::AllReduce ? 2 : 1;
      EXPECT_EQ(cost.linkBytes, crossings * (d - 1) * message) << encOpName(op) << world.text();
      EXPECT_EQ(cost.mostHops, d > 1 ? 1 : 0);
    }
  }
}

TEST(IntraRdh, MeetsLinkedDevicesOnly) {
  const World world = devices("trn2.48xlarge", 2, 16);
  const enc_comm_info info = world.info(0);
  std::vector<int> ranks(64);
  for (int rank = 0; rank < 64; rank++)
    ranks[rank] = rank;
  const encRdhGeometry geometry = encRdhGeometryOf(info, ranks).value();
  const NeuronFabric fabric = neuronFabric(*info.platform, info.lnc).value();
  for (int device = 0; device < geometry.devices(); device++) {
    for (int axis = 0; axis < geometry.axes; axis++) {
      const int here = geometry.memberAt[device][0];
      const int there = geometry.memberAt[device ^ 1 << axis][0];
      EXPECT_NE(fabric.link(info.peers[here].device, info.peers[there].device), nullptr);
    }
  }
}

TEST(IntraRdh, RefusesGroupsThatAreNoCube) {
  const auto geometry = [](const World& world, std::vector<int> ranks) {
    return encRdhGeometryOf(world.info(0), ranks);
  };
  const World world = devices("trn2.48xlarge", 2, 4);
  EXPECT_THAT(geometry(world, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).error().message,
              testing::HasSubstr("12 ranks from rank 0 on, on 3 devices"));
  EXPECT_FALSE(geometry(world, {0, 1, 2}).ok());
}

}  // namespace
}  // namespace nccom
