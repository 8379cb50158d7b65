// The mesh composer: AllReduce, AllGather, ReduceScatter and AlltoAll in one or two steps, in which
// each rank meets each other one directly. Full, grouped and Trainium2 meshes (mesh_full.cc,
// mesh_grouped.cc, mesh_trn2.cc), within a host by memory, between hosts over the network.
//
// Bytes between ranks, over all n of them, for B bytes of the call's count, and teams of c ranks
// (mesh_build.h; c = 1 where ranks have chips of their own):
//   AllReduce in two steps               2 (n-1) B
//   AllReduce in one step                n (n-1) B: single-step, or between nodes; 2 (n-1) B of two
//                                        ranks on a node
//   AllGather, ReduceScatter, AlltoAll   n (n-1) B; AllGather on Trainium2 n (n/c - 1) (c-1)/c B
//                                        more, as it reads what it sends from its team
// Between teams, of these:
//   ReduceScatter                        n (n/c - 1) B, as teams send sums
//   AllGather                            n (n/c - 1) B where teams hand on, else n (n-c) B
//   AllReduce in two steps               (n/c - 1) B and (n/c - 1) B, else (n-c) B
//
// A rank reads INPUT of others and writes their OUTPUT where they are; only what a team has
// combined, and the copies of the one step, wait in a work area: as many bytes as fit at a time.
#pragma once

#include <vector>

#include "enc/alg_types.h"
#include "enc/builder.h"
#include "enc/comm_info.h"
#include "enc/mesh_geometry.h"
#include "enc/program.h"
#include "enc/stage.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

struct encMeshOptions {
  bool singleStep = false;  // SingleStepMesh, not Mesh
  /// The collective is the first, or the last, of its function: all ranks meet before, or after it.
  bool firstBarrier = false, lastBarrier = false;
};

/// Appends this rank's part in a stage of at least two members: one of the four operations; of
/// AlltoAll all parts are whole.
///
/// @param geometry  of the stage's ranks
/// @error ncclInvalidArgument  no mesh joins them, or it does not compose the operation: says why;
///                             a work area that is too small for one element of each rank
Status encStageMesh(encBuilder& builder, const encStage& stage, const encMeshGeometry& geometry,
                    const encMeshOptions& options = {});

/// This rank's program.
/// @param alg  Mesh or SingleStepMesh
/// @error ncclInvalidArgument  as encStageMesh; info or task are wrong by themselves
Result<encProgram> encComposeMesh(const enc_comm_info& info, const encTask& task, enc_alg_type alg);

}  // namespace nccom
