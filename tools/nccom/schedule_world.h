// The ranks of a machine, and a group of them: where schedules are composed for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "enc/alg_describe.h"
#include "enc/comm_info.h"
#include "enc/src_target_pairs.h"
#include "misc/result.h"

namespace nccom {

/// What the command line says of the machine. 0 and empty: not said.
struct WorldOptions {
  std::string platform;  // or a cluster of hosts of one kind, as for NCCOM_CLUSTER
  int lnc = 0;
  std::string pod;
  int nodes = 0;
  int ranks = 0;
};

/// Ranks are numbered host by host, from the first core of each on.
struct ScheduleWorld {
  std::string name;
  encMachine machine;
  int nodes = 1;
  std::vector<int> servers, cores;  // [rank]

  int size() const { return static_cast<int>(servers.size()); }
};

/// @error ncclInvalidArgument  an unknown platform, pod or core size; hosts of several kinds; a pod
///                             that is not whole; ranks that there are no cores for, or that hosts
///                             cannot share evenly; options that contradict the cluster's name
Result<ScheduleWorld> makeWorld(const WorldOptions& options);

/// What the command line says of the group.
struct GroupOptions {
  std::string file;          // empty: everybody
  std::optional<int> group;  // topologies of the file first, then its sets of pairs
  std::optional<int> rank;   // of the world, whose group it is
};

struct ScheduleGroup {
  std::vector<int> members;       // ranks of the world, by rank in the group
  int self = 0;                   // the asked rank's place among them
  std::string name;               // "groups.json group 1", for errors; empty: everybody
  std::vector<encPair> pairs;     // in ranks of the group, if it follows from pairs
  std::optional<size_t> pairSet;  // their number in the file
  bool meshSupported = true, mustUseRing = false;

  int size() const { return static_cast<int>(members.size()); }
};

/// @error ncclInvalidArgument  a file that cannot be read or makes no sense (its name, the group,
///                             the rank and the rule are named); a group or a rank that there is
///                             not; a group without the file
Result<ScheduleGroup> makeGroup(const ScheduleWorld& world, const GroupOptions& options);

/// The group as a communicator, as its member 0 knows it. Options and sizes are the defaults.
/// @param rings  find those that a communicator would have; else there is one in rank order
Result<enc_comm_info> describeGroup(const ScheduleWorld& world, const ScheduleGroup& group,
                                    bool rings);

}  // namespace nccom
