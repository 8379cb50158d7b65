// The command line: that of nccl-tests. One table makes both the parser and the help.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "misc/result.h"
#include "test/perf/element.h"
#include "test/perf/size.h"

namespace nccom::perf {

/// How the host waits during the timed loop (-z).
enum class Blocking {
  No = 0,              // once, at the end
  WaitAndBarrier = 1,  // after every call, or group of -m calls, and then for all threads
  Wait = 2,            // after every call, or group of -m calls
  UntimedBarrier = 3,  // as WaitAndBarrier, but the barrier is not timed
};

/// Whose time is reported (-a).
enum class Average { Rank0 = 0, Mean = 1, Min = 2, Max = 3 };

constexpr int kAllRoots = -1;

struct Options {
  SizeRange sizes{.minBytes = 32 << 20, .maxBytes = 32 << 20, .stepBytes = 1 << 20, .factor = 1};
  int threads = 1;  // of each process
  int devices = 1;  // of each thread
  int iterations = 20;
  int warmups = 1;
  int aggregated = 1;                                         // calls in one group
  int cycles = 1;                                             // 0: for ever
  int checks = 1;                                             // 0: none
  std::optional<TypeName> type = typeNamed("float").value();  // none: all
  std::optional<Operator> op = Operator::Sum;                 // none: all
  int root = 0;
  bool parallelInit = false;
  Blocking blocking = Blocking::No;
  Average average = Average::Mean;
  int unalign = 0;  // elements by which buffers are moved
  bool nullStream = false;
  bool cpuTime = false;  // report how long queueing took, not the operation
  bool timestamps = false;
  int timeoutSeconds = 0;  // 0: none
  bool help = false;
};

/// @error ncclInvalidArgument  names the option, its value, and what was expected
Result<Options> parseOptions(std::span<const char* const> arguments);

std::string helpText(const std::string& program);

/// A row of the table that parser and help are made from.
struct OptionSpec {
  char letter;
  const char* name;
  const char* value;  // what follows, as the help shows it; nullptr: nothing does
  const char* help;
  Status (*set)(Options& options, const std::string& value);
};
std::span<const OptionSpec> optionTable();

}  // namespace nccom::perf
