#include "tools/nccom/schedule_tasks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <utility>

#include "enc/buffers.h"
#include "enc/select.h"
#include "enc/situation_of.h"
#include "enc/verify.h"
#include "misc/datatype.h"
#include "tools/nccom/algs_answer.h"

namespace nccom {
namespace {

Status checkUse(const ScheduleOp& op, const TaskOptions& options) {
  const char* name = op.name.c_str();
  if (!op.op) {
    return fail(ncclInvalidArgument, "%s is of the runtime alone: there are no programs of it",
                name);
  }
  if (!options.redOp.empty() && !op.reduces()) {
    return fail(ncclInvalidArgument, "--redop: %s reduces nothing", name);
  }
  if (options.root && !op.hasRoot()) {
    return fail(ncclInvalidArgument, "--root: %s has none", name);
  }
  if (options.bytes.empty() == options.count.empty()) {
    return fail(ncclInvalidArgument, options.bytes.empty()
                                         ? "neither --bytes nor --count says how much"
                                         : "--bytes beside --count: want one of both");
  }
  return Ok{};
}

Result<uint64_t> parseCount(const std::string& text) {
  uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, bad] = std::from_chars(text.data(), end, count);
  if (bad == std::errc() && stop == end) return count;
  return fail(ncclInvalidArgument, "--count '%s' is no number of elements", text.c_str());
}

encPairSet toTheNext(int ranks) {
  encPairSet pairs;
  for (int rank = 0; rank < ranks; rank++) {
    pairs.push_back({static_cast<uint32_t>(rank), static_cast<uint32_t>((rank + 1) % ranks)});
  }
  return pairs;
}

/// An error with the group that it is about.
template <class T>
Result<T> named(const ScheduleCase& asked, Result<T> result) {
  if (result.ok() || asked.group.name.empty()) return result;
  return fail(result.error().code, "%s: %s", asked.group.name.c_str(),
              result.error().message.c_str());
}

Status checkInPlace(const ScheduleCase& asked, const encTask& task, bool inPlace) {
  int64_t offset = 0;
  if (!inPlace || encInPlace(task, 0, &offset)) return Ok{};
  return fail(ncclInvalidArgument, "--in-place: %s has no such form", asked.op.name.c_str());
}

}  // namespace

encTask ScheduleTasks::of(int rank) const {
  encTask own = task;
  if (task.op != encOp::SendRecv) return own;
  const auto self = static_cast<uint32_t>(rank);
  const auto add = [&](std::vector<encMessage>& messages, uint32_t peer) {
    messages.push_back(
        {static_cast<int>(peer), messageBytes, static_cast<uint16_t>(messages.size())});
  };
  for (const encPair& pair : pairs) {
    if (pair.source == self) add(own.sends, pair.target);
    if (pair.target == self) add(own.recvs, pair.source);
  }
  return own;
}

Result<ScheduleTasks> makeTasks(const ScheduleCase& asked, const TaskOptions& options) {
  TRY(checkUse(asked.op, options));
  ScheduleTasks tasks;
  encTask& task = tasks.task;
  const int ranks = asked.info.rank_n;
  task.op = *asked.op.op;
  task.type = TRY(parseScheduleType(options.type.empty() ? "float" : options.type));
  if (!options.redOp.empty()) task.redOp = TRY(parseScheduleRedOp(options.redOp));
  task.root = options.root.value_or(0);
  const uint64_t unit = ncclTypeSize(task.type) * (asked.op.isParted() ? uint64_t(ranks) : 1);
  if (!options.count.empty()) {
    task.count = TRY(parseCount(options.count));
  } else {
    const uint64_t bytes = TRY(parseScheduleBytes(options.bytes));
    task.count = countOf(asked.op, bytes, task.type, ranks);
    if (task.count * unit != bytes) {
      tasks.note = std::to_string(bytes) + " bytes are rounded up to " +
                   std::to_string(task.count * unit) + ": whole elements (" +
                   ncclTypeName(task.type) + ")" + (asked.op.isParted() ? " of each rank" : "");
    }
  }
  if (asked.op.isAlongPairs()) task.pairs = asked.group.pairs;
  if (task.op != encOp::SendRecv) return tasks;
  if (__builtin_mul_overflow(task.count, unit, &tasks.messageBytes)) {
    return fail(ncclInvalidArgument,
                "--count %" PRIu64 ": messages of elements of %" PRIu64 " bytes each: too large",
                task.count, unit);
  }
  tasks.pairs = asked.group.pairSet ? asked.group.pairs : toTheNext(ranks);
  task.count = 0;
  task.type = ncclInt8;
  return tasks;
}

Result<encProgram> composeRank(const ScheduleCase& asked, const ScheduleTasks& tasks, int rank) {
  enc_comm_info info = asked.info;
  info.rank = rank;
  return named(asked, encCompose(info, tasks.of(rank)));
}

Result<std::vector<encProgram>> composeAll(const ScheduleCase& asked, const ScheduleTasks& tasks) {
  std::vector<encProgram> programs;
  enc_comm_info info = asked.info;
  for (int rank = 0; rank < info.rank_n; rank++) {
    info.rank = rank;
    programs.push_back(TRY(named(asked, encCompose(info, tasks.of(rank)))));
  }
  return programs;
}

Result<std::string> chooseWhy(const ScheduleCase& asked, const ScheduleTasks& tasks) {
  const encTask task = tasks.of(asked.info.rank);
  encChoice choice = TRY(named(asked, encSelect(asked.info, task)));
  if (encAlgTypeOf(choice.algorithm) != enc_alg_type::Hier) return std::move(choice.why);
  const encSituation situation = TRY(encSituationOf(asked.info, task));
  const encHierChoices stages = TRY(encSelectHier(situation, asked.info.options));
  return choice.why + "; stages " + stagesText(situation.op, stages);
}

ScheduleSize sizeOf(const std::vector<encProgram>& programs) {
  ScheduleSize size;
  size.programs = programs.size();
  for (const encProgram& program : programs) {
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks) {
        size.descriptors += block.descs.size();
        size.executed += block.descs.size() * block.repeat;
      }
    }
  }
  return size;
}

Status verifyPrograms(const ScheduleCase& asked, const std::vector<encProgram>& programs,
                      bool inPlace) {
  TRY(checkInPlace(asked, programs[0].task, inPlace));
  const std::array<encOperation, 2> twice = {programs, programs};
  return encVerify(asked.info, twice, {.inPlace = inPlace, .links = asked.knowsLinks()});
}

Result<encCost> costOf(const ScheduleCase& asked, const std::vector<encProgram>& programs,
                       bool inPlace) {
  TRY(checkInPlace(asked, programs[0].task, inPlace));
  return encCostOf(asked.info, programs, {.inPlace = inPlace, .links = asked.knowsLinks()});
}

}  // namespace nccom
