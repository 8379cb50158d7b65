// Composes a stage on a mesh that has been built: walks the events of a subtype, pass by pass.
#pragma once

#include "enc/builder.h"
#include "enc/mesh.h"
#include "enc/mesh_build.h"
#include "enc/stage.h"
#include "misc/result.h"

namespace nccom {

/// Everything by memory: all members share it.
/// @error ncclInvalidArgument  a work area that is too small
Status encComposeMeshByMemory(encBuilder& builder, const encStage& stage, const encMeshPlan& plan,
                              const enc_alg_mesh_subtype& subtype);

/// Members that do not share memory exchange whole chunks over the network.
/// @error ncclInvalidArgument  a work area that is too small
Status encComposeMeshByNet(encBuilder& builder, const encStage& stage, const encMeshPlan& plan,
                           const enc_alg_mesh_subtype& subtype);

/// Bytes of a share of a work area that a pass uses: whole cache lines if there are any, else whole
/// elements.
/// @error ncclInvalidArgument  not even one element
Result<uint64_t> encMeshPassBytes(uint64_t share, uint64_t elementBytes);

/// The parts of an AllReduce that each member folds: whole cache lines, but for the end.
std::vector<encPart> encMeshParts(const encStage& stage);

}  // namespace nccom
