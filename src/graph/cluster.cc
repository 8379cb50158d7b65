#include "graph/cluster.h"

#include <algorithm>
#include <charconv>

namespace nccom {
namespace {

struct PodName {
  std::string_view name, platform, pod;
};
constexpr std::array<PodName, 3> kPodNames = {{{"trn2-ultraserver", "trn2u.48xlarge", "X4"},
                                               {"trn3-gen1-ultraserver", "trn3.48xlarge", "X4"},
                                               {"trn3-gen2-ultraserver", "trn3e.24xlarge", "X36"}}};

struct Entry {
  int count = 1;
  std::string platform, pod;
  int nDevices = 0;  // to offer of each host; 0: all
};

bool isKnown(const std::string& platform) {
  return isHostPlatform(platform) || findPlatform(platform).ok();
}

/// The number before an "x", and what follows it; the whole word and 1 where there is none.
Result<Entry> splitCount(const std::string& word, const std::string& text) {
  Entry entry;
  const size_t digits = word.find_first_not_of("0123456789");
  if (word.empty() || digits == std::string::npos) {
    return fail(ncclInvalidArgument, "cluster '%s': '%s' names no platform", text.c_str(),
                word.c_str());
  }
  if (digits == 0 || word[digits] != 'x') {
    entry.platform = word;
    return entry;
  }
  const auto read = std::from_chars(word.data(), word.data() + digits, entry.count);
  if (read.ec != std::errc() || entry.count < 1 || entry.count > kMaxClusterHosts) {
    return fail(ncclInvalidArgument, "cluster '%s': count in '%s', expected 1 to %d", text.c_str(),
                word.c_str(), kMaxClusterHosts);
  }
  entry.platform = word.substr(digits + 1);
  return entry;
}

/// Takes a ":DEVICES" off the word.
Result<int> takeLimit(std::string& word, const std::string& text) {
  const size_t colon = word.find(':');
  if (colon == std::string::npos) return 0;
  int limit = 0;
  const char* const end = word.data() + word.size();
  const auto read = std::from_chars(word.data() + colon + 1, end, limit);
  if (read.ec != std::errc() || read.ptr != end || limit < 1) {
    return fail(ncclInvalidArgument, "cluster '%s': devices in '%s', expected a number from 1 on",
                text.c_str(), word.c_str());
  }
  word.resize(colon);
  return limit;
}

/// Names of platforms may have a slash; a pod is what follows the last one otherwise.
Entry splitPod(Entry entry) {
  for (const PodName& known : kPodNames) {
    if (entry.platform != known.name) continue;
    entry.platform = known.platform;
    entry.pod = known.pod;
    return entry;
  }
  const size_t slash = entry.platform.rfind('/');
  if (slash == std::string::npos || isKnown(entry.platform)) return entry;
  entry.pod = entry.platform.substr(slash + 1);
  entry.platform.resize(slash);
  return entry;
}

/// One host of an entry, without its place.
Result<ClusterHost> hostOf(const Entry& entry, int lnc, int hostDevices) {
  ClusterHost host;
  host.platform = entry.platform;
  host.nDevices = TRY(deviceCount(entry.platform, lnc, hostDevices));
  if (entry.nDevices > host.nDevices) {
    return fail(ncclInvalidArgument, "%s has %d devices, but %d are asked for",
                entry.platform.c_str(), host.nDevices, entry.nDevices);
  }
  if (entry.nDevices > 0) host.nDevices = entry.nDevices;
  if (isHostPlatform(entry.platform)) {
    if (!entry.pod.empty()) {
      return fail(ncclInvalidArgument, "%s has no pods, but '%s' is asked for",
                  entry.platform.c_str(), entry.pod.c_str());
    }
    return host;
  }
  host.neuron = TRY(findPlatform(entry.platform));
  host.lnc = TRY(checkLnc(*host.neuron, lnc));
  host.shape = TRY(findPodShape(*host.neuron, entry.pod));
  return host;
}

Status addEntry(NeuronCluster& cluster, const Entry& entry, ClusterHost host,
                const std::string& text) {
  const int64_t total = cluster.hostCount() + int64_t{entry.count} * host.shape.nHosts;
  if (total > kMaxClusterHosts) {
    return fail(ncclInvalidArgument, "cluster '%s' has %lld hosts, expected at most %d",
                text.c_str(), static_cast<long long>(total), kMaxClusterHosts);
  }
  const bool isPod = host.shape.type != NeuronPodType::None;
  for (int n = 0; n < entry.count; n++) {
    if (isPod) host.pod = cluster.nPods++;
    for (int node = 0; node < host.shape.nHosts; node++) {
      if (isPod) host.podNode = node;
      host.firstDevice = cluster.deviceCount();
      cluster.hosts.push_back(host);
    }
  }
  return Ok{};
}

}  // namespace

Result<ClusterPlace> NeuronCluster::place(int device) const {
  if (device < 0 || device >= deviceCount()) {
    return fail(ncclInvalidArgument, "device %d of a cluster of %d hosts with %d devices", device,
                hostCount(), deviceCount());
  }
  const auto after = std::partition_point(
      hosts.begin(), hosts.end(), [&](const ClusterHost& h) { return h.firstDevice <= device; });
  const auto host = after - 1;
  return ClusterPlace{static_cast<int>(host - hosts.begin()), device - host->firstDevice};
}

Result<NeuronCluster> parseCluster(const std::string& text, int lnc, int hostDevices) {
  NeuronCluster cluster;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t comma = std::min(text.find(',', start), text.size());
    std::string word = text.substr(start, comma - start);
    const int limit = TRY(takeLimit(word, text));
    Entry entry = splitPod(TRY(splitCount(word, text)));
    entry.nDevices = limit;
    auto host = hostOf(entry, lnc, hostDevices);
    if (!host.ok()) {
      return fail(host.error().code, "cluster '%s': %s", text.c_str(),
                  host.error().message.c_str());
    }
    TRY(addEntry(cluster, entry, std::move(host).value(), text));
    start = comma + 1;
  }
  return cluster;
}

}  // namespace nccom
