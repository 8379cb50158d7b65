// The text of the report: nccl-tests' table, so that its readers can read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "test/perf/op.h"
#include "test/perf/options.h"

namespace nccom::perf {

/// Measured and checked: one half of a row.
struct Cell {
  double seconds = 0;
  Bandwidth bandwidth{};
  std::optional<uint64_t> wrong;  // elements over all ranks; none: not checked
};

struct Row {
  size_t bytes = 0;  // of the larger buffer of a rank
  size_t count = 0;
  const char* type = "";
  const char* op = "";             // "none" if the operation reduces nothing
  int root = -1;                   // -1: it has none
  std::optional<Cell> outOfPlace;  // none: not measured
  std::optional<Cell> inPlace;
};

/// A device of the run, as the header shows it.
struct DeviceLine {
  int rank;
  int pid;
  std::string host;
  int device;
  std::string platform;
};

/// The lines before the devices; each begins with '#'.
struct Title {
  std::string program;
  int libraryVersion;  // as ncclGetVersion says
  std::string platform;
};
std::string formatTitle(const Title& title, const Options& options);
std::string formatDevice(const DeviceLine& line);
std::string formatColumns(const Options& options);

/// @param timeOfDay  appended if not empty
std::string formatRow(const Row& row, const std::string& timeOfDay);

/// The lines after the rows.
struct Summary {
  std::string program;
  uint64_t rowsWrong = 0;  // halves of rows with a wrong element
  double busBandwidth = 0;
  int nRanks = 1;
};
std::string formatSummary(const Summary& summary);

/// A number in `width` characters, with as many of two decimals as there is room for.
std::string formatNumber(double value, int width);

}  // namespace nccom::perf
