#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "enc/alg_table.h"
#include "test/unit/enc/alg_cases.h"

namespace nccom {
namespace {

using namespace test;

TEST(AlgTypes, HaveTheRuntimesNumbers) {
  EXPECT_EQ(static_cast<int>(Alg::IntraRdh), 5);
  EXPECT_EQ(static_cast<int>(Alg::InterRdh), 7);
  EXPECT_EQ(algBit(Alg::BwOptMesh, enc_comm_type::Inter), 21);
  EXPECT_EQ(kAllAlgTypes, 0x3fffffU);
  EXPECT_EQ(encMetaringType(Alg::Kangaring), metaring_type::Kangaring);
  EXPECT_EQ(encMetaringType(Alg::InterRdh), metaring_type::Rdh);
  EXPECT_EQ(encMetaringType(Alg::IntraRdh), metaring_type::Invalid);
  EXPECT_STREQ(encAlgLogName(Alg::SingleCycleRing), "Invalid");
  std::set<std::string> names;
  for (int i = 0; i < kEncAlgs; i++) {
    const auto alg = static_cast<Alg>(i);
    EXPECT_EQ(encAlgRowOf(alg).alg, alg);
    EXPECT_TRUE(names.insert(encAlgName(alg)).second);
    EXPECT_EQ(encAlgOf(encAlgName(alg), enc_comm_type::Intra).value(), alg);
  }
  EXPECT_EQ(encAlgOf("rdh", enc_comm_type::Intra).value(), Alg::IntraRdh);
  EXPECT_EQ(encAlgOf("rdh", enc_comm_type::Inter).value(), Alg::InterRdh);
  EXPECT_HAS(encAlgOf("tree", enc_comm_type::Intra).error().message, "known are ring, hier, mesh");
}

TEST(AlgTypes, AreNumberedAndNamedAsInTheRuntime) {
  using Ring = metaring_type;
  using Pattern = enc_pattern_t;
  const struct {
    const char* name;
    const char* inLogs;
    Ring ring;
    Pattern pattern;
  } algs[] = {{"ring", "Ring", Ring::Ring, Pattern::Ring},
              {"hier", "Hier", Ring::Invalid, Pattern::Invalid},
              {"mesh", "Mesh", Ring::Invalid, Pattern::Mesh},
              {"kangaring", "Kangaring", Ring::Kangaring, Pattern::Ring},
              {"single_cycle_ring", "Invalid", Ring::SingleCycleRing, Pattern::Ring},
              {"intra_rdh", "RDH", Ring::Invalid, Pattern::Mesh},
              {"single_step_mesh", "Single Step Mesh", Ring::Invalid, Pattern::Mesh},
              {"inter_rdh", "RDH", Ring::Rdh, Pattern::Ring},
              {"two_step_pod_mesh", "UltraServer Mesh", Ring::Invalid, Pattern::Mesh},
              {"latency_opt_mesh", "Mesh", Ring::Invalid, Pattern::Mesh},
              {"bw_opt_mesh", "Bw Optimal Mesh", Ring::Invalid, Pattern::Mesh}};
  ASSERT_EQ(std::size(algs), static_cast<size_t>(kEncAlgs));
  for (int i = 0; i < kEncAlgs; i++) {
    const auto alg = static_cast<Alg>(i);
    EXPECT_STREQ(encAlgName(alg), algs[i].name);
    EXPECT_STREQ(encAlgLogName(alg), algs[i].inLogs);
    EXPECT_EQ(encMetaringType(alg), algs[i].ring) << i;
    EXPECT_EQ(encPattern(alg), algs[i].pattern) << i;
    EXPECT_EQ(algBit(alg, enc_comm_type::Intra), i);
    EXPECT_EQ(algBit(alg, enc_comm_type::Inter), 11 + i);
  }
  EXPECT_EQ(static_cast<int>(Alg::Invalid), 11);
  EXPECT_STREQ(encAlgLogName(Alg::Invalid), "Invalid");
  const char* ops[] = {"AllGather",     "AllReduce",       "Broadcast",
                       "Reduce",        "ReduceScatter",   "Send",
                       "Recv",          "AlltoAll",        "Permute",
                       "PermuteReduce", "PermuteImplicit", "PermuteReduceImplicit",
                       "AlltoAllV"};
  ASSERT_EQ(std::size(ops), static_cast<size_t>(kEncOps));
  for (int i = 0; i < kEncOps; i++)
    EXPECT_STREQ(toText(static_cast<Op>(i)), ops[i]);
  EXPECT_EQ(static_cast<int>(Ring::Kangaring), 1);  // 3 as an algorithm
  EXPECT_EQ(static_cast<int>(Ring::Rdh), 3);
  EXPECT_EQ(static_cast<int>(Pattern::Ring), 0);
  EXPECT_EQ(static_cast<int>(Pattern::Mesh), 1);
  EXPECT_STREQ(toText(static_cast<enc_alg_mesh_type>(0)), "full mesh");
  EXPECT_STREQ(toText(static_cast<enc_alg_mesh_type>(1)), "grouped mesh");
  EXPECT_STREQ(toText(static_cast<enc_alg_mesh_type>(2)), "Trn2 mesh");
  EXPECT_STREQ(toText(static_cast<enc_alg_mesh_type>(3)), "switch mesh");
}

TEST(AlgSelect, HasTheDocumentedRegimesOnATrn2Server) {
  for (const Op op : kGatherReduce) {
    for (uint64_t bytes = 8; bytes <= 1 * kMiB; bytes *= 2) {
      const encAlgSelection selection = select(trn2(), op, bytes);
      EXPECT_TRUE(encIsMesh(selection.alg)) << bytes << " " << encAlgName(selection.alg);
    }
    for (const uint64_t bytes : {kMiB + 1, 2 * kMiB, 20 * kMiB, 56 * kMiB}) {
      EXPECT_EQ(select(trn2(), op, bytes).alg, Alg::IntraRdh) << bytes;
    }
    for (const uint64_t bytes : {56 * kMiB + 1, 64 * kMiB, 1024 * kMiB}) {
      EXPECT_EQ(select(trn2(), op, bytes).alg, Alg::Kangaring) << bytes;
    }
  }
}

TEST(AlgSelect, AgreesWithThePublishedSampleOf16Ranks) {
  const encSituation s = trn2(16);
  for (const uint64_t bytes : {4, 32, 512, 8192, 131072}) {
    EXPECT_TRUE(encIsMesh(select(s, Op::AllReduce, bytes).alg)) << bytes;
  }
  EXPECT_EQ(select(s, Op::AllReduce, 2097152).alg, Alg::IntraRdh);
  EXPECT_EQ(select(s, Op::AllReduce, 33554432).alg, Alg::Kangaring);
  EXPECT_EQ(select(s, Op::AllReduce, 536870912).alg, Alg::Kangaring);
}

/// Mesh, then RDH, then what serves large messages: no algorithm comes back.
int regimeOf(Alg alg) {
  if (encIsMesh(alg)) return 0;
  return alg == Alg::IntraRdh || alg == Alg::InterRdh ? 1 : 2;
}

TEST(AlgSelect, GoesThroughItsRegimesInOneDirection) {
  for (const encSituation& s : allGroups()) {
    for (const Op op : kGatherReduce) {
      int regime = 0;
      std::string path;
      for (uint64_t bytes = 1; bytes <= 4096 * kMiB; bytes += 1 + bytes / 3) {
        const Alg alg = select(s, op, bytes).alg;
        path += std::string(encAlgName(alg)) + " ";
        ASSERT_GE(regimeOf(alg), regime)
            << encSituationText(s) << " " << toText(op) << ": " << path;
        regime = regimeOf(alg);
      }
    }
  }
}

TEST(AlgSelect, FollowsThePrecedenceOfWhatIsPossible) {
  for (const encSituation& s : allGroups()) {
    for (const Op op : kGatherReduce) {
      for (const uint64_t bytes : {uint64_t{100}, 3 * kMiB, 700 * kMiB}) {
        const encAlgSelection selection = select(s, op, bytes);
        const encPredicates& p = selection.possible;
        const bool isHier =
            p.hierarchical && !p.kangaring && !p.mesh && !p.singleCycle && !s.ringBuilt;
        const Alg family = encIsMesh(selection.alg) ? Alg::Mesh : selection.alg;
        EXPECT_EQ(family, isHier          ? Alg::Hier
                          : p.intraRdh    ? Alg::IntraRdh
                          : p.mesh        ? Alg::Mesh
                          : p.kangaring   ? Alg::Kangaring
                          : p.singleCycle ? Alg::SingleCycleRing
                          : p.interRdh    ? Alg::InterRdh
                                          : Alg::Ring);
        int chosen = 0;
        for (int i = 0; i < kEncAlgs; i++) {
          const encVerdict& verdict = selection.verdicts[i];
          EXPECT_EQ(static_cast<int>(verdict.alg), i);
          EXPECT_FALSE(verdict.why.empty());
          if (verdict.kind != encVerdictKind::Chosen) continue;
          chosen++;
          EXPECT_EQ(verdict.alg, selection.alg);
        }
        EXPECT_EQ(chosen, 1) << encSelectionText(s, selection);
      }
    }
  }
}

TEST(AlgSelect, AdmitsWhatTheTableOfTheRuntimeDoes) {
  for (const encSituation& s : allGroups()) {
    const auto excluded = encAdmission(s, {});
    const auto admits = [&](Alg alg) { return !excluded[static_cast<size_t>(alg)].has_value(); };
    const bool isInter = s.node_n > 1;
    EXPECT_TRUE(admits(Alg::Ring));
    EXPECT_EQ(admits(Alg::Hier), isInter && s.local_rank_n > 1) << encSituationText(s);
    EXPECT_EQ(admits(Alg::InterRdh), isInter && s.local_rank_n == 1 && s.rank_n > 7 &&
                                         std::has_single_bit(static_cast<unsigned>(s.rank_n)) &&
                                         !s.enable_pod)
        << encSituationText(s);
    EXPECT_FALSE(admits(Alg::SingleCycleRing));
    if (admits(Alg::Kangaring)) {
      EXPECT_FALSE(isInter);
      EXPECT_GT(s.rank_n, s.lnc == 2 ? 4 : 8);
      EXPECT_EQ(s.ranksPerDevice, s.coresPerDevice);
    }
    if (admits(Alg::IntraRdh)) {
      EXPECT_FALSE(isInter);
      EXPECT_TRUE(admits(Alg::Mesh));
      EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(s.rank_n)));
    }
    EXPECT_EQ(admits(Alg::TwoStepPodMesh), s.enable_pod && s.node_n == 4 && admits(Alg::Mesh));
    EXPECT_FALSE(admits(Alg::LatencyOptMesh) || admits(Alg::BwOptMesh));  // no switches here
  }
}

TEST(AlgSelect, KangaringNeedsMoreThanFourRanksOrEight) {
  EXPECT_EQ(kind(select(trn2(8), Op::AllReduce, 99 * kMiB), Alg::Kangaring),
            encVerdictKind::Chosen);
  EXPECT_HAS(why(select(trn2(4), Op::AllReduce, 99 * kMiB), Alg::Kangaring),
             "found LNC 2, rank_n 4");
  const Machine single{"trn2.48xlarge", 1, ""};
  EXPECT_HAS(why(select(describe(single, 1, 8), Op::AllReduce, 99 * kMiB), Alg::Kangaring),
             "found LNC 1, rank_n 8");
  EXPECT_EQ(select(describe(single, 1, 16), Op::AllReduce, 999 * kMiB).alg, Alg::Kangaring);
}

TEST(AlgSelect, AsksTheBitmapFirst) {
  for (int i = 0; i < kEncAlgs; i++) {
    for (const encSituation& s : {trn2(), trn2(16, 16)}) {
      const auto alg = static_cast<Alg>(i);
      encAlgOptions options;
      options.allowed = kAllAlgTypes & ~(uint64_t{1} << algBit(alg, s.scope()));
      EXPECT_HAS(*encAdmission(s, options)[i], "NEURON_RT_CC_ALG_TYPES");
      // The bit of the other scope does not matter.
      options.allowed = kAllAlgTypes & ~(uint64_t{1} << ((algBit(alg, s.scope()) + 11) % 22));
      EXPECT_EQ(encAdmission(s, options)[i], encAdmission(s, {})[i]);
    }
  }
  encAlgOptions none;
  none.allowed = 0;
  EXPECT_HAS(errorOf(trn2(), Op::AllReduce, 8, none), "no algorithm is possible for AllReduce");
}

TEST(AlgSelect, FollowsEverySwitch) {
  const auto chosen = [](const encSituation& s, uint64_t bytes, const encAlgOptions& options) {
    return select(s, Op::AllReduce, bytes, options).alg;
  };
  encAlgOptions o;
  o.rdh = 0;
  EXPECT_EQ(chosen(trn2(), 4 * kMiB, o), Alg::Mesh);
  EXPECT_EQ(chosen(trn2(), 20 * kMiB, o), Alg::Kangaring);
  o = {};
  o.mesh = 0;  // RDH goes with it
  EXPECT_EQ(chosen(trn2(), 8, o), Alg::Kangaring);
  EXPECT_HAS(why(select(trn2(), Op::AllReduce, 4 * kMiB, o), Alg::IntraRdh),
             "Detected usage of RDH while mesh is not allowed. RDH construction will be skipped");
  o = {};
  o.kangaring = 2;
  EXPECT_EQ(chosen(trn2(), 99 * kMiB, o), Alg::Ring);
  EXPECT_EQ(chosen(trn2(128, 2), 99 * kMiB, {}), Alg::Hier);
  o = {};
  o.hierarchical = 2;
  EXPECT_EQ(chosen(trn2(128, 2), 99 * kMiB, o), Alg::Ring);
  o = {};
  o.singleCycleRing = 0;
  EXPECT_EQ(chosen(trn2(16, 16), 99 * kMiB, o), Alg::SingleCycleRing);
  EXPECT_EQ(select(trn2(16, 16), Op::AllGather, 40 * kMiB, o).alg, Alg::InterRdh);
  o = {};
  EXPECT_TRUE(encIsMesh(chosen(trn2(16, 16), 1000, o)));
  o.interMeshMaxNodes = 15;
  EXPECT_EQ(chosen(trn2(16, 16), 1000, o), Alg::InterRdh);
  o = {};
  o.meshBufferBytes = 64 * kKiB;
  EXPECT_EQ(chosen(trn2(), 65 * kKiB, o), Alg::Kangaring);  // between mesh and RDH
  o = {};
  o.intraRdhBufferBytes = 80 * kMiB;
  EXPECT_EQ(chosen(trn2(), 112 * kMiB, o), Alg::IntraRdh);
  EXPECT_EQ(chosen(trn2(), 112 * kMiB + 1, o), Alg::Kangaring);
  o = {};
  o.interRdhBufferBytes = kMiB;
  EXPECT_EQ(chosen(trn2(16, 16), 2 * kMiB, o), Alg::InterRdh);
  EXPECT_EQ(chosen(trn2(16, 16), 2 * kMiB + 1, o), Alg::Ring);
}

TEST(AlgSelect, LeavesRingsOnlyWhereTheGroupSaysSo) {
  const auto onlyRing = [](const encSituation& s) {
    const auto excluded = encAdmission(s, {});
    for (int i = 1; i < kEncAlgs; i++)
      EXPECT_TRUE(excluded[i]) << encAlgName(static_cast<Alg>(i));
  };
  encSituation s = trn2();
  s.must_use_ring_alg = true;
  onlyRing(s);
  s = trn2();
  s.hostDriven = true;
  onlyRing(s);
  s = trn2();
  s.streams = 2;  // without hierarchy nothing else is left within a node
  onlyRing(s);
  s = trn2();
  s.nccl_mesh_supported = false;
  EXPECT_EQ(select(s, Op::AllReduce, 8).alg, Alg::Kangaring);
  s = trn2(128, 2);
  s.src_target_pairs_id = 0;
  EXPECT_EQ(select(s, Op::AllReduce, 8).alg, Alg::Ring);
  s = trn2(128, 2);
  s.ringBuilt = true;
  const encAlgSelection built = select(s, Op::AllReduce, 8);
  EXPECT_EQ(built.alg, Alg::Ring);
  EXPECT_EQ(kind(built, Alg::Hier), encVerdictKind::Outranked);
  EXPECT_HAS(why(built, Alg::Hier), "flat ring was built already");
}

TEST(AlgSelect, TakesAlltoAllToMeshesOnly) {
  for (const encSituation& s : allGroups()) {
    for (const Op op : {Op::AlltoAll, Op::AlltoAllV}) {
      const bool hasMesh = !encAdmission(s, {})[static_cast<size_t>(Alg::Mesh)];
      if (hasMesh) {
        EXPECT_EQ(select(s, op, 900 * kMiB).alg, Alg::Mesh) << encSituationText(s);
      } else {
        EXPECT_HAS(errorOf(s, op, 8),
                   "alltoall cannot be supported without Mesh algorithm, rank_n(" +
                       std::to_string(s.rank_n) + "): mesh ");
      }
    }
  }
}

TEST(AlgSelect, KnowsWhichOperationsThereAre) {
  const std::set<Op> rejected{Op::PermuteReduce};
  for (int i = 0; i < kEncOps; i++) {
    const auto op = static_cast<Op>(i);
    const std::string error = errorOf(trn2(), op, 8);
    if (rejected.contains(op)) {
      EXPECT_EQ(error, "not supported operation (op_type 9, PermuteReduce)");
    } else {
      EXPECT_EQ(error, "") << toText(op);
    }
  }
  for (const Op op : {Op::Permute, Op::PermuteImplicit, Op::PermuteReduceImplicit, Op::Send}) {
    EXPECT_EQ(select(trn2(), op, 8).alg, Alg::Ring);
  }
}

TEST(AlgForced, IsTakenWhateverTheSizeOrRefusedWithTheRule) {
  for (const encSituation& group : allGroups()) {
    for (int i = 0; i < kEncAlgs; i++) {
      encAlgOptions options;
      options.forced = static_cast<Alg>(i);
      const auto excluded = encAdmission(group, options)[i];
      for (const uint64_t bytes : {uint64_t{8}, 16 * kMiB}) {
        encSituation s = group;
        s.bytes = bytes;
        const auto selection = encSelectAlg(s, options);
        if (selection.ok()) {
          EXPECT_FALSE(excluded);
          EXPECT_EQ(selection.value().alg, *options.forced);
        } else {
          EXPECT_HAS(selection.error().message, "NCCOM_ALG names ");
          EXPECT_HAS(selection.error().message, excluded.value_or(""));
        }
      }
    }
  }
}

TEST(AlgForced, NamesTheRuleForGroupsOfTheWrongSize) {
  const auto forced = [](const encSituation& s, Alg alg) {
    encAlgOptions options;
    options.forced = alg;
    return errorOf(s, Op::AllReduce, 8, options);
  };
  EXPECT_HAS(forced(trn2(12), Alg::IntraRdh), "12 ranks");
  EXPECT_HAS(forced(trn2(12), Alg::IntraRdh), "2, 4, 8, 16, 32 or 64 ranks");
  EXPECT_HAS(forced(trn2(32), Alg::IntraRdh), "1, 2, 4 or 16 whole devices");
  EXPECT_HAS(forced(trn2(12, 12), Alg::InterRdh),
             "wants \"rank_n is a power of two, 8 or more\", found rank_n 12");
  EXPECT_HAS(forced(describe({"inf2.48xlarge", 1, ""}, 1, 7), Alg::Mesh), "7 ranks");
  EXPECT_HAS(forced(describe({"inf2.48xlarge", 1, ""}, 1, 14), Alg::Mesh),
             "Mesh algo untested with 14 ranks on this instance type");
  EXPECT_HAS(forced(trn2(), Alg::Hier), "wants \"the group spans nodes\", found node_n 1");
  EXPECT_HAS(forced(trn2(), Alg::BwOptMesh), "it is a Trn2 mesh");
  encAlgOptions options;
  options.forced = Alg::Kangaring;
  EXPECT_HAS(errorOf(trn2(), Op::Broadcast, 8, options),
             "kangaring, which composes AllGather, AllReduce, ReduceScatter, not Broadcast");
}

TEST(AlgForced, TurnsTheSingleCycleRingOnUnlessItIsSwitchedOff) {
  encAlgOptions options;
  options.forced = Alg::SingleCycleRing;
  EXPECT_EQ(select(trn2(16, 16), Op::AllReduce, 8, options).alg, Alg::SingleCycleRing);
  options.singleCycleRing = 2;
  EXPECT_HAS(errorOf(trn2(16, 16), Op::AllReduce, 8, options), "found it 2");
}

}  // namespace
}  // namespace nccom
