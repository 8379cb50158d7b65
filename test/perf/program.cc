#include "test/perf/program.h"

#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "include/nccom.h"
#include "test/perf/bench.h"
#include "test/perf/crew.h"
#include "test/perf/failure.h"
#include "test/perf/place.h"
#include "test/perf/table.h"
#include "test/perf/watch.h"

namespace nccom::perf {
namespace {

std::string baseName(const char* path) {
  const std::string whole = path;
  return whole.substr(whole.rfind('/') + 1);
}

// What the devices are: the file, cluster or platform that the library reads them from.
std::string platformName() {
  const char* const file = std::getenv("NCCL_TOPO_FILE");
  if (file != nullptr && *file != '\0') return file;
  const char* const cluster = std::getenv("NCCOM_CLUSTER");
  if (cluster != nullptr && *cluster != '\0') return cluster;
  const char* const platform = std::getenv("NCCOM_PLATFORM");
  return platform == nullptr || *platform == '\0' ? "trn2.48xlarge" : platform;
}

std::string timeOfDay() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts)};
}

class Session {
 public:
  Session(const PerfOp& op, Processes& processes, const Options& options, std::string program)
      : op_(op),
        processes_(processes),
        options_(options),
        program_(std::move(program)),
        failure_(program_, processes),
        crew_(options.threads, processes),
        watch_(failure_, processes.rank() == 0 && isatty(STDERR_FILENO) != 0,
               options.timeoutSeconds) {}

  /// @return  the exit status
  int run();

 private:
  bool leads() const { return processes_.rank() == 0; }
  int ranksHere() const { return options_.threads * options_.devices; }
  int nRanks() const { return ranksHere() * processes_.size(); }

  Status examine();
  Status checkRanks() const;
  void printHeader();
  void printRow(const Row& row);
  Status connect(std::span<Member> members);
  Result<Outcome> runThread(int thread);
  Outcome runThreads();
  Status disconnect();

  const PerfOp& op_;
  Processes& processes_;
  const Options& options_;
  const std::string program_;
  Failure failure_;
  Crew crew_;
  PatternCache patterns_;
  Watch watch_;
  Place place_;
  int libraryVersion_ = 0;
  ncclUniqueId id_{};
  std::vector<Member> members_;  // of all threads, in order of rank
};

Status Session::checkRanks() const {
  const int ranks = nRanks();
  if (options_.root >= ranks) {
    return fail(ncclInvalidUsage, "-r %d: expected a rank, from 0 to %d", options_.root, ranks - 1);
  }
  if (op_.powerOfTwo && !std::has_single_bit(static_cast<unsigned>(ranks))) {
    return fail(ncclInvalidUsage, "%s is defined for 1, 2, 4, 8, ... ranks: found %d", op_.name,
                ranks);
  }
  if (op_.steps(ranks) > 1 && options_.aggregated > 1) {
    return fail(ncclInvalidUsage,
                "-m %d: the steps of %s depend on each other and cannot be in one group: "
                "expected -m 1",
                options_.aggregated, op_.name);
  }
  return Ok{};
}

// All that can be said before a communicator is made.
Status Session::examine() {
  TRY(did(ncclGetVersion(&libraryVersion_), "ncclGetVersion"));
  int devices = 0;
  TRY(did(nccomGetDeviceCount(&devices), "nccomGetDeviceCount"));
  TRY(checkResources(options_, place_, {.devices = devices, .memory = availableMemory()}));
  TRY(checkRanks());
  if (leads()) TRY(did(ncclGetUniqueId(&id_), "ncclGetUniqueId"));
  return Ok{};
}

void Session::printHeader() {
  std::string devices;
  for (const Member& member : members_) {
    devices += formatDevice({.rank = member.rank,
                             .pid = getpid(),
                             .host = place_.host,
                             .device = member.device,
                             .platform = platformName()});
  }
  const std::vector<std::string> all = processes_.allGather(devices);
  if (!leads()) return;
  std::string text = formatTitle(
      {.program = program_, .libraryVersion = libraryVersion_, .platform = platformName()},
      options_);
  for (const std::string& lines : all)
    text += lines;
  text += formatColumns(options_);
  fputs(text.c_str(), stdout);
  fflush(stdout);
}

void Session::printRow(const Row& row) {
  if (!leads()) return;
  watch_.idle();
  fputs(formatRow(row, options_.timestamps ? timeOfDay() : "").c_str(), stdout);
  fflush(stdout);
}

// Makes the communicators of these members, one thread for all of them.
Status Session::connect(std::span<Member> members) {
  TRY(did(ncclGroupStart(), "ncclGroupStart"));
  for (Member& member : members) {
    TRY(did(nccomSetDevice(member.device), "nccomSetDevice"));
    TRY(did(ncclCommInitRank(&member.comm, nRanks(), id_, member.rank),
            "ncclCommInitRank of rank " + std::to_string(member.rank)));
  }
  return did(ncclGroupEnd(), "ncclCommInitRank");
}

Result<Outcome> Session::runThread(int thread) {
  const auto devices = static_cast<size_t>(options_.devices);
  const std::span<Member> mine =
      std::span(members_).subspan(static_cast<size_t>(thread) * devices, devices);
  if (options_.parallelInit) TRY(connect(mine));
  const Shared shared{.options = options_,
                      .op = op_,
                      .nRanks = nRanks(),
                      .crew = crew_,
                      .patterns = patterns_,
                      .watch = watch_,
                      .print = [this](const Row& row) { printRow(row); }};
  return Bench(shared, thread, mine).run();
}

// Runs thread 0 here and the others beside it. A failure of any of them ends the program: the rest
// may be waiting for it inside the library.
Outcome Session::runThreads() {
  const auto runOrStop = [this](int thread) {
    Result<Outcome> outcome = runThread(thread);
    if (!outcome.ok()) failure_.stop(outcome.error());
    return outcome.value();
  };
  std::vector<std::jthread> others;
  for (int thread = 1; thread < options_.threads; thread++) {
    others.emplace_back([&, thread] { runOrStop(thread); });
  }
  return runOrStop(0);
}

Status Session::disconnect() {
  for (const Member& member : members_) {
    TRY(did(ncclCommDestroy(member.comm), "ncclCommDestroy"));
  }
  return Ok{};
}

int Session::run() {
  place_ = findPlace(processes_);
  // One process speaks for all, and all end: nobody waits for a process that found a fault.
  const Status examined = examine();
  for (const std::string& fault :
       processes_.allGather(examined.ok() ? "" : examined.error().message)) {
    if (fault.empty()) continue;
    if (leads()) fprintf(stderr, "%s: %s\n", program_.c_str(), fault.c_str());
    return 1;
  }
  processes_.broadcast(&id_, sizeof id_);
  for (int member = 0; member < ranksHere(); member++) {
    members_.push_back({.rank = processes_.rank() * ranksHere() + member,
                        .device = place_.localRank * ranksHere() + member});
  }
  printHeader();
  if (!options_.parallelInit) {
    watch_.begin("ncclCommInitRank");
    const Status connected = connect(members_);
    if (!connected.ok()) failure_.stop(connected.error());
  }
  const Outcome outcome = runThreads();
  watch_.begin("ncclCommDestroy");
  const Status disconnected = disconnect();
  if (!disconnected.ok()) failure_.stop(disconnected.error());
  watch_.idle();
  if (leads()) {
    const auto halves = static_cast<double>(std::max<uint64_t>(outcome.halves, 1));
    fputs(formatSummary({.program = program_,
                         .rowsWrong = outcome.halvesWrong,
                         .busBandwidth = outcome.busBandwidths / halves,
                         .nRanks = nRanks()})
              .c_str(),
          stdout);
    fflush(stdout);
  }
  return outcome.halvesWrong > 0 ? 1 : 0;
}

}  // namespace

int runProgram(const PerfOp& op, Processes& processes, int argc, char** argv) {
  const std::string program = baseName(argv[0]);
  const auto arguments = std::span<const char* const>(argv, static_cast<size_t>(argc)).subspan(1);
  const Result<Options> options = parseOptions(arguments);
  const bool leads = processes.rank() == 0;
  if (!options.ok()) {
    if (leads) fprintf(stderr, "%s: %s\n", program.c_str(), options.error().message.c_str());
    return 1;
  }
  if (options.value().help) {
    if (leads) fputs(helpText(program).c_str(), stdout);
    return 0;
  }
  return Session(op, processes, options.value(), program).run();
}

}  // namespace nccom::perf
