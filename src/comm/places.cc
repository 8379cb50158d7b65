#include "comm/places.h"

#include <algorithm>
#include <climits>
#include <map>
#include <utility>

#include "comm/process.h"
#include "enc/alg_table.h"

namespace nccom {
namespace {

/// The pod's shape, if all servers are hosts of whole pods, in order; else none.
NeuronPodShape shapeOf(const std::vector<HostOfDevice>& hosts, const std::vector<int>& servers) {
  const NeuronPodShape shape = hosts[0].shape;
  if (shape.type == NeuronPodType::None) return kNoPod;
  std::map<int, int> podOf;  // by number of the pod among the servers
  int count = 0;
  for (size_t rank = 0; rank < hosts.size(); rank++) {
    const int pod = servers[rank] / shape.nHosts;
    const int known = podOf.emplace(pod, hosts[rank].pod).first->second;
    const bool inOrder = hosts[rank].podNode == servers[rank] % shape.nHosts;
    if (!(hosts[rank].shape == shape) || hosts[rank].pod != known || !inOrder) return kNoPod;
    count = std::max(count, servers[rank] + 1);
  }
  return count % shape.nHosts == 0 ? shape : kNoPod;
}

bool samePlatform(const std::vector<HostOfDevice>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(),
                     [&](const HostOfDevice& host) { return host.platform == hosts[0].platform; });
}

/// Numbers the ranks of a server, where nothing is known of its cores.
std::vector<int> counted(const std::vector<int>& servers) {
  std::map<int, int> next;
  std::vector<int> cores;
  cores.reserve(servers.size());
  for (const int server : servers)
    cores.push_back(next[server]++);
  return cores;
}

Result<int> intOf(const char* name, int64_t value) {
  if (value < INT_MIN || value > INT_MAX) {
    return fail(ncclInvalidArgument, "%s is %lld: out of range", name,
                static_cast<long long>(value));
  }
  return static_cast<int>(value);
}

Result<uint64_t> sizeOf(const char* name, int64_t value) {
  if (value < 0) {
    return fail(ncclInvalidArgument, "%s is %lld: want bytes", name, static_cast<long long>(value));
  }
  return static_cast<uint64_t>(value);
}

}  // namespace

CommPlaces placesOf(const ncclParams& params, const std::vector<HostOfDevice>& hosts,
                    std::vector<int> servers, bool sharing) {
  CommPlaces places;
  places.rings = sharing;
  const bool known =
      params.topoFile.empty() && samePlatform(hosts) && !isHostPlatform(hosts[0].platform);
  if (known) {
    places.machine.platform = findPlatform(hosts[0].platform).value();
    const int lnc = static_cast<int>(params.logicalNc);
    places.machine.lnc = lnc != 0 ? lnc : places.machine.platform->defaultLnc;
    places.machine.shape = shapeOf(hosts, servers);
    for (const HostOfDevice& host : hosts)
      places.cores.push_back(host.device);
  } else {
    places.cores = counted(servers);
    places.machine.hostDevices = *std::max_element(places.cores.begin(), places.cores.end()) + 1;
  }
  places.servers = std::move(servers);
  return places;
}

Result<enc_comm_info> describePlaces(const CommPlaces& places) {
  enc_comm_info info;
  info.rank_n = static_cast<int>(places.servers.size());
  TRY(encPlaceComm(places.machine, places.servers, places.cores, info));
  if (!places.rings) return info;
  // Rings of ranks that are numbered server by server, in the numbers of ours.
  std::vector<std::vector<int>> coresOf(static_cast<size_t>(info.situation.node_n));
  std::vector<std::vector<int>> ranksOf(coresOf.size());
  for (int rank = 0; rank < info.rank_n; rank++) {
    coresOf[places.servers[rank]].push_back(places.cores[rank]);
    ranksOf[places.servers[rank]].push_back(rank);
  }
  std::vector<int> rankAt;
  for (const std::vector<int>& ranks : ranksOf)
    rankAt.insert(rankAt.end(), ranks.begin(), ranks.end());
  info.rings = TRY(encShapeRings(places.machine, coresOf));
  for (std::vector<int>& ring : info.rings) {
    for (int& rank : ring)
      rank = rankAt[rank];
  }
  return info;
}

Result<encAlgOptions> algOptionsOf(const ncclParams& params, enc_comm_type scope) {
  encAlgOptions options;
  options.shared = encSharedWayOf(params.alg);
  if (!params.alg.empty() && options.shared == encSharedWay::None) {
    auto alg = encAlgOf(params.alg, scope);
    if (!alg.ok()) {
      return fail(ncclInvalidArgument, "NCCOM_ALG: %s", alg.error().message.c_str());
    }
    options.forced = alg.value();
  }
  options.allowed = static_cast<uint64_t>(params.algTypes);
  if (params.algTypes < 0 || options.allowed > kAllAlgTypes) {
    return fail(ncclInvalidArgument, "NEURON_RT_CC_ALG_TYPES is %lld: want 0 to %llu",
                static_cast<long long>(params.algTypes),
                static_cast<unsigned long long>(kAllAlgTypes));
  }
  options.hierarchical = TRY(intOf("NEURON_RT_DBG_HIERARCHICAL_CC", params.dbgHierarchical));
  options.kangaring = TRY(intOf("NEURON_RT_DBG_KANGARING_CC", params.dbgKangaring));
  if (params.dbgSingleCycleRing >= 0) {
    options.singleCycleRing =
        TRY(intOf("NEURON_RT_DBG_SINGLE_CYCLE_RING_ALLR_CC", params.dbgSingleCycleRing));
  }
  options.rdh = TRY(intOf("NEURON_RT_DBG_RDH_CC", params.dbgRdh));
  options.mesh = TRY(intOf("NEURON_RT_DBG_MESH_CC", params.dbgMesh));
  options.meshDoubleBuffer = params.meshDoubleBuffer;
  options.enforceMeshHandshake = params.enforceMeshHandshake;
  options.hybridRing = params.dbgHybridRing;
  options.interMeshMaxNodes =
      TRY(intOf("NEURON_RT_DBG_CC_INTER_MESH_MAX_NODES", params.interMeshMaxNodes));
  options.hierPipelineSlices = TRY(intOf("NEURON_RT_DBG_HIER_CC_PIPELINE", params.hierPipeline));
  options.meshBufferBytes =
      TRY(sizeOf("NEURON_RT_DBG_MESH_CHANNEL_BUFFER_SIZE", params.meshBufferBytes));
  options.intraRdhBufferBytes =
      TRY(sizeOf("NEURON_RT_DBG_INTRA_RDH_CHANNEL_BUFFER_SIZE", params.intraRdhBufferBytes));
  options.interRdhBufferBytes =
      TRY(sizeOf("NEURON_RT_DBG_INTER_RDH_CHANNEL_BUFFER_SIZE", params.interRdhBufferBytes));
  return options;
}

std::string algOptionsText(const ncclParams& params) {
  const ncclParams defaults;
  std::string text;
  const auto add = [&](const char* name, const auto& value, const auto& usual) {
    if (value == usual) return;
    if (!text.empty()) text += " ";
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
      text += std::string(name) + "=" + value;
    } else {
      text += std::string(name) + "=" + std::to_string(value);
    }
  };
  add("NCCOM_ALG", params.alg, defaults.alg);
  add("NEURON_RT_CC_ALG_TYPES", params.algTypes, defaults.algTypes);
  add("NEURON_RT_DBG_HIERARCHICAL_CC", params.dbgHierarchical, defaults.dbgHierarchical);
  add("NEURON_RT_DBG_KANGARING_CC", params.dbgKangaring, defaults.dbgKangaring);
  add("NEURON_RT_DBG_SINGLE_CYCLE_RING_ALLR_CC", params.dbgSingleCycleRing,
      defaults.dbgSingleCycleRing);
  add("NEURON_RT_DBG_RDH_CC", params.dbgRdh, defaults.dbgRdh);
  add("NEURON_RT_DBG_MESH_CC", params.dbgMesh, defaults.dbgMesh);
  add("NEURON_RT_DBG_MESH_DOUBLE_BUF", params.meshDoubleBuffer, defaults.meshDoubleBuffer);
  add("NEURON_RT_DBG_ENFORCE_MESH_GLOBAL_HANDSHAKE", params.enforceMeshHandshake,
      defaults.enforceMeshHandshake);
  add("NEURON_RT_DBG_HYBRID_RING_CC_EN", params.dbgHybridRing, defaults.dbgHybridRing);
  add("NEURON_RT_DBG_CC_INTER_MESH_MAX_NODES", params.interMeshMaxNodes,
      defaults.interMeshMaxNodes);
  add("NEURON_RT_DBG_HIER_CC_PIPELINE", params.hierPipeline, defaults.hierPipeline);
  add("NEURON_RT_DBG_MESH_CHANNEL_BUFFER_SIZE", params.meshBufferBytes, defaults.meshBufferBytes);
  add("NEURON_RT_DBG_INTRA_RDH_CHANNEL_BUFFER_SIZE", params.intraRdhBufferBytes,
      defaults.intraRdhBufferBytes);
  add("NEURON_RT_DBG_INTER_RDH_CHANNEL_BUFFER_SIZE", params.interRdhBufferBytes,
      defaults.interRdhBufferBytes);
  add("NCCOM_WORK_SIZE", params.workBytes, defaults.workBytes);
  return text;
}

}  // namespace nccom
