// Switch meshes: Trainium3 behind switches.
#include "enc/mesh_switch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "enc/alg_table.h"
#include "enc/flat.h"
#include "enc/mesh_event.h"
#include "enc/select.h"
#include "test/unit/enc/mesh_switch_worlds.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::World;
using Alg = enc_alg_type;
using Event = enc_mesh_event_type;
using test::geometryOf;
using test::gridOf;
using test::groups;
using test::kGen1;
using test::kGen2;
using test::rackOf;
using test::upTo;

struct Way {
  encOp op;
  Alg alg;
};
const std::vector<Way> kWays{
    {encOp::AllReduce, Alg::LatencyOptMesh}, {encOp::AllGather, Alg::BwOptMesh},
    {encOp::ReduceScatter, Alg::Mesh},       {encOp::AllReduce, Alg::SingleStepMesh},
    {encOp::AllGather, Alg::LatencyOptMesh}, {encOp::AlltoAll, Alg::Mesh},
    {encOp::AllReduce, Alg::BwOptMesh},
};

bool composes(const World& world, const Way& way) {
  const int ranks = world.rank_n();
  if (way.alg == Alg::SingleStepMesh) return ranks <= 64;
  return way.alg != Alg::BwOptMesh || (world.comm->lnc == 2 && ranks <= 128);
}

encOperation composed(const World& world, const encTask& task, Alg alg) {
  return test::composeAll(world, task, [&](const enc_comm_info& info, const encTask& t) {
    return encComposeSwitchMesh(info, t, alg);
  });
}

/// "GLOBAL_HNDSHK LOCAL_HNDSHK ...", without those that do nothing.
std::string phasesOf(const World& world, const Way& way, const encMeshUse& use) {
  const encMeshGeometry geometry = geometryOf(world, 0);
  const encMeshPlan plan = encBuildSwitchMesh(geometry, gridOf(world, 0), use).value();
  const auto op = way.op == encOp::AllGather       ? enc_op_type::AllGather
                  : way.op == encOp::AllReduce     ? enc_op_type::AllReduce
                  : way.op == encOp::ReduceScatter ? enc_op_type::ReduceScatter
                                                   : enc_op_type::AlltoAll;
  std::string text;
  for (const enc_mesh_event& event :
       encSwitchSubtypeFor(plan.mesh, way.alg, op, geometry.situation).value()->events) {
    const std::string name = encMeshEventName(event.evt_type);
    if (event.valid) text += (text.empty() ? "" : " ") + name.substr(4);
  }
  return text;
}

TEST(SwitchMesh, HasThePhasesOfTheRuntimeInTheirOrder) {
  const World world = rackOf(kGen2, 2, 4, upTo(16));
  const encMeshUse flat{true, true, 1 << 20}, later{false, true, 1 << 20};
  const std::string barriers = " FUNCTION_BARRIER_FIRST_COLL FUNCTION_BARRIER_LAST_COLL";
  EXPECT_EQ(phasesOf(world, {encOp::AllGather, Alg::LatencyOptMesh}, later),
            "GLOBAL_HNDSHK LOCAL_HNDSHK INTER_GRP_BRDCST INTER_GRP_BRDCST_2 SYNC" + barriers);
  EXPECT_EQ(phasesOf(world, {encOp::AllGather, Alg::LatencyOptMesh}, flat),
            "INTER_GRP_BRDCST INTER_GRP_BRDCST_2 SYNC" + barriers);
  EXPECT_EQ(phasesOf(world, {encOp::AllGather, Alg::BwOptMesh}, later),
            "GLOBAL_HNDSHK LOCAL_HNDSHK INTER_GRP_BRDCST INTER_GRP_BRDCST_2 INTRA_GRP_BRDCST SYNC" +
                barriers);
  EXPECT_EQ(phasesOf(world, {encOp::AllReduce, Alg::LatencyOptMesh}, later),
            "LOCAL_HNDSHK GLOBAL_HNDSHK REDUCE_COPY REDUCE_COPY_2 REDUCE_WRITE "
            "INTER_GRP_BRDCST INTER_GRP_BRDCST_2 SYNC" +
                barriers);
  EXPECT_EQ(phasesOf(world, {encOp::AllReduce, Alg::SingleStepMesh}, flat),
            "LOCAL_HNDSHK GLOBAL_HNDSHK INTER_GRP_BRDCST INTER_GRP_BRDCST_2 REDUCE_WRITE SYNC" +
                barriers);
  EXPECT_EQ(phasesOf(world, {encOp::ReduceScatter, Alg::Mesh}, flat),
            "GLOBAL_HNDSHK REDUCE_COPY REDUCE_COPY_2 REDUCE_WRITE SYNC" + barriers);
  EXPECT_EQ(phasesOf(world, {encOp::AlltoAll, Alg::Mesh}, flat),
            "INTER_GRP_BRDCST INTER_GRP_BRDCST_2 SYNC" + barriers);
}

TEST(SwitchMesh, HasTheFoldsOfTheRuntime) {
  const World world = rackOf(kGen2, 2, 4, upTo(16));
  const encMeshPlan plan =
      encBuildSwitchMesh(geometryOf(world, 0), gridOf(world, 0), {false, true, 1 << 20}).value();
  for (const enc_alg_mesh_subtype& subtype : plan.mesh.mesh_subtype) {
    for (const enc_mesh_event& event : subtype.events) {
      const Event type = event.evt_type;
      const bool broadcasts = type == Event::EVT_INTER_GRP_BRDCST ||
                              type == Event::EVT_INTER_GRP_BRDCST_2 ||
                              type == Event::EVT_INTRA_GRP_BRDCST;
      const bool copies = type == Event::EVT_REDUCE_COPY || type == Event::EVT_REDUCE_COPY_2;
      const int folds = broadcasts ? 2 : copies ? 4 : type == Event::EVT_REDUCE_WRITE ? 8 : 0;
      EXPECT_EQ(event.num_fold, folds) << subtype.name << " " << encMeshEventName(type);
    }
  }
}

TEST(SwitchMesh, HasMembersThatAgree) {
  for (const World& world : groups(32)) {
    for (const bool first : {true, false}) {
      for (const bool writesOthers : {true, false}) {
        std::vector<enc_alg_mesh> meshes;
        for (int rank = 0; rank < world.rank_n(); rank++) {
          meshes.push_back(encBuildSwitchMesh(geometryOf(world, rank), gridOf(world, rank),
                                              {first, writesOthers, 4096})
                               .value()
                               .mesh);
        }
        const Status status = encCheckMeshes(meshes);
        ASSERT_TRUE(status.ok()) << status.error().message;
      }
    }
  }
}

TEST(SwitchMesh, ComputesWhatNcclDoes) {
  uint64_t seed = 0;
  for (const World& world : groups(16)) {
    for (const Way& way : kWays) {
      for (const ncclRedOp_t redOp : {ncclSum, ncclAvg, ncclMax}) {
        for (const uint64_t count : {1, 7, 64, 501}) {
          const encTask task =
              test::collective(way.op, count, seed % 2 ? ncclInt32 : ncclInt8, redOp);
          const bool inPlace = seed++ % 3 == 0 && way.op != encOp::AlltoAll;
          ASSERT_EQ(test::check(world, composed(world, task, way.alg), seed, inPlace), "")
              << encAlgName(way.alg) << " " << test::label(world, task)
              << (inPlace ? " in place" : "");
        }
      }
    }
  }
}

TEST(SwitchMesh, IsVerifiedForEveryNumberOfRanksThatIsAdmitted) {
  unsigned turn = 0;
  for (const World& world : groups(128)) {
    for (const Way& way : kWays) {
      if (!composes(world, way)) continue;
      const encTask task = test::collective(way.op, 1 + turn * 37 % 100, ncclFloat32, ncclAvg);
      ASSERT_EQ(test::verified(world, {composed(world, task, way.alg)}, turn++ % 2 == 0), "")
          << encAlgName(way.alg) << " " << test::label(world, task);
    }
  }
}

TEST(SwitchMesh, IsVerifiedForTheMostRanks) {
  std::vector<World> worlds = groups(256);
  std::erase_if(worlds, [](const World& world) { return world.rank_n() < 256; });
  ASSERT_EQ(worlds.size(), 2U);
  for (const World& world : worlds) {
    for (const encOp op : {encOp::AllReduce, encOp::AllGather}) {
      const encTask task = test::collective(op, 37, ncclFloat32);
      ASSERT_EQ(test::verified(world, {composed(world, task, Alg::LatencyOptMesh)}, true), "")
          << test::label(world, task);
    }
  }
}

TEST(SwitchMesh, IsVerifiedInSequences) {
  for (const World& world : groups(32)) {
    for (const bool inPlace : {false, true}) {
      std::vector<encOperation> sequence;
      for (uint64_t i = 0; i < 2 * kWays.size(); i++) {
        const Way& way = kWays[i * 3 % kWays.size()];
        if (!composes(world, way)) continue;
        const uint64_t counts[] = {1, 300, 0, 40, 1500};
        const encTask task = test::collective(way.op, counts[i * 2 % 5], ncclFloat32);
        sequence.push_back(composed(world, task, way.alg));
        if (i % 3 == 1) sequence.push_back(sequence.back());
      }
      ASSERT_EQ(test::verified(world, sequence, inPlace), "") << world.text();
    }
  }
}

TEST(SwitchMesh, IsVerifiedBetweenRings) {
  World world = rackOf(kGen2, 2, 2, upTo(16, 2));
  World rings = world;
  rings.comm->options.forced = Alg::Ring;
  std::vector<encOperation> sequence;
  for (const Way& way : kWays) {
    const encTask task = test::collective(way.op, 70, ncclFloat32);
    sequence.push_back(composed(world, task, way.alg));
    if (way.op != encOp::AlltoAll) sequence.push_back(test::composeAll(rings, task));
  }
  EXPECT_EQ(test::verified(world, sequence), "");
}

TEST(SwitchMesh, EndsInEveryOrderOfEvents) {
  const World world = rackOf(kGen2, 2, 2, {0, 1, 4, 5});
  for (const Way& way : kWays) {
    const encOperation operation =
        composed(world, test::collective(way.op, 200, ncclInt32), way.alg);
    for (uint64_t seed = 0; seed < 40; seed++) {
      const bool inPlace = seed % 2 == 0 && way.op != encOp::AlltoAll;
      ASSERT_EQ(test::check(world, operation, seed, inPlace), "") << "seed " << seed;
    }
  }
}

TEST(SwitchMesh, GivesBitwiseEqualResults) {
  const World world = rackOf(kGen2, 2, 2, upTo(8));
  for (const Alg alg : {Alg::LatencyOptMesh, Alg::BwOptMesh, Alg::SingleStepMesh}) {
    const encTask task = test::collective(encOp::AllReduce, 301, ncclFloat32);
    std::vector<test::Launch> launches{test::makeLaunch(world, composed(world, task, alg), false)};
    std::mt19937 random(1);
    std::normal_distribution<float> values(0, 1e3F);
    for (auto& inputs : launches[0].inputs) {
      for (size_t i = 0; i < task.count; i++) {
        const float value = values(random);
        memcpy(&inputs[0][i * sizeof value], &value, sizeof value);
      }
    }
    ASSERT_EQ(test::interpret(world, launches, 3).error, "");
    for (const auto& outputs : launches[0].outputs)
      EXPECT_EQ(outputs[0], launches[0].outputs[0][0]);
  }
}

struct Moved {
  uint64_t all = 0, betweenDevices = 0;
};

/// Bytes that transfers move to or from other ranks, and devices.
Moved movedBy(const World& world, const encOperation& operation) {
  Moved moved;
  for (const encProgram& program : operation) {
    const enc_peer_info& own = world.comm->peers[program.rank];
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks) {
        for (const encDesc& desc : block.descs) {
          for (const auto* list : {&desc.sources, &desc.destinations}) {
            for (const encAddress& address : *list) {
              const enc_peer_info& peer = world.comm->peers[address.rank];
              const uint64_t bytes = block.repeat * desc.bytes;
              if (address.rank != program.rank) moved.all += bytes;
              if (peer.server != own.server || peer.device != own.device)
                moved.betweenDevices += bytes;
            }
          }
        }
      }
    }
  }
  return moved;
}

TEST(SwitchMesh, MovesTheBytesThatItPromises) {
  for (const auto& [nodes, cores] :
       std::vector<std::pair<int, std::vector<int>>>{{1, upTo(16)}, {2, upTo(16)}, {4, {0, 4}}}) {
    const World world = rackOf(kGen2, 2, nodes, cores, {4096, 4096, 1 << 20});
    const auto n = static_cast<uint64_t>(world.rank_n());
    const auto c = static_cast<uint64_t>(gridOf(world, 0).slots);
    const uint64_t part = 320;
    for (const Way& way : kWays) {
      const bool whole = way.op == encOp::AllReduce;
      const uint64_t count = whole ? n * part : part;
      const Moved moved =
          movedBy(world, composed(world, test::collective(way.op, count, ncclInt8), way.alg));
      const bool bwOpt = way.alg == Alg::BwOptMesh, single = way.alg == Alg::SingleStepMesh;
      const uint64_t latency = n * (n - c) * part, once = n * (n / c - 1) * part;
      if (single) {
        EXPECT_EQ(moved.all, n * (n - 1) * n * part);
        EXPECT_EQ(moved.betweenDevices, n * latency);
        continue;
      }
      EXPECT_EQ(moved.all, (whole ? 2 : 1) * n * (n - 1) * part) << encOpName(way.op);
      uint64_t between = bwOpt || way.op == encOp::ReduceScatter ? once : latency;
      if (whole) between += once;
      EXPECT_EQ(moved.betweenDevices, between) << encAlgName(way.alg) << " " << encOpName(way.op);
    }
  }
}

TEST(SwitchMesh, DescriptorsDoNotGrowWithTheMessage) {
  const World world = rackOf(kGen2, 2, 2, upTo(8), {});
  for (const Way& way : kWays) {
    const auto count = [&](uint64_t elements) {
      return test::descriptors(
          encComposeSwitchMesh(world.info(1), test::collective(way.op, elements), way.alg).value());
    };
    EXPECT_LE(count(10000000001), 2 * count(100000001)) << encAlgName(way.alg);
  }
}

TEST(SwitchMesh, NamesTheSubtypeOfItsWindow) {
  const auto names = [](const World& world) {
    const encMeshPlan plan =
        encBuildSwitchMesh(geometryOf(world, 0), gridOf(world, 0), {true, true, 1 << 20}).value();
    std::vector<std::string> found;
    for (const enc_alg_mesh_subtype& subtype : plan.mesh.mesh_subtype)
      found.push_back(subtype.name);
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(names(rackOf(kGen2, 2, 2, upTo(16))),
              ElementsAre("single-step", "latency-opt all-reduce", "latency-opt all-gather",
                          "bw-opt all-reduce", "bw-opt all-gather", "reduce-scatter",
                          "switched all-to-all"));
  EXPECT_THAT(names(rackOf(kGen1, 1, 2, upTo(128))),
              ElementsAre("latency-opt all-reduce", "latency-opt all-gather", "reduce-scatter",
                          "switched all-to-all"));
  EXPECT_THAT(names(rackOf(kGen2, 1, 4, upTo(32, 8))),
              ElementsAre("single-step", "latency-opt all-reduce", "one-rank-per-chip all-gather",
                          "reduce-scatter", "switched all-to-all"));
}

// What selection takes for an algorithm and a size, has a subtype with the same limits.
TEST(SwitchMesh, KeepsTheWindowsOfSelection) {
  for (const World& world : groups(64)) {
    const encMeshGeometry geometry = geometryOf(world, 0);
    const encMeshPlan plan =
        encBuildSwitchMesh(geometry, gridOf(world, 0), {true, true, 1 << 20}).value();
    for (const encWindow& window : encWindows({world.comm->situation, world.comm->options})) {
      if (window.law->mesh != enc_alg_mesh_type::MeshSwitch) continue;
      for (int i = 0; i < kEncOps; i++) {
        const auto op = static_cast<enc_op_type>(i);
        if (!window.composes(op)) continue;
        const auto subtype =
            encSwitchSubtypeFor(plan.mesh, window.law->alg, op, world.comm->situation);
        ASSERT_TRUE(subtype.ok()) << subtype.error().message;
        EXPECT_EQ(subtype.value()->op_max_limit[i], window.op_max_limit[i]) << window.law->name;
        EXPECT_EQ(subtype.value()->op_min_limit_sbuf[i], window.op_min_limit_sbuf[i]);
      }
    }
  }
}

TEST(SwitchMesh, SaysWhatItCannotDo) {
  const auto message = [](const World& world, const Way& way) {
    const auto program = encComposeSwitchMesh(world.info(0), test::collective(way.op, 9), way.alg);
    return program.ok() ? "" : program.error().message;
  };
  EXPECT_EQ(message(rackOf(kGen2, 1, 1, upTo(32)), {encOp::AllGather, Alg::BwOptMesh}),
            "bw_opt_mesh of 32 ranks: Bandwidth Opt All Gather does not support LNC1");
  EXPECT_EQ(message(rackOf(kGen2, 2, 3, upTo(8)), {encOp::AllReduce, Alg::BwOptMesh}),
            "bw_opt_mesh: Unsupported rank (24) for building Bandwidth Opt All Gather; want 4, 8, "
            "16, 32, 64 or 128 of a rack");
  EXPECT_EQ(message(rackOf(kGen1, 2, 2, upTo(64)), {encOp::AllReduce, Alg::SingleStepMesh}),
            "single_step_mesh: 128 ranks of a rack: want at most 64");
  EXPECT_EQ(message(rackOf(kGen2, 2, 2, upTo(8)), {encOp::AllGather, Alg::SingleStepMesh}),
            "single_step_mesh of 4 devices behind switches does not compose AllGather");
  EXPECT_EQ(message(rackOf(kGen2, 2, 2, upTo(8)), {encOp::AlltoAll, Alg::LatencyOptMesh}),
            "latency_opt_mesh of 4 devices behind switches does not compose AlltoAll");
  EXPECT_EQ(message(rackOf(kGen2, 2, 2, upTo(8)), {encOp::AllReduce, Alg::Ring}),
            "ring of 4 devices behind switches does not compose AllReduce");
  EXPECT_EQ(message(test::worldOf({"trn2.48xlarge", 1, 8}), {encOp::AllReduce, Alg::Mesh}),
            "switch mesh of 8 ranks: Unsupported instance family for event-based algorithms; want "
            "Trainium3 behind switches");
  EXPECT_EQ(message(test::worldOf({kGen2, 4, 16, 2}), {encOp::AllReduce, Alg::Mesh}),
            "switch mesh of 16 ranks on 4 nodes: want at least two, that no network lies between");
}

TEST(SwitchMesh, MeetsAroundFunctions) {
  const World world = rackOf(kGen2, 2, 2, {0, 4});
  const auto barriers = [](const Way& way, bool first, bool last) -> test::Composer {
    return [=](const enc_comm_info& info, const encTask& task) -> Result<encProgram> {
      encBuilder builder(info, task, "mesh");
      const encStage stage = encFlatStage(info, task);
      const auto geometry = TRY(encMeshGeometryOf(info, stage.ranks, stage.self));
      TRY(encStageSwitchMesh(builder, stage, geometry, way.alg, {false, first, last}));
      return std::move(builder).finish();
    };
  };
  std::vector<encOperation> sequence;
  size_t turn = 0;
  for (const uint64_t count : {0, 0, 9, 0, 9, 9, 0}) {
    for (const auto& [first, last] : std::vector<std::pair<bool, bool>>{
             {true, true}, {true, false}, {false, true}, {true, false}}) {
      const Way& way = kWays[turn++ % kWays.size()];
      sequence.push_back(test::composeAll(world, test::collective(way.op, count, ncclInt32),
                                          barriers(way, first, last)));
    }
  }
  EXPECT_EQ(test::verified(world, sequence), "");
}

/// A stage behind another one, that has put everybody's INPUT into scratch; from there on to OUTPUT
/// or to scratch.
test::Composer inner(const Way& way, bool toOutput) {
  return [=](const enc_comm_info& info, const encTask& task) -> Result<encProgram> {
    encBuilder builder(info, task, "mesh");
    const encStage flat = encFlatStage(info, task);
    const auto geometry = TRY(encMeshGeometryOf(info, flat.ranks, flat.self));
    const uint64_t room = 1 << 16;
    encStage stage = flat;
    stage.first = false;
    stage.workBegin += 2 * room;
    stage.workBytes -= 2 * room;
    stage.input.buffer = encBuffer::Scratch;
    stage.input.base = static_cast<int64_t>(flat.workBegin);
    if (!toOutput) {
      stage.output.buffer = encBuffer::Scratch;
      stage.output.base = static_cast<int64_t>(flat.workBegin + room);
    }
    const uint64_t in = way.op == encOp::AllGather ? flat.partBytes : flat.messageBytes;
    const uint64_t out = way.op == encOp::ReduceScatter ? flat.partBytes : flat.messageBytes;
    const size_t queue = builder.mainQueue(0);
    builder.transfer(queue, {.sources = {flat.in(flat.self, 0)},
                             .destinations = {stage.in(flat.self, 0)},
                             .bytes = in});
    TRY(encStageSwitchMesh(builder, stage, geometry, way.alg));
    if (!toOutput) {
      builder.transfer(queue, {.sources = {stage.out(flat.self, 0)},
                               .destinations = {flat.out(flat.self, 0)},
                               .bytes = out});
    }
    return std::move(builder).finish();
  };
}

TEST(SwitchMesh, IsAnInnerStage) {
  for (const auto& [nodes, cores] :
       std::vector<std::pair<int, std::vector<int>>>{{1, upTo(8)}, {2, {0, 1, 4, 5}}, {4, {0}}}) {
    const World world = rackOf(kGen2, 2, nodes, cores, {256, 256, 1 << 18});
    std::vector<encOperation> mixed;
    for (const bool toOutput : {true, false}) {
      std::vector<encOperation> sequence;
      for (const Way& way : kWays) {
        const encTask task = test::collective(way.op, 501, ncclInt32);
        sequence.push_back(test::composeAll(world, task, inner(way, toOutput)));
        ASSERT_EQ(test::check(world, sequence.back(), 5), "")
            << encAlgName(way.alg) << " " << test::label(world, task);
        sequence.push_back(sequence.back());
        mixed.push_back(sequence.back());
        mixed.push_back(composed(world, task, way.alg));
      }
      EXPECT_EQ(test::verified(world, sequence), "") << world.text() << toOutput;
    }
    EXPECT_EQ(test::verified(world, mixed), "") << world.text();
  }
}

size_t stepsOf(const encProgram& program, Event event) {
  size_t count = 0;
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks) {
      for (const encDesc& desc : block.descs)
        count += desc.type == encDescType::Transfer && desc.step == encMeshStep(event) ? 1 : 0;
    }
  }
  return count;
}

TEST(SwitchMesh, IsWhatSelectionComposes) {
  World world = rackOf(kGen2, 2, 2, upTo(16));
  for (const Way& way : kWays) {
    const encTask task = test::collective(way.op, 70, ncclFloat32);
    world.comm->options.forced = way.alg;
    const encProgram program = encCompose(world.info(3), task).value();
    EXPECT_EQ(program, encComposeSwitchMesh(world.info(3), task, way.alg).value());
  }
}

TEST(SwitchMesh, IsTheInnerStageOfHierarchies) {
  World world = test::worldOf({kGen2, 2, 32, 2}, {4096, 4096, 1 << 16});
  world.comm->options.forced = Alg::Hier;
  for (const encOp op : {encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather}) {
    std::vector<encOperation> sequence;
    for (const uint64_t count : {1, 333}) {
      const encTask task = test::collective(op, count, ncclFloat32, ncclAvg);
      sequence.push_back(test::composeAll(world, task));
      EXPECT_GT(stepsOf(sequence.back()[0], op == encOp::AllGather ? Event::EVT_INTER_GRP_BRDCST
                                                                   : Event::EVT_REDUCE_COPY),
                0U);
      sequence.push_back(sequence.back());
    }
    EXPECT_EQ(test::verified(world, sequence), "") << encOpName(op);
    const encTask task = test::collective(op, 333, ncclInt32);
    EXPECT_EQ(test::check(world, test::composeAll(world, task), 4, true), "") << encOpName(op);
  }
}

}  // namespace
}  // namespace nccom
