// What nccom algs and nccom program are asked: a communicator, with the switches that users set.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "enc/comm_info.h"
#include "tools/nccom/schedule_words.h"
#include "tools/nccom/schedule_world.h"

namespace nccom {

struct ScheduleOptions {
  WorldOptions world;
  GroupOptions group;
  std::string op = "all_reduce";
  std::string alg;  // empty: by the table
};

/// The options that both commands have.
void addScheduleOptions(CLI::App& app, ScheduleOptions& options);

struct ScheduleCase {
  ScheduleWorld world;
  ScheduleGroup group;
  ScheduleOp op;
  enc_comm_info info;    // as the group's member 0 knows it
  std::string switches;  // that the environment sets, as text

  /// False: the group has ranks on some hosts of a pod only, or in another order than the hosts',
  /// and nothing says over which links those reach each other.
  bool knowsLinks() const;
  /// "trn2.48xlarge LNC 2, 1 node, 64 ranks; ranks 0,1,2,3 of it (groups.json group 0)"
  std::string text() const;
};

/// The machine, the group and the environment of the process.
/// @param rings  see describeGroup
/// @error ncclInvalidArgument  as makeWorld, makeGroup; an unknown operation or algorithm
/// @error ncclInvalidUsage     a variable has a value that it does not take
Result<ScheduleCase> makeCase(const ScheduleOptions& options, bool rings);

/// Sizes in the unit of an operation's call.
/// @param bytes  of the longer side, all parts together
/// @return elements, rounded up to whole ones on every rank
uint64_t countOf(const ScheduleOp& op, uint64_t bytes, ncclDataType_t type, int ranks);

/// Says what is wrong, on the error stream. Input that makes no sense is misuse.
/// @return the exit status
int refuse(const char* command, const Error& error);

/// Writes a file, or the standard output for "-".
/// @error ncclSystemError  it cannot be written
Status writeText(const std::string& path, const std::string& text);

}  // namespace nccom
