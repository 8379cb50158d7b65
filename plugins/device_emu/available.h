// How much memory this process could still use, before it is killed for it.
#pragma once

#include <cstdint>
#include <string>

namespace nccom::emu {

/// The least of what the machine has (MemAvailable and free swap) and what each memory control
/// group above this process leaves (versions 1 and 2: limit - usage + inactive page cache). What
/// cannot be read does not limit.
///
/// @param procRoot    where procfs is
/// @param cgroupRoot  where the control groups are mounted
/// @return bytes; UINT64_MAX if nothing is known
/// @source proc(5) meminfo; the kernel's cgroup-v1/memory and cgroup-v2 documents
uint64_t memoryLeft(const std::string& procRoot, const std::string& cgroupRoot);

/// memoryLeft() of this machine.
inline uint64_t systemMemoryLeft() {
  return memoryLeft("/proc", "/sys/fs/cgroup");
}

/// Whether the kernel accounts strictly (vm.overcommit_memory 2): pages of shared memory are then
/// refused at first touch, with SIGBUS, unless they were allocated before.
bool strictOvercommit(const std::string& procRoot = "/proc");

}  // namespace nccom::emu
