#include "test/perf/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace nccom::perf {
namespace {

Row someRow() {
  Row row{.bytes = 67108864,
          .count = 16777216,
          .type = "float",
          .op = "sum",
          .root = -1,
          .outOfPlace = Cell{.seconds = 0.0123456, .bandwidth = {5.4321, 9.5062}, .wrong = 0},
          .inPlace = Cell{.seconds = 1.5e-6, .bandwidth = {123.456, 1234.5}, .wrong = 17}};
  return row;
}

TEST(Table, RowHasTheColumnsOfNcclTests) {
  EXPECT_EQ(formatRow(someRow(), ""),
            "    67108864      16777216     float     sum      -1"
            "  12345.6    5.43    9.51       0"
            "     1.50  123.46  1234.5      17\n");
}

TEST(Table, RowThatWasNotCheckedSaysSo) {
  Row row = someRow();
  row.inPlace->wrong.reset();
  std::istringstream words(formatRow(row, ""));
  std::vector<std::string> columns(std::istream_iterator<std::string>(words), {});
  ASSERT_EQ(columns.size(), 13U);
  EXPECT_EQ(columns[8], "0");
  EXPECT_EQ(columns[12], "N/A");
}

TEST(Table, HalfThatWasNotMeasuredKeepsItsColumns) {
  Row row = someRow();
  const std::string measured = formatRow(row, "");
  row.inPlace.reset();
  EXPECT_EQ(formatRow(row, "").size(), measured.size());
  EXPECT_TRUE(formatRow(row, "").ends_with("N/A     N/A     N/A     N/A\n")) << formatRow(row, "");
}

TEST(Table, RowEndsWithTheTimeOfDayIfThatIsWanted) {
  EXPECT_TRUE(formatRow(someRow(), "2026-01-02 03:04:05").ends_with("  2026-01-02 03:04:05\n"));
}

TEST(Table, NumbersKeepTheirWidthAsLongAsTheyCan) {
  EXPECT_EQ(formatNumber(1.234, 6), "  1.23");
  EXPECT_EQ(formatNumber(999.994, 6), "999.99");
  EXPECT_EQ(formatNumber(999.996, 6), "1000.0");
  EXPECT_EQ(formatNumber(12345.6, 6), " 12346");
  EXPECT_EQ(formatNumber(1234567, 6), " 1e+06");
  EXPECT_EQ(formatNumber(123456789, 7), "1.2e+08");
  EXPECT_EQ(formatNumber(0, 7), "   0.00");
}

TEST(Table, AllLinesButRowsAreComments) {
  const Options options;
  std::string text =
      formatTitle({.program = "all_reduce_perf", .libraryVersion = 23007, .platform = "p"},
                  options) +
      formatDevice({.rank = 0, .pid = 1, .host = "h", .device = 0, .platform = "p"}) +
      formatColumns(options) +
      formatSummary({.program = "all_reduce_perf", .rowsWrong = 0, .busBandwidth = 1, .nRanks = 1});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_EQ(line.substr(0, 1), "#") << line;
}

TEST(Table, HeaderNamesRankHostProcessAndDevice) {
  EXPECT_EQ(
      formatDevice(
          {.rank = 3, .pid = 4711, .host = "node7", .device = 5, .platform = "trn2.48xlarge"}),
      "#  Rank  3 Group  0 Pid   4711 on      node7 device  5 [trn2.48xlarge]\n");
  const std::string title = formatTitle(
      {.program = "all_reduce_perf", .libraryVersion = 23007, .platform = "trn2.48xlarge"}, {});
  EXPECT_NE(title.find("# Platform trn2.48xlarge\n"), std::string::npos);
  EXPECT_NE(title.find("# nThread 1 nGpus 1 minBytes 33554432 maxBytes 33554432 step: "
                       "1048576(bytes) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 "
                       "graph: 0 unalign: 0\n"),
            std::string::npos)
      << title;
}

TEST(Table, ColumnsStandAboveTheirNumbers) {
  std::istringstream lines(formatColumns({}));
  std::string line;
  while (std::getline(lines, line) && line.find("size") == std::string::npos) {
  }
  const std::string row = formatRow(someRow(), "");
  for (const char* column : {"size", "count", "type", "redop", "root", "time", "#wrong"}) {
    const size_t end = line.rfind(column) + std::string(column).size();
    EXPECT_NE(row[end - 1], ' ') << column;
    EXPECT_TRUE(row[end] == ' ' || row[end] == '\n') << column;
  }
}

TEST(Table, SummarySaysWhetherDataWasRight) {
  const auto summary = [](uint64_t wrong, int nRanks) {
    return formatSummary(
        {.program = "p", .rowsWrong = wrong, .busBandwidth = 1.25, .nRanks = nRanks});
  };
  EXPECT_NE(summary(0, 2).find("# Out of bounds values : 0 OK\n"), std::string::npos);
  EXPECT_NE(summary(0, 2).find("# Avg bus bandwidth    : 1.25 \n"), std::string::npos);
  EXPECT_NE(summary(3, 2).find("# Out of bounds values : 3 FAILED\n"), std::string::npos);
  EXPECT_EQ(summary(0, 2).find("# Note"), std::string::npos);
  EXPECT_NE(summary(0, 1).find("# Note: one rank"), std::string::npos);
}

}  // namespace
}  // namespace nccom::perf
