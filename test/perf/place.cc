#include "test/perf/place.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>

namespace nccom::perf {
namespace {

std::string hostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return std::string(name).substr(0, std::string(name).find('.'));
}

std::string hostId() {
  const char* const id = std::getenv("NCCL_HOSTID");
  return id == nullptr ? "" : id;
}

// The number in a file that has nothing else; none if it has not one.
std::optional<uint64_t> numberIn(const char* path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

}  // namespace

Place placeAmong(const std::vector<std::string>& keys, int rank) {
  const auto mine = keys.begin() + rank;
  Place place;
  place.localRank = static_cast<int>(std::count(keys.begin(), mine, *mine));
  place.localCount = static_cast<int>(std::count(keys.begin(), keys.end(), *mine));
  return place;
}

Place findPlace(Processes& processes) {
  // The boot id tells apart machines that were given one name.
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  const std::string key = hostName() + '\n' + boot + '\n' + hostId();
  Place place = placeAmong(processes.allGather(key), processes.rank());
  place.host = hostName() + (hostId().empty() ? "" : "/" + hostId());
  return place;
}

size_t availableMemory() {
  uint64_t available = std::numeric_limits<uint64_t>::max();
  std::ifstream info("/proc/meminfo");
  std::string name;
  uint64_t kilobytes = 0;
  for (std::string unit; info >> name >> kilobytes; std::getline(info, unit)) {
    if (name == "MemAvailable:") available = kilobytes * 1024;
  }
  const auto limit = numberIn("/sys/fs/cgroup/memory.max");
  const auto used = numberIn("/sys/fs/cgroup/memory.current");
  if (limit && used) available = std::min(available, *limit - std::min(*limit, *used));
  return available;
}

Status checkResources(const Options& options, const Place& place, const Resources& resources) {
  // A double, because the product of three large numbers must not wrap.
  const double wanted = 1.0 * options.threads * options.devices * place.localCount;
  if (wanted > resources.devices) {
    return fail(ncclInvalidUsage,
                "%.0f devices are wanted on %s (%d process%s, -t %d, -g %d): it has %d", wanted,
                place.host.c_str(), place.localCount, place.localCount == 1 ? "" : "es",
                options.threads, options.devices, resources.devices);
  }
  const double gib = 1 << 30;
  const double bytes =
      2.0 * static_cast<double>(options.sizes.maxBytes) * static_cast<double>(wanted);
  if (bytes > static_cast<double>(resources.memory)) {
    return fail(ncclInvalidUsage,
                "-e %zu for %.0f ranks on %s takes %.1f GiB of buffers, %.1f GiB are available",
                options.sizes.maxBytes, wanted, place.host.c_str(), bytes / gib,
                static_cast<double>(resources.memory) / gib);
  }
  return Ok{};
}

}  // namespace nccom::perf
