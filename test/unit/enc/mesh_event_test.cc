// The rules of events and subtypes, and that all members of a group build meshes that agree.
#include "enc/mesh_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
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

TEST(MeshEvent, IsNumberedAsInTheRuntime) {
  const std::pair<int, const char*> events[] = {{0, "SYNC"},
                                                {1, "GLOBAL_HNDSHK"},
                                                {2, "LOCAL_HNDSHK"},
                                                {3, "INTER_GRP_BRDCST"},
                                                {4, "FUNCTION_BARRIER_FIRST_COLL"},
                                                {5, "FUNCTION_BARRIER_LAST_COLL"},
                                                {6, "REDUCE_LOCAL_HNDSHK"},
                                                {7, "INTRA_GRP_BRDCST"},
                                                {8, "REDUCE_COPY"},
                                                {9, "REDUCE_COPY_2"},
                                                {10, "REDUCE_WRITE"},
                                                {11, "INTER_GRP_BRDCST_2"},
                                                {12, "LOCAL_AND_POD_GRP_BRDCST"},
                                                {13, "LOCAL_AND_POD_GRP_BRDCST_2"},
                                                {20, "2DEV_BRDCST"},
                                                {21, "2DEV_HNDSHK"},
                                                {22, "COPY_FROM_HOST"},
                                                {23, "RH_STEP_0"},
                                                {32, "RH_STEP_9"},
                                                {33, "RDH_AXES_HANDSHAKE"},
                                                {34, "RD_STEP_0"},
                                                {40, "RD_STEP_6"},
                                                {41, "RDH_AXES_HANDSHAKE_2"},
                                                {42, "1DEV_RDH_STEP_1"},
                                                {43, "1DEV_RDH_STEP_2"},
                                                {44, "1DEV_RD_STEP_1"},
                                                {45, "1DEV_RD_STEP_2"},
                                                {46, "1DEV_RH_STEP_1"},
                                                {47, "2DEV_RD_STEP_0"},
                                                {51, "2DEV_RD_STEP_4"},
                                                {52, "RDH_LOCAL_PEER_HANDSHAKE"}};
  for (const auto& [value, name] : events)
    EXPECT_EQ(encMeshEventName(static_cast<Event>(value)), std::string("EVT_") + name);
  // Code speaks of events by name, programs by number.
  const std::pair<Event, int> used[] = {{Event::EVT_SYNC, 0},
                                        {Event::EVT_GLOBAL_HNDSHK, 1},
                                        {Event::EVT_LOCAL_HNDSHK, 2},
                                        {Event::EVT_INTER_GRP_BRDCST, 3},
                                        {Event::EVT_FUNCTION_BARRIER_FIRST_COLL, 4},
                                        {Event::EVT_FUNCTION_BARRIER_LAST_COLL, 5},
                                        {Event::EVT_REDUCE_LOCAL_HNDSHK, 6},
                                        {Event::EVT_INTRA_GRP_BRDCST, 7},
                                        {Event::EVT_REDUCE_COPY, 8},
                                        {Event::EVT_REDUCE_COPY_2, 9},
                                        {Event::EVT_REDUCE_WRITE, 10},
                                        {Event::EVT_INTER_GRP_BRDCST_2, 11},
                                        {Event::EVT_LOCAL_AND_POD_GRP_BRDCST, 12},
                                        {Event::EVT_LOCAL_AND_POD_GRP_BRDCST_2, 13},
                                        {Event::EVT_COPY_FROM_HOST, 22},
                                        {Event::EVT_RH_STEP_0, 23},
                                        {Event::EVT_RDH_LOCAL_HANDSHAKE, 32},
                                        {Event::EVT_RD_STEP_0, 34}};
  for (const auto& [event, value] : used)
    EXPECT_EQ(static_cast<int>(event), value);
}

// What selection takes for an algorithm and a size, has a subtype with the same limits.
TEST(MeshEvent, SubtypesKeepTheWindowsOfSelection) {
  for (const MeshGroup& group : {MeshGroup{"host", 1, 2},
                                 {"host", 1, 7},
                                 {"host", 5, 5},
                                 {"inf2.48xlarge", 1, 8},
                                 {"inf2.48xlarge", 1, 18},
                                 {"trn1.32xlarge", 1, 32},
                                 {"trn2.48xlarge", 1, 64},
                                 {"trn2.48xlarge", 1, 128, 1}}) {
    const World world = test::worldOf(group);
    const enc_alg_mesh mesh = planOf(world, 0, kFlat).mesh;
    for (const encWindow& window : encWindows({world.comm->situation, world.comm->options})) {
      const bool isRdh = encPattern(window.law->alg) == enc_pattern_t::Ring ||
                         window.law->alg == enc_alg_type::IntraRdh;
      for (int i = 0; i < kEncOps && !isRdh; i++) {
        if (!window.composes(static_cast<enc_op_type>(i))) continue;
        const bool found = std::any_of(
            mesh.mesh_subtype.begin(), mesh.mesh_subtype.end(), [&](const auto& subtype) {
              const bool single = window.law->alg == enc_alg_type::SingleStepMesh;
              return subtype.is_single_step_mesh == single &&
                     subtype.op_max_limit[i] == window.op_max_limit[i] &&
                     subtype.op_min_limit[i] == window.op_min_limit[i] &&
                     subtype.op_max_limit_sbuf[i] == window.op_max_limit_sbuf[i] &&
                     subtype.op_min_limit_sbuf[i] == window.op_min_limit_sbuf[i];
            });
        EXPECT_TRUE(found) << world.text() << " " << window.law->name << " " << i;
      }
    }
  }
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

TEST(MeshEvent, AreSixtyFourAtMost) {
  enc_alg_mesh_subtype subtype;
  subtype.name = "many";
  subtype.events.resize(kMaxMeshEvents);
  const Status status = encAddMeshEvent(
      subtype, encMeshEvent(Event::EVT_REDUCE_COPY, encMeshTrigger::Direct, {1}, {1}));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "subtype many: event EVT_REDUCE_COPY would be number 65: want at most 64");
  EXPECT_EQ(subtype.num_events(), kMaxMeshEvents);
}

TEST(MeshEvent, WaitsForSomebodyWhereTheProxyTakesPart) {
  enc_alg_mesh_subtype subtype;
  subtype.name = "net";
  enc_mesh_event event = encMeshEvent(Event::EVT_INTER_GRP_BRDCST, encMeshTrigger::Dma, {}, {});
  event.proxy_wait_val = 2;
  EXPECT_THAT(encAddMeshEvent(subtype, event).error().message,
              HasSubstr("EVT_INTER_GRP_BRDCST waits for the proxy, and for nobody's arrival"));
  event.wait_val = 1;
  EXPECT_TRUE(encAddMeshEvent(subtype, event).ok());
}

TEST(MeshEvent, LimitsAreWithinTheBuffer) {
  enc_alg_mesh_subtype subtype;
  subtype.name = "t1";
  subtype.op_max_limit[1] = 4096;
  EXPECT_TRUE(encCheckMeshLimits(subtype, 4096).ok());
  EXPECT_EQ(encCheckMeshLimits(subtype, 4095).error().message,
            "subtype t1 takes AllReduce of up to 4096 bytes: want at most the 4095 of the channel "
            "buffer");
  subtype.op_max_limit[1] = 0;
  subtype.op_max_limit_sbuf[4] = 4096;
  EXPECT_THAT(encCheckMeshLimits(subtype, 4095).error().message, HasSubstr("ReduceScatter"));
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

TEST(MeshEvent, FullMeshTakesItsNeighborsFromTheRoles) {
  const World world = test::worldOf({"trn1.32xlarge", 1, 32});
  for (const int self : {0, 5, 31}) {
    std::vector<int> ranks(32);
    std::iota(ranks.begin(), ranks.end(), 0);
    const encMeshGeometry geometry = encMeshGeometryOf(world.info(self), ranks, self).value();
    const encMeshClasses classes = encClassifyMeshPeers(geometry).value();
    const encMeshRoles roles = encMeshRolesOf(geometry, classes).value();
    const auto others = [&](mesh_group_types role) {
      std::vector<int> members = membersOf(roles, role);
      std::erase(members, self);
      return testing::UnorderedElementsAreArray(members);
    };
    const encMeshPlan plan = planOf(world, self, kFlat);
    const enc_alg_mesh_subtype& t1 = named(plan.mesh, "t1");
    using Role = mesh_group_types;
    EXPECT_THAT(t1.find(Event::EVT_LOCAL_HNDSHK)->dst_neighbor_grp,
                others(Role::INTRA_GROUP_NEIGHBORS));
    EXPECT_THAT(t1.find(Event::EVT_INTRA_GRP_BRDCST)->dst_neighbor_grp,
                others(Role::INTRA_GROUP_MEMBERS));
    EXPECT_THAT(t1.find(Event::EVT_INTER_GRP_BRDCST)->dst_neighbor_grp,
                others(Role::ALL_INTER_ROOTS));
    EXPECT_EQ(t1.find(Event::EVT_REDUCE_WRITE)->wait_val, 0);
    EXPECT_EQ(plan.mesh.src_devs, 32);
  }
}

// Without writing into the other's OUTPUT, two ranks are as any others; but a group's whole share.
TEST(MeshEvent, TwoRanksHaveT1WhereOutputIsNotTheirs) {
  const encMeshPlan plan =
      planOf(test::worldOf({"trn1.32xlarge", 1, 2}), 0, {false, false, 1 << 25});
  const enc_alg_mesh_subtype& t1 = named(plan.mesh, "t1");
  EXPECT_EQ(limitOf(t1, enc_op_type::AllReduce), plan.mesh.max_chbuf_space_per_group);
  EXPECT_EQ(plan.mesh.max_chbuf_space_per_group, 4 * kMiB);
  EXPECT_EQ(encMeshSubtypeFor(plan.mesh, enc_op_type::AllReduce, 64, true).value(), &t1);
  // Nobody is neither on our device nor on one that is linked.
  EXPECT_FALSE(t1.find(Event::EVT_GLOBAL_HNDSHK)->valid);
}

TEST(MeshEvent, FullMeshOfNodesHasItsSubtypes) {
  const encMeshPlan plan = planOf(test::worldOf({"trn1.32xlarge", 2, 2}), 0, kFlat);
  EXPECT_THAT(
      typesOf(named(plan.mesh, "t3")),
      ElementsAre(Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK, Event::EVT_INTER_GRP_BRDCST,
                  Event::EVT_COPY_FROM_HOST, Event::EVT_SYNC,
                  Event::EVT_FUNCTION_BARRIER_FIRST_COLL, Event::EVT_FUNCTION_BARRIER_LAST_COLL));
  EXPECT_THAT(
      typesOf(named(plan.mesh, "t4")),
      ElementsAre(Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK, Event::EVT_INTER_GRP_BRDCST,
                  Event::EVT_REDUCE_COPY, Event::EVT_REDUCE_WRITE, Event::EVT_SYNC,
                  Event::EVT_FUNCTION_BARRIER_FIRST_COLL, Event::EVT_FUNCTION_BARRIER_LAST_COLL));
  EXPECT_EQ(limitOf(named(plan.mesh, "t4"), enc_op_type::AllReduce), 4 * kMiB);
  const encMeshPlan one = planOf(test::worldOf({"trn1.32xlarge", 1, 8}), 3, kFlat);
  const enc_mesh_event* fromHost = named(one.mesh, "t3").find(Event::EVT_COPY_FROM_HOST);
  EXPECT_EQ(fromHost->trigger, encMeshTrigger::Direct);
  EXPECT_EQ(fromHost->wait_val, static_cast<int>(fromHost->dst_neighbor_grp.size()));
  EXPECT_EQ(fromHost->proxy_wait_val + fromHost->num_fold, 0);
}

TEST(MeshEvent, NetworkMeshWaitsForItsProxy) {
  const encMeshPlan plan = planOf(test::worldOf({"trn1.32xlarge", 4, 4}), 1, kFlat);
  EXPECT_TRUE(plan.mesh.use_net);
  EXPECT_EQ(plan.mesh.num_groups, 4);
  EXPECT_THAT(plan.order, ElementsAre(1, 2, 3, 0));
  const enc_alg_mesh_subtype& t4 = named(plan.mesh, "t4");
  EXPECT_EQ(t4.find(Event::EVT_INTER_GRP_BRDCST)->proxy_wait_val, 2);
  EXPECT_EQ(t4.find(Event::EVT_INTER_GRP_BRDCST)->wait_val, 3);
  EXPECT_THAT(t4.find(Event::EVT_INTER_GRP_BRDCST)->net_neighbor_grp, ElementsAre(2, 3, 0));
  // What is folded came already.
  EXPECT_EQ(t4.find(Event::EVT_REDUCE_WRITE)->proxy_wait_val, 0);
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
