// Composes a stage by an algorithm that is named.
#pragma once

#include "enc/alg_types.h"
#include "enc/builder.h"
#include "enc/levels.h"
#include "enc/stage.h"
#include "misc/result.h"

namespace nccom {

/// Appends this rank's part in a stage of a level. A stage of one member copies.
///
/// @param levels  of the builder's communicator
/// @error ncclInvalidArgument  the algorithm does not compose the stage: says why
Status encStageCompose(encBuilder& builder, const encStage& stage, enc_alg_type alg,
                       const encLevels& levels);

}  // namespace nccom
