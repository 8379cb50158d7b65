// How many cores this process may use.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace nccom::emu {

/// The quota of a `cpu.max` file ("max 100000" or "150000 100000") in cores, rounded up; 0: none.
uint32_t quotaOf(const std::string& cpuMax);

/// The least of the affinity mask and the quotas of the control groups above this process; at
/// least 1.
///
/// @source sched_setaffinity(2); the kernel's cgroup-v1/v2 documents on cpu
uint32_t availableCores();

/// Whether a process of this host may run on one of our cores. True if it cannot be told.
bool sharesCores(pid_t pid);

}  // namespace nccom::emu
