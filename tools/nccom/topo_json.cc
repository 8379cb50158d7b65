#include "tools/nccom/topo_json.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace nccom {
namespace {

using Type = ncclTopoNodeType;

/// Nine digits are what a float holds.
Json real(float value) {
  std::array<char, 32> text = {};
  snprintf(text.data(), text.size(), "%.9g", static_cast<double>(value));
  const double rounded = strtod(text.data(), nullptr);
  const auto whole = static_cast<int64_t>(rounded);
  return static_cast<double>(whole) == rounded ? Json(whole) : Json(rounded);
}

Json hex(uint64_t value) {
  std::array<char, 32> text = {};
  snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return text.data();
}

/// Whole numbers of what NCCL distinguishes: 1 x86, 2 Power, 3 Arm; 1 Intel, 2 AMD, 3 Zhaoxin.
void addCpu(Json& json, const ncclTopoCpu& cpu) {
  const int arch = static_cast<int>(cpu.arch);
  const int vendor = static_cast<int>(cpu.vendor);
  int model = -1;
  if (cpu.vendor == CpuVendor::Intel) {
    const int generation = cpu.family == 6 ? cpu.model : 0;
    model = generation >= 0xcf ? 4 : generation >= 0x8f ? 3 : generation >= 0x55 ? 2 : 1;
  }
  json["arch"] = arch == 0 ? -1 : arch;
  json["vendor"] = vendor == 0 ? -1 : vendor;
  json["model"] = model;
}

Json nodeJson(const ncclTopoNode& node) {
  Json json;
  json["id"] = hex(static_cast<uint64_t>(node.id));
  if (node.type == Type::Gpu) {
    json["rank"] = node.gpu.rank;
    json["dev"] = node.gpu.dev;
    json["sm"] = node.gpu.sm;
    json["gdr"] = node.gpu.gdr ? 1 : 0;
  }
  if (node.type == Type::Pci) json["device"] = hex(node.pci.device);
  if (node.type == Type::Cpu) addCpu(json, node.cpu);
  if (node.type == Type::Net) {
    json["dev"] = node.net.dev;
    json["asic"] = hex(node.net.asic);
    json["port"] = node.net.port;
    json["bw"] = real(node.net.bwGBps);
    json["gdr"] = node.net.gdr ? 1 : 0;
    json["coll"] = node.net.coll ? 1 : 0;
    json["maxChannels"] = node.net.maxConn;
  }
  json["links"] = Json::array();
  for (const ncclTopoLink& link : node.links) {
    const std::string remote =
        std::string(toText(link.remote.type)) + ":" + std::to_string(link.remote.index);
    json["links"].push_back(Json::array({toText(link.type), real(link.bwGBps), remote}));
  }
  return json;
}

Json systemJson(const ncclTopoSystem& system) {
  Json json;
  json["maxBw"] = real(system.maxBw);
  json["totalBw"] = real(system.totalBw);
  json["inter"] = system.inter ? 1 : 0;
  json["nHosts"] = system.hostHashes.size();
  json["nodes"] = Json::object();
  for (int t = 0; t < kTopoNodeTypes; t++) {
    const auto type = static_cast<Type>(t);
    for (const ncclTopoNode& node : system.nodes(type))
      json["nodes"][toText(type)].push_back(nodeJson(node));
  }
  return json;
}

/// What only Trainium hosts have: kangaring paths as ranks p0 s0 p1 s1 ..., device cycles.
Json neuronJson(const NeuronGraph& graph) {
  Json json;
  json["channels"] = graph.ring.intra;
  json["kangaring"] = Json::array();
  for (const KangaringPath& path : graph.kangaring.paths)
    json["kangaring"].push_back(path.ranks());
  json["mlaCycles"] = graph.mlaCycles;
  return json;
}

/// Of all GPUs to all nodes of a type.
Json matrixJson(const ncclTopoSystem& system, Type to) {
  Json json = {{"type", Json::array()}, {"bw", Json::array()}, {"hops", Json::array()}};
  for (const ncclTopoNode& gpu : system.nodes(Type::Gpu)) {
    Json types = Json::array();
    Json rates = Json::array();
    Json hops = Json::array();
    for (const ncclTopoPath& path : gpu.paths[static_cast<int>(to)]) {
      types.push_back(toText(path.type));
      rates.push_back(real(path.bwGBps));
      hops.push_back(path.hops.size());
    }
    json["type"].push_back(types);
    json["bw"].push_back(rates);
    json["hops"].push_back(hops);
  }
  return json;
}

Json pathsJson(const ncclTopoSystem& system) {
  Json json;
  json["gpuRanks"] = Json::array();
  for (const ncclTopoNode& gpu : system.nodes(Type::Gpu))
    json["gpuRanks"].push_back(gpu.gpu.rank);
  json["netIds"] = Json::array();
  for (const ncclTopoNode& net : system.nodes(Type::Net))
    json["netIds"].push_back(hex(static_cast<uint64_t>(net.id)));
  json["gpuGpu"] = matrixJson(system, Type::Gpu);
  json["gpuNet"] = matrixJson(system, Type::Net);
  return json;
}

const char* patternName(ncclTopoPattern pattern) {
  switch (pattern) {
    case ncclTopoPattern::BalancedTree:
      return "balanced_tree";
    case ncclTopoPattern::SplitTree:
      return "split_tree";
    case ncclTopoPattern::Tree:
      return "tree";
    case ncclTopoPattern::Ring:
      return "ring";
    case ncclTopoPattern::Nvls:
      return "nvls";
    case ncclTopoPattern::CollnetDirect:
      return "collnet_direct";
  }
  return "?";
}

Json graphJson(const ncclTopoGraph& graph) {
  Json json;
  json["ret"] = "ncclSuccess";
  json["pattern"] = static_cast<int>(graph.pattern);
  json["patternName"] = patternName(graph.pattern);
  json["nChannels"] = graph.nChannels;
  json["bwIntra"] = real(graph.bwIntra);
  json["bwInter"] = real(graph.bwInter);
  json["typeIntra"] = toText(graph.typeIntra);
  json["typeInter"] = toText(graph.typeInter);
  json["sameChannels"] = graph.sameChannels ? 1 : 0;
  json["crossNic"] = graph.crossNic;
  json["nHops"] = graph.nHops;
  json["latencyInter"] = real(graph.latencyInter);
  json["intra"] = graph.intra;
  json["inter"] = Json::array();
  for (const auto& nets : graph.inter) {
    json["inter"].push_back(
        Json::array({hex(static_cast<uint64_t>(nets[0])), hex(static_cast<uint64_t>(nets[1]))}));
  }
  return json;
}

}  // namespace

Json domainJson(const TopoDomain& domain) {
  Json json;
  json["system"] = systemJson(domain.system);
  json["paths"] = pathsJson(domain.system);
  json["graphs"] = {{"ring", graphJson(domain.ring)}, {"tree", graphJson(domain.tree)}};
  if (domain.neuron) json["neuron"] = neuronJson(*domain.neuron);
  return json;
}

Json globalJson(const PipelineResult& result) {
  const ncclGlobalChannels& global = result.global;
  Json json;
  json["nRanks"] = result.nodeOf.size();
  json["nNodes"] = *std::max_element(result.nodeOf.begin(), result.nodeOf.end()) + 1;
  json["rankToNode"] = result.nodeOf;
  json["nChannels"] = global.rings.size();
  json["rings"] = global.rings;
  json["trees"] = Json::array();
  for (const std::vector<ncclTree>& tree : global.trees) {
    Json up = Json::array();
    Json down = Json::array();
    for (const ncclTree& place : tree) {
      up.push_back(place.up);
      down.push_back(place.down);
    }
    json["trees"].push_back({{"up", up}, {"down", down}});
  }
  return json;
}

}  // namespace nccom
