// The switch mesh, of Trainium3 devices behind switches: in two steps, along the rows of a grid of
// devices and along its columns (mesh_switch_grid.h).
//
// All-gather.
//   latency-opt  INTER_GRP_BRDCST    own part: to all in our row
//                INTER_GRP_BRDCST_2  the row's parts: to those in our slot and column
//   bw-opt       INTER_GRP_BRDCST    own part: to those in our slot and row
//                INTER_GRP_BRDCST_2  the parts of our slot and row: to those in our slot and column
//                INTRA_GRP_BRDCST    the parts of our slot: to our device
// Reduce-scatter. A rank serves those in its slot.
//                REDUCE_COPY         what our device has for a column ("chip r1w": each INPUT is
//                                    read by one rank of the device): folded, to that column's rank
//                                    in our row
//                REDUCE_COPY_2       what our row has for another row: folded, to that row's rank
//                REDUCE_WRITE        what all rows have for us: folded, into OUTPUT
// All-reduce. Reduce-scatter, then all-gather of the one kind or the other; or, in a single step
// (of so few bytes that everybody gets all of them), the events of the latency-opt all-gather into
// work areas, and REDUCE_WRITE. All-to-all: INTER_GRP_BRDCST within the row, INTER_GRP_BRDCST_2
// beyond, directly.
//
// EVT_LOCAL_HNDSHK (within devices) and EVT_GLOBAL_HNDSHK (between them) come first where work
// areas are touched or the stage is not the first, else they are skipped. The runtime does without
// in its single step, as its ranks may write into buffers of operations that have not begun; ours
// may not. EVT_SYNC, among all ranks that touch each other's buffers, comes last.
//
// For n ranks, c on each device, and B bytes of the call's count, a rank sends or fetches
//   AllGather, ReduceScatter, AlltoAll   (n-1) B       of which between devices
//                                                      (n/c-1) B    ReduceScatter, bw-opt AllGather
//                                                      (n-c) B      latency-opt AllGather, AlltoAll
//   AllReduce, two ways                  2 (n-1)/n B
//   AllReduce, single-step               (n-1) B
// A reduce-scatter writes n/c + (number of rows) partial sums of the size of a part to work areas.
//
// The runtime's phases, their order and their gates are known, and what they are for; what exactly
// each of them sends was never published.
#pragma once

#include "enc/alg_types.h"
#include "enc/builder.h"
#include "enc/comm_info.h"
#include "enc/mesh.h"
#include "enc/mesh_build.h"
#include "enc/mesh_geometry.h"
#include "enc/mesh_switch_grid.h"
#include "enc/program.h"
#include "enc/stage.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// The mesh of a stage: a subtype for each algorithm and operation. Its teams are unused.
Result<encMeshPlan> encBuildSwitchMesh(const encMeshGeometry& geometry, const encSwitchGrid& grid,
                                       const encMeshUse& use);

/// The subtype that composes an operation for an algorithm: Mesh stands for the reduce-scatter, the
/// all-to-all, and the latency-opt ones of the others.
/// @error ncclInvalidArgument  there is none: says why
Result<const enc_alg_mesh_subtype*> encSwitchSubtypeFor(const enc_alg_mesh& mesh, enc_alg_type alg,
                                                        enc_op_type op,
                                                        const encSituation& situation);

/// Appends this rank's part in a stage.
///
/// @param stage     AllGather, AllReduce, ReduceScatter or AlltoAll; of AlltoAll all parts are
/// whole
/// @param geometry  of the stage's ranks: as many on each device, at least two
/// @param alg       Mesh, SingleStepMesh, LatencyOptMesh or BwOptMesh
/// @error ncclInvalidArgument  other machines; an algorithm that does not do it: see
///                             encSwitchSubtypeFor; a work area without room for an element
Status encStageSwitchMesh(encBuilder& builder, const encStage& stage,
                          const encMeshGeometry& geometry, enc_alg_type alg,
                          const encMeshOptions& options = {});

/// This rank's program.
/// @error ncclInvalidArgument  as encStageSwitchMesh; info or task are wrong by themselves
Result<encProgram> encComposeSwitchMesh(const enc_comm_info& info, const encTask& task,
                                        enc_alg_type alg);

}  // namespace nccom
