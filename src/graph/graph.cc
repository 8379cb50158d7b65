#include "graph/graph.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace nccom {
namespace {

Status checkInput(const GraphInput& input) {
  const auto nLocal = static_cast<int>(input.localRanks.size());
  if (nLocal < 1 || nLocal > input.nRanks) {
    return fail(ncclInvalidArgument, "%d local ranks of %d, expected at least one", nLocal,
                input.nRanks);
  }
  std::set<int> seen;
  for (const LocalRank& local : input.localRanks) {
    if (local.rank < 0 || local.rank >= input.nRanks || !seen.insert(local.rank).second) {
      return fail(ncclInvalidArgument, "local rank %d of %d, expected each once and below %d",
                  local.rank, input.nRanks, input.nRanks);
    }
  }
  return Ok{};
}

Result<ncclXml> loadXml(const GraphInput& input) {
  if (!input.topoFile.empty()) {
    ncclXml xml = TRY(ncclXml::readFile(input.topoFile));
    TRY(checkRoot(xml, "system"));
    if (!xml.root().child("cpu")) {
      return fail(ncclInvalidUsage, "%s: <system> has no <cpu>", xml.where(xml.root()).c_str());
    }
    return xml;
  }
  if (isHostPlatform(input.platform)) {
    const bool nics = !input.nets.empty() || !input.topoDumpFile.empty();
    return hostTopoGetXml(input.hostDevices, "", hostUnit(input.platform), nics);
  }
  const NeuronPlatform* platform = TRY(findPlatform(input.platform));
  return neuronTopoGetXml(*platform, input.lnc);
}

/// Plugin devices stand in for the NICs in turn, in the order of NIC ids.
std::vector<NetMapping> mapNets(ncclTopoSystem& system, bool standIn, int nPluginDevices) {
  std::vector<ncclTopoNode*> nets;
  for (ncclTopoNode& net : system.nodes(ncclTopoNodeType::Net))
    nets.push_back(&net);
  std::stable_sort(nets.begin(), nets.end(),
                   [](const ncclTopoNode* a, const ncclTopoNode* b) { return a->id < b->id; });
  std::vector<NetMapping> mapping;
  for (int i = 0; i < static_cast<int>(nets.size()); i++) {
    if (standIn) nets[i]->net.dev = i % nPluginDevices;
    mapping.push_back({.netId = nets[i]->id, .dev = nets[i]->net.dev});
  }
  return mapping;
}

/// The graph file's ring; without channels, if there is none.
Result<ncclTopoGraph> readRing(const GraphInput& input, const ncclTopoSystem& system,
                               const ncclTopoGraph& wanted) {
  if (input.graphFile.empty()) return wanted;
  const ncclXml xml = TRY(ncclXml::readFile(input.graphFile));
  return ncclTopoGetGraphFromXml(xml, system, wanted);
}

/// The Neuron search's answer, where it is the one to give it.
Result<std::optional<NeuronGraph>> searchNeuron(const GraphInput& input,
                                                const ncclTopoSystem& system) {
  if (!input.topoFile.empty() || isHostPlatform(input.platform)) return std::nullopt;
  const NeuronPlatform* platform = TRY(findPlatform(input.platform));
  if (!neuronTopoUseNewAlgorithm(platform->family, input.newAlgorithm)) return std::nullopt;
  const NeuronFabric fabric = TRY(neuronFabric(*platform, input.lnc));
  NeuronGraphOptions options;
  options.minChannels = input.minChannels;
  options.maxChannels = input.maxChannels;
  options.crossNic = input.crossNic;
  return TRY(neuronTopoGetGraph(fabric, system, options));
}

Status findRing(const GraphInput& input, GraphResult& result) {
  ncclTopoGraph wanted;
  wanted.minChannels = input.minChannels;
  wanted.maxChannels = input.maxChannels;
  wanted.crossNic = input.crossNic;
  const ncclTopoGraph read = TRY(readRing(input, result.system, wanted));
  if (read.nChannels > 0) {
    result.ring = read;
    return Ok{};
  }
  result.neuron = TRY(searchNeuron(input, result.system));
  if (result.neuron) {
    result.ring = result.neuron->ring;
    result.ring.why = result.neuron->why;
  } else {
    result.ring = TRY(ncclTopoCompute(result.system, wanted));
  }
  result.ring.why.insert(result.ring.why.begin(), read.why.begin(), read.why.end());
  return Ok{};
}

}  // namespace

Result<GraphResult> buildGraph(const GraphInput& input) {
  TRY(checkInput(input));
  GraphResult result;
  const ncclXml xml = TRY(loadXml(input));
  if (input.verify) result.notes = TRY(verifyTopology(xml, input.localRanks));
  TRY(setRanks(xml, input.localRanks));
  const bool standIn = attachNets(xml, input.nets);
  ncclTopoTrimXml(xml);
  if (!input.topoDumpFile.empty()) TRY(xml.writeFile(input.topoDumpFile));

  LoadedTopo loaded = TRY(ncclTopoGetSystemFromXml(xml));
  std::move(loaded.notes.begin(), loaded.notes.end(), std::back_inserter(result.notes));
  result.system = std::move(loaded.system);
  result.nets = mapNets(result.system, standIn, static_cast<int>(input.nets.size()));
  const auto nLocal = static_cast<int>(input.localRanks.size());
  ncclTopoComputePaths(result.system, input.paths);
  ncclTopoTrimSystem(result.system, input.localRanks[0].rank, input.nRanks);
  if (result.system.count(ncclTopoNodeType::Gpu) != nLocal) {
    return fail(ncclInvalidUsage, "rank %d reaches only %d of the %d local ranks' devices in %s",
                input.localRanks[0].rank, result.system.count(ncclTopoNodeType::Gpu), nLocal,
                xml.name().c_str());
  }
  ncclTopoComputePaths(result.system, input.paths);
  ncclTopoSearchInit(result.system);
  TRY(findRing(input, result));
  if (result.system.inter && result.nets.empty()) {
    result.notes.emplace_back("several hosts, but no NIC: no channel can leave this host");
  }
  if (!input.graphDumpFile.empty()) {
    const ncclXml graphs = TRY(ncclTopoGetXmlFromGraphs({result.ring}, result.system));
    TRY(graphs.writeFile(input.graphDumpFile));
  }
  return result;
}

}  // namespace nccom
