#include "plugins/device_emu/available.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace nccom::emu {
namespace {

constexpr uint64_t kUnknown = UINT64_MAX;

// The first number in a file: nothing if there is none ("max", or no such file).
std::optional<uint64_t> numberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// The number behind `key` in a file of lines "key number ...".
std::optional<uint64_t> fieldIn(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* statPrefix;  // of the hierarchical counts in memory.stat
};
constexpr CgroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_"};
constexpr CgroupFiles kVersion2 = {"/memory.max", "/memory.current", ""};

uint64_t groupLeft(const std::string& folder, const CgroupFiles& files) {
  const auto limit = numberIn(folder + files.limit);
  const auto usage = numberIn(folder + files.usage);
  if (!limit || !usage) return kUnknown;
  const std::string prefix = files.statPrefix;
  uint64_t cache = 0;  // goes before anybody is killed
  for (const char* list : {"inactive_file", "active_file"}) {
    cache += fieldIn(folder + "/memory.stat", prefix + list).value_or(0);
  }
  const uint64_t needed = *usage - std::min(cache, *usage);
  return *limit - std::min(needed, *limit);
}

// The least of a group and the groups above it. In a container `path` may be one of the host's, and
// the folder's root the container's own group: folders that are not there do not limit.
uint64_t groupsLeft(const std::string& root, std::string path, const CgroupFiles& files) {
  uint64_t left = kUnknown;
  while (true) {
    left = std::min(left, groupLeft(root + path, files));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos || path.empty()) return left;
    path.resize(slash);
  }
}

uint64_t machineLeft(const std::string& procRoot) {
  const auto available = fieldIn(procRoot + "/meminfo", "MemAvailable:");
  if (!available) return kUnknown;
  return (*available + fieldIn(procRoot + "/meminfo", "SwapFree:").value_or(0)) * 1024;
}

}  // namespace

uint64_t memoryLeft(const std::string& procRoot, const std::string& cgroupRoot) {
  uint64_t left = machineLeft(procRoot);
  std::ifstream groups(procRoot + "/self/cgroup");  // lines "number:controllers:path"
  std::string line;
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      left = std::min(left, groupsLeft(cgroupRoot, path, kVersion2));
    } else if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, groupsLeft(cgroupRoot + "/memory", path, kVersion1));
    }
  }
  return left;
}

bool strictOvercommit(const std::string& procRoot) {
  return numberIn(procRoot + "/sys/vm/overcommit_memory") == uint64_t{2};
}

}  // namespace nccom::emu
