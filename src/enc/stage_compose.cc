#include "enc/stage_compose.h"

#include "enc/alg_table.h"
#include "enc/inter_rdh.h"
#include "enc/intra_rdh.h"
#include "enc/kangaring.h"
#include "enc/mesh.h"
#include "enc/mesh_pod.h"
#include "enc/mesh_switch.h"
#include "enc/ring.h"
#include "enc/single_cycle.h"

namespace nccom {
namespace {

encRingOrder levelRing(const encBuilder& builder, const encStage& stage, const encLevels& levels) {
  encPipeKind kind = encPipeKind::Inter;
  if (stage.level == encLevel::Intra) {
    kind = stage.op == encOp::AllGather ? encPipeKind::IntraGather : encPipeKind::IntraReduce;
  }
  return {encLevelRing(builder.info(), levels, stage.level), builder.layout().pipe(kind, 0),
          encReceives::Ahead};
}

void composeCopy(encBuilder& builder, const encStage& stage) {
  builder.transfer(builder.mainQueue(stage.channel), {.step = encStep::Copy,
                                                      .sources = {stage.in(0, 0)},
                                                      .destinations = {stage.out(0, 0)},
                                                      .bytes = stage.messageBytes,
                                                      .scaleAll = stage.scaleInputs,
                                                      .divide = stage.divide});
}

Status composeMesh(encBuilder& builder, const encStage& stage, enc_alg_type alg) {
  const encMeshGeometry geometry = TRY(encMeshGeometryOf(builder.info(), stage.ranks, stage.self));
  if (alg == enc_alg_type::TwoStepPodMesh) return encStagePodMesh(builder, stage, geometry);
  if (geometry.type == enc_alg_mesh_type::MeshSwitch) {
    return encStageSwitchMesh(builder, stage, geometry, alg);
  }
  return encStageMesh(builder, stage, geometry,
                      {.singleStep = alg == enc_alg_type::SingleStepMesh});
}

}  // namespace

Status encStageCompose(encBuilder& builder, const encStage& stage, enc_alg_type alg,
                       const encLevels& levels) {
  if (stage.messageBytes == 0) return Ok{};
  if (stage.n() == 1) {
    composeCopy(builder, stage);
    return Ok{};
  }
  switch (alg) {
    case enc_alg_type::Ring:
      encStageRing(builder, stage, {levelRing(builder, stage, levels)});
      return Ok{};
    case enc_alg_type::Kangaring:
      TRY(encCheckKangaring(builder.info().kangaring, stage.n()));
      encStageKangaring(builder, stage, builder.info().kangaring);
      return Ok{};
    case enc_alg_type::Mesh:
    case enc_alg_type::SingleStepMesh:
    case enc_alg_type::LatencyOptMesh:
    case enc_alg_type::BwOptMesh:
    case enc_alg_type::TwoStepPodMesh:
      return composeMesh(builder, stage, alg);
    case enc_alg_type::IntraRdh: {
      const encRdhGeometry geometry = TRY(encRdhGeometryOf(builder.info(), stage.ranks));
      return encStageIntraRdh(builder, stage, geometry);
    }
    case enc_alg_type::InterRdh:
      return encStageInterRdh(builder, stage);
    case enc_alg_type::SingleCycleRing:
      return encStageSingleCycle(builder, stage, levelRing(builder, stage, levels));
    default:
      break;
  }
  return fail(ncclInvalidArgument, "%s composes no stage of %d ranks", encAlgName(alg), stage.n());
}

}  // namespace nccom
