// When meshes begin with a handshake, and that users may ask for one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "enc/alg_table.h"
#include "enc/select.h"
#include "test/unit/enc/mesh_switch_worlds.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::World;
using Alg = enc_alg_type;

struct Kind {
  World world;
  Alg alg = Alg::Mesh;
  std::vector<encOp> ops = test::kMeshOps;
};

std::vector<Kind> kinds() {
  const std::vector<encOp> reduceGather{encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather};
  return {
      {test::worldOf({"host", 1, 2}, test::kTiny)},
      {test::worldOf({"host", 1, 2}, test::kTiny), Alg::SingleStepMesh, {encOp::AllReduce}},
      {test::worldOf({"host", 1, 3}, test::kTiny)},
      {test::worldOf({"inf2.48xlarge", 1, 12}, test::kTiny)},
      {test::worldOf({"trn1.32xlarge", 1, 8}, test::kTiny)},
      {test::worldOf({"trn2.48xlarge", 1, 8}, test::kTiny)},
      {test::worldOf({"trn2u.48xlarge", 4, 8, 2, "X4"}, test::kTiny), Alg::TwoStepPodMesh,
       reduceGather},
      {test::rackOf(test::kGen2, 2, 2, test::upTo(8)),
       Alg::LatencyOptMesh,
       {encOp::AllReduce, encOp::AllGather}},
      {test::rackOf(test::kGen2, 2, 2, test::upTo(8)),
       Alg::BwOptMesh,
       {encOp::AllReduce, encOp::AllGather}},
      {test::rackOf(test::kGen2, 2, 2, test::upTo(8)),
       Alg::Mesh,
       {encOp::ReduceScatter, encOp::AlltoAll}},
  };
}

encOperation composed(World world, const encTask& task, Alg alg, bool doubleBuffer, bool enforce) {
  world.comm->options.forced = alg;
  world.comm->options.meshDoubleBuffer = doubleBuffer;
  world.comm->options.enforceMeshHandshake = enforce;
  return test::composeAll(world, task);
}

bool shakesHands(const encProgram& program) {
  const std::string text = encDump(program);
  return text.find("HNDSHK inc") != std::string::npos ||
         text.find("HNDSHK_1 inc") != std::string::npos;
}

TEST(MeshHandshake, IsSkippedWhereNoWorkAreaIsTouched) {
  for (const Kind& kind : kinds()) {
    for (const encOp op : kind.ops) {
      if (op != encOp::AllGather && op != encOp::AlltoAll) continue;
      const encTask task = test::collective(op, 40, ncclInt32);
      for (const encProgram& program : composed(kind.world, task, kind.alg, true, false))
        EXPECT_FALSE(shakesHands(program)) << encAlgName(kind.alg) << test::label(kind.world, task);
    }
  }
}

TEST(MeshHandshake, IsThereWhereTheUserAsksForIt) {
  for (const Kind& kind : kinds()) {
    for (const encOp op : kind.ops) {
      const encTask task = test::collective(op, 40, ncclInt32);
      const encOperation without = composed(kind.world, task, kind.alg, false, false);
      EXPECT_EQ(without, composed(kind.world, task, kind.alg, true, true));
      EXPECT_EQ(without, composed(kind.world, task, kind.alg, false, true));
      for (const encProgram& program : without)
        EXPECT_TRUE(shakesHands(program)) << encAlgName(kind.alg) << test::label(kind.world, task);
      const bool inPlace = op != encOp::AlltoAll;
      EXPECT_EQ(test::check(kind.world, without, 3, inPlace), "")
          << encAlgName(kind.alg) << test::label(kind.world, task);
    }
  }
}

// Counts of handshakes go on from operation to operation, whatever they are.
TEST(MeshHandshake, IsVerifiedInSequences) {
  for (const Kind& kind : kinds()) {
    std::vector<encOperation> sequence;
    for (const encOp op : kind.ops) {
      for (const bool enforce : {true, false, true}) {
        const encTask task = test::collective(op, enforce ? 700 : 3, ncclFloat32);
        sequence.push_back(composed(kind.world, task, kind.alg, true, enforce));
      }
    }
    EXPECT_EQ(test::verified(kind.world, sequence), "")
        << encAlgName(kind.alg) << " " << kind.world.text();
  }
}

}  // namespace
}  // namespace nccom
