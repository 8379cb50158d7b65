#include "test/perf/options.h"

#include <array>
#include <charconv>
#include <climits>

namespace nccom::perf {
namespace {

Result<int> parseInt(const std::string& text, int least, int most) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stopped == end && value >= least && value <= most) return value;
  if (most == INT_MAX) {
    return fail(ncclInvalidArgument, "'%s': expected an integer from %d", text.c_str(), least);
  }
  return fail(ncclInvalidArgument, "'%s': expected an integer from %d to %d", text.c_str(), least,
              most);
}

// Setters for the members of Options that are plain numbers and sizes.
template <auto kMember, int kLeast, int kMost = INT_MAX>
Status setInt(Options& options, const std::string& value) {
  options.*kMember = TRY(parseInt(value, kLeast, kMost));
  return Ok{};
}
template <auto kMember>
Status setBool(Options& options, const std::string& value) {
  options.*kMember = TRY(parseInt(value, 0, 1)) == 1;
  return Ok{};
}
template <auto kMember>
Status setSize(Options& options, const std::string& value) {
  options.sizes.*kMember = TRY(parseSize(value));
  return Ok{};
}

Status setFactor(Options& options, const std::string& value) {
  options.sizes.factor = static_cast<size_t>(TRY(parseInt(value, 1, INT_MAX)));
  return Ok{};
}
Status setType(Options& options, const std::string& value) {
  options.type.reset();
  if (value != "all") options.type = TRY(typeNamed(value));
  return Ok{};
}
Status setOperator(Options& options, const std::string& value) {
  options.op.reset();
  if (value != "all") options.op = TRY(operatorNamed(value)).op;
  return Ok{};
}
Status setRoot(Options& options, const std::string& value) {
  options.root = value == "all" ? kAllRoots : TRY(parseInt(value, kAllRoots, INT_MAX));
  return Ok{};
}
Status setBlocking(Options& options, const std::string& value) {
  options.blocking = static_cast<Blocking>(TRY(parseInt(value, 0, 3)));
  return Ok{};
}
Status setAverage(Options& options, const std::string& value) {
  options.average = static_cast<Average>(TRY(parseInt(value, 0, 3)));
  return Ok{};
}
Status setHelp(Options& options, const std::string& /*value*/) {
  options.help = true;
  return Ok{};
}

constexpr std::array kTable{
    OptionSpec{'t', "nthreads", "threads", "threads of each process (1)",
               setInt<&Options::threads, 1>},
    OptionSpec{'g', "ngpus", "devices", "devices of each thread (1)", setInt<&Options::devices, 1>},
    OptionSpec{'b', "minbytes", "size", "first size: bytes, or with K, M, G, T (32M)",
               setSize<&SizeRange::minBytes>},
    OptionSpec{'e', "maxbytes", "size", "no size beyond this (32M)", setSize<&SizeRange::maxBytes>},
    OptionSpec{'i', "stepbytes", "size", "what the next size adds (1M)",
               setSize<&SizeRange::stepBytes>},
    OptionSpec{'f', "stepfactor", "factor", "what the next size multiplies by; 1: see -i (1)",
               setFactor},
    OptionSpec{'n', "iters", "count", "timed operations of a size (20)",
               setInt<&Options::iterations, 1>},
    OptionSpec{'m', "agg_iters", "count", "calls that are grouped to one operation (1)",
               setInt<&Options::aggregated, 1>},
    OptionSpec{'w', "warmup_iters", "count", "operations of a size before the timed ones (1)",
               setInt<&Options::warmups, 0>},
    OptionSpec{'N', "run_cycles", "count", "times that all sizes are visited; 0: for ever (1)",
               setInt<&Options::cycles, 0>},
    OptionSpec{'p', "parallel_init", "0/1", "each thread initialises its communicators itself (0)",
               setBool<&Options::parallelInit>},
    OptionSpec{'c', "check", "count", "checked operations after the timed ones; 0: none (1)",
               setInt<&Options::checks, 0>},
    OptionSpec{'o', "op", "reduction",
               "sum, prod, max, min, avg, mulsum or all; for reductions only (sum)", setOperator},
    OptionSpec{'d', "datatype", "type",
               "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, "
               "f8e5m2 or all (float)",
               setType},
    OptionSpec{'r', "root", "rank", "root of rooted operations; all or -1: each in turn (0)",
               setRoot},
    OptionSpec{
        'z', "blocking", "0/1/2/3",
        "wait in the timed loop: 0 at its end; 1 after each operation, then a barrier of all "
        "threads; 2 after each operation; 3 as 1, the barrier not timed (0)",
        setBlocking},
    OptionSpec{'y', "stream_null", "0/1", "use the devices' default streams (0)",
               setBool<&Options::nullStream>},
    OptionSpec{'T', "timeout", "seconds", "give up when one row takes longer; 0: never (0)",
               setInt<&Options::timeoutSeconds, 0>},
    OptionSpec{'C', "report_cputime", "0/1", "report the time of queueing, not of completion (0)",
               setBool<&Options::cpuTime>},
    OptionSpec{'S', "report_timestamps", "0/1", "end each row with the time of day (0)",
               setBool<&Options::timestamps>},
    OptionSpec{
        'a', "average", "0/1/2/3",
        "report the time of rank 0's thread (0), or the mean (1), minimum (2) or maximum (3) "
        "over all threads (1)",
        setAverage},
    OptionSpec{'u', "unalign", "elements", "move the buffers by so many elements (0)",
               setInt<&Options::unalign, 0, 1 << 20>},
    OptionSpec{'h', "help", nullptr, "print this", setHelp},
};

const OptionSpec* findLetter(char letter) {
  for (const OptionSpec& spec : kTable) {
    if (spec.letter == letter) return &spec;
  }
  return nullptr;
}

const OptionSpec* findName(const std::string& name) {
  for (const OptionSpec& spec : kTable) {
    if (name == spec.name) return &spec;
  }
  return nullptr;
}

// An option as it was written: -b8, -b 8, --minbytes=8, --minbytes 8.
struct Written {
  const OptionSpec* spec;
  std::string name;
  std::optional<std::string> value;  // that came with it
};

Result<Written> readOption(const std::string& argument) {
  Written written{nullptr, argument, std::nullopt};
  if (argument.starts_with("--")) {
    const size_t equals = argument.find('=');
    written.name = argument.substr(0, equals);
    if (equals != std::string::npos) written.value = argument.substr(equals + 1);
    written.spec = findName(written.name.substr(2));
  } else if (argument.size() > 1 && argument[0] == '-') {
    written.name = argument.substr(0, 2);
    if (argument.size() > 2) written.value = argument.substr(2);
    written.spec = findLetter(argument[1]);
  } else {
    return fail(ncclInvalidArgument, "'%s': expected an option; -h lists them", argument.c_str());
  }
  if (written.spec == nullptr) {
    return fail(ncclInvalidArgument, "'%s': there is no such option; -h lists them",
                written.name.c_str());
  }
  return written;
}

// What makes no sense together.
Status checkOptions(const Options& options) {
  const SizeRange& sizes = options.sizes;
  if (sizes.minBytes > sizes.maxBytes) {
    return fail(ncclInvalidArgument, "-b %zu is beyond -e %zu: expected -b up to -e",
                sizes.minBytes, sizes.maxBytes);
  }
  if (sizes.minBytes < sizes.maxBytes && sizes.factor == 1 && sizes.stepBytes == 0) {
    return fail(ncclInvalidArgument,
                "-i 0 never gets from -b %zu to -e %zu: expected a step, or a factor (-f)",
                sizes.minBytes, sizes.maxBytes);
  }
  return Ok{};
}

// Appends `text` in lines of at most `width`, each after the first indented.
void appendWrapped(std::string& out, std::string text, size_t indent, size_t width) {
  while (text.size() > width - indent) {
    const size_t blank = text.rfind(' ', width - indent);
    if (blank == std::string::npos) break;
    out += text.substr(0, blank) + "\n" + std::string(indent, ' ');
    text.erase(0, blank + 1);
  }
  out += text + "\n";
}

}  // namespace

std::span<const OptionSpec> optionTable() {
  return kTable;
}

Result<Options> parseOptions(std::span<const char* const> arguments) {
  Options options;
  for (size_t at = 0; at < arguments.size(); at++) {
    Written written = TRY(readOption(arguments[at]));
    const char* const expected = written.spec->value;
    if (expected == nullptr && written.value) {
      return fail(ncclInvalidArgument, "%s takes no value: found '%s'", written.name.c_str(),
                  written.value->c_str());
    }
    if (expected != nullptr && !written.value) {
      if (++at == arguments.size()) {
        return fail(ncclInvalidArgument, "%s has no value: expected %s", written.name.c_str(),
                    expected);
      }
      written.value = arguments[at];
    }
    const Status set = written.spec->set(options, written.value.value_or(""));
    if (!set.ok()) {
      return fail(set.error().code, "%s %s", written.name.c_str(), set.error().message.c_str());
    }
  }
  TRY(checkOptions(options));
  return options;
}

std::string helpText(const std::string& program) {
  constexpr size_t kColumn = 32;
  constexpr size_t kWidth = 96;
  std::string out = "usage: " + program + " [option]...\n\n";
  for (const OptionSpec& spec : kTable) {
    std::string left = std::string("  -") + spec.letter + ", --" + spec.name;
    if (spec.value != nullptr) left += std::string(" <") + spec.value + ">";
    if (left.size() + 2 > kColumn) {
      out += left + "\n" + std::string(kColumn, ' ');
    } else {
      left.resize(kColumn, ' ');
      out += left;
    }
    appendWrapped(out, spec.help, kColumn, kWidth);
  }
  out +=
      "\nIn parentheses: the default. Exit status: 0; 1 if a result was wrong or anything "
      "failed.\n";
  return out;
}

}  // namespace nccom::perf
