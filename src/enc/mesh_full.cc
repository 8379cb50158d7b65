// The full mesh: one team a chip; each rank talks to each.
//
//   t0  2 ranks                 both fold a half from both, and give it to both: in place
//   t1  more, one step          each gives all it has to all; each folds
//   t2  more, two steps         each folds its part and gives it to all. Where chips have two
//                               ranks, one of them folds theirs first, for a rank elsewhere
//   t3  AlltoAll                each gives each its part
//   t4  several nodes           one step: each gives all it has to all; each folds
//
// Types of events, their order and their limits are the runtime's, which builds t3 and t4 for two
// nodes; ours are for as many as selection lets a mesh span, and t3 for a single one too. What the
// events of t2 and t4 move, and whom they tell, was never published.
#include <utility>

#include "enc/mesh_build.h"

namespace nccom {
namespace {

using Event = enc_mesh_event_type;

constexpr encOpMask kAllReduce = opMask(enc_op_type::AllReduce);
constexpr int kReduceCopySources = 2;

Status buildT1(encMeshBuilder& b, const encMeshGeometry& g, uint64_t shareOfGroup) {
  b.begin("t1", "t1", kAllReduce);
  if (g.n() == 2) {  // where t0, which writes into the other's OUTPUT, cannot serve
    const auto op = static_cast<size_t>(enc_op_type::AllReduce);
    b.subtype().op_max_limit[op] = b.subtype().op_max_limit_sbuf[op] = shareOfGroup;
  }
  return b.inOneStep().end();
}

Status buildT2(encMeshBuilder& b, int perChip) {
  const bool combines = perChip == kReduceCopySources && !b.counterparts().empty();
  b.begin("t2", "t2", kGatherReduceOps);
  b.subtype().is_use_chnl_buffer = combines;
  b.handshakes(Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK,
               combines ? b.counterparts() : std::vector<int>{});
  b.data(Event::EVT_INTER_GRP_BRDCST, {}, {});
  if (combines) {
    b.data(Event::EVT_REDUCE_COPY, b.counterparts(), b.counterparts());
  } else {
    b.nothing(Event::EVT_REDUCE_COPY);
  }
  b.data(Event::EVT_REDUCE_WRITE, {}, {});
  if (!b.use().writesOthers) b.signals(Event::EVT_REDUCE_LOCAL_HNDSHK, b.others());
  return b.data(Event::EVT_INTER_GRP_BRDCST_2, {}, {}).sync().end();
}

Status buildT3(encMeshBuilder& b) {
  b.begin("t3", "t3", kAlltoAllOps);
  return b.handshakes(Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK, {})
      .data(Event::EVT_INTER_GRP_BRDCST, {}, {})
      // Sizes that the host tells, of AlltoAllV: programs here know theirs, and pass it over.
      .signals(Event::EVT_COPY_FROM_HOST, b.others())
      .sync()
      .end();
}

Status buildT4(encMeshBuilder& b) {
  b.begin("t4", "t4", kGatherReduceOps);
  b.subtype().is_use_chnl_buffer = true;
  return b.handshakes(Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK, b.others())
      .data(Event::EVT_INTER_GRP_BRDCST, b.others(), b.others())
      .nothing(Event::EVT_REDUCE_COPY)
      .data(Event::EVT_REDUCE_WRITE, {}, {})
      .sync()
      .end();
}

}  // namespace

Result<encMeshPlan> encBuildFullMesh(const encMeshGeometry& g, const encMeshUse& use) {
  const encMeshClasses classes = TRY(encClassifyMeshPeers(g));
  const encMeshRoles roles = TRY(encMeshRolesOf(g, classes));
  encMeshPlan plan;
  plan.teams = TRY(encTeamsOfChips(g));
  const int perChip = plan.teams.size();
  if (perChip > kReduceCopySources) {
    return fail(ncclInvalidArgument,
                "full mesh: device %d has %d ranks of the group: EVT_REDUCE_COPY folds exactly %d",
                g.chips.front().device, perChip, kReduceCopySources);
  }
  const int groups = static_cast<int>(classes.netInter.size()) + classes.srcDevs;
  plan.mesh = encEmptyMesh(g, use, enc_alg_mesh_type::FullMesh, groups);
  plan.mesh.src_devs = classes.srcDevs;
  encMeshBuilder b(g, use, plan);
  if (g.situation.node_n > 1) {
    TRY(buildT3(b));
    TRY(buildT4(b));
  } else {
    TRY(g.n() == 2 && use.writesOthers ? b.begin("t0", "t0", kAllReduce).byHalves().end()
                                       : buildT1(b, g, plan.mesh.max_chbuf_space_per_group));
    TRY(buildT2(b, perChip));
    TRY(buildT3(b));
  }
  for (const enc_alg_mesh_subtype& subtype : plan.mesh.mesh_subtype) {
    // Those of t0 and t3 wait in no work area.
    if (subtype.name == "t0" || subtype.name == "t3") continue;
    TRY(encCheckMeshLimits(subtype, g.options.meshBufferBytes));
  }
  TRY(encAppendFnBarriers(plan.mesh, b.others()));
  plan.order = membersOf(roles, mesh_group_types::ALL_INTER_ROOTS);
  return plan;
}

}  // namespace nccom
