#include "enc/mesh_switch.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "enc/alg_table.h"
#include "enc/flat.h"
#include "enc/mesh_meet.h"
#include "enc/mesh_switch_compose.h"
#include "enc/mesh_walk.h"
#include "enc/situation_of.h"

namespace nccom {
namespace {

using Event = enc_mesh_event_type;
using List = std::vector<int>;

// Of the runtime's phases.
constexpr int kBroadcastFolds = 2, kReduceCopyFolds = 4, kReduceWriteFolds = 8;

constexpr encOpMask kAllGather = opMask(enc_op_type::AllGather);
constexpr encOpMask kAllReduce = opMask(enc_op_type::AllReduce);
constexpr encOpMask kReduceScatter = opMask(enc_op_type::ReduceScatter);

List joined(std::initializer_list<List> lists) {
  List all;
  for (const List& list : lists)
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// Adds the phases of subtypes.
class Phases {
 public:
  Phases(encMeshBuilder& builder, const encSwitchGrid& grid)
      : b_(builder),
        use_(builder.use()),
        rows_(grid.rows),
        mates_(grid.mates()),
        inRow_(grid.inRow()),
        alongRow_(grid.alongRow()),
        alongCol_(grid.alongCol()) {}

  void allGather(bool bwOpt);
  void reduceScatter();
  void allReduce(bool bwOpt);
  void singleStep();
  void allToAll();

 private:
  void handshakes(const List& within, const List& between) {
    b_.signals(Event::EVT_LOCAL_HNDSHK, within);
    b_.signals(Event::EVT_GLOBAL_HNDSHK, between);
  }
  void broadcast(Event event, const List& to) { b_.data(event, to, to, kBroadcastFolds); }
  void reduce();
  void gather(bool bwOpt);
  List row() const { return joined({mates_, inRow_}); }
  List beyondMates() const { return joined({inRow_, alongCol_}); }
  List strangers() const;
  void sync() { b_.signals(Event::EVT_SYNC, joined({mates_, inRow_, alongCol_})); }

  encMeshBuilder& b_;
  const encMeshUse& use_;
  const int rows_;
  const List mates_, inRow_, alongRow_, alongCol_;
};

/// All who are not on our device.
List Phases::strangers() const {
  List found;
  for (const int member : b_.others()) {
    if (std::find(mates_.begin(), mates_.end(), member) == mates_.end()) found.push_back(member);
  }
  return found;
}

void Phases::gather(bool bwOpt) {
  if (!use_.writesOthers) {
    // Everybody says when its part is in its OUTPUT, and fetches the others'.
    b_.data(Event::EVT_INTER_GRP_BRDCST, b_.others(), b_.others());
    b_.data(Event::EVT_INTER_GRP_BRDCST_2, {}, {}).sync();
    return;
  }
  broadcast(Event::EVT_INTER_GRP_BRDCST, bwOpt ? alongRow_ : row());
  broadcast(Event::EVT_INTER_GRP_BRDCST_2, alongCol_);
  if (bwOpt) b_.data(Event::EVT_INTRA_GRP_BRDCST, {}, {}, kBroadcastFolds);
  sync();
}

void Phases::allGather(bool bwOpt) {
  (bwOpt ? b_.subtype().is_bw_opt : b_.subtype().is_latency_opt) = true;
  const bool skips = !use_.meets() && use_.writesOthers;
  const List between = use_.writesOthers ? beyondMates() : strangers();
  b_.signals(Event::EVT_GLOBAL_HNDSHK, skips ? List{} : between);
  b_.signals(Event::EVT_LOCAL_HNDSHK, skips ? List{} : mates_);
  gather(bwOpt);
}

/// OUTPUT may be INPUT: a part is written there only when its sum is complete, and so when it has
/// been read everywhere.
void Phases::reduce() {
  b_.subtype().is_use_chnl_buffer = true;
  b_.data(Event::EVT_REDUCE_COPY, alongRow_, alongRow_, kReduceCopyFolds);
  b_.data(Event::EVT_REDUCE_COPY_2, alongCol_, alongCol_, kReduceCopyFolds);
  b_.data(Event::EVT_REDUCE_WRITE, {}, {}, kReduceWriteFolds);
}

void Phases::reduceScatter() {
  handshakes(use_.meets() ? mates_ : List{}, joined({alongRow_, alongCol_}));
  reduce();
  sync();
}

void Phases::allReduce(bool bwOpt) {
  (bwOpt ? b_.subtype().is_bw_opt : b_.subtype().is_latency_opt) = true;
  handshakes(!use_.meets() && use_.writesOthers ? List{} : mates_,
             use_.writesOthers ? joined({alongRow_, alongCol_}) : strangers());
  reduce();
  gather(bwOpt);
}

void Phases::singleStep() {
  b_.subtype().is_single_step_mesh = true;
  b_.subtype().is_use_chnl_buffer = true;
  handshakes(mates_, beyondMates());
  broadcast(Event::EVT_INTER_GRP_BRDCST, row());
  broadcast(Event::EVT_INTER_GRP_BRDCST_2, alongCol_);
  b_.data(Event::EVT_REDUCE_WRITE, {}, {}, kReduceWriteFolds);
  sync();
}

void Phases::allToAll() {
  handshakes(use_.meets() ? mates_ : List{}, use_.meets() ? strangers() : List{});
  b_.data(Event::EVT_INTER_GRP_BRDCST, {}, {}, kBroadcastFolds);
  b_.data(Event::EVT_INTER_GRP_BRDCST_2, {}, {}, kBroadcastFolds);
  b_.sync();
}

Status checkMachine(const encMeshGeometry& g) {
  if (g.situation.isHost() || g.situation.instance != NeuronInstanceFamily::Trn3Pds98) {
    return fail(ncclInvalidArgument,
                "switch mesh of %d ranks: Unsupported instance family for event-based algorithms; "
                "want Trainium3 behind switches",
                g.n());
  }
  if (g.n() < 2 || g.usesNet()) {
    return fail(ncclInvalidArgument,
                "switch mesh of %d ranks on %d nodes: want at least two, that no network lies "
                "between",
                g.n(), g.situation.node_n);
  }
  return Ok{};
}

/// As the runtime says it.
Status checkBwOpt(const encSituation& s) {
  if (s.lnc != 2) {
    return fail(ncclInvalidArgument,
                "bw_opt_mesh of %d ranks: Bandwidth Opt All Gather does not support LNC1",
                s.rank_n);
  }
  for (const int ranks : {4, 8, 16, 32, 64, 128}) {
    if (s.local_rack_rank_n == ranks) return Ok{};
  }
  return fail(
      ncclInvalidArgument,
      "bw_opt_mesh: Unsupported rank (%d) for building Bandwidth Opt All Gather; want 4, 8, "
      "16, 32, 64 or 128 of a rack",
      s.local_rack_rank_n);
}

bool isOf(const enc_alg_mesh_subtype& subtype, enc_alg_type alg) {
  switch (alg) {
    case enc_alg_type::SingleStepMesh:
      return subtype.is_single_step_mesh;
    case enc_alg_type::LatencyOptMesh:
      return subtype.is_latency_opt;
    case enc_alg_type::BwOptMesh:
      return subtype.is_bw_opt;
    default:
      return !subtype.is_single_step_mesh && !subtype.is_bw_opt;
  }
}

/// Of the stage's own ranks.
encMeshGeometry ownGeometry(const encMeshGeometry& geometry) {
  encMeshGeometry own = geometry;
  own.situation.local_rack_rank_n = std::min(own.situation.local_rack_rank_n, own.n());
  return own;
}

}  // namespace

Result<encMeshPlan> encBuildSwitchMesh(const encMeshGeometry& geometry, const encSwitchGrid& grid,
                                       const encMeshUse& use) {
  const encMeshGeometry own = ownGeometry(geometry);
  encMeshPlan plan;
  plan.mesh = encEmptyMesh(own, use, enc_alg_mesh_type::MeshSwitch, grid.devices());
  plan.mesh.src_devs = grid.n();
  encMeshBuilder b(own, use, plan);
  Phases phases(b, grid);
  const bool isAlone = grid.slots == 1;
  if (own.situation.local_rack_rank_n <= 64) {
    b.begin("single-step", "single-step", kAllReduce);
    phases.singleStep();
    TRY(b.end());
  }
  for (const bool bwOpt : {false, true}) {
    if (bwOpt && !checkBwOpt(own.situation).ok()) break;
    const std::string kind = bwOpt ? "bw-opt" : "latency-opt";
    b.begin(kind + " all-reduce", kind + " all-reduce", kAllReduce);
    phases.allReduce(bwOpt);
    TRY(b.end());
    const bool single = isAlone && !bwOpt;
    b.begin((single ? "one-rank-per-chip" : kind) + " all-gather", kind + " all-gather",
            kAllGather);
    phases.allGather(bwOpt);
    TRY(b.end());
  }
  b.begin("reduce-scatter", "reduce-scatter", kReduceScatter);
  phases.reduceScatter();
  TRY(b.end());
  b.begin("switched all-to-all", "switched all-to-all", kAlltoAllOps);
  phases.allToAll();
  TRY(b.end());
  TRY(encAppendFnBarriers(plan.mesh, b.others()));
  return plan;
}

Result<const enc_alg_mesh_subtype*> encSwitchSubtypeFor(const enc_alg_mesh& mesh, enc_alg_type alg,
                                                        enc_op_type op,
                                                        const encSituation& situation) {
  const bool gathers = op == enc_op_type::AllGather || op == enc_op_type::AllReduce;
  if (alg == enc_alg_type::BwOptMesh && gathers) TRY(checkBwOpt(situation));
  if (alg == enc_alg_type::SingleStepMesh && situation.local_rack_rank_n > 64) {
    return fail(ncclInvalidArgument, "single_step_mesh: %d ranks of a rack: want at most 64",
                situation.local_rack_rank_n);
  }
  for (const enc_alg_mesh_subtype& subtype : mesh.mesh_subtype) {
    if (encIsMesh(alg) && isOf(subtype, alg) && subtype.composes(op)) return &subtype;
  }
  return fail(ncclInvalidArgument, "%s of %d devices behind switches does not compose %s",
              encAlgName(alg), mesh.num_groups, toText(op));
}

Status encStageSwitchMesh(encBuilder& builder, const encStage& stage,
                          const encMeshGeometry& geometry, enc_alg_type alg,
                          const encMeshOptions& options) {
  TRY(checkMachine(geometry));
  const encSwitchGrid grid = TRY(encSwitchGridOf(geometry, builder.info().platform->deviceCount()));
  const encMeshPlan plan =
      TRY(encBuildSwitchMesh(geometry, grid, encMeshUse::of(stage, builder.info().options)));
  const enc_alg_mesh_subtype& subtype = *TRY(
      encSwitchSubtypeFor(plan.mesh, alg, encOpTypeOf(stage.op), ownGeometry(geometry).situation));
  encMeshWalk walk(builder, stage, subtype);
  encMeetFirst(walk, options, stage.messageBytes == 0);
  if (stage.messageBytes > 0) {
    TRY(encComposeSwitchStage(builder, stage, grid, subtype, plan.mesh.buffer_max));
  }
  encMeetLast(walk, options, stage.messageBytes == 0);
  return Ok{};
}

Result<encProgram> encComposeSwitchMesh(const enc_comm_info& info, const encTask& task,
                                        enc_alg_type alg) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  encBuilder builder(info, task, encAlgName(alg));
  const encStage stage = encFlatStage(info, task);
  const encMeshGeometry geometry = TRY(encMeshGeometryOf(info, stage.ranks, stage.self));
  TRY(encStageSwitchMesh(builder, stage, geometry, alg));
  return std::move(builder).finish();
}

}  // namespace nccom
