// The stage that a whole communicator makes: from INPUT to OUTPUT.
#pragma once

#include "enc/comm_info.h"
#include "enc/stage.h"
#include "enc/task.h"

namespace nccom {

/// Members are ranks. All of the work area is its.
encStage encFlatStage(const enc_comm_info& info, const encTask& task);

}  // namespace nccom
