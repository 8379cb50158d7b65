#include "tools/nccom/topology.h"

#include <filesystem>
#include <numeric>
#include <tuple>
#include <utility>

#include "graph/cluster.h"
#include "graph/pod.h"

namespace nccom {
namespace {

/// Makes each document and fabric of a cluster once.
class ClusterLoader {
 public:
  explicit ClusterLoader(Topology& topology) : topology_(topology) {}

  Status add(const ClusterHost& host) {
    PipelineHost made;
    made.xml = TRY(documentOf(host));
    const auto nGpus = static_cast<int>(TRY(topoGpus(*made.xml)).size());
    if (host.nDevices < nGpus) {  // the cluster offers the first ones only
      made.gpus.resize(host.nDevices);
      std::iota(made.gpus.begin(), made.gpus.end(), 0);
    }
    if (host.neuron != nullptr) {
      made.fabric = TRY(fabricOf(host));
      made.fabricHost = host.podNode < 0 ? 0 : host.podNode;
      if (made.fabric->nHosts > 1) made.podNodes = made.fabric->podNodeIds;
    }
    topology_.hosts.push_back(std::move(made));
    return Ok{};
  }

 private:
  Result<const ncclXml*> documentOf(const ClusterHost& host) {
    const auto key = std::tuple(host.platform, host.lnc, host.electedNode());
    const auto known = documents_.find(key);
    if (known != documents_.end()) return known->second;
    ncclXml xml = host.neuron == nullptr
                      ? TRY(hostTopoGetXml(0, "", hostUnit(host.platform)))
                      : TRY(neuronTopoGetXml(*host.neuron, host.lnc, host.electedNode()));
    topology_.documents.push_back(std::make_unique<ncclXml>(std::move(xml)));
    documents_[key] = topology_.documents.back().get();
    return documents_[key];
  }

  Result<const NeuronFabric*> fabricOf(const ClusterHost& host) {
    const auto key = std::tuple(host.platform, host.lnc, std::string(host.shape.name));
    const auto known = fabrics_.find(key);
    if (known != fabrics_.end()) return known->second;
    NeuronFabric fabric = TRY(neuronFabric(*host.neuron, host.shape, host.lnc));
    topology_.fabrics.push_back(std::make_unique<NeuronFabric>(std::move(fabric)));
    fabrics_[key] = topology_.fabrics.back().get();
    return fabrics_[key];
  }

  Topology& topology_;
  std::map<std::tuple<std::string, int, int>, const ncclXml*> documents_;
  std::map<std::tuple<std::string, int, std::string>, const NeuronFabric*> fabrics_;
};

/// Hosts in the order of the cluster, those of a pod in the order of its links.
Result<std::vector<int>> orderHosts(const NeuronCluster& cluster, const Topology& topology) {
  std::vector<int> order;
  for (int h = 0; h < cluster.hostCount();) {
    const PipelineHost& host = topology.hosts[h];
    if (host.podNodes.empty()) {
      order.push_back(h++);
      continue;
    }
    const PodInterNodeGraph pod = TRY(ncclTopoGetP2pPodInterNodeGraph(*host.fabric, host.podNodes));
    for (const int node : pod.nodes) {
      for (int i = 0; i < static_cast<int>(host.podNodes.size()); i++) {
        if (host.podNodes[i] == node) order.push_back(h + i);
      }
    }
    h += static_cast<int>(host.podNodes.size());
  }
  return order;
}

Status loadCluster(const TopoSource& source, int nHosts, Topology& topology) {
  const NeuronCluster cluster = TRY(parseCluster(source.platform, source.lnc));
  if (nHosts > 1 && cluster.hostCount() > 1) {
    return fail(ncclInvalidArgument,
                "%d hosts asked for, but %s is a cluster, which says itself that it has %d", nHosts,
                source.platform.c_str(), cluster.hostCount());
  }
  ClusterLoader loader(topology);
  for (const ClusterHost& host : cluster.hosts)
    TRY(loader.add(host));
  if (cluster.nPods > 0) topology.hostOrder = TRY(orderHosts(cluster, topology));
  while (static_cast<int>(topology.hosts.size()) < nHosts)
    topology.hosts.push_back(topology.hosts[0]);
  return Ok{};
}

}  // namespace

Result<Topology> loadTopology(const TopoSource& source, int nHosts) {
  Topology topology;
  topology.name = source.platform;
  if (source.file.empty()) {
    TRY(loadCluster(source, nHosts, topology));
    return topology;
  }
  topology.name = std::filesystem::path(source.file).filename().string();
  topology.fromFile = true;
  ncclXml xml = TRY(ncclXml::readFile(source.file));
  TRY(checkRoot(xml, "system"));
  topology.documents.push_back(std::make_unique<ncclXml>(std::move(xml)));
  PipelineHost host;
  host.xml = topology.documents[0].get();
  topology.hosts.assign(nHosts, host);
  return topology;
}

TopoSource sourceNamed(const std::string& text, int lnc) {
  std::error_code error;
  TopoSource source;
  source.lnc = lnc;
  const bool looksLikeFile = text.ends_with(".xml") || std::filesystem::exists(text, error);
  (looksLikeFile ? source.file : source.platform) = text;
  return source;
}

}  // namespace nccom
