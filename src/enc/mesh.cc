#include "enc/mesh.h"

#include <utility>

#include "enc/alg_table.h"
#include "enc/flat.h"
#include "enc/mesh_compose.h"
#include "enc/mesh_meet.h"
#include "enc/mesh_walk.h"
#include "enc/situation_of.h"

namespace nccom {
namespace {

Status checkStage(const encStage& stage, const encMeshGeometry& geometry) {
  if (stage.n() != geometry.n() || stage.self != geometry.self) {
    return fail(ncclInvalidArgument, "mesh: member %d of %d in the stage, %d of %d in the geometry",
                stage.self, stage.n(), geometry.self, geometry.n());
  }
  const bool isWhole = stage.messageBytes == stage.partBytes * static_cast<uint64_t>(stage.n());
  if (stage.op == encOp::AlltoAll && !isWhole) {
    return fail(ncclInvalidArgument, "mesh: AlltoAll of %llu bytes in parts of %llu: want %d parts",
                static_cast<unsigned long long>(stage.messageBytes),
                static_cast<unsigned long long>(stage.partBytes), stage.n());
  }
  return Ok{};
}

}  // namespace

Status encStageMesh(encBuilder& builder, const encStage& stage, const encMeshGeometry& geometry,
                    const encMeshOptions& options) {
  TRY(checkStage(stage, geometry));
  const encMeshPlan plan =
      TRY(encBuildMesh(geometry, encMeshUse::of(stage, builder.info().options)));
  const enc_alg_mesh_subtype& subtype = *TRY(
      encMeshSubtypeFor(plan.mesh, encOpTypeOf(stage.op), stage.messageBytes, options.singleStep));
  encMeshWalk walk(builder, stage, subtype);
  const bool isEmpty = stage.messageBytes == 0;
  encMeetFirst(walk, options, isEmpty);
  if (!isEmpty) {
    const bool isBetween =
        plan.mesh.mesh_type == enc_alg_mesh_type::FullMesh && geometry.situation.node_n > 1;
    TRY(isBetween ? encComposeMeshByNet(builder, stage, plan, subtype)
                  : encComposeMeshByMemory(builder, stage, plan, subtype));
  }
  encMeetLast(walk, options, isEmpty);
  return Ok{};
}

Result<encProgram> encComposeMesh(const enc_comm_info& info, const encTask& task,
                                  enc_alg_type alg) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  if (alg != enc_alg_type::Mesh && alg != enc_alg_type::SingleStepMesh) {
    return fail(ncclInvalidArgument, "%s: want mesh or single_step_mesh", encAlgName(alg));
  }
  encBuilder builder(info, task, encAlgName(alg));
  const encStage stage = encFlatStage(info, task);
  const encMeshGeometry geometry = TRY(encMeshGeometryOf(info, stage.ranks, stage.self));
  TRY(encStageMesh(builder, stage, geometry, {.singleStep = alg == enc_alg_type::SingleStepMesh}));
  return std::move(builder).finish();
}

}  // namespace nccom
