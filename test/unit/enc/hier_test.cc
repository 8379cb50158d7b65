#include "enc/hier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "enc/comm_shape.h"
#include "enc/select.h"
#include "enc/verify.h"
#include "graph/platform.h"
#include "test/unit/enc/reference.h"
#include "test/unit/enc/worlds.h"

namespace nccom {
namespace {

using test::World;

const std::vector<encOp> kOps{encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather};

World onMachine(const std::string& name, int nodes, int ranks,
                encSizes sizes = {4096, 4096, 16384}) {
  encMachine machine;
  machine.hostDevices = 64;
  if (name != "host") {
    machine.platform = findPlatform(name).value();
    machine.lnc = machine.platform->defaultLnc;
  }
  World world;
  world.comm = encShapeComm(machine, encDealtCores(machine, nodes, ranks).value()).value();
  world.comm->sizes = sizes;
  return world;
}

/// Stages that are rings, whatever else there is.
World withRings(World world) {
  uint64_t allowed = 0;
  for (const enc_comm_type scope : {enc_comm_type::Intra, enc_comm_type::Inter}) {
    for (const enc_alg_type alg : {enc_alg_type::Ring, enc_alg_type::Hier})
      allowed |= uint64_t{1} << algBit(alg, scope);
  }
  world.comm->options.allowed = allowed;
  return world;
}

TEST(Hier, ComputesWhatNcclDoes) {
  for (const auto& [nodes, ranks] : {std::pair(2, 4), {2, 6}, {3, 6}, {4, 16}, {8, 16}}) {
    const World world = withRings(onMachine("host", nodes, ranks));
    for (const encOp op : kOps) {
      for (const uint64_t count : {1, 7, 64, 1000, 5000}) {
        for (const bool inPlace : {false, true}) {
          const encTask task = test::collective(op, count, ncclInt32, ncclAvg);
          const auto programs = test::composeAll(world, task, encComposeHier);
          EXPECT_EQ(test::check(world, programs, count, inPlace), "")
              << world.text() << " " << encOpName(op) << " " << count;
        }
      }
    }
  }
}

TEST(Hier, IsVerifiedInSequences) {
  for (const int slices : {0, 2, 5}) {
    for (const auto& [nodes, ranks] : {std::pair(2, 4), {3, 9}, {4, 8}, {8, 32}}) {
      World world = withRings(onMachine("host", nodes, ranks));
      world.comm->options.hierPipelineSlices = slices;
      std::vector<encOperation> operations;
      for (const encOp op : kOps) {
        for (const uint64_t count : {3, 3000}) {
          operations.push_back(
              test::composeAll(world, test::collective(op, count), encComposeHier));
        }
      }
      for (const bool inPlace : {false, true}) {
        const Status status =
            encVerify(world.info(0), operations, {.inPlace = inPlace, .jump = true});
        EXPECT_TRUE(status.ok()) << world.text() << ": " << status.error().message;
      }
    }
  }
}

TEST(Hier, PipelinedComputesTheSame) {
  World world = withRings(onMachine("host", 3, 6));
  world.comm->options.hierPipelineSlices = 4;
  for (const encOp op : kOps) {
    for (const uint64_t count : {1, 40, 3000, 20000}) {
      for (uint64_t seed = 0; seed < 5; seed++) {
        const auto programs =
            test::composeAll(world, test::collective(op, count, ncclInt32), encComposeHier);
        EXPECT_EQ(test::check(world, programs, seed), "") << encOpName(op) << " " << count;
      }
    }
  }
}

TEST(Hier, IsChosenWhereServersHaveSeveralRanks) {
  const World world = onMachine("trn1.32xlarge", 2, 64);
  const encChoice choice =
      encSelect(world.info(0), test::collective(encOp::AllReduce, 1 << 20)).value();
  EXPECT_EQ(encAlgTypeOf(choice.algorithm), enc_alg_type::Hier) << choice.why;
}

TEST(Hier, CrossesServersOnceForEachByte) {
  const World world = withRings(onMachine("host", 4, 16));
  const auto programs =
      test::composeAll(world, test::collective(encOp::AllGather, 4096, ncclInt8), encComposeHier);
  for (const encProgram& program : programs) {
    uint64_t sent = 0;
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks) {
        for (const encDesc& desc : block.descs) {
          if (desc.type == encDescType::NetSend) sent += desc.bytes * block.repeat;
        }
      }
    }
    EXPECT_EQ(sent, 3u * 4096);
  }
}

TEST(Hier, SaysWhyItIsNotAdmitted) {
  const World world = onMachine("host", 2, 2);
  const auto program = encComposeHier(world.info(0), test::collective(encOp::AllReduce, 4));
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.error().message, testing::HasSubstr("each node has several ranks"));
}

}  // namespace
}  // namespace nccom
