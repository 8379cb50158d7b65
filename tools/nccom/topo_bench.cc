#include "tools/nccom/topo_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <vector>

namespace nccom {
namespace {

namespace fs = std::filesystem;

constexpr int kRuns = 3;
constexpr std::array<const char*, 2> kModes = {"no network", "network"};

/// Ring and tree search without and with network leg, ms.
using Times = std::array<double, 2>;

[[gnu::format(printf, 2, 3)]] void print(std::string& out, const char* format, ...) {
  va_list args;
  va_start(args, format);
  out += formatted(format, args);
  va_end(args);
}

std::vector<std::string> fieldsOf(const std::string& line) {
  std::vector<std::string> fields;
  std::stringstream stream(line);
  for (std::string field; std::getline(stream, field, ',');)
    fields.push_back(field);
  return fields;
}

/// NCCL's times by file name without extension.
Result<std::map<std::string, Times>> readTimings(const std::string& path) {
  std::map<std::string, Times> timings;
  if (path.empty()) return timings;
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return fail(ncclSystemError, "%s: cannot be read", path.c_str());
  const std::vector<std::string> head = fieldsOf(line);
  std::array<size_t, 5> column = {};
  const std::array<const char*, 5> names = {"file", "ring0_ms", "tree0_ms", "ring1_ms", "tree1_ms"};
  for (size_t i = 0; i < names.size(); i++) {
    column[i] = static_cast<size_t>(std::find(head.begin(), head.end(), names[i]) - head.begin());
    if (column[i] < head.size()) continue;
    return fail(ncclInvalidUsage, "%s: no column %s", path.c_str(), names[i]);
  }
  while (std::getline(file, line)) {
    std::vector<std::string> fields = fieldsOf(line);
    fields.resize(std::max(fields.size(), head.size()));
    const auto sum = [&](size_t a, size_t b) {
      return strtod(fields[column[a]].c_str(), nullptr) +
             strtod(fields[column[b]].c_str(), nullptr);
    };
    timings[fields[column[0]]] = {sum(1, 2), sum(3, 4)};
  }
  return timings;
}

/// Least time of a few runs of ring and tree search.
Result<double> timeOf(const std::string& file, bool inter, const TopoChoice& choice) {
  TopoMode mode;
  mode.kind = TopoMode::Kind::Direct;
  TopoSource source;
  source.file = file;
  const Topology topology = TRY(loadTopology(source, 1));
  const PipelineOptions options = optionsFor(topology, mode, choice);
  std::vector<std::string> notes;
  const TopoDomain domain = TRY(topoDirect(topology.document(), inter, options, notes));
  double best = -1;
  for (int run = 0; run < kRuns; run++) {
    TopoDomain searched = domain;
    const auto begin = std::chrono::steady_clock::now();
    TRY(searchGraphs(searched, options));
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    if (best < 0 || spent.count() < best) best = spent.count();
  }
  return best;
}

void printTime(std::string& out, double ms) {
  if (ms < 0) {
    print(out, " %14s", "-");
  } else {
    print(out, " %14.3f", ms);
  }
}

void printSummary(std::string& out, const char* who, std::array<std::vector<double>, 2> times) {
  for (size_t mode = 0; mode < kModes.size(); mode++) {
    std::vector<double>& all = times[mode];
    if (all.empty()) continue;
    std::sort(all.begin(), all.end());
    print(out, "%-6s %-12s median %8.2f ms, worst %8.2f ms, %zu files\n", who, kModes[mode],
          all[all.size() / 2], all.back(), all.size());
  }
}

}  // namespace

Result<std::string> benchTable(const std::string& xmlDir, const std::string& timings,
                               const TopoChoice& choice) {
  const std::map<std::string, Times> theirs = TRY(readTimings(timings));
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator i(xmlDir, error), end; !error && i != end; i.increment(error)) {
    if (i->path().extension() == ".xml") files.push_back(i->path());
  }
  if (error) return fail(ncclSystemError, "%s: %s", xmlDir.c_str(), error.message().c_str());
  std::sort(files.begin(), files.end());
  std::array<std::vector<double>, 2> own;
  std::array<std::vector<double>, 2> other;
  std::string out;
  print(out, "%-36s %14s %14s %14s %14s\n", "ring + tree search, ms", "no network", "NCCL",
        "network", "NCCL");
  for (const fs::path& file : files) {
    print(out, "%-36s", file.stem().c_str());
    const auto known = theirs.find(file.stem().string());
    for (size_t mode = 0; mode < kModes.size(); mode++) {
      const Result<double> time = timeOf(file.string(), mode == 1, choice);
      if (time.ok()) own[mode].push_back(time.value());
      printTime(out, time.ok() ? time.value() : -1);
      if (known != theirs.end()) other[mode].push_back(known->second[mode]);
      printTime(out, known == theirs.end() ? -1 : known->second[mode]);
    }
    out += '\n';
  }
  printSummary(out, "nccom", own);
  printSummary(out, "NCCL", other);
  return out;
}

}  // namespace nccom
