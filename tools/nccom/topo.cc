// nccom topo: what a topology is, and which channels follow from it.
#include <cstdio>
#include <memory>
#include <string>

#include "graph/platform.h"
#include "tools/nccom/command.h"
#include "tools/nccom/topo_batch.h"
#include "tools/nccom/topo_run.h"

namespace nccom {
namespace {

struct TopoCommand {
  TopoSource source;
  std::string mode;
  std::string search = "best";
  bool json = false;
  std::string goldenDir, xmlDir, outDir;  // of batch
};

int failed(const Error& error) {
  fprintf(stderr, "nccom topo: %s\n", error.message.c_str());
  return kExitFailed;
}

PipelineOptions optionsOf(const TopoCommand& command) {
  PipelineOptions options;
  if (command.search == "nccl") options.search = ncclTopoSearch::Nccl;
  return options;
}

int batch(const TopoCommand& command) {
  const Result<int> written =
      runBatch(command.goldenDir, command.xmlDir, command.outDir, optionsOf(command));
  if (!written.ok()) return failed(written.error());
  printf("%d files in %s\n", written.value(), command.outDir.c_str());
  return 0;
}

int show(const TopoCommand& command) {
  const Result<TopoMode> mode = parseMode(command.mode);
  if (!mode.ok()) return failed(mode.error());
  const Result<TopoAnswer> answer = runTopo(command.source, mode.value(), optionsOf(command));
  if (!answer.ok()) return failed(answer.error());
  for (const std::string& note : answer.value().result.notes)
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
  CLI::App* corpus = app->add_subcommand("batch", "Answers to all names of a folder")->group("");
  corpus->fallthrough();
  corpus->add_option("golden", command->goldenDir)->required();
  corpus->add_option("xml", command->xmlDir)->required();
  corpus->add_option("out", command->outDir)->required();
  return {app, [command, corpus] { return corpus->parsed() ? batch(*command) : show(*command); }};
}

}  // namespace nccom
