// Composes a stage on a switch mesh that has been built.
#pragma once

#include <cstdint>

#include "enc/builder.h"
#include "enc/mesh_event.h"
#include "enc/mesh_switch_grid.h"
#include "enc/stage.h"
#include "misc/result.h"

namespace nccom {

/// @param workBytes  of the stage's work area that may be used
/// @error ncclInvalidArgument  work areas without room for an element of each partial sum
Status encComposeSwitchStage(encBuilder& builder, const encStage& stage, const encSwitchGrid& grid,
                             const enc_alg_mesh_subtype& subtype, uint64_t workBytes);

}  // namespace nccom
