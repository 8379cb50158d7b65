#include "test/perf/table.h"

#include <cstdarg>
#include <cstdio>

namespace nccom::perf {
namespace {

[[gnu::format(printf, 1, 2)]] std::string print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, two lines above
  const int length = vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::string formatCell(const std::optional<Cell>& measured) {
  if (!measured) return print("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
  const Cell& cell = *measured;
  const std::string time = formatNumber(cell.seconds * 1e6, 7);
  const std::string algorithm = formatNumber(cell.bandwidth.algorithm, 6);
  const std::string bus = formatNumber(cell.bandwidth.bus, 6);
  const std::string wrong =
      cell.wrong ? print("%6g", static_cast<double>(*cell.wrong)) : std::string("N/A");
  return print("  %7s  %6s  %6s  %6s", time.c_str(), algorithm.c_str(), bus.c_str(), wrong.c_str());
}

const char* blockingText(Blocking blocking) {
  switch (blocking) {
    case Blocking::No:
      return "";
    case Blocking::WaitAndBarrier:
      return "# Blocking: wait and barrier after each operation\n";
    case Blocking::Wait:
      return "# Blocking: wait after each operation\n";
    case Blocking::UntimedBarrier:
      return "# Blocking: wait and barrier after each operation; time excludes the barrier\n";
  }
  return "";
}

}  // namespace

std::string formatNumber(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = print("%*.*f", width, decimals, value);
    if (text.size() <= static_cast<size_t>(width)) return text;
  }
  return print("%*.*e", width, width >= 7 ? 1 : 0, value);
}

std::string formatTitle(const Title& title, const Options& options) {
  const SizeRange& sizes = options.sizes;
  const bool multiplies = sizes.factor > 1;
  std::string text = print("# libnccom tests, nccl-headers=%d nccl-library=%d\n", NCCL_VERSION_CODE,
                           title.libraryVersion);
  text += print("# Collective test starting: %s\n", title.program.c_str());
  text += print(
      "# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d "
      "agg iters: %d validation: %d graph: 0 unalign: %d\n",
      options.threads, options.devices, sizes.minBytes, sizes.maxBytes,
      multiplies ? sizes.factor : sizes.stepBytes, multiplies ? "factor" : "bytes", options.warmups,
      options.iterations, options.aggregated, options.checks, options.unalign);
  text += print("# Platform %s\n", title.platform.c_str());
  text += blockingText(options.blocking);
  if (options.parallelInit) text += "# Parallel init: threads initialise their communicators\n";
  text += "#\n# Using devices\n";
  return text;
}

std::string formatDevice(const DeviceLine& line) {
  return print("#  Rank %2d Group  0 Pid %6d on %10s device %2d [%s]\n", line.rank, line.pid,
               line.host.c_str(), line.device, line.platform.c_str());
}

std::string formatColumns(const Options& options) {
  const char* const time = options.cpuTime ? "cputime" : "time";
  const int stampWidth = options.timestamps ? 21 : 0;
  std::string text = "#\n";
  text += print(
      "# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          "
      "\n",
      "", "", "", "", "");
  text += print("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s%*s\n", "size",
                "count", "type", "redop", "root", time, "algbw", "busbw", "#wrong", time, "algbw",
                "busbw", "#wrong", stampWidth, options.timestamps ? "timestamp" : "");
  text += print("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s%*s\n", "(B)",
                "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)",
                "(GB/s)", "", stampWidth, options.timestamps ? "%Y-%m-%d %H:%M:%S" : "");
  return text;
}

std::string formatRow(const Row& row, const std::string& timeOfDay) {
  std::string text =
      print("%12zu  %12zu  %8s  %6s  %6d", row.bytes, row.count, row.type, row.op, row.root);
  text += formatCell(row.outOfPlace);
  text += formatCell(row.inPlace);
  if (!timeOfDay.empty()) text += print("%21s", timeOfDay.c_str());
  return text + "\n";
}

std::string formatSummary(const Summary& summary) {
  std::string text;
  if (summary.nRanks == 1) {
    text += "# Note: one rank alone sends nothing, so a busbw of 0 is no failure\n";
  }
  text += print("# %-20s : %llu %s\n", "Out of bounds values",
                static_cast<unsigned long long>(summary.rowsWrong),
                summary.rowsWrong == 0 ? "OK" : "FAILED");
  text += print("# %-20s : %g \n", "Avg bus bandwidth", summary.busBandwidth);
  text += print("#\n# Collective test concluded: %s\n#\n", summary.program.c_str());
  return text;
}

}  // namespace nccom::perf
