// nccom program: what a rank does in a collective, descriptor by descriptor.
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "enc/layout.h"
#include "enc/select.h"
#include "tools/nccom/command.h"
#include "tools/nccom/schedule_json.h"
#include "tools/nccom/schedule_tasks.h"
#include "tools/nccom/svg_program.h"

namespace nccom {
namespace {

struct ProgramCommand {
  ScheduleOptions options;
  TaskOptions task;
  bool verify = false, cost = false, inPlace = false, json = false;
  std::string svg;

  /// What is said of all ranks is enough, unless one is named.
  bool printsProgram() const { return svg.empty() && (options.group.rank || !(verify || cost)); }
  bool needsAll() const { return verify || cost || !svg.empty(); }
};

/// What the command works out, and what it prints of it.
struct ProgramAnswer {
  ScheduleCase asked;
  ScheduleTasks tasks;
  std::string why;
  std::vector<encProgram> all;  // empty: nobody asked for all of them
  encProgram own;               // of the rank in question
  std::optional<encCost> cost;
};

Status checkOptions(const ProgramCommand& command) {
  if (command.inPlace && !command.verify && !command.cost) {
    return fail(ncclInvalidArgument, "--in-place without --verify or --cost, which it is for");
  }
  const bool prints = command.json || command.verify || command.cost;
  if (prints && command.svg == "-") {
    return fail(ncclInvalidArgument, "--%s beside --svg -: both go to the standard output",
                command.json     ? "json"
                : command.verify ? "verify"
                                 : "cost");
  }
  return Ok{};
}

Result<ProgramAnswer> compose(const ProgramCommand& command) {
  TRY(checkOptions(command));
  ProgramAnswer answer;
  answer.asked = TRY(makeCase(command.options, true));
  answer.tasks = TRY(makeTasks(answer.asked, command.task));
  const int self = answer.asked.group.self;
  answer.why = TRY(chooseWhy(answer.asked, answer.tasks));
  if (command.needsAll()) {
    answer.all = TRY(composeAll(answer.asked, answer.tasks));
    answer.own = answer.all[self];
  } else {
    answer.own = TRY(composeRank(answer.asked, answer.tasks, self));
  }
  return answer;
}

std::string headText(const ProgramAnswer& answer) {
  std::string text = answer.asked.text() + "\n";
  if (!answer.asked.switches.empty()) text += "set: " + answer.asked.switches + "\n";
  return text + answer.own.algorithm + ": " + answer.why + "\n";
}

std::string verifiedText(const ProgramAnswer& answer, bool inPlace) {
  const ScheduleSize size = sizeOf(answer.all);
  return "verified: " + std::to_string(size.programs) + " programs of " +
         std::to_string(size.descriptors) + " descriptors (" + std::to_string(size.executed) +
         " with repetitions), twice in a row" + (inPlace ? ", in place" : "") +
         (answer.asked.knowsLinks() ? "" : "; links of part of a pod are not checked") + "\n";
}

/// What the numbers of semaphores in a program mean.
std::string semaphoresText(const ProgramAnswer& answer) {
  std::set<uint32_t> numbers;
  for (const encQueue& queue : answer.own.queues) {
    for (const encBlock& block : queue.blocks) {
      for (const encDesc& desc : block.descs) {
        const bool has = desc.type == encDescType::Wait || desc.type == encDescType::Inc;
        if (has) numbers.insert(desc.semaphore);
      }
    }
  }
  for (const encConnection& connection : answer.own.connections)
    numbers.insert(connection.semaphore);
  const encLayout layout = encLayout::of(answer.asked.info);
  std::string text = numbers.empty() ? "" : "  semaphores, as their owner calls them\n";
  for (const uint32_t number : numbers)
    text += "    s" + std::to_string(number) + ": " + layout.semaphoreName(number) + "\n";
  return text;
}

Json answerJson(const ProgramCommand& command, const ProgramAnswer& answer) {
  Json json = {{"machine", caseJson(answer.asked)}, {"why", answer.why}};
  if (command.verify) {
    const ScheduleSize size = sizeOf(answer.all);
    json["verified"] = {{"programs", size.programs},
                        {"descriptors", size.descriptors},
                        {"executed", size.executed},
                        {"inPlace", command.inPlace},
                        {"links", answer.asked.knowsLinks()}};
  }
  if (answer.cost) json["cost"] = costJson(*answer.cost);
  json["program"] = programJson(answer.own, encLayout::of(answer.asked.info));
  return json;
}

Status writeDrawing(const ProgramCommand& command, const ProgramAnswer& answer) {
  ProgramDrawing drawing;
  const TaskOptions& task = command.task;
  const std::string size = task.bytes.empty() ? task.count + " elements"
                                              : bytesText(TRY(parseScheduleBytes(task.bytes)));
  drawing.title = std::string(encOpName(answer.own.task.op)) + " by " + answer.own.algorithm +
                  " of " + size + ": " + answer.asked.text();
  drawing.nodes = answer.asked.info.node;
  if (!answer.asked.group.name.empty()) drawing.names = answer.asked.group.members;
  if (command.options.group.rank) drawing.focus = answer.asked.group.self;
  const DrawnProgram drawn = TRY(drawProgram(answer.all, drawing));
  if (!drawn.note.empty()) fprintf(stderr, "note: %s\n", drawn.note.c_str());
  return writeText(command.svg, drawn.svg);
}

Status show(const ProgramCommand& command) {
  ProgramAnswer answer = TRY(compose(command));
  if (!answer.tasks.note.empty()) fprintf(stderr, "note: %s\n", answer.tasks.note.c_str());
  if (command.verify) TRY(verifyPrograms(answer.asked, answer.all, command.inPlace));
  if (command.cost) answer.cost = TRY(costOf(answer.asked, answer.all, command.inPlace));
  if (!command.svg.empty()) TRY(writeDrawing(command, answer));
  const bool isDrawing = !command.svg.empty() && !command.verify && !command.cost;
  if (command.svg == "-" || (isDrawing && !command.json)) return Ok{};
  if (command.json) {
    printf("%s\n", answerJson(command, answer).dump().c_str());
    return Ok{};
  }
  fputs(headText(answer).c_str(), stdout);
  if (command.verify) fputs(verifiedText(answer, command.inPlace).c_str(), stdout);
  if (answer.cost) fputs(answer.cost->text().c_str(), stdout);
  if (!command.printsProgram()) return Ok{};
  fputs((encDump(answer.own) + semaphoresText(answer)).c_str(), stdout);
  return Ok{};
}

int run(const ProgramCommand& command) {
  const Status status = show(command);
  return status.ok() ? 0 : refuse("program", status.error());
}

}  // namespace

SubCommand addProgram(CLI::App& program) {
  auto command = std::make_shared<ProgramCommand>();
  CLI::App* app =
      program.add_subcommand("program", "What a rank does in a collective, as text or drawn");
  addScheduleOptions(*app, command->options);
  app->add_option("--bytes", command->task.bytes,
                  "size of the longer side, all parts together: 8, 64K, 56M, 1G; of sendrecv: of "
                  "each message");
  app->add_option("--count", command->task.count, "elements, as in the operation's call");
  app->add_option("--type", command->task.type, "type of the elements (float)");
  app->add_option("--redop", command->task.redOp, "operator of reductions (sum)");
  app->add_option("--root", command->task.root, "root, a rank of the group (0)");
  app->add_option("--rank", command->options.group.rank,
                  "rank whose program is printed, and whose arrows are drawn (0)");
  app->add_flag("--verify", command->verify, "verify the programs of all ranks");
  app->add_flag("--cost", command->cost,
                "verify, and count steps, memory accesses, and bytes of links");
  app->add_flag("--in-place", command->inPlace, "verify it with OUTPUT in the place of INPUT");
  app->add_flag("--json", command->json, "print JSON");
  app->add_option("--svg", command->svg, "write a drawing of all ranks to this file; -: print it")
      ->check(namesFile());
  return {app, [command] { return run(*command); }};
}

}  // namespace nccom
