#include "enc/comm_shape.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "enc/ring_order.h"
#include "graph/fabric.h"
#include "graph/mla_cycle.h"
#include "graph/pipeline.h"
#include "graph/pod.h"
#include "misc/limits.h"

namespace nccom {
namespace {

using Cores = std::vector<int>;

/// Cycles of the devices, and kangarings along them, of the first server.
Status findPaths(const NeuronFabric& fabric, const Cores& cores, enc_comm_info& info) {
  std::set<int> devices;
  for (const int core : cores)
    devices.insert(fabric.cores[core].device);
  info.mlaCycles = mlaCycles(fabric, {devices.begin(), devices.end()});
  if (info.situation.kangaringPaths == 0) return Ok{};
  std::vector<NeuronTour> tours;
  for (const std::vector<int>& cycle : info.mlaCycles) {
    if (tours.size() < kMaxKangaPaths / 2) tours.push_back({.devices = cycle});
  }
  std::vector<int> positions(fabric.cores.size(), -1);
  for (size_t i = 0; i < cores.size(); i++)
    positions[cores[i]] = static_cast<int>(i);
  info.kangaring = TRY(kangaringPaths(fabric, tours, positions));
  return Ok{};
}

/// What the hosts of a pod, or one host, are to the channel search.
struct Hosts {
  std::vector<ncclXml> xmls;  // by place in the pod
  NeuronFabric fabric;
  std::vector<PipelineHost> hosts;
  std::vector<int> order;  // in which rings pass them
};

Result<Hosts> hostsOf(const encMachine& machine, const std::vector<Cores>& coresOf, bool pods) {
  Hosts result;
  const NeuronPlatform& platform = *machine.platform;
  const int perPod = pods ? machine.shape.nHosts : 1;
  result.fabric = TRY(neuronFabric(platform, pods ? machine.shape : kNoPod, machine.lnc));
  for (int place = 0; place < perPod; place++) {
    result.xmls.push_back(
        TRY(neuronTopoGetXml(platform, machine.lnc, pods ? machine.shape.electedNode(place) : 0)));
  }
  const int servers = static_cast<int>(coresOf.size());
  for (int server = 0; server < servers; server++) {
    PipelineHost host;
    host.gpus = coresOf[server];
    host.fabricHost = server % perPod;
    result.hosts.push_back(std::move(host));
    if (!pods) result.order.push_back(server);
  }
  for (int first = 0; pods && first < servers; first += perPod) {
    std::vector<int> nodes(std::min(perPod, servers - first));
    std::iota(nodes.begin(), nodes.end(), 0);
    const PodInterNodeGraph pod = TRY(ncclTopoGetP2pPodInterNodeGraph(result.fabric, nodes));
    for (const int node : pod.nodes)
      result.order.push_back(first + node);
    for (const int node : nodes)
      result.hosts[first + node].podNodes = nodes;
  }
  return result;
}

}  // namespace

Status encPlaceComm(const encMachine& machine, const std::vector<int>& servers,
                    const std::vector<int>& cores, enc_comm_info& info) {
  const auto n = static_cast<size_t>(info.rank_n);
  if (servers.size() != n || cores.size() != n) {
    return fail(ncclInvalidArgument, "places of %zu and %zu ranks: want %zu", servers.size(),
                cores.size(), n);
  }
  std::vector<Cores> coresOf;
  for (size_t rank = 0; rank < n; rank++) {
    if (servers[rank] >= static_cast<int>(coresOf.size())) coresOf.resize(servers[rank] + 1);
    coresOf[servers[rank]].push_back(cores[rank]);
  }
  info.platform = machine.platform;
  info.lnc = machine.lnc;
  info.pod = machine.shape;
  info.situation = TRY(encDescribe(machine, coresOf));
  std::optional<NeuronFabric> fabric;
  if (machine.platform != nullptr) {
    fabric = TRY(neuronFabric(*machine.platform, machine.lnc));
    TRY(findPaths(*fabric, coresOf.front(), info));
  }
  std::vector<int> seen(coresOf.size(), 0);
  info.peers.clear();
  for (size_t rank = 0; rank < n; rank++) {
    const int place = seen[servers[rank]]++;
    enc_peer_info peer{servers[rank], place, cores[rank], 0};
    if (fabric) {
      peer.device = fabric->cores[cores[rank]].device;
      peer.slot = fabric->cores[cores[rank]].slot;
    }
    info.peers.push_back(peer);
  }
  return Ok{};
}

Result<std::vector<std::vector<int>>> encShapeRings(const encMachine& machine,
                                                    const std::vector<Cores>& coresOf) {
  int nRanks = 0;
  for (const Cores& cores : coresOf)
    nRanks += static_cast<int>(cores.size());
  std::vector<int> order(nRanks);
  std::iota(order.begin(), order.end(), 0);
  if (nRanks == 1 || machine.platform == nullptr) return std::vector<std::vector<int>>{order};
  const bool pods = machine.shape.type != NeuronPodType::None && coresOf.size() > 1;
  Hosts hosts = TRY(hostsOf(machine, coresOf, pods));
  for (PipelineHost& host : hosts.hosts) {
    host.xml = &hosts.xmls[host.fabricHost];
    host.fabric = &hosts.fabric;
  }
  PipelineOptions options;
  options.neuronSearch = true;
  options.fuse = false;
  options.trees = false;
  options.maxChannels = kMaxChannels / 2;
  options.maxJoined = kMaxChannels;
  options.hostOrder = hosts.order;
  PipelineResult result = TRY(runPipeline(hosts.hosts, options));
  return std::move(result.global.rings);
}

Result<enc_comm_info> encShapeComm(const encMachine& machine,
                                   const std::vector<std::vector<int>>& coresOf, int rank) {
  enc_comm_info info;
  std::vector<int> servers, cores;
  const bool pods = machine.shape.type != NeuronPodType::None;
  for (size_t server = 0; server < coresOf.size(); server++) {
    for (const int core : coresOf[server]) {
      servers.push_back(static_cast<int>(server));
      cores.push_back(core);
      info.node.push_back(static_cast<int>(pods ? server / machine.shape.nHosts : server));
    }
  }
  info.rank = rank;
  info.rank_n = static_cast<int>(servers.size());
  if (rank < 0 || rank >= info.rank_n) {
    return fail(ncclInvalidArgument, "rank %d of %d: want 0 <= rank < ranks", rank, info.rank_n);
  }
  TRY(encPlaceComm(machine, servers, cores, info));
  info.rings = TRY(encShapeRings(machine, coresOf));
  TRY(encOrderRings(info));
  return info;
}

}  // namespace nccom
