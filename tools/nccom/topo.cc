// nccom topo: what a topology is, and which channels follow from it.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/platform.h"
#include "graph/topo_lint.h"
#include "tools/nccom/command.h"
#include "tools/nccom/topo_batch.h"
#include "tools/nccom/topo_bench.h"
#include "tools/nccom/topo_diff.h"
#include "tools/nccom/topo_svg.h"
#include "tools/nccom/topo_text.h"

namespace nccom {
namespace {

/// What the command line says.
struct TopoCommand {
  std::string file, platform;
  int lnc = 0;
  std::string mode;  // empty: p<nodes>
  int nodes = 0;     // 0: not said
  std::string gpus;
  std::string search = "best";
  bool json = false, explain = false, time = false;
  std::string svg;
  std::string linted;
  std::vector<std::string> sides;         // of diff
  std::string goldenDir, xmlDir, outDir;  // of batch and bench
  std::string timings;                    // of bench
};

int failed(const Error& error) {
  fprintf(stderr, "nccom topo: %s\n", printable(error.message).c_str());
  return kExitFailed;
}

int misused(const Error& error) {
  fprintf(stderr, "nccom topo: %s\nRun with --help for more information.\n",
          printable(error.message).c_str());
  return kExitUsage;
}

TopoChoice choiceOf(const TopoCommand& command) {
  TopoChoice choice;
  if (command.search == "nccl") choice.search = ncclTopoSearch::Nccl;
  choice.neuronSearch = command.search == "neuron";
  return choice;
}

/// The mode that --mode, --nodes and --gpus say together.
Result<TopoMode> modeOf(const TopoCommand& command) {
  TopoMode mode;
  if (!command.mode.empty()) mode = TRY(parseMode(command.mode));
  if (command.nodes > 0) {
    if (!command.mode.empty()) {
      return fail(ncclInvalidArgument, "--nodes beside --mode %s, which says how many",
                  command.mode.c_str());
    }
    mode.nHosts = command.nodes;
  }
  if (command.gpus.empty()) return mode;
  if (mode.kind == TopoMode::Kind::Direct || !mode.gpus.empty()) {
    return fail(ncclInvalidArgument, "--gpus beside --mode %s, which says which",
                command.mode.c_str());
  }
  mode.gpus = TRY(parseList(command.gpus));
  return mode;
}

Status writeFile(const std::string& path, const std::string& text) {
  if (path == "-") {
    fputs(text.c_str(), stdout);
    return Ok{};
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return fail(ncclSystemError, "%s: cannot be written", path.c_str());
  return Ok{};
}

/// What was assumed about a file, on the error stream so that JSON and pictures stay clean.
void printNotes(const TopoAnswer& answer) {
  if (!answer.topology.fromFile) return;
  for (const std::string& note : answer.result.notes)
    fprintf(stderr, "note: %s\n", note.c_str());
}

int show(const TopoCommand& command) {
  const Result<TopoMode> mode = modeOf(command);
  if (!mode.ok()) return misused(mode.error());
  TopoSource source;
  source.file = command.file;
  source.platform = command.platform;
  source.lnc = command.lnc;
  const auto begin = std::chrono::steady_clock::now();
  const Result<TopoAnswer> answer = runTopo(source, mode.value(), choiceOf(command));
  const auto end = std::chrono::steady_clock::now();
  if (!answer.ok()) return failed(answer.error());
  printNotes(answer.value());
  if (command.json) puts(answerJson(answer.value()).dump().c_str());
  if (!command.svg.empty()) {
    const Status written = writeFile(command.svg, answerSvg(answer.value()));
    if (!written.ok()) return failed(written.error());
  }
  if (command.explain) fputs(explainText(answer.value()).c_str(), stdout);
  if (!command.json && command.svg.empty() && !command.explain) {
    fputs(answerText(answer.value()).c_str(), stdout);
  }
  if (command.time) {
    const std::chrono::duration<double, std::milli> spent = end - begin;
    fprintf(stderr, "time: %.2f ms\n", spent.count());
  }
  return 0;
}

int diff(const TopoCommand& command) {
  const Result<TopoMode> mode = modeOf(command);
  if (!mode.ok()) return misused(mode.error());
  std::vector<TopoAnswer> answers;
  for (const std::string& side : command.sides) {
    Result<TopoAnswer> answer =
        runTopo(sourceNamed(side, command.lnc), mode.value(), choiceOf(command));
    if (!answer.ok()) return failed(answer.error());
    answers.push_back(std::move(answer).value());
  }
  const std::vector<std::string> lines = diffAnswers(answers[0], answers[1]);
  for (const std::string& line : lines)
    puts(line.c_str());
  return lines.empty() ? 0 : kExitFailed;
}

int lint(const TopoCommand& command) {
  bool isBad = false;
  for (const LintFinding& finding : lintTopoFile(command.linted)) {
    printf("%s: %s\n", toText(finding.severity), toText(finding).c_str());
    isBad |= finding.severity == LintSeverity::Error;
  }
  return isBad ? kExitFailed : 0;
}

int batch(const TopoCommand& command) {
  const Result<int> written =
      runBatch(command.goldenDir, command.xmlDir, command.outDir, choiceOf(command));
  if (!written.ok()) return failed(written.error());
  printf("%d files in %s\n", written.value(), command.outDir.c_str());
  return 0;
}

int bench(const TopoCommand& command) {
  const Result<std::string> table = benchTable(command.xmlDir, command.timings, choiceOf(command));
  if (!table.ok()) return failed(table.error());
  fputs(table.value().c_str(), stdout);
  return 0;
}

void addOptions(CLI::App& app, TopoCommand& command) {
  CLI::Option* file = app.add_option("--file", command.file,
                                     "topology file, as NCCL_TOPO_FILE and NCCL_TOPO_DUMP_FILE");
  app.add_option("--platform", command.platform,
                 "platform or cluster to synthesise, such as trn2.48xlarge, 4xtrn1.32xlarge, host")
      ->default_val(std::string(kDefaultPlatform))
      ->excludes(file);
  app.add_option("--lnc", command.lnc, "logical core size of the platform")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--mode", command.mode,
                 "d0, d1: the document as it stands, without or with network; p<N>: a communicator "
                 "on N hosts; m<N>: with the device fabric over N hosts; g<set>n<N>: on a subset");
  app.add_option("--nodes", command.nodes, "hosts of the communicator")
      ->check(CLI::Range(1, 65536));
  app.add_option("--gpus", command.gpus, "devices of each host that have a rank, such as 0,2,4-7");
  app.add_option("--search", command.search,
                 "nccl: NCCL's answers; best: never worse ones; neuron: rings of the Neuron search")
      ->check(CLI::IsMember({"nccl", "best", "neuron"}))
      ->default_str("best");
}

void addOutputs(CLI::App& app, TopoCommand& command) {
  app.add_flag("--json", command.json, "print JSON");
  app.add_option("--svg", command.svg, "write a drawing to this file; -: print it")
      ->check(namesFile());
  app.add_flag("--explain", command.explain, "print what the searches tried and gave up, and why");
  app.add_flag("--time", command.time, "say how long it took");
}

}  // namespace

SubCommand addTopo(CLI::App& program) {
  auto command = std::make_shared<TopoCommand>();
  CLI::App* app = program.add_subcommand("topo", "Systems, paths, channels and rings");
  addOptions(*app, *command);
  addOutputs(*app, *command);
  app->require_subcommand(0, 1);
  std::vector<std::pair<CLI::App*, int (*)(const TopoCommand&)>> actions;
  const auto add = [&](const char* name, const char* text, int (*run)(const TopoCommand&)) {
    CLI::App* action = app->add_subcommand(name, text);
    action->fallthrough();
    actions.emplace_back(action, run);
    return action;
  };
  add("show", "Print system, paths, graphs and rings (what topo does by itself)", show);
  add("diff", "Print what differs between two files or platforms; exit 1 if anything", diff)
      ->add_option("sides", command->sides, "two files or platforms")
      ->required()
      ->expected(2);
  add("lint", "Print what is wrong or unusual in a topology or graph file; exit 1 if it is refused",
      lint)
      ->add_option("path", command->linted, "the file")
      ->required();
  CLI::App* corpus =
      add("batch", "Write the JSON of every NAME.MODE of a folder", batch)->group("");
  corpus->add_option("golden", command->goldenDir)->required();
  corpus->add_option("xml", command->xmlDir)->required();
  corpus->add_option("out", command->outDir)->required();
  CLI::App* clock = add("bench", "Time the searches over a folder of files", bench)->group("");
  clock->add_option("xml", command->xmlDir)->required();
  clock->add_option("timings", command->timings, "NCCL's times, as CSV");
  return {app, [command, actions] {
            for (const auto& [action, run] : actions) {
              if (action->parsed()) return run(*command);
            }
            return show(*command);
          }};
}

}  // namespace nccom
