#include "tools/nccom/schedule_world.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "enc/comm_shape.h"
#include "enc/groups_file.h"
#include "enc/ring_order.h"
#include "graph/cluster.h"

namespace nccom {
namespace {

constexpr size_t kMostGroupsBytes = size_t{64} << 20;

bool isAlike(const ClusterHost& a, const ClusterHost& b) {
  return a.platform == b.platform && a.lnc == b.lnc && a.shape == b.shape &&
         a.nDevices == b.nDevices;
}

/// The hosts that the options name: one kind of host, and how many.
struct Hosts {
  ClusterHost host;
  int count = 1;
};

Result<Hosts> hostsOf(const WorldOptions& options) {
  NeuronCluster cluster = TRY(parseCluster(options.platform, options.lnc));
  Hosts hosts{cluster.hosts[0], cluster.hostCount()};
  for (const ClusterHost& host : cluster.hosts) {
    if (isAlike(host, hosts.host)) continue;
    return fail(ncclInvalidArgument, "%s has hosts of several kinds; want hosts of one",
                options.platform.c_str());
  }
  if (hosts.count > 1 && (options.nodes > 0 || !options.pod.empty())) {
    return fail(ncclInvalidArgument, "--%s beside %s, which says itself that it has %d hosts",
                options.nodes > 0 ? "nodes" : "pod", options.platform.c_str(), hosts.count);
  }
  if (hosts.host.neuron == nullptr && (options.lnc > 0 || !options.pod.empty())) {
    return fail(ncclInvalidArgument, "--%s: %s has none", options.lnc > 0 ? "lnc" : "pod",
                options.platform.c_str());
  }
  if (!options.pod.empty()) {
    hosts.host.shape = TRY(findPodShape(*hosts.host.neuron, options.pod));
    hosts.count = hosts.host.shape.nHosts;
  }
  if (options.nodes > 0) hosts.count = options.nodes;
  if (hosts.count % hosts.host.shape.nHosts != 0) {
    return fail(ncclInvalidArgument, "%d nodes: pods of shape %s have %d each; want whole pods",
                hosts.count, std::string(hosts.host.shape.name).c_str(), hosts.host.shape.nHosts);
  }
  if (hosts.host.shape.type == NeuronPodType::None) hosts.host.shape = kNoPod;
  return hosts;
}

/// The text of a file of any kind that ends: directories do not read, devices may go on for ever.
Result<std::string> readGroups(const std::string& path) {
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;
  const File file(fopen(path.c_str(), "rbe"), fclose);
  std::string text;
  std::vector<char> part(size_t{1} << 16);
  while (file != nullptr && text.size() <= kMostGroupsBytes) {
    const size_t got = fread(part.data(), 1, part.size(), file.get());
    if (got == 0) break;
    text.append(part.data(), got);
  }
  if (file == nullptr || ferror(file.get()) != 0) {
    return fail(ncclInvalidArgument, "%s: cannot be read: %s", path.c_str(), strerror(errno));
  }
  if (text.size() > kMostGroupsBytes) {
    return fail(ncclInvalidArgument, "%s: a file of groups has at most %zu MiB", path.c_str(),
                kMostGroupsBytes >> 20);
  }
  return text;
}

/// A rank whose group is meant where none is named: the first that the group's part of the file
/// has.
int someRank(const encGroupsFile& file, size_t group) {
  if (group < file.replicaGroups.size()) {
    for (const std::vector<uint32_t>& ranks : file.replicaGroups[group]) {
      if (!ranks.empty()) return static_cast<int>(ranks.front());
    }
    return 0;
  }
  const encPairSet& pairs = file.srcTargetPairs[group - file.replicaGroups.size()];
  return pairs.empty() ? 0 : static_cast<int>(pairs.front().source);
}

/// What of a file says who is with a rank: its topologies, or one set of pairs. A rank need not be
/// in the others, so those before it only keep its number.
encGroupsFile partOf(const encGroupsFile& file, std::optional<size_t> set, int rank) {
  encGroupsFile part;
  part.worldSize = file.worldSize;
  if (!set) {
    part.replicaGroups = file.replicaGroups;
    return part;
  }
  const auto self = static_cast<uint32_t>(rank);
  part.srcTargetPairs.assign(*set, {{self, self}});
  part.srcTargetPairs.push_back(file.srcTargetPairs[*set]);
  return part;
}

Result<size_t> groupIndex(const encGroupsFile& file, const GroupOptions& options) {
  const size_t count = file.replicaGroups.size() + file.srcTargetPairs.size();
  const int group = options.group.value_or(0);
  if (group < 0 || static_cast<size_t>(group) >= count) {
    return fail(ncclInvalidArgument,
                "%s: group %d; it has %zu: %zu topologies of replica_groups, then %zu sets of "
                "src_target_pairs",
                options.file.c_str(), group, count, file.replicaGroups.size(),
                file.srcTargetPairs.size());
  }
  return static_cast<size_t>(group);
}

Status checkRank(const ScheduleWorld& world, int rank) {
  if (rank >= 0 && rank < world.size()) return Ok{};
  return fail(ncclInvalidArgument, "rank %d; ranks of this world are 0 to %d", rank,
              world.size() - 1);
}

ScheduleGroup everybody(const ScheduleWorld& world, int rank) {
  ScheduleGroup group;
  group.members.resize(world.size());
  std::iota(group.members.begin(), group.members.end(), 0);
  group.self = rank;
  return group;
}

void addPairs(const encPairSet& pairs, ScheduleGroup& group) {
  std::map<uint32_t, uint32_t> places;
  for (int i = 0; i < group.size(); i++)
    places[static_cast<uint32_t>(group.members[i])] = static_cast<uint32_t>(i);
  encPairSet sorted = pairs;
  std::sort(sorted.begin(), sorted.end());
  for (const encPair& pair : sorted) {
    if (!places.contains(pair.source)) continue;  // of another group of the set
    group.pairs.push_back({places.at(pair.source), places.at(pair.target)});
  }
}

/// The pod's shape, if the group has ranks on all hosts of its pods, pod by pod; else none.
NeuronPodShape shapeOf(const NeuronPodShape& shape, const std::vector<int>& hosts) {
  for (size_t i = 0; i < hosts.size(); i++) {
    const int first = hosts[i - i % shape.nHosts];
    if (first % shape.nHosts != 0 || hosts[i] != first + static_cast<int>(i) % shape.nHosts) {
      return kNoPod;
    }
  }
  return hosts.size() % shape.nHosts == 0 ? shape : kNoPod;
}

/// Rings of ranks that are numbered server by server, in the numbers of the group.
Status findRings(const encMachine& machine, const std::vector<int>& servers,
                 const std::vector<int>& cores, enc_comm_info& info) {
  std::vector<std::vector<int>> coresOf(info.situation.node_n), ranksOf(info.situation.node_n);
  for (int rank = 0; rank < info.rank_n; rank++) {
    coresOf[servers[rank]].push_back(cores[rank]);
    ranksOf[servers[rank]].push_back(rank);
  }
  std::vector<int> rankAt;
  for (const std::vector<int>& ranks : ranksOf)
    rankAt.insert(rankAt.end(), ranks.begin(), ranks.end());
  info.rings = TRY(encShapeRings(machine, coresOf));
  for (std::vector<int>& ring : info.rings) {
    for (int& rank : ring)
      rank = rankAt[rank];
  }
  TRY(encOrderRings(info));
  return Ok{};
}

}  // namespace

Result<ScheduleWorld> makeWorld(const WorldOptions& options) {
  const Hosts hosts = TRY(hostsOf(options));
  ScheduleWorld world;
  world.name = options.platform;
  world.nodes = hosts.count;
  world.machine = {hosts.host.neuron, hosts.host.lnc, hosts.host.shape, 0};
  const int ranks = options.ranks > 0 ? options.ranks : hosts.count * hosts.host.nDevices;
  world.machine.hostDevices = ranks / hosts.count;
  // Any number of ranks may share this machine's cores, unless the name says how many there are.
  const bool isBound =
      hosts.host.neuron != nullptr || options.platform.find(':') != std::string::npos;
  if (isBound && ranks / hosts.count > hosts.host.nDevices) {
    return fail(ncclInvalidArgument, "%d ranks on %d node%s; a node of %s offers %d", ranks,
                hosts.count, hosts.count == 1 ? "" : "s", options.platform.c_str(),
                hosts.host.nDevices);
  }
  if (hosts.host.neuron != nullptr) world.machine.hostDevices = 0;
  const auto coresOf = TRY(encDealtCores(world.machine, hosts.count, ranks));
  for (int node = 0; node < hosts.count; node++) {
    for (const int core : coresOf[node]) {
      world.servers.push_back(node);
      world.cores.push_back(core);
    }
  }
  return world;
}

Result<ScheduleGroup> makeGroup(const ScheduleWorld& world, const GroupOptions& options) {
  if (options.rank) TRY(checkRank(world, *options.rank));
  if (options.file.empty()) {
    if (options.group) return fail(ncclInvalidArgument, "--group without --groups");
    return everybody(world, options.rank.value_or(0));
  }
  const std::string text = TRY(readGroups(options.file));
  const encGroupsFile file = TRY(encParseGroupsFile(text, options.file));
  const size_t index = TRY(groupIndex(file, options));
  const bool isDerived = index >= file.replicaGroups.size();
  const size_t set = isDerived ? index - file.replicaGroups.size() : 0;
  const int rank = options.rank.value_or(someRank(file, index));
  const encGroupsFile asked = partOf(file, isDerived ? std::optional(set) : std::nullopt, rank);
  const enc_glb_comm global{static_cast<uint32_t>(rank), static_cast<uint32_t>(world.size())};
  const encGroups groups = TRY(encGroupsOf(asked, options.file, global));
  const enc_replica_group_info& info = groups.replica_groups[isDerived ? set : index];
  ScheduleGroup group;
  group.members.assign(info.participants.begin(), info.participants.end());
  group.self = info.rank;
  group.name = options.file + " group " + std::to_string(index);
  group.meshSupported = info.nccl_mesh_supported;
  group.mustUseRing = info.must_use_ring_alg;
  if (isDerived) {
    group.pairSet = set;
    addPairs(file.srcTargetPairs[set], group);
  }
  return group;
}

Result<enc_comm_info> describeGroup(const ScheduleWorld& world, const ScheduleGroup& group,
                                    bool rings) {
  const int perPod = world.machine.shape.nHosts;
  std::map<int, int> serverOf, nodeOf;  // by host and by pod of the world, as they appear
  std::vector<int> hosts, servers, cores;
  enc_comm_info info;
  info.rank_n = group.size();
  for (const int member : group.members) {
    const int host = world.servers[member];
    const auto [server, isNew] = serverOf.emplace(host, static_cast<int>(serverOf.size()));
    if (isNew) hosts.push_back(host);
    servers.push_back(server->second);
    cores.push_back(world.cores[member]);
    info.node.push_back(
        nodeOf.emplace(host / perPod, static_cast<int>(nodeOf.size())).first->second);
  }
  encMachine machine = world.machine;
  machine.shape = shapeOf(world.machine.shape, hosts);
  TRY(encPlaceComm(machine, servers, cores, info));
  info.situation.src_target_pairs_id = group.pairSet ? static_cast<int>(*group.pairSet) : -1;
  info.situation.nccl_mesh_supported = group.meshSupported;
  info.situation.must_use_ring_alg = group.mustUseRing;
  if (rings) {
    TRY(findRings(machine, servers, cores, info));
    return info;
  }
  info.rings.emplace_back(info.rank_n);
  std::iota(info.rings[0].begin(), info.rings[0].end(), 0);
  return info;
}

}  // namespace nccom
