// The two-step pod mesh ("UltraServer mesh"): AllGather, AllReduce and ReduceScatter of the four
// nodes of a point-to-point pod. Nodes reach their neighbours in one step and the opposite node in
// two (mesh_pod_grid.h); ranks of a node reach each other in one.
//
//   all-gather      LOCAL_AND_POD_GRP_BRDCST    own part: to the node, to the two neighbours
//                   LOCAL_AND_POD_GRP_BRDCST_2  the neighbours' parts: to the node; a half of each
//                                               also to the other neighbour, which lacks it
//                   INTRA_GRP_BRDCST            the opposite's part: to the node
//   reduce-scatter  parts are cut in halves. The first halves are exchanged across the direct
//                   dimension, then across the proxy's; the second halves the other way around.
//                   REDUCE_COPY    what the node has for the two positions across: folded, to the
//                                  neighbour there
//                   REDUCE_COPY_2  what it has for the neighbour across the other dimension, with
//                                  what came for it: folded, to that neighbour
//                   REDUCE_WRITE   what it has for us, with both that came: folded, into OUTPUT
//   all-reduce      both, one after the other
//
// A rank serves the ranks in its place on all nodes. So between nodes only ranks of equal place
// talk, over the links of their own device, and within a node a rank reads for itself what its
// mates have, once. Halves keep the links of both sides equally busy.
//
// For n ranks (n/4 a node) and B bytes of the call's count, each rank sends or fetches
// (n-1) B for AllGather and ReduceScatter and 2 (n-1)/n B for AllReduce, of which 1.5 B, 1.5 B and
// 2 * 1.5/n B go over each of its links to a neighbour. ReduceScatter reads each byte of INPUT
// once, and writes 3 B of partial sums (6 halves, in the neighbours' work areas).
//
// How the runtime's composers do it was never published; this keeps what they assert.
#pragma once

#include "enc/builder.h"
#include "enc/comm_info.h"
#include "enc/mesh.h"
#include "enc/mesh_build.h"
#include "enc/mesh_geometry.h"
#include "enc/mesh_pod_grid.h"
#include "enc/program.h"
#include "enc/stage.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// The mesh of a stage: a subtype an operation.
/// @error ncclInternalError  partners that break the rules of encCheckPodPartners
Result<encMeshPlan> encBuildPodMesh(const encMeshGeometry& geometry, const encPodGrid& grid,
                                    const encMeshUse& use);

/// Appends this rank's part in a stage.
///
/// @param stage     AllGather, AllReduce or ReduceScatter
/// @param geometry  of the stage's ranks: all ranks on four nodes, with the same cores on each
/// @error ncclInvalidArgument  another operation, other groups; a work area that is too small for
///                             seven elements
Status encStagePodMesh(encBuilder& builder, const encStage& stage, const encMeshGeometry& geometry,
                       const encMeshOptions& options = {});

/// This rank's program.
/// @error ncclInvalidArgument  as encStagePodMesh; info or task are wrong by themselves
Result<encProgram> encComposePodMesh(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
