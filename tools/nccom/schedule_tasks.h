// The task of each rank, and the programs that are composed for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "enc/cost.h"
#include "enc/program.h"
#include "tools/nccom/schedule_case.h"

namespace nccom {

/// What the command line says of the data. Empty: not said.
struct TaskOptions {
  std::string bytes, count;  // one of both
  std::string type;          // float
  std::string redOp;         // sum
  std::optional<int> root;   // 0; a rank of the group
};

/// The tasks of all ranks: equal but for the messages of SendRecv.
struct ScheduleTasks {
  encTask task;
  uint64_t messageBytes = 0;  // SendRecv
  encPairSet pairs;           // SendRecv: who sends to whom
  std::string note;           // what was assumed about the size; empty: nothing

  encTask of(int rank) const;
};

/// SendRecv sends along the pairs of the group; without pairs from each rank to the next one.
/// @error ncclInvalidArgument  an option that the operation has no use for, or that makes no sense;
///                             an operation without programs; pairs that the operation does without
Result<ScheduleTasks> makeTasks(const ScheduleCase& asked, const TaskOptions& options);

/// @error as encCompose; names the group
Result<encProgram> composeRank(const ScheduleCase& asked, const ScheduleTasks& tasks, int rank);
Result<std::vector<encProgram>> composeAll(const ScheduleCase& asked, const ScheduleTasks& tasks);

/// Why the algorithm is the one it is.
/// @error as encSelect; names the group
Result<std::string> chooseWhy(const ScheduleCase& asked, const ScheduleTasks& tasks);

/// What a verification went through.
struct ScheduleSize {
  uint64_t programs = 0, descriptors = 0;
  uint64_t executed = 0;  // descriptors with their repetitions
};
ScheduleSize sizeOf(const std::vector<encProgram>& programs);

/// Verifies an operation twice in a row, of all ranks; its links too where they are known.
/// @error ncclInternalError  the first violation
/// @error ncclInvalidArgument  in place, and the operation has no such form
Status verifyPrograms(const ScheduleCase& asked, const std::vector<encProgram>& programs,
                      bool inPlace);

/// What the programs of all ranks cost, which are verified for it.
/// @error as verifyPrograms
Result<encCost> costOf(const ScheduleCase& asked, const std::vector<encProgram>& programs,
                       bool inPlace);

}  // namespace nccom
