// Schedules as JSON.
#pragma once

#include "enc/cost.h"
#include "enc/layout.h"
#include "enc/program.h"
#include "tools/nccom/schedule_case.h"
#include "tools/nccom/topo_json.h"

namespace nccom {

/// {platform, lnc, pod, nodes, ranks, group, switches}
Json caseJson(const ScheduleCase& asked);

/// All of a program. Names stand for numbers of steps, buffers and semaphores; a semaphore is
/// {"number", "name"}, as its owner calls it. Fields that a descriptor does not use are left out.
Json programJson(const encProgram& program, const encLayout& layout);

/// All fields, as numbers; links by kind.
Json costJson(const encCost& cost);

}  // namespace nccom
