// nccom algs: which algorithms an operation may have, which it gets, and why not the others.
#include <cstdio>
#include <memory>
#include <string>

#include "tools/nccom/algs_answer.h"
#include "tools/nccom/command.h"

namespace nccom {
namespace {

struct AlgsCommand {
  ScheduleOptions options;
  std::string bytes;
  bool sweep = false, json = false;
};

Result<std::string> answer(const AlgsCommand& command) {
  if (command.sweep && !command.bytes.empty()) {
    return fail(ncclInvalidArgument, "--bytes beside --sweep, which goes through all sizes");
  }
  const uint64_t bytes = command.bytes.empty() ? 0 : TRY(parseScheduleBytes(command.bytes));
  const ScheduleCase asked = TRY(makeCase(command.options, false));
  if (command.bytes.empty()) {
    const AlgsSweep sweep = TRY(sweepAlgs(asked));
    return command.json ? sweepJson(asked, sweep).dump() + "\n" : sweepText(asked, sweep);
  }
  const AlgsAnswer found = TRY(answerAlgs(asked, bytes));
  return command.json ? algsJson(asked, found).dump() + "\n" : algsText(asked, found);
}

int run(const AlgsCommand& command) {
  const Result<std::string> text = answer(command);
  if (!text.ok()) return refuse("algs", text.error());
  fputs(text.value().c_str(), stdout);
  return 0;
}

}  // namespace

SubCommand addAlgs(CLI::App& program) {
  auto command = std::make_shared<AlgsCommand>();
  CLI::App* app =
      program.add_subcommand("algs", "Which algorithm an operation gets, and why not the others");
  addScheduleOptions(*app, command->options);
  app->add_option("--rank", command->options.group.rank, "rank whose group of the file is meant")
      ->needs("--groups");
  app->add_option("--bytes", command->bytes,
                  "size of the longer side, all parts together: 8, 64K, 56M, 1G");
  app->add_flag("--sweep", command->sweep,
                "all sizes from 1 KiB to 1 GiB (what is done without --bytes)");
  app->add_flag("--json", command->json, "print JSON");
  return {app, [command] { return run(*command); }};
}

}  // namespace nccom
