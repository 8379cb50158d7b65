#include "enc/alg_describe.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "graph/fabric.h"
#include "graph/kangaring.h"
#include "graph/mla_cycle.h"

namespace nccom {
namespace {

using Cores = std::vector<int>;

int coreCount(const encMachine& machine) {
  return machine.platform == nullptr ? machine.hostDevices
                                     : machine.platform->logicalCores(machine.lnc);
}

Status checkCores(const encMachine& machine, const std::vector<Cores>& coresOf) {
  if (coresOf.empty()) return fail(ncclInvalidArgument, "a group of no node");
  for (size_t node = 0; node < coresOf.size(); node++) {
    if (coresOf[node].empty()) {
      return fail(ncclInvalidArgument, "node %zu has no rank of the group", node);
    }
    std::set<int> seen;
    for (const int core : coresOf[node]) {
      if (core < 0 || core >= coreCount(machine)) {
        return fail(ncclInvalidArgument, "node %zu: core %d; its cores are 0 to %d", node, core,
                    coreCount(machine) - 1);
      }
      if (!seen.insert(core).second) {
        return fail(ncclInvalidArgument, "node %zu: core %d is there twice", node, core);
      }
    }
  }
  return Ok{};
}

/// What the group has of each device of a node.
std::map<int, int> ranksOfDevices(const NeuronFabric& fabric, const Cores& cores) {
  std::map<int, int> ranks;
  for (const int core : cores)
    ranks[fabric.cores[core].device]++;
  return ranks;
}

/// 2^k devices whose routing ids are all combinations of k bits, with a link along each bit.
bool formCube(const NeuronFabric& fabric, const std::vector<int>& devices) {
  const auto rid = [&](int device) {
    return static_cast<unsigned>(fabric.devices[device].routingId);
  };
  unsigned bits = 0;
  for (const int device : devices)
    bits |= rid(device) ^ rid(devices.front());
  if (devices.size() != size_t{1} << std::popcount(bits)) return false;
  for (const int a : devices) {
    for (const int b : devices) {
      if (std::popcount(rid(a) ^ rid(b)) == 1 && fabric.link(a, b) == nullptr) return false;
    }
  }
  return true;
}

/// 0: the devices, or their dies, do not have any.
int kangaringPathCount(const NeuronFabric& fabric, const Cores& cores,
                       const std::vector<std::vector<int>>& cycles) {
  std::vector<NeuronTour> tours;
  for (const std::vector<int>& cycle : cycles) {
    if (static_cast<int>(tours.size()) == kMaxKangaPaths / 2) break;
    tours.push_back({.devices = cycle});
  }
  if (tours.empty()) return 0;
  std::vector<int> rankOf(fabric.cores.size(), -1);
  for (size_t i = 0; i < cores.size(); i++)
    rankOf[cores[i]] = static_cast<int>(i);
  const Result<NeuronKangaring> kangaring = kangaringPaths(fabric, tours, rankOf);
  return kangaring.ok() ? static_cast<int>(kangaring.value().paths.size()) : 0;
}

Status describeNode(const encMachine& machine, const std::vector<Cores>& coresOf, encSituation& s) {
  const NeuronFabric fabric = TRY(neuronFabric(*machine.platform, machine.lnc));
  const Cores& cores = coresOf.front();
  const std::map<int, int> ranks = ranksOfDevices(fabric, cores);
  std::vector<int> devices;
  devices.reserve(ranks.size());
  for (const auto& [device, count] : ranks)
    devices.push_back(device);
  s.coresPerDevice = machine.platform->logicalPerDevice(machine.lnc);
  s.devices = static_cast<int>(devices.size());
  s.ranksPerDevice = ranks.begin()->second;
  std::set<int> slots;
  for (const Cores& node : coresOf) {
    for (const int core : node)
      slots.insert(fabric.cores[core].slot);
    const std::map<int, int> others = ranksOfDevices(fabric, node);
    if (others.size() != devices.size()) s.devices = 0;
    for (const auto& [device, count] : others) {
      if (count != ranks.begin()->second) s.ranksPerDevice = 0;
    }
  }
  s.sameSlot = slots.size() == 1;
  s.devicesFormCube = formCube(fabric, devices);
  const std::vector<std::vector<int>> cycles = mlaCycles(fabric, devices);
  s.mlaCycles = static_cast<int>(cycles.size());
  if (s.ranksPerDevice == s.coresPerDevice) {
    s.kangaringPaths = kangaringPathCount(fabric, cores, cycles);
  }
  return Ok{};
}

void describePods(const encMachine& machine, const std::vector<Cores>& coresOf, encSituation& s) {
  const bool isSwitched = machine.platform->isSwitched();
  const size_t perPod = std::max(1, machine.shape.nHosts);
  if (machine.shape.type != NeuronPodType::None) {
    s.podType = machine.shape.type;
    s.pod_n = static_cast<int>((coresOf.size() + perPod - 1) / perPod);
    s.enable_pod = s.node_n > 1 && s.pod_n == 1;
  }
  if (!isSwitched) return;
  const bool hasRack = machine.shape.type == NeuronPodType::Switch;
  const size_t perRack = hasRack ? std::max(1, machine.platform->switches.hostsPerRack) : 1;
  for (size_t node = 0; node < std::min(perRack, coresOf.size()); node++) {
    s.local_rack_rank_n += static_cast<int>(coresOf[node].size());
  }
}

}  // namespace

Result<std::vector<std::vector<int>>> encDealtCores(const encMachine& machine, int nodes,
                                                    int ranks) {
  if (nodes < 1 || ranks < nodes || ranks % nodes != 0) {
    return fail(ncclInvalidArgument, "%d ranks on %d nodes; each node has as many as the others",
                ranks, nodes);
  }
  const int perNode = ranks / nodes;
  if (perNode > coreCount(machine)) {
    return fail(ncclInvalidArgument, "%d ranks on a node; it has %d logical cores", perNode,
                coreCount(machine));
  }
  Cores cores;
  for (int core = 0; core < perNode; core++)
    cores.push_back(core);
  return std::vector<Cores>(nodes, cores);
}

Result<encSituation> encDescribe(const encMachine& machine,
                                 const std::vector<std::vector<int>>& coresOf) {
  TRY(checkCores(machine, coresOf));
  encSituation s;
  s.lnc = machine.lnc;
  s.node_n = static_cast<int>(coresOf.size());
  s.rank_n = 0;
  s.local_rank_n = static_cast<int>(coresOf.front().size());
  for (const Cores& cores : coresOf) {
    s.rank_n += static_cast<int>(cores.size());
    if (cores.size() != coresOf.front().size()) s.local_rank_n = 0;
    s.sameLocals = s.sameLocals && cores == coresOf.front();
  }
  if (machine.platform == nullptr) {
    s.devices = s.local_rank_n;
    s.ranksPerDevice = 1;
    s.devicesFormCube = false;
    return s;
  }
  s.instance = machine.platform->instanceFamily;
  s.family = machine.platform->family;
  TRY(describeNode(machine, coresOf, s));
  describePods(machine, coresOf, s);
  TRY(encCheckSituation(s));
  return s;
}

}  // namespace nccom
