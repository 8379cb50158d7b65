// What is particular to meshes, hierarchies, machines and the text about them.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "enc/alg_docs.h"
#include "enc/alg_stages.h"
#include "enc/alg_table.h"
#include "test/unit/enc/alg_cases.h"

namespace nccom {
namespace {

using namespace test;

TEST(AlgMesh, IsOfTheKindOfItsMachine) {
  const auto type = [](const Machine& machine, int nodes, int ranks) {
    return encMeshType(describe(machine, nodes, ranks));
  };
  EXPECT_EQ(type({"trn1.32xlarge", 1, ""}, 1, 32), enc_alg_mesh_type::FullMesh);
  EXPECT_EQ(type({"inf2.48xlarge", 1, ""}, 1, 8), enc_alg_mesh_type::FullMesh);
  EXPECT_EQ(type({"inf2.48xlarge", 1, ""}, 1, 24), enc_alg_mesh_type::GroupedMesh);
  EXPECT_EQ(type({"inf2.48xlarge", 1, ""}, 1, 7), enc_alg_mesh_type::Invalid);
  EXPECT_EQ(type({"trn2.48xlarge", 2, ""}, 1, 64), enc_alg_mesh_type::MeshTrn2);
  EXPECT_EQ(type({"trn2.48xlarge", 2, ""}, 8, 8), enc_alg_mesh_type::FullMesh);
  EXPECT_EQ(type({"trn2u.48xlarge", 2, "X4"}, 4, 256), enc_alg_mesh_type::MeshTrn2);
  EXPECT_EQ(type({"host", 1, ""}, 1, 5), enc_alg_mesh_type::FullMesh);
}

TEST(AlgMesh, FitsItsSubtypesIntoTheSlots) {
  for (const encSituation& s : allGroups()) {
    const encAlgOptions options;
    int slots = 0;
    for (const encWindow& window : encWindows({s, options})) {
      if (window.law->mesh != enc_alg_mesh_type::Invalid) slots++;
      for (int op = 0; op < kEncOps; op++) {
        EXPECT_EQ(window.op_max_limit[op], window.op_max_limit_sbuf[op]);
        EXPECT_LE(window.op_min_limit[op], window.op_max_limit[op]) << window.law->name;
      }
    }
    EXPECT_LE(slots, 20);
  }
}

encSituation switched(int devices, int lnc, int nodes = 1) {
  encSituation s;
  s.instance = NeuronInstanceFamily::Trn3Pds98;
  s.family = NeuronFamily::SwitchV1;
  s.lnc = lnc;
  s.coresPerDevice = s.ranksPerDevice = 8 / lnc;
  s.devices = devices;
  s.local_rank_n = devices * s.ranksPerDevice;
  s.node_n = nodes;
  s.rank_n = s.local_rack_rank_n = s.local_rank_n * nodes;
  if (nodes > 1) {
    s.podType = NeuronPodType::Switch;
    s.enable_pod = true;
    s.pod_n = 1;
  }
  return s;
}

TEST(AlgSwitchMesh, HasTheWindowsOfTheRuntime) {
  const auto last = [](const encSituation& s, Op op, Alg alg) {
    uint64_t most = 0;
    const encAlgOptions options;
    for (const encWindow& window : encWindows({s, options})) {
      if (window.law->alg == alg) {
        most = std::max(most, window.op_max_limit_sbuf[static_cast<size_t>(op)]);
      }
    }
    return most;
  };
  const std::vector<std::array<uint64_t, 4>> expected{// devices, nodes, single step, bw-opt
                                                      {2, 1, 0x8000, 0x400000},
                                                      {4, 1, 0x4000, 0x1000000},
                                                      {4, 2, 0x2000, 0x1800000},
                                                      {4, 4, 0x2000, 0x1800000},
                                                      {4, 8, 0, 0x1800000}};
  for (const auto& [devices, nodes, singleStep, bwOpt] : expected) {
    const encSituation s = switched(static_cast<int>(devices), 2, static_cast<int>(nodes));
    EXPECT_EQ(encMeshType(s), enc_alg_mesh_type::MeshSwitch);
    EXPECT_EQ(last(s, Op::AllReduce, Alg::SingleStepMesh), singleStep) << s.rank_n;
    EXPECT_EQ(last(s, Op::AllGather, Alg::BwOptMesh), bwOpt) << s.rank_n;
    EXPECT_EQ(last(s, Op::AllReduce, Alg::LatencyOptMesh), 0x400000U);
  }
}

TEST(AlgSwitchMesh, IsBandwidthOptimisedAtLnc2Only) {
  const encAlgSelection two = select(switched(4, 2), Op::AllGather, 8 * kMiB);
  EXPECT_EQ(two.alg, Alg::BwOptMesh);
  EXPECT_EQ(select(switched(4, 2), Op::AllGather, 1000).alg, Alg::LatencyOptMesh);
  EXPECT_EQ(select(switched(4, 2), Op::AllReduce, 1000).alg, Alg::SingleStepMesh);
  const encAlgSelection one = select(switched(4, 1), Op::AllGather, 3 * kMiB);
  EXPECT_EQ(one.alg, Alg::LatencyOptMesh);
  EXPECT_HAS(why(one, Alg::BwOptMesh), "Bandwidth Opt All Gather does not support LNC1");
  EXPECT_EQ(select(switched(4, 2), Op::ReduceScatter, 1000).alg, Alg::Mesh);
  EXPECT_EQ(select(switched(4, 2), Op::AlltoAll, kMiB).alg, Alg::Mesh);
  EXPECT_HAS(errorOf(switched(1, 2), Op::AlltoAll, 8), "Mesh algo untested with 4 ranks");
}

TEST(AlgPodMesh, ServesTheFourNodesOfAnUltraServer) {
  const Machine ultra{"trn2u.48xlarge", 2, "X4"};
  EXPECT_EQ(select(describe(ultra, 4, 256), Op::AllReduce, 1000).alg, Alg::TwoStepPodMesh);
  EXPECT_EQ(select(describe(ultra, 4, 256), Op::AllReduce, 90 * kMiB).alg, Alg::Hier);
  EXPECT_EQ(select(describe(ultra, 4, 256), Op::AlltoAll, kMiB).alg, Alg::Mesh);
  const encAlgSelection two = select(describe(ultra, 2, 128), Op::AllReduce, 1000);
  EXPECT_EQ(two.alg, Alg::Hier);
  EXPECT_HAS(why(two, Alg::TwoStepPodMesh), "found node_n 2, pod_n 1");
  const encAlgSelection eight = select(describe(ultra, 8, 8), Op::AllReduce, 1000);
  EXPECT_HAS(why(eight, Alg::TwoStepPodMesh), "found node_n 8, in no pod");
}

TEST(AlgHier, ChoosesEachStageForItsOwnGroupAndSize) {
  encSituation s = trn2(64 * 16, 16);
  s.bytes = 64 * kMiB;  // 1 MiB between nodes
  const auto choices = encSelectHier(s, {});
  ASSERT_TRUE(choices.ok()) << choices.error().message;
  EXPECT_EQ(choices.value()[0].alg, Alg::Kangaring);
  EXPECT_EQ(choices.value()[2].alg, Alg::InterRdh);
  EXPECT_EQ(choices.value()[3].alg, Alg::InterRdh);
  EXPECT_EQ(choices.value()[4].losers.size(), 1U);
  EXPECT_EQ(encHierText(choices.value()),
            "Hier algorithm selections - alg_intra_allg 3 alg_intra_redsct 3 alg_inter_allr 7 "
            "alg_inter_allg 7 alg_inter_redsct 7");
  s.bytes = 8 * kMiB;
  EXPECT_EQ(encSelectHier(s, {}).value()[0].alg, Alg::IntraRdh);
  EXPECT_EQ(encSelectHier(s, {}).value()[2].alg, Alg::Mesh);
  s.bytes = kMiB / 2;
  EXPECT_EQ(encSelectHier(s, {}).value()[1].alg, Alg::Mesh);
  EXPECT_HAS(encSelectHier(trn2(), {}).error().message, "wants \"the group spans nodes\"");
}

TEST(AlgHier, TakesOnlyCandidatesOfTheSlotAndTheFirstPossible) {
  const std::vector<std::set<Alg>> legal{
      {Alg::IntraRdh, Alg::Mesh, Alg::Kangaring, Alg::Ring, Alg::SingleStepMesh,
       Alg::LatencyOptMesh, Alg::BwOptMesh},
      {Alg::IntraRdh, Alg::Mesh, Alg::Kangaring, Alg::Ring, Alg::SingleStepMesh,
       Alg::LatencyOptMesh, Alg::BwOptMesh},
      {Alg::Mesh, Alg::InterRdh, Alg::SingleCycleRing, Alg::Ring, Alg::TwoStepPodMesh},
      {Alg::Mesh, Alg::InterRdh, Alg::Ring, Alg::TwoStepPodMesh},
      {Alg::Mesh, Alg::InterRdh, Alg::Ring, Alg::TwoStepPodMesh}};
  for (encSituation s : allGroups()) {
    for (const uint64_t bytes : {uint64_t{64}, 4 * kMiB, 4096 * kMiB}) {
      s.bytes = bytes;
      const auto choices = encSelectHier(s, {});
      if (!choices.ok()) continue;
      for (int slot = 0; slot < kHierSlots; slot++) {
        const encHierChoice& choice = choices.value()[slot];
        EXPECT_TRUE(legal[slot].contains(choice.alg)) << slot << encAlgName(choice.alg);
        const auto candidates = encHierCandidates(static_cast<encHierSlot>(slot));
        EXPECT_EQ(choice.alg == Alg::Ring, choice.losers.size() == candidates.size());
      }
    }
  }
  EXPECT_EQ(encHierStages(Op::AllGather),
            (std::vector<encHierSlot>{encHierSlot::InterAllGather, encHierSlot::IntraAllGather}));
  EXPECT_EQ(encHierStages(Op::AllReduce).size(), 3U);
  EXPECT_TRUE(encHierStages(Op::AlltoAll).empty());
}

TEST(AlgHybridRing, IsOneRankADeviceOnTwoCycles) {
  const encMachine machine = machineOf({"trn2.48xlarge", 2, ""});
  std::vector<int> cores;
  for (int device = 0; device < 16; device++)
    cores.push_back(4 * device + 1);
  encSituation s = encDescribe(machine, {cores}).value();
  EXPECT_EQ(s.mlaCycles, 2);
  EXPECT_TRUE(s.isHybridRing());
  const encAlgSelection ring = select(s, Op::AllReduce, 900 * kMiB);
  EXPECT_EQ(ring.alg, Alg::Ring);  // not whole devices: no kangaring
  EXPECT_TRUE(ring.hybridRing);
  EXPECT_FALSE(trn2(16).isHybridRing());
}

TEST(AlgDescribe, KnowsEveryPlatformAtEveryNodeCount) {
  int described = 0;
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    std::vector<NeuronPodShape> shapes{kNoPod};
    shapes.insert(shapes.end(), platform->pods.begin(), platform->pods.end());
    for (const int lnc : platform->lncs) {
      for (const NeuronPodShape& shape : shapes) {
        for (const int nodes : {1, 2, 4, 8, 16}) {
          const encMachine machine{platform, lnc, shape, 0};
          const auto cores = encDealtCores(machine, nodes, nodes * platform->logicalCores(lnc));
          const auto s = encDescribe(machine, cores.value());
          ASSERT_TRUE(s.ok()) << s.error().message;
          EXPECT_EQ(s.value().local_rank_n, platform->logicalCores(lnc));
          EXPECT_EQ(s.value().kangaringPaths > 0 || s.value().devices < 2,
                    platform->family != NeuronFamily::Sunda || s.value().devices < 2)
              << platform->name;
          for (const Op op : kGatherReduce) {
            for (const uint64_t bytes : {1000 * uint64_t{1}, 20 * kMiB}) {
              const encAlgSelection selection = select(s.value(), op, bytes);
              EXPECT_FALSE(nodes > 1 && selection.alg == Alg::Kangaring);
            }
          }
          described++;
        }
      }
    }
  }
  EXPECT_GT(described, 100);
}

TEST(AlgDescribe, RefusesGroupsThatAreNot) {
  const encMachine machine = machineOf({"trn2.48xlarge", 2, ""});
  EXPECT_HAS(encDealtCores(machine, 2, 3).error().message, "3 ranks on 2 nodes");
  EXPECT_HAS(encDealtCores(machine, 1, 65).error().message, "it has 64 logical cores");
  EXPECT_HAS(encDescribe(machine, {{0, 0}}).error().message, "core 0 is there twice");
  EXPECT_HAS(encDescribe(machine, {{64}}).error().message, "its cores are 0 to 63");
  EXPECT_HAS(encDescribe(machine, {{0}, {}}).error().message, "node 1 has no rank");
  encSituation s = trn2();
  s.local_rank_n = 5;
  EXPECT_HAS(errorOf(s, Op::AllReduce, 8), "local_rank_n is 5");
}

TEST(AlgDescribe, SeesWhereNodesDiffer) {
  const encMachine machine = machineOf({"trn2.48xlarge", 2, ""});
  const encSituation uneven = encDescribe(machine, {{0, 1, 2, 3}, {0, 1}}).value();
  EXPECT_EQ(uneven.local_rank_n, 0);
  EXPECT_HAS(why(select(uneven, Op::AllReduce, 8), Alg::Hier), "different numbers of ranks");
  const encSituation shifted = encDescribe(machine, {{0, 1}, {2, 3}}).value();
  EXPECT_FALSE(shifted.sameLocals);
  EXPECT_EQ(select(shifted, Op::AllReduce, 8).alg, Alg::Ring);
  // Two devices that are not linked are no cube.
  const encSituation apart = encDescribe(machine, {{0, 1, 2, 3, 40, 41, 42, 43}}).value();
  EXPECT_FALSE(apart.devicesFormCube);
}

TEST(AlgText, TellsTheStoryOfEachAlgorithm) {
  encSituation s = trn2();
  s.bytes = 4 * kMiB;
  const std::string text = encSelectionText(s, encSelectAlg(s, {}).value());
  EXPECT_HAS(text, "AllReduce, 4194304 bytes, on trn2 LNC 2, 64 ranks: 1 node x 16 devices x 4");
  EXPECT_HAS(text, "* intra_rdh         chosen: ");
  EXPECT_HAS(text, "  kangaring         possible, outranked: intra_rdh comes before it");
  EXPECT_HAS(text,
             "  single_step_mesh  admitted, cannot post: is not for 4194304 bytes; single-step");
  EXPECT_HAS(text, "  hier              not admitted: wants \"the group spans nodes\"");
}

TEST(AlgDocs, AreTheTables) {
  const std::string path = "docs/algorithms.md";
  if (std::getenv("LIBNCCOM_GOLDEN_WRITE") != nullptr) {
    std::ofstream(path) << encAlgorithmsMarkdown();
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), encAlgorithmsMarkdown()) << "rewrite it with LIBNCCOM_GOLDEN_WRITE=1";
}

}  // namespace
}  // namespace nccom
