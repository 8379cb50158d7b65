// Pod meshes: the four nodes of a point-to-point pod.
#include "enc/mesh_pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "enc/alg_table.h"
#include "enc/flat.h"
#include "enc/mesh_event.h"
#include "enc/ring.h"
#include "enc/select.h"
#include "enc/single_cycle.h"
#include "graph/pod.h"
#include "test/unit/enc/mesh_worlds.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::World;

constexpr encSizes kTiny{256, 256, 4096};
const std::vector<encOp> kOps{encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather};

/// So many ranks on each of the four nodes.
World podOf(int perNode, int lnc = 2, encSizes sizes = kTiny,
            const std::string& platform = "trn2u.48xlarge") {
  return test::worldOf({platform, 4, 4 * perNode, lnc, "X4"}, sizes);
}

encOperation composed(const World& world, const encTask& task) {
  return test::composeAll(world, task, encComposePodMesh);
}

encPodGrid gridOf(const World& world, int rank) {
  return encPodGridOf(world.info(rank), encFlatStage(world.info(rank), {}).ranks, rank).value();
}

TEST(PodGrid, HasBothNeighboursOneLinkAway) {
  const World world = podOf(2);
  const NeuronFabric fabric =
      neuronFabric(*world.comm->platform, world.comm->pod, world.comm->lnc).value();
  const int perHost = fabric.devicesPerHost;
  for (int rank = 0; rank < world.rank_n(); rank++) {
    const encPodGrid grid = gridOf(world, rank);
    const auto deviceOf = [&](int r) {
      const enc_peer_info& peer = world.comm->peers[r];
      return peer.server * perHost + peer.device;
    };
    EXPECT_EQ(grid.podNode[grid.position], world.comm->peers[rank].server);
    for (const int neighbour : {grid.direct(), grid.proxy()}) {
      const FabricLink* link = fabric.link(deviceOf(rank), deviceOf(neighbour));
      ASSERT_NE(link, nullptr) << rank << " to " << neighbour;
      EXPECT_EQ(link->fromPort, neighbour == grid.direct() ? kPortZLeft : kPortZRight);
    }
    EXPECT_EQ(fabric.link(deviceOf(rank), deviceOf(grid.opposite())), nullptr);
  }
}

TEST(PodGrid, SaysWhyItCannotBe) {
  const auto message = [](const World& world) {
    const enc_comm_info info = world.info(0);
    const auto grid = encPodGridOf(info, encFlatStage(info, {}).ranks, 0);
    return grid.ok() ? "" : grid.error().message;
  };
  EXPECT_EQ(message(test::worldOf({"trn2u.48xlarge", 2, 8, 2, "X2H"})),
            "two_step_pod_mesh: the pod is \"X2H\", of 2 nodes with 1 cables: want the four of a "
            "point-to-point pod in a ring");
  EXPECT_EQ(message(test::worldOf({"trn2.48xlarge", 1, 8})),
            "two_step_pod_mesh: the pod is \"\", of 1 nodes with 0 cables: want the four of a "
            "point-to-point pod in a ring");
  EXPECT_EQ(message(test::worldOf({"trn2u.48xlarge", 4, 8, 2, "X4"}, kTiny,
                                  {{0, 1}, {0, 1}, {0, 2}, {0, 1}})),
            "two_step_pod_mesh of 8 ranks: pod node 2 takes part with cores {0, 2}, node 0 with "
            "{0, 1}: want the same on all four");
  EXPECT_EQ(message(test::worldOf({"trn2u.48xlarge", 8, 8, 2, "X4"})),
            "two_step_pod_mesh: rank 4 is on node 4: want nodes 0 to 3 of one pod");
  EXPECT_EQ(message(test::worldOf({"trn2u.48xlarge", 3, 3, 2, "X4"})),
            "two_step_pod_mesh of 3 ranks: pod node 3 takes part with cores {}, node 0 with {0}: "
            "want the same on all four");
}

TEST(PodPartners, MustHaveTheCardinalitiesOfTheOperation) {
  const encPodGrid grid = gridOf(podOf(1), 3);
  const auto broken = [&](encOp op, auto&& change) {
    encPodPartners partners = encPodPartnersOf(grid, op);
    EXPECT_TRUE(encCheckPodPartners(partners, op).ok());
    change(partners);
    const Status status = encCheckPodPartners(partners, op);
    return status.ok() ? "" : status.error().message;
  };
  using P = encPodPartners;
  EXPECT_EQ(broken(encOp::AllGather, [](P& p) { p.destinations.pop_back(); }),
            "two_step_pod_mesh: AllGather of member 3 has 2 destinations {0, 2}: want 3");
  EXPECT_EQ(broken(encOp::AllGather, [](P& p) { p.direct_neighbor = p.proxy_neighbor; }),
            "two_step_pod_mesh: AllGather of member 3: member 0 is both its proxy and its direct "
            "neighbor: want two");
  EXPECT_EQ(broken(encOp::AllReduce, [](P& p) { std::swap(p.destinations[0], p.destinations[1]); }),
            "two_step_pod_mesh: AllReduce of member 3 has destinations {2, 0}: want 2, the proxy 0 "
            "and the direct neighbor 2");
  EXPECT_EQ(broken(encOp::AllReduce, [](P& p) { p.destinations.push_back(1); }),
            "two_step_pod_mesh: AllReduce of member 3 has destinations {0, 2, 1}: want 2, the "
            "proxy 0 and the direct neighbor 2");
  EXPECT_EQ(broken(encOp::ReduceScatter, [](P& p) { p.dim1_neighbor = -1; }),
            "two_step_pod_mesh: ReduceScatter of member 3 has neighbors 2 and -1 along the "
            "dimensions: want both");
  EXPECT_EQ(broken(encOp::ReduceScatter, [](P& p) { p.podNodeIds[1] = 3; }),
            "two_step_pod_mesh: ReduceScatter of member 3: pod_node_id 3 is its opposite's too: "
            "want one of the two greater");
  EXPECT_EQ(broken(encOp::ReduceScatter, [](P& p) { p.podNodeIds[0] = 2; }),
            "two_step_pod_mesh: ReduceScatter of member 3 on pod node 3: pod_node_id of its proxy "
            "is 2: want 0");
}

TEST(PodMesh, HasMembersThatAgree) {
  for (const bool first : {true, false}) {
    for (const bool writesOthers : {true, false}) {
      const World world = podOf(4);
      std::vector<enc_alg_mesh> meshes;
      for (int rank = 0; rank < world.rank_n(); rank++) {
        const enc_comm_info info = world.info(rank);
        const std::vector<int> ranks = encFlatStage(info, {}).ranks;
        const auto geometry = encMeshGeometryOf(info, ranks, rank).value();
        meshes.push_back(encBuildPodMesh(geometry, gridOf(world, rank),
                                         {first, writesOthers, info.sizes.workBytes})
                             .value()
                             .mesh);
      }
      const Status status = encCheckMeshes(meshes);
      EXPECT_TRUE(status.ok()) << status.error().message;
      for (const enc_alg_mesh_subtype& subtype : meshes[0].mesh_subtype)
        EXPECT_TRUE(subtype.is_two_step_pod_mesh) << subtype.name;
    }
  }
}

TEST(PodMesh, ComputesWhatNcclDoes) {
  uint64_t seed = 0;
  for (const int perNode : {1, 2, 4, 8}) {
    const World world = podOf(perNode);
    for (const encOp op : kOps) {
      for (const ncclRedOp_t redOp : {ncclSum, ncclAvg, ncclMax}) {
        for (const uint64_t count : {1, 7, 64, 1001}) {
          const encTask task = test::collective(op, count, seed % 2 ? ncclInt32 : ncclInt8, redOp);
          const encOperation operation = composed(world, task);
          const bool inPlace = seed++ % 3 == 0;
          ASSERT_EQ(test::check(world, operation, seed, inPlace), "")
              << test::label(world, task) << (inPlace ? " in place" : "");
        }
      }
    }
  }
}

TEST(PodMesh, IsVerifiedForEveryNumberOfRanksThatIsAdmitted) {
  for (const auto& [perNode, lnc] : std::vector<std::pair<int, int>>{
           {1, 2}, {2, 2}, {4, 2}, {8, 2}, {16, 2}, {32, 2}, {2, 1}, {8, 1}}) {
    const World world = podOf(perNode, lnc);
    for (const encOp op : kOps) {
      for (const bool inPlace : {false, true}) {
        const encTask task = test::collective(op, 37, ncclFloat32, ncclAvg);
        ASSERT_EQ(test::verified(world, {composed(world, task)}, inPlace), "")
            << test::label(world, task);
      }
    }
  }
}

// More ranks of a node than a transfer has sources or destinations.
TEST(PodMesh, IsVerifiedForWholeNodes) {
  for (const int lnc : {2, 1}) {
    const World world = podOf(128 / lnc, lnc, {4096, 256, 1 << 16});
    const encTask task = test::collective(encOp::AllReduce, 9001, ncclFloat32, ncclAvg);
    const encOperation operation = composed(world, task);
    ASSERT_EQ(test::verified(world, {operation}, true), "") << test::label(world, task);
    for (const encBlock& block : operation[0].queues[0].blocks) {
      for (const encDesc& desc : block.descs) {
        EXPECT_LE(desc.sources.size(), 64U);
        EXPECT_LE(desc.destinations.size(), 64U);
      }
    }
  }
}

TEST(PodMesh, RunsOnTrainium3) {
  const World world = podOf(4, 2, kTiny, "trn3p.48xlarge");
  for (const encOp op : kOps) {
    const encTask task = test::collective(op, 65, ncclFloat32);
    EXPECT_EQ(test::verified(world, {composed(world, task)}), "");
  }
}

TEST(PodMesh, IsVerifiedInSequences) {
  for (const int perNode : {1, 2, 4}) {
    const World world = podOf(perNode);
    for (const bool inPlace : {false, true}) {
      std::vector<encOperation> sequence;
      for (uint64_t i = 0; i < 10; i++) {
        const uint64_t counts[] = {1, 300, 0, 40, 9000};
        sequence.push_back(
            composed(world, test::collective(kOps[i * 2 % 3], counts[i * 3 % 5], ncclFloat32)));
        if (i % 3 == 1) sequence.push_back(sequence.back());
      }
      ASSERT_EQ(test::verified(world, sequence, inPlace), "") << world.text();
    }
  }
}

TEST(PodMesh, IsVerifiedBetweenOtherAlgorithms) {
  for (const int perNode : {1, 2}) {
    World world = podOf(perNode);
    const auto other = [&](encOp op, enc_alg_type alg) {
      World forced = world;
      forced.comm->options.forced = alg;
      return test::composeAll(forced, test::collective(op, 70, ncclFloat32));
    };
    const auto pod = [&](encOp op) {
      return composed(world, test::collective(op, 50, ncclFloat32));
    };
    const auto a2a = [&] {
      return test::composeAll(world, test::collective(encOp::AlltoAll, 9, ncclFloat32),
                              test::meshComposer());
    };
    const std::vector<encOperation> sequence{
        a2a(),
        pod(encOp::AllReduce),
        other(encOp::AllReduce, enc_alg_type::Ring),
        pod(encOp::AllGather),
        a2a(),
        a2a(),
        pod(encOp::AllGather),
        pod(encOp::ReduceScatter),
        other(encOp::AllGather, enc_alg_type::Ring),
        pod(encOp::ReduceScatter),
        a2a(),
        pod(encOp::AllReduce),
    };
    EXPECT_EQ(test::verified(world, sequence), "") << perNode;
  }
}

TEST(PodMesh, EndsInEveryOrderOfEvents) {
  const World world = podOf(2);
  for (const encOp op : kOps) {
    const encOperation operation = composed(world, test::collective(op, 200, ncclInt32));
    for (uint64_t seed = 0; seed < 60; seed++)
      ASSERT_EQ(test::check(world, operation, seed, seed % 2 == 0), "") << "seed " << seed;
  }
}

TEST(PodMesh, GivesBitwiseEqualResults) {
  const World world = podOf(4);
  const encTask task = test::collective(encOp::AllReduce, 301, ncclFloat32);
  std::vector<test::Launch> launches{test::makeLaunch(world, composed(world, task), false)};
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

TEST(PodMesh, MovesTheBytesThatItPromises) {
  for (const int perNode : {1, 2, 4}) {
    const World world = podOf(perNode);
    const auto n = static_cast<uint64_t>(4 * perNode);
    const uint64_t part = 320;  // whole lines, also by halves and by ranks
    const auto moved = [&](encOp op, uint64_t bytes) {
      std::vector<test::Launch> launches{
          test::makeLaunch(world, composed(world, test::collective(op, bytes, ncclInt8)), false)};
      const test::RunResult result = test::interpret(world, launches, 1);
      EXPECT_EQ(result.error, "");
      return result.sentBetweenRanks;
    };
    EXPECT_EQ(moved(encOp::AllGather, part), n * (n - 1) * part);
    EXPECT_EQ(moved(encOp::ReduceScatter, part), n * (n - 1) * part);
    EXPECT_EQ(moved(encOp::AllReduce, n * part), 2 * n * (n - 1) * part);
  }
}

/// Bytes that one rank's program moves to or from ranks of another node.
uint64_t bytesAcross(const World& world, const encProgram& program, int node) {
  uint64_t bytes = 0;
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks) {
      for (const encDesc& desc : block.descs) {
        for (const auto* list : {&desc.sources, &desc.destinations}) {
          for (const encAddress& address : *list) {
            if (world.comm->peers[address.rank].server == node) bytes += block.repeat * desc.bytes;
          }
        }
      }
    }
  }
  return bytes;
}

TEST(PodMesh, LoadsTheLinksOfBothSidesAlikeAndNoOthers) {
  const World world = podOf(2);
  for (const encOp op : kOps) {
    const uint64_t bytes = op == encOp::AllReduce ? 8 * 640 : 640;
    const encOperation operation = composed(world, test::collective(op, bytes, ncclInt8));
    const uint64_t each = (op == encOp::AllReduce ? 2 : 1) * 640 * 3 / 2;
    for (int rank = 0; rank < world.rank_n(); rank++) {
      const encPodGrid grid = gridOf(world, rank);
      EXPECT_EQ(bytesAcross(world, operation[rank], grid.podNode[grid.position ^ 1]), each);
      EXPECT_EQ(bytesAcross(world, operation[rank], grid.podNode[grid.position ^ 2]), each);
      EXPECT_EQ(bytesAcross(world, operation[rank], grid.podNode[grid.position ^ 3]), 0U);
    }
  }
}

TEST(PodMesh, DescriptorsDoNotGrowWithTheMessage) {
  const World world = podOf(2, 2, {});
  for (const encOp op : kOps) {
    const auto count = [&](uint64_t elements) {
      return test::descriptors(
          encComposePodMesh(world.info(1), test::collective(op, elements)).value());
    };
    EXPECT_LE(count(10000000001), 2 * count(100000001));
  }
}

TEST(PodMesh, MeetsAroundFunctions) {
  const World world = podOf(2);
  const auto barriers = [](bool first, bool last) -> test::Composer {
    return [=](const enc_comm_info& info, const encTask& task) -> Result<encProgram> {
      encBuilder builder(info, task, "two_step_pod_mesh");
      const encStage stage = encFlatStage(info, task);
      const auto geometry = TRY(encMeshGeometryOf(info, stage.ranks, stage.self));
      TRY(encStagePodMesh(builder, stage, geometry, {false, first, last}));
      return std::move(builder).finish();
    };
  };
  std::vector<encOperation> sequence;
  for (const uint64_t count : {0, 0, 9, 0, 9, 9, 0}) {
    for (const auto& [first, last] : std::vector<std::pair<bool, bool>>{
             {true, true}, {true, false}, {false, true}, {true, false}}) {
      sequence.push_back(test::composeAll(
          world, test::collective(encOp::AllGather, count, ncclInt32), barriers(first, last)));
    }
  }
  EXPECT_EQ(test::verified(world, sequence), "");
}

TEST(PodMesh, SaysWhatItCannotDo) {
  const auto message = [](const World& world, encOp op) {
    const auto program = encComposePodMesh(world.info(0), test::collective(op, 9));
    return program.ok() ? "" : program.error().message;
  };
  EXPECT_EQ(message(podOf(1), encOp::AlltoAll),
            "two_step_pod_mesh: AlltoAll: want AllGather, AllReduce or ReduceScatter");
  EXPECT_EQ(message(podOf(1, 2, {256, 256, 16}), encOp::AllReduce),
            "mesh: work areas have room for 2 bytes of each rank or group: want at least one "
            "element of 4");
}

/// A stage in the middle of others: INPUT and OUTPUT are scratch, or OUTPUT only.
test::Composer inner(encOp op, bool toOutput) {
  return [=](const enc_comm_info& info, const encTask& task) -> Result<encProgram> {
    encBuilder builder(info, task, "two_step_pod_mesh");
    const encStage flat = encFlatStage(info, task);
    const auto geometry = TRY(encMeshGeometryOf(info, flat.ranks, flat.self));
    // What the operation puts in, goes to scratch first; what comes out of the stage, to OUTPUT.
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
    const bool gather = op == encOp::AllGather;
    const uint64_t in = gather ? flat.partBytes : flat.messageBytes;
    const uint64_t out = op == encOp::ReduceScatter ? flat.partBytes : flat.messageBytes;
    const size_t queue = builder.mainQueue(0);
    builder.transfer(queue, {.sources = {flat.in(flat.self, 0)},
                             .destinations = {stage.in(flat.self, 0)},
                             .bytes = in});
    TRY(encStagePodMesh(builder, stage, geometry));
    if (!toOutput) {
      builder.transfer(queue, {.sources = {stage.out(flat.self, 0)},
                               .destinations = {flat.out(flat.self, 0)},
                               .bytes = out});
    }
    return std::move(builder).finish();
  };
}

TEST(PodMesh, IsAnInnerStage) {
  for (const int perNode : {1, 2}) {
    const World world = podOf(perNode, 2, {256, 256, 1 << 18});
    for (const bool toOutput : {true, false}) {
      std::vector<encOperation> sequence;
      for (const encOp op : kOps) {
        const encTask task = test::collective(op, 501, ncclInt32);
        sequence.push_back(test::composeAll(world, task, inner(op, toOutput)));
        ASSERT_EQ(test::check(world, sequence.back(), 5), "") << test::label(world, task);
        sequence.push_back(sequence.back());
      }
      EXPECT_EQ(test::verified(world, sequence), "") << perNode << toOutput;
    }
  }
}

size_t podSteps(const encProgram& program) {
  size_t count = 0;
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks) {
      for (const encDesc& desc : block.descs) {
        count +=
            desc.step == encMeshStep(enc_mesh_event_type::EVT_LOCAL_AND_POD_GRP_BRDCST) ? 1 : 0;
      }
    }
  }
  return count;
}

TEST(PodMesh, IsWhatSelectionComposes) {
  World world = podOf(4);
  for (const encOp op : kOps) {
    const encTask task = test::collective(op, 70, ncclFloat32);
    world.comm->options.forced = enc_alg_type::TwoStepPodMesh;
    EXPECT_EQ(encCompose(world.info(3), task).value(),
              encComposePodMesh(world.info(3), task).value());
  }
}

TEST(PodMesh, IsTheOuterStageOfHierarchies) {
  World world = podOf(4, 2, {4096, 4096, 1 << 16});
  world.comm->options.forced = enc_alg_type::Hier;
  for (const encOp op : kOps) {
    std::vector<encOperation> sequence;
    for (const uint64_t count : {1, 333}) {
      const encTask task = test::collective(op, count, ncclFloat32, ncclAvg);
      sequence.push_back(test::composeAll(world, task));
      if (op != encOp::ReduceScatter) {
        EXPECT_GT(podSteps(sequence.back()[0]), 0U);
      }
      sequence.push_back(sequence.back());
    }
    EXPECT_EQ(test::verified(world, sequence, true), "") << encOpName(op);
    const encTask task = test::collective(op, 333, ncclInt32);
    EXPECT_EQ(test::check(world, test::composeAll(world, task), 4), "") << encOpName(op);
  }
}

}  // namespace
}  // namespace nccom
