// nccom topo: what a topology is, and which channels follow from it.
#include <cstdio>
#include <memory>
#include <string>

#include "graph/platform.h"
#include "tools/nccom/command.h"
#include "tools/nccom/topo_run.h"

namespace nccom {
namespace {

struct TopoCommand {
  TopoSource source;
  std::string mode;
  std::string search = "best";
  bool json = false;
};

int failed(const Error& error) {
  fprintf(stderr, "nccom topo: %s\n", error.message.c_str());
  return kExitFailed;
}

int show(const TopoCommand& command) {
  const Result<TopoMode> mode = parseMode(command.mode);
  if (!mode.ok()) return failed(mode.error());
  PipelineOptions options;
  if (command.search == "nccl") options.search = ncclTopoSearch::Nccl;
  const Result<TopoAnswer> answer = runTopo(command.source, mode.value(), options);
  if (!answer.ok()) return failed(answer.error());
  for (const std::string& note : answer.value().notes)
    fprintf(stderr, "note: %s\n", note.c_str());
  if (command.json) puts(answerJson(answer.value()).dump().c_str());
  return 0;
}

}  // namespace

SubCommand addTopo(CLI::App& program) {
  auto command = std::make_shared<TopoCommand>();
  CLI::App* app = program.add_subcommand("topo", "Systems, paths, channels and rings");
  app->add_option("--file", command->source.file, "topology file (NCCL_TOPO_FILE's format)");
  app->add_option("--platform", command->source.platform, "synthesised platform")
      ->default_val(std::string(kDefaultPlatform));
  app->add_option("--lnc", command->source.lnc, "logical core size of the platform");
  app->add_option("--mode", command->mode, "d0, d1, p<hosts>, m<hosts>, g<set>n<hosts>")
      ->default_val("p1");
  app->add_option("--search", command->search, "which search")
      ->check(CLI::IsMember({"nccl", "best"}))
      ->default_str("best");
  app->add_flag("--json", command->json, "as JSON");
  return {app, [command] { return show(*command); }};
}

}  // namespace nccom
