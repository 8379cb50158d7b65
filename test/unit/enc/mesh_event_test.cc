// The rules of events and subtypes, and that all members of a group build meshes that agree.
#include "enc/mesh_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "enc/mesh_build.h"
#include "test/unit/enc/mesh_worlds.h"

namespace nccom {
namespace {

using test::MeshGroup;
using test::World;
using testing::ElementsAre;
using testing::HasSubstr;
using Event = enc_mesh_event_type;
using Types = std::vector<Event>;

encMeshPlan planOf(const World& world, int self, const encMeshUse& use) {
  std::vector<int> ranks(world.rank_n());
  for (int i = 0; i < world.rank_n(); i++)
    ranks[i] = i;
  const encMeshGeometry geometry = encMeshGeometryOf(world.info(self), ranks, self).value();
  auto plan = encBuildMesh(geometry, use);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.ok() ? std::move(plan).value() : encMeshPlan{};
}

constexpr encMeshUse kFlat{true, true, 1 << 25};

const enc_alg_mesh_subtype& named(const enc_alg_mesh& mesh, const std::string& name) {
  for (const enc_alg_mesh_subtype& subtype : mesh.mesh_subtype) {
    if (subtype.name == name) return subtype;
  }
  ADD_FAILURE() << "no subtype " << name;
  static const enc_alg_mesh_subtype none;
  return none;
}

Types typesOf(const enc_alg_mesh_subtype& subtype) {
  Types types;
  for (const enc_mesh_event& event : subtype.events)
    types.push_back(event.evt_type);
  return types;
}

uint64_t limitOf(const enc_alg_mesh_subtype& subtype, enc_op_type op) {
  return subtype.op_max_limit[static_cast<size_t>(op)];
}

TEST(MeshEvent, HasTheRuntimesNumbersAndNames) {
  EXPECT_STREQ(encMeshEventName(Event::EVT_SYNC), "EVT_SYNC");
  EXPECT_STREQ(encMeshEventName(static_cast<Event>(22)), "EVT_COPY_FROM_HOST");
  EXPECT_STREQ(encMeshEventName(static_cast<Event>(20)), "EVT_2DEV_BRDCST");
  EXPECT_STREQ(encMeshEventName(static_cast<Event>(32)), "EVT_RH_STEP_9");
  EXPECT_STREQ(encMeshEventName(static_cast<Event>(52)), "EVT_RDH_LOCAL_PEER_HANDSHAKE");
  EXPECT_EQ(static_cast<int>(Event::ENC_RDH_NUM_EVENT_TYPE), kMeshEventTypes);
  std::set<std::string> names;
  for (int i = 0; i < kMeshEventTypes; i++) {
    const std::string name = encMeshEventName(static_cast<Event>(i));
    EXPECT_LT(name.size(), 32u) << name;
    names.insert(name);
    EXPECT_EQ(encStepName(encMeshStep(static_cast<Event>(i))), name);
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kMeshEventTypes));
}

TEST(MeshEvent, IsInASubtypeAtMostOnce) {
  enc_alg_mesh_subtype subtype;
  subtype.name = "twice";
  const enc_mesh_event event = encMeshEvent(Event::EVT_SYNC, encMeshTrigger::Direct, {1}, {1});
  EXPECT_TRUE(encAddMeshEvent(subtype, event).ok());
  const Status again = encAddMeshEvent(subtype, event);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().message,
            "subtype twice has event EVT_SYNC twice: want each type at most once");
}

TEST(MeshEvent, IsRecordedInvalidWithoutNeighbors) {
  const enc_mesh_event event =
      encMeshEvent(Event::EVT_LOCAL_HNDSHK, encMeshTrigger::Direct, {}, {});
  EXPECT_FALSE(event.valid);
  EXPECT_EQ(event.trigger, encMeshTrigger::Empty);
  EXPECT_EQ(encMeshEvent(Event::EVT_SYNC, encMeshTrigger::Direct, {3, 4}, {5}).wait_val, 2);
}

TEST(MeshEvent, SlotsAreTwenty) {
  enc_alg_mesh mesh;
  enc_alg_mesh_subtype subtype;
  subtype.name = "s";
  EXPECT_THAT(encAddMeshSubtype(mesh, subtype).error().message, HasSubstr("has no events"));
  (void)encAddMeshEvent(subtype, encMeshEvent(Event::EVT_SYNC, encMeshTrigger::Direct, {1}, {1}));
  for (int i = 0; i < kMaxMeshSubtypes; i++)
    EXPECT_TRUE(encAddMeshSubtype(mesh, subtype).ok());
  EXPECT_THAT(encAddMeshSubtype(mesh, subtype).error().message, HasSubstr("all 20 slots"));
}

TEST(MeshEvent, FullMeshHasItsSubtypes) {
  const encMeshPlan two = planOf(test::worldOf({"trn1.32xlarge", 1, 2}), 0, kFlat);
  const enc_alg_mesh_subtype& t0 = named(two.mesh, "t0");
  EXPECT_THAT(typesOf(t0), ElementsAre(Event::EVT_LOCAL_HNDSHK, Event::EVT_REDUCE_COPY,
                                       Event::EVT_SYNC, Event::EVT_FUNCTION_BARRIER_FIRST_COLL,
                                       Event::EVT_FUNCTION_BARRIER_LAST_COLL));
  EXPECT_TRUE(t0.is_single_step_mesh);
  EXPECT_EQ(limitOf(t0, enc_op_type::AllReduce), 0x10000000u);
  EXPECT_EQ(t0.find(Event::EVT_REDUCE_COPY)->num_fold, 2);

  const encMeshPlan many = planOf(test::worldOf({"trn1.32xlarge", 1, 32}), 5, kFlat);
  const enc_alg_mesh_subtype& t1 = named(many.mesh, "t1");
  EXPECT_THAT(
      typesOf(t1),
      ElementsAre(Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK, Event::EVT_INTRA_GRP_BRDCST,
                  Event::EVT_INTER_GRP_BRDCST, Event::EVT_REDUCE_WRITE, Event::EVT_SYNC,
                  Event::EVT_FUNCTION_BARRIER_FIRST_COLL, Event::EVT_FUNCTION_BARRIER_LAST_COLL));
  EXPECT_EQ(limitOf(t1, enc_op_type::AllReduce), 0x8000u);
  EXPECT_EQ(t1.find(Event::EVT_INTRA_GRP_BRDCST)->wait_val, 1);
  EXPECT_EQ(t1.find(Event::EVT_SYNC)->wait_val, 31);
  const enc_alg_mesh_subtype& t2 = named(many.mesh, "t2");
  EXPECT_THAT(typesOf(t2), ElementsAre(Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK,
                                       Event::EVT_INTER_GRP_BRDCST, Event::EVT_REDUCE_COPY,
                                       Event::EVT_REDUCE_WRITE, Event::EVT_INTER_GRP_BRDCST_2,
                                       Event::EVT_SYNC, Event::EVT_FUNCTION_BARRIER_FIRST_COLL,
                                       Event::EVT_FUNCTION_BARRIER_LAST_COLL));
  EXPECT_EQ(t2.find(Event::EVT_REDUCE_COPY)->wait_val, 15);
  EXPECT_NE(named(many.mesh, "t3").find(Event::EVT_COPY_FROM_HOST), nullptr);
  EXPECT_EQ(many.mesh.num_groups, 32);
  EXPECT_EQ(many.mesh.max_chbuf_space_per_group, 8 * kMiB / 32);
}

TEST(MeshEvent, NetworkMeshWaitsForItsProxy) {
  const encMeshPlan plan = planOf(test::worldOf({"trn1.32xlarge", 4, 4}), 1, kFlat);
  EXPECT_TRUE(plan.mesh.use_net);
  EXPECT_EQ(plan.mesh.num_groups, 4);
  EXPECT_THAT(plan.order, ElementsAre(1, 2, 3, 0));
  EXPECT_EQ(named(plan.mesh, "t4").find(Event::EVT_INTER_GRP_BRDCST)->proxy_wait_val, 2);
}

TEST(MeshEvent, Trn2BuildsInTwoPasses) {
  const encMeshPlan plan = planOf(test::worldOf({"trn2.48xlarge", 1, 64}), 0, kFlat);
  for (const char* op : {" all-reduce", " reduce-scatter", " all-gather"}) {
    const enc_alg_mesh_subtype& small = named(plan.mesh, std::string("small") + op);
    const enc_alg_mesh_subtype& large = named(plan.mesh, std::string("large") + op);
    EXPECT_FALSE(small.increase_dma);
    EXPECT_TRUE(large.increase_dma);
    EXPECT_EQ(small.op_max_limit, large.op_min_limit);
  }
  // A rank has the chunks of the other 15 chips dealt to four.
  const enc_mesh_event* event =
      named(plan.mesh, "small all-gather").find(Event::EVT_INTER_GRP_BRDCST);
  EXPECT_EQ(event->dst_neighbor_grp.size(), 4u);
  EXPECT_EQ(named(plan.mesh, "small reduce-scatter").find(Event::EVT_REDUCE_COPY)->wait_val, 15);
}

TEST(MeshEvent, MembersAgree) {
  for (const MeshGroup& group : {MeshGroup{"host", 1, 2},
                                 {"host", 1, 7},
                                 {"host", 3, 3},
                                 {"inf2.48xlarge", 1, 8},
                                 {"inf2.48xlarge", 1, 24},
                                 {"trn1.32xlarge", 1, 32},
                                 {"trn1.32xlarge", 4, 4},
                                 {"trn2.48xlarge", 1, 2},
                                 {"trn2.48xlarge", 1, 64},
                                 {"trn2.48xlarge", 1, 32, 1},
                                 {"trn2.3xlarge", 1, 4},
                                 {"trn2u.48xlarge", 4, 16, 2, "X4"}}) {
    const World world = test::worldOf(group);
    for (const bool first : {true, false}) {
      for (const bool writesOthers : {true, false}) {
        std::vector<enc_alg_mesh> meshes;
        for (int rank = 0; rank < world.rank_n(); rank++)
          meshes.push_back(planOf(world, rank, {first, writesOthers, 1 << 20}).mesh);
        const Status status = encCheckMeshes(meshes);
        EXPECT_TRUE(status.ok()) << world.text() << ": " << status.error().message;
        for (const enc_alg_mesh_subtype& subtype : meshes[0].mesh_subtype) {
          EXPECT_LE(subtype.num_events(), kMaxMeshEvents);
          EXPECT_NE(subtype.find(Event::EVT_SYNC), nullptr) << subtype.name;
        }
      }
    }
  }
}

TEST(MeshEvent, DisagreementIsNamed) {
  const World world = test::worldOf({"host", 1, 3});
  std::vector<enc_alg_mesh> meshes;
  for (int rank = 0; rank < 3; rank++)
    meshes.push_back(planOf(world, rank, kFlat).mesh);
  for (enc_alg_mesh_subtype& subtype : meshes[1].mesh_subtype) {
    for (enc_mesh_event& event : subtype.events) {
      if (event.evt_type == Event::EVT_SYNC) event.src_neighbor_grp.pop_back();
    }
  }
  EXPECT_THAT(encCheckMeshes(meshes).error().message,
              HasSubstr("member 0 raises EVT_SYNC, member 1 does not await EVT_SYNC"));
}

TEST(MeshEvent, SubtypesAreChosenBySize) {
  const encMeshPlan plan = planOf(test::worldOf({"trn2.48xlarge", 1, 64}), 0, kFlat);
  const auto name = [&](enc_op_type op, uint64_t bytes, bool single) {
    const auto subtype = encMeshSubtypeFor(plan.mesh, op, bytes, single);
    return subtype.ok() ? subtype.value()->name : subtype.error().message;
  };
  EXPECT_EQ(name(enc_op_type::AllReduce, 8, false), "small all-reduce");
  EXPECT_EQ(name(enc_op_type::AllReduce, 1 << 20, false), "small all-reduce");
  EXPECT_EQ(name(enc_op_type::AllReduce, (1 << 20) + 1, false), "large all-reduce");
  EXPECT_EQ(name(enc_op_type::AllReduce, 1 << 30, false), "large all-reduce");
  EXPECT_EQ(name(enc_op_type::AllReduce, 1 << 30, true), "single-step");
  EXPECT_EQ(name(enc_op_type::AlltoAll, 1 << 30, false), "all-to-all");
  EXPECT_EQ(name(enc_op_type::Permute, 8, false),
            "a Trn2 mesh of 16 groups has no subtype for Permute");
}

TEST(MeshEvent, RefusesGroupsThatNoMeshJoins) {
  const auto message = [](const MeshGroup& group,
                          const std::vector<std::vector<int>>& places = {}) {
    const World world = test::worldOf(group, {4096, 4096, 16384}, places);
    const auto program =
        encComposeMesh(world.info(0), test::collective(encOp::AllReduce, 4), enc_alg_type::Mesh);
    return program.ok() ? "" : program.error().message;
  };
  EXPECT_THAT(message({"inf2.48xlarge", 1, 7}), HasSubstr("Mesh algo untested with 7 ranks"));
  EXPECT_THAT(message({"trn2.48xlarge", 1, 3}, {{0, 1, 4}}), HasSubstr("device 0 has 2 of them"));
  EXPECT_THAT(message({"host", 1, 1}), HasSubstr("want at least two"));
}

}  // namespace
}  // namespace nccom
