#include "plugins/device_emu/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace nccom::emu {
namespace {

std::string lineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The path of this process's group in the hierarchy of `controller` ("": version 2).
std::string groupOf(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool match = controller.empty() ? names == ",,"
                                          : names.find("," + controller + ",") != std::string::npos;
    if (match) return line.substr(second + 1);
  }
  return "";
}

uint32_t affinityCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
  return std::thread::hardware_concurrency();  // more cores than the mask can hold
}

/// The smallest quota from the group upwards.
uint32_t quotaAlong(const std::string& root, std::string group, bool version2) {
  uint32_t least = UINT32_MAX;
  for (;;) {
    const std::string folder = root + group + "/";
    const std::string text =
        version2 ? lineOf(folder + "cpu.max")
                 : lineOf(folder + "cpu.cfs_quota_us") + " " + lineOf(folder + "cpu.cfs_period_us");
    const uint32_t quota = quotaOf(text);
    if (quota > 0) least = std::min(least, quota);
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos || group.empty()) return least;
    group.resize(slash);
  }
}

}  // namespace

uint32_t quotaOf(const std::string& cpuMax) {
  char* end = nullptr;
  const double quota = strtod(cpuMax.c_str(), &end);
  const double period = strtod(end, nullptr);
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<uint32_t>(std::min(65536.0, (quota + period - 1) / period));
}

bool sharesCores(pid_t pid) {
  cpu_set_t own, other, both;
  if (pid <= 0 || sched_getaffinity(0, sizeof own, &own) != 0 ||
      sched_getaffinity(pid, sizeof other, &other) != 0) {
    return true;
  }
  CPU_AND(&both, &own, &other);
  return CPU_COUNT(&both) > 0;
}

uint32_t availableCores() {
  uint32_t cores = affinityCores();
  cores = std::min(cores, quotaAlong("/sys/fs/cgroup", groupOf(""), true));
  cores = std::min(cores, quotaAlong("/sys/fs/cgroup/cpu", groupOf("cpu"), false));
  return std::max(cores, 1U);
}

}  // namespace nccom::emu
