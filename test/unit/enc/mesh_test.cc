// Meshes of every kind: programs that verify, and give the right values.
#include "enc/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "enc/alg_table.h"
#include "enc/select.h"
#include "enc/verify.h"
#include "misc/datatype.h"
#include "test/unit/enc/mesh_worlds.h"

namespace nccom {
namespace {

using test::MeshGroup;
using test::World;
using Alg = enc_alg_type;

constexpr encSizes kTiny{256, 256, 4096};

std::string label(const World& world, const encTask& task) {
  return std::string(encOpName(task.op)) + " " + std::to_string(task.count) + " of " + world.text();
}

std::string verify(const World& world, const std::vector<encTask>& tasks, bool inPlace,
                   const std::vector<Alg>& algs = {Alg::Mesh}) {
  std::vector<encOperation> operations;
  for (size_t i = 0; i < tasks.size(); i++) {
    const Alg alg = tasks[i].op == encOp::AllReduce ? algs[i % algs.size()] : Alg::Mesh;
    operations.push_back(test::composeAll(world, tasks[i], test::meshComposer(alg)));
    if (operations.back().empty()) return "not composed";
  }
  const Status status = encVerify(world.info(0), operations, {.inPlace = inPlace, .jump = true});
  return status.ok() ? "" : status.error().message;
}

/// Groups of each admitted size of all machines, up to `most` ranks.
std::vector<World> groups(int most, const encSizes& sizes) {
  std::vector<World> worlds;
  const auto add = [&](const MeshGroup& group) {
    if (group.ranks <= most) worlds.push_back(test::worldOf(group, sizes));
  };
  for (const int ranks : {2, 3, 5, 8, 65})
    add({"host", 1, ranks});
  for (const int ranks : {2, 4, 8, 6, 12, 18, 24})
    add({"inf2.48xlarge", 1, ranks});
  for (const int ranks : {2, 4, 8, 16, 32})
    add({"trn1.32xlarge", 1, ranks});
  for (const int lnc : {1, 2}) {
    for (const int ranks : {2, 4, 8, 16, 32, 64, 128}) {
      if (ranks <= 128 / lnc) add({"trn2.48xlarge", 1, ranks, lnc});
    }
  }
  for (const int nodes : {2, 3, 8})
    add({"trn1.32xlarge", nodes, nodes});
  add({"host", 4, 4});
  return worlds;
}

std::vector<Alg> algsOf(const World& world, encOp op) {
  if (op != encOp::AllReduce || world.comm->situation.node_n > 1) return {Alg::Mesh};
  if (world.comm->situation.isInf2() && world.rank_n() % 6 == 0) return {Alg::Mesh};
  if (!world.comm->situation.isHost() && world.rank_n() > 64) return {Alg::Mesh};
  return {Alg::Mesh, Alg::SingleStepMesh};
}

TEST(Mesh, ComputesWhatNcclDoes) {
  uint64_t seed = 0;
  for (const World& world : groups(24, kTiny)) {
    for (const encOp op : test::kMeshOps) {
      for (const Alg alg : algsOf(world, op)) {
        for (const uint64_t count : {1, 7, 64, 1001}) {
          const bool inPlace = seed++ % 2 == 0 && op != encOp::AlltoAll;
          const encTask task =
              test::collective(op, count, ncclInt32, seed % 3 == 0 ? ncclAvg : ncclSum);
          const auto programs = test::composeAll(world, task, test::meshComposer(alg));
          ASSERT_FALSE(programs.empty());
          ASSERT_EQ(test::check(world, programs, seed, inPlace), "")
              << encAlgName(alg) << (inPlace ? " in place " : " ") << label(world, task);
        }
      }
    }
  }
}

TEST(Mesh, IsVerified) {
  unsigned turn = 0;
  for (const World& world : groups(128, kTiny)) {
    for (const encOp op : test::kMeshOps) {
      for (const Alg alg : algsOf(world, op)) {
        const encTask task = test::collective(op, 1 + turn * 37 % 200, ncclFloat32, ncclAvg);
        ASSERT_EQ(verify(world, {task}, turn++ % 2 == 0, {alg}), "")
            << encAlgName(alg) << " " << label(world, task);
      }
    }
  }
}

TEST(Mesh, EveryOperatorAndTypeGivesTheRightValues) {
  uint64_t seed = 0;
  for (const MeshGroup& group : {MeshGroup{"host", 1, 3},
                                 {"trn1.32xlarge", 1, 4},
                                 {"trn2.48xlarge", 1, 8},
                                 {"host", 2, 2}}) {
    const World world = test::worldOf(group, kTiny);
    for (const encOp op : {encOp::AllReduce, encOp::ReduceScatter}) {
      for (const Alg alg : algsOf(world, op)) {
        for (const ncclDataType_t type :
             {ncclInt8, ncclUint8, ncclInt32, ncclInt64, ncclFloat32, ncclFloat64}) {
          for (int redOp = 0; redOp < static_cast<int>(kRedOpPreMulSum); redOp++) {
            const encTask task = test::collective(op, 333, type, static_cast<ncclRedOp_t>(redOp));
            const auto programs = test::composeAll(world, task, test::meshComposer(alg));
            ASSERT_EQ(test::check(world, programs, ++seed), "")
                << encAlgName(alg) << " " << ncclTypeName(type) << " " << redOp << " "
                << label(world, task);
          }
        }
      }
    }
  }
}

TEST(Mesh, EndsInEveryOrderOfEvents) {
  for (const MeshGroup& group :
       {MeshGroup{"trn1.32xlarge", 1, 4}, {"trn2.48xlarge", 1, 8}, {"host", 3, 3}}) {
    const World world = test::worldOf(group, kTiny);
    for (const encOp op : test::kMeshOps) {
      for (const Alg alg : algsOf(world, op)) {
        const auto programs =
            test::composeAll(world, test::collective(op, 700, ncclInt32), test::meshComposer(alg));
        for (uint64_t seed = 0; seed < 40; seed++) {
          const bool inPlace = seed % 2 == 0 && op != encOp::AlltoAll;
          ASSERT_EQ(test::check(world, programs, seed, inPlace), "")
              << encAlgName(alg) << " " << encOpName(op) << " seed " << seed;
        }
      }
    }
  }
}

TEST(Mesh, IsAFunctionOfItsArguments) {
  for (const World& world : groups(16, kTiny)) {
    for (const encOp op : test::kMeshOps) {
      const encTask task = test::collective(op, 4321);
      const auto together = test::composeAll(world, task, test::meshComposer());
      for (int rank = world.rank_n() - 1; rank >= 0; rank -= 3)
        EXPECT_EQ(encComposeMesh(world.info(rank), task, Alg::Mesh).value(), together[rank]);
    }
  }
}

/// Bytes between ranks, over all of them: the closed forms of mesh.h.
uint64_t promisedTraffic(const World& world, const encTask& task, Alg alg) {
  const auto n = static_cast<uint64_t>(world.rank_n());
  const auto c = static_cast<uint64_t>(world.comm->situation.ranksPerDevice);
  const uint64_t bytes = task.count * ncclTypeSize(task.type);
  const bool isIntra = world.comm->situation.node_n == 1;
  const bool isTrn2 = world.comm->situation.family == NeuronFamily::Cayman && isIntra &&
                      !world.comm->situation.isHost();
  if (task.op == encOp::AllReduce) {
    const bool oneStep = !isIntra || (alg == Alg::SingleStepMesh && n > 2);
    return (oneStep ? n : 2) * (n - 1) * bytes;
  }
  const uint64_t fetched =
      task.op == encOp::AllGather && isTrn2 ? n * (n / c - 1) * (c - 1) / c : 0;
  return (n * (n - 1) + fetched) * bytes;
}

TEST(Mesh, MovesTheBytesThatItPromises) {
  for (const World& world : groups(24, {4096, 4096, 1 << 20})) {
    for (const encOp op : test::kMeshOps) {
      for (const Alg alg : algsOf(world, op)) {
        const encTask task = test::collective(op, 1024);
        std::vector<test::Launch> launches{
            test::makeLaunch(world, test::composeAll(world, task, test::meshComposer(alg)), false)};
        EXPECT_EQ(test::interpret(world, launches, 1).sentBetweenRanks,
                  promisedTraffic(world, task, alg))
            << encAlgName(alg) << " " << label(world, task);
      }
    }
  }
}

/// Bytes that ranks read from, or write to, other devices than their own.
uint64_t betweenDevices(const World& world, const std::vector<encProgram>& programs) {
  uint64_t bytes = 0;
  for (const encProgram& program : programs) {
    const auto isElsewhere = [&](const encAddress& address) {
      return world.comm->peers[address.rank].device != world.comm->peers[program.rank].device;
    };
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks) {
        for (const encDesc& desc : block.descs) {
          const auto count =
              std::count_if(desc.sources.begin(), desc.sources.end(), isElsewhere) +
              std::count_if(desc.destinations.begin(), desc.destinations.end(), isElsewhere);
          bytes += static_cast<uint64_t>(count) * desc.bytes * block.repeat;
        }
      }
    }
  }
  return bytes;
}

TEST(Mesh, TeamsSendOnce) {
  constexpr uint64_t kBytes = 256 * 4;
  const World world = test::worldOf({"trn2.48xlarge", 1, 64}, {4096, 4096, 1 << 20});
  const auto sent = [&](encOp op, uint64_t count) {
    return betweenDevices(world, test::composeAll(world, test::collective(op, count, ncclInt8),
                                                  test::meshComposer()));
  };
  EXPECT_EQ(sent(encOp::AllGather, kBytes), 64 * 15 * kBytes);
  EXPECT_EQ(sent(encOp::ReduceScatter, kBytes), 64 * 15 * kBytes);
  EXPECT_EQ(sent(encOp::AllReduce, 64 * kBytes), 2 * 64 * 15 * kBytes);
  EXPECT_EQ(sent(encOp::AlltoAll, kBytes), 64 * 60 * kBytes);
}

TEST(Mesh, DealsItsTransfersEvenly) {
  const World world = test::worldOf({"trn2.48xlarge", 1, 64}, {4096, 4096, 1 << 20});
  const auto programs =
      test::composeAll(world, test::collective(encOp::AllGather, 1024), test::meshComposer());
  for (const encProgram& program : programs) {
    const std::string text = encDump(program);
    size_t signals = 0;
    for (size_t at = 0; (at = text.find("EVT_INTER_GRP_BRDCST inc", at)) != std::string::npos; at++)
      signals++;
    EXPECT_GE(signals, 3u) << "rank " << program.rank;
    EXPECT_LE(signals, 4u) << "rank " << program.rank;
  }
}

TEST(Mesh, ExchangesInAPod) {
  const World world = test::worldOf({"trn2u.48xlarge", 4, 32, 2, "X4"}, kTiny);
  const encTask task = test::collective(encOp::AlltoAll, 33, ncclInt32);
  const auto programs = test::composeAll(world, task, test::meshComposer());
  EXPECT_EQ(test::check(world, programs, 1), "");
  EXPECT_EQ(verify(world, {task, task}, false), "");
}

// Small and large messages, all operations, one step and two, each after each.
TEST(Mesh, IsVerifiedInSequences) {
  for (const World& world : groups(16, kTiny)) {
    const bool hasSingle = algsOf(world, encOp::AllReduce).size() > 1;
    for (uint64_t seed = 0; seed < 3; seed++) {
      std::vector<encTask> tasks;
      for (uint64_t i = 0; i < 7; i++) {
        const encOp op = test::kMeshOps[(seed + i * 3) % test::kMeshOps.size()];
        const uint64_t counts[] = {1, 300, 0, 40, 2500};
        tasks.push_back(test::collective(op, counts[(seed * 2 + i) % 5]));
      }
      tasks.push_back(tasks.back());
      const std::vector<Alg> algs =
          hasSingle ? std::vector<Alg>{Alg::SingleStepMesh, Alg::Mesh, Alg::SingleStepMesh}
                    : std::vector<Alg>{Alg::Mesh};
      ASSERT_EQ(verify(world, tasks, seed % 2 == 0, algs), "") << world.text() << " seed " << seed;
    }
  }
}

TEST(Mesh, TakesMessagesOfAnySize) {
  for (const MeshGroup& group : {MeshGroup{"host", 1, 3},
                                 {"trn1.32xlarge", 1, 8},
                                 {"trn2.48xlarge", 1, 8},
                                 {"inf2.48xlarge", 1, 12},
                                 {"host", 3, 3}}) {
    const World world = test::worldOf(group, kTiny);
    for (const encOp op : test::kMeshOps) {
      for (const Alg alg : algsOf(world, op)) {
        const encTask task = test::collective(op, 9001);
        for (const bool inPlace : {false, true}) {
          ASSERT_EQ(verify(world, {task, task}, inPlace, {alg}), "")
              << encAlgName(alg) << " " << label(world, task);
        }
      }
    }
  }
}

// A transfer folds 64 sources; the user lets meshes span more nodes than that.
TEST(Mesh, SpansAsManyNodesAsTheUserLetsIt) {
  World world = test::worldOf({"host", 66, 66}, {256, 256, 1 << 16});
  world.comm->options.interMeshMaxNodes = 66;
  for (const encOp op : {encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather}) {
    const encTask task = test::collective(op, 5, ncclInt32, ncclAvg);
    ASSERT_EQ(encSelect(world.info(0), task).value().algorithm, encAlgorithmOf(Alg::Mesh));
    const auto programs = test::composeAll(world, task);
    ASSERT_FALSE(programs.empty());
    // The verifier looks at values, and at the order of additions, too.
    for (const bool inPlace : {false, true}) {
      const Status status =
          encVerify(world.info(0), std::vector<encOperation>{programs}, {.inPlace = inPlace});
      EXPECT_TRUE(status.ok()) << label(world, task) << ": " << status.error().message;
    }
  }
}

TEST(Mesh, DescriptorsDoNotGrowWithTheMessage) {
  const auto descriptors = [](const World& world, const encTask& task, Alg alg) {
    size_t count = 0;
    const encProgram program = encComposeMesh(world.info(1), task, alg).value();
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks)
        count += block.descs.size();
    }
    return count;
  };
  for (const MeshGroup& group : {MeshGroup{"host", 1, 3},
                                 {"trn1.32xlarge", 1, 8},
                                 {"trn2.48xlarge", 1, 8},
                                 {"inf2.48xlarge", 1, 12},
                                 {"host", 3, 3}}) {
    const World world = test::worldOf(group);
    for (const encOp op : test::kMeshOps) {
      for (const Alg alg : algsOf(world, op)) {
        const size_t large = descriptors(world, test::collective(op, 1000001), alg);
        const size_t huge = descriptors(world, test::collective(op, 1000000001), alg);
        EXPECT_LE(huge, 2 * large)
            << encAlgName(alg) << " " << label(world, test::collective(op, 0));
      }
    }
  }
}

}  // namespace
}  // namespace nccom
