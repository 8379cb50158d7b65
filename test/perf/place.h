// Where the processes run: which share a host, and which devices of it are whose.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "misc/result.h"
#include "test/perf/options.h"
#include "test/perf/processes.h"

namespace nccom::perf {

/// This process among those of its host. NCCL_HOSTID parts a machine into several hosts.
struct Place {
  std::string host;   // as a person would name it
  int localRank = 0;  // among the processes of the host
  int localCount = 1;
};

/// Asks all processes.
Place findPlace(Processes& processes);
/// @param keys  of all processes; equal ones are on one host
Place placeAmong(const std::vector<std::string>& keys, int rank);

/// Host memory that a process may still take, in bytes: what is available, within the limit of the
/// control group.
size_t availableMemory();

/// Whether the host has what the run wants.
struct Resources {
  int devices;    // of the host
  size_t memory;  // available on the host, bytes
};
Status checkResources(const Options& options, const Place& place, const Resources& resources);

}  // namespace nccom::perf
