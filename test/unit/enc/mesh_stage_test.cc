// Meshes as stages: of hierarchies, and from and to any buffers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "enc/alg_table.h"
#include "enc/flat.h"
#include "enc/hier.h"
#include "enc/mesh.h"
#include "enc/select.h"
#include "enc/verify.h"
#include "misc/datatype.h"
#include "test/unit/enc/mesh_worlds.h"

namespace nccom {
namespace {

using test::MeshGroup;
using test::World;

/// A stage in the middle of a program: INPUT is copied to scratch, the mesh works there, and what
/// it leaves in scratch (or writes to OUTPUT itself) is the result.
struct Middle {
  bool first = false, toOutput = false;
  bool mayLoop = true;

  Result<encProgram> operator()(const enc_comm_info& info, const encTask& task) const {
    encBuilder builder(info, task, "middle");
    encStage stage = encFlatStage(info, task);
    const uint64_t in = encBytes(stage, task, encBuffer::Input);
    const uint64_t out = encBytes(stage, task, encBuffer::Output);
    const size_t queue = builder.mainQueue(0);
    const encPages input = stage.input, output = stage.output;
    stage.mayLoop = mayLoop;
    stage.first = first;
    if (!first) {
      stage.input = scratch(stage, 0);
      builder.transfer(queue, {.sources = {encSpan(input, info.rank, 0)},
                               .destinations = {encSpan(stage.input, info.rank, 0)},
                               .bytes = in});
    }
    if (!toOutput) stage.output = scratch(stage, in);
    stage.workBegin += in + out;
    stage.workBytes -= in + out;
    const encMeshGeometry geometry = TRY(encMeshGeometryOf(info, stage.ranks, stage.self));
    TRY(encStageMesh(builder, stage, geometry));
    if (!toOutput) {
      builder.transfer(queue, {.sources = {encSpan(stage.output, info.rank, 0)},
                               .destinations = {encSpan(output, info.rank, 0)},
                               .bytes = out});
    }
    return std::move(builder).finish();
  }

  static encPages scratch(const encStage& stage, uint64_t offset) {
    encPages pages;
    pages.buffer = encBuffer::Scratch;
    pages.base = static_cast<int64_t>(stage.workBegin + offset);
    return pages;
  }
  static uint64_t encBytes(const encStage& stage, const encTask& task, encBuffer buffer) {
    const encOp part = buffer == encBuffer::Input ? encOp::AllGather : encOp::ReduceScatter;
    return task.op == part ? stage.partBytes : stage.messageBytes;
  }
};

const std::vector<MeshGroup> kGroups{{"host", 1, 2},           {"host", 1, 5},
                                     {"inf2.48xlarge", 1, 4},  {"inf2.48xlarge", 1, 12},
                                     {"trn1.32xlarge", 1, 8},  {"trn2.48xlarge", 1, 2},
                                     {"trn2.48xlarge", 1, 16}, {"trn1.32xlarge", 3, 3}};

TEST(MeshStage, WorksFromAndToAnyBuffers) {
  uint64_t seed = 0;
  for (const MeshGroup& group : kGroups) {
    const World world = test::worldOf(group, {256, 256, 32768});
    for (const encOp op : test::kMeshOps) {
      for (const bool first : {false, true}) {
        for (const bool toOutput : {false, true}) {
          const encTask task = test::collective(op, 61, ncclInt32, ncclAvg);
          const auto programs = test::composeAll(world, task, Middle{first, toOutput});
          ASSERT_FALSE(programs.empty());
          const bool inPlace = seed++ % 2 == 0 && op != encOp::AlltoAll;
          EXPECT_EQ(test::check(world, programs, seed, inPlace), "")
              << encOpName(op) << " " << world.text() << " first " << first << " " << toOutput;
          const std::vector<encOperation> twice{programs, programs};
          const Status status = encVerify(world.info(0), twice, {.inPlace = inPlace});
          EXPECT_TRUE(status.ok()) << encOpName(op) << " " << world.text() << " first " << first
                                   << " " << toOutput << ": " << status.error().message;
        }
      }
    }
  }
}

/// Only hierarchies of meshes, and of rings where there are none.
World hierarchy(const MeshGroup& group, encSizes sizes = {4096, 4096, 16384}) {
  World world = test::worldOf(group, sizes);
  uint64_t allowed = 0;
  for (const enc_comm_type scope : {enc_comm_type::Intra, enc_comm_type::Inter}) {
    for (const enc_alg_type alg : {enc_alg_type::Ring, enc_alg_type::Hier, enc_alg_type::Mesh})
      allowed |= uint64_t{1} << algBit(alg, scope);
  }
  world.comm->options.allowed = allowed;
  return world;
}

bool hasMesh(const encProgram& program) {
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks) {
      for (const encDesc& desc : block.descs) {
        if (static_cast<int>(desc.step) >= kFirstMeshStep) return true;
      }
    }
  }
  return false;
}

const std::vector<MeshGroup> kHierarchies{
    {"host", 2, 6},           {"host", 3, 9},           {"trn1.32xlarge", 2, 16},
    {"trn2.48xlarge", 2, 16}, {"trn2.48xlarge", 3, 24}, {"trn2u.48xlarge", 8, 32, 2, "X4"}};

TEST(MeshStage, WorksInHierarchies) {
  uint64_t seed = 0;
  for (const MeshGroup& group : kHierarchies) {
    const World world = hierarchy(group);
    for (const encOp op : {encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather}) {
      for (const int count : {1, world.rank_n() > 24 ? 100 : 1501}) {
        const encTask task = test::collective(op, static_cast<uint64_t>(count), ncclInt32);
        const auto programs = test::composeAll(world, task, encComposeHier);
        ASSERT_FALSE(programs.empty());
        EXPECT_TRUE(hasMesh(programs[0])) << world.text();
        seed++;
        ASSERT_EQ(test::check(world, programs, seed, seed % 2 == 0), "")
            << encOpName(op) << " " << count << " " << world.text();
      }
    }
  }
}

TEST(MeshStage, IsVerifiedInHierarchies) {
  for (const MeshGroup& group : kHierarchies) {
    const World world = hierarchy(group);
    std::vector<encOperation> operations;
    for (const encOp op : {encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather}) {
      for (const uint64_t count : {3, 1000}) {
        operations.push_back(test::composeAll(world, test::collective(op, count), encComposeHier));
      }
    }
    for (const bool inPlace : {false, true}) {
      const Status status = encVerify(world.info(0), operations, {.inPlace = inPlace});
      EXPECT_TRUE(status.ok()) << world.text() << ": " << status.error().message;
    }
  }
}

/// Programs by an algorithm that is named; none where it is not admitted.
std::optional<encOperation> composedBy(World world, enc_alg_type alg, const encTask& task) {
  world.comm->options.forced = alg;
  encOperation operation;
  for (int rank = 0; rank < world.rank_n(); rank++) {
    auto program = encCompose(world.info(rank), task);
    if (!program.ok()) return std::nullopt;
    operation.push_back(std::move(program).value());
  }
  return operation;
}

// Events of all of them are raised at the same semaphores, and their work area is the same.
TEST(MeshStage, FollowsAndPrecedesOtherAlgorithms) {
  using Alg = enc_alg_type;
  for (const MeshGroup& group : {MeshGroup{"trn2.48xlarge", 1, 16},
                                 {"trn2u.48xlarge", 4, 16, 2, "X4"},
                                 {"trn1.32xlarge", 8, 8},
                                 {"trn2.48xlarge", 2, 16},
                                 {"trn3.48xlarge", 1, 16}}) {
    const World world = test::worldOf(group);
    std::vector<encOperation> operations;
    std::vector<std::string> names;
    size_t meshes = 0;
    for (int turn = 0; turn < 12; turn++) {
      for (const Alg alg : {Alg::Mesh, Alg::IntraRdh, Alg::SingleStepMesh, Alg::Hier,
                            Alg::TwoStepPodMesh, Alg::InterRdh, Alg::LatencyOptMesh}) {
        const encOp op = test::kMeshOps[static_cast<size_t>(turn * 3 + static_cast<int>(alg)) % 4];
        auto operation = composedBy(world, alg, test::collective(op, turn % 2 == 0 ? 5 : 700));
        if (!operation) continue;
        meshes += hasMesh((*operation)[0]) ? 1 : 0;
        names.push_back(std::string(encAlgName(alg)) + " " + encOpName(op));
        operations.push_back(std::move(*operation));
      }
    }
    EXPECT_GE(meshes, 3u) << world.text();
    const Status status = encVerify(world.info(0), operations);
    EXPECT_TRUE(status.ok()) << world.text() << testing::PrintToString(names) << ": "
                             << status.error().message;
  }
}

TEST(MeshStage, MeetsBeforeAndAfterAFunction) {
  const auto compose = [](const enc_comm_info& info, const encTask& task) -> Result<encProgram> {
    encBuilder builder(info, task, "mesh");
    const encStage stage = encFlatStage(info, task);
    const encMeshGeometry geometry = TRY(encMeshGeometryOf(info, stage.ranks, stage.self));
    TRY(encStageMesh(builder, stage, geometry, {.firstBarrier = true, .lastBarrier = true}));
    return std::move(builder).finish();
  };
  const World world = test::worldOf({"trn2.48xlarge", 1, 8});
  const auto programs = test::composeAll(world, test::collective(encOp::AllReduce, 100), compose);
  const auto empty = test::composeAll(world, test::collective(encOp::AllReduce, 0), compose);
  const std::vector<encOperation> sequence{programs, programs, empty, empty, programs, empty};
  const Status status = encVerify(world.info(0), sequence);
  EXPECT_TRUE(status.ok()) << status.error().message;
  const std::string text = encDump(programs[3]);
  const size_t first = text.find("EVT_FUNCTION_BARRIER_FIRST_COLL wait");
  const size_t last = text.find("EVT_FUNCTION_BARRIER_LAST_COLL inc");
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(last, std::string::npos);
  EXPECT_LT(first, text.find("EVT_REDUCE_WRITE"));
  EXPECT_GT(last, text.rfind("EVT_REDUCE_WRITE"));
}

}  // namespace
}  // namespace nccom
