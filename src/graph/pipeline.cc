#include "graph/pipeline.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "graph/fuse.h"

namespace nccom {
namespace {

using pugi::xml_node;
using Type = ncclTopoNodeType;

/// A rank's place: its host in the list of hosts, and the <gpu> element of that host's document.
struct Place {
  int host = 0;
  xml_node gpu;
};

/// A host as its own ranks see it, and the first rank of it.
struct HostGroup {
  std::vector<int> hosts;  // more than one: a clique
  int firstRank = 0;
  std::vector<Place> places;  // [rank - firstRank]
};

/// Elements of this name, in the order of the document; none inside another.
std::vector<xml_node> elementsBelow(const ncclXml& xml, std::string_view name) {
  std::vector<xml_node> found;
  std::vector<xml_node> open = {xml.root()};
  while (!open.empty()) {
    const xml_node node = open.back();
    open.pop_back();
    if (node.name() == name) {
      found.push_back(node);
      continue;
    }
    for (xml_node child = node.last_child(); child; child = child.previous_sibling())
      open.push_back(child);
  }
  return found;
}

bool isTrimmable(std::string_view name) {
  return name == "pci" || name == "cpu" || name == "nic" || name == "net" || name == "gpu";
}

/// Host hashes only have to differ. As text, in hexadecimal.
std::string hashOf(int host) {
  std::array<char, 32> text = {};
  snprintf(text.data(), text.size(), "0x%x", static_cast<unsigned>(host) + 1);
  return text.data();
}

/// Copies what a rank keeps of a host's document: chosen devices with all that leads to them, and
/// the NICs that have a device number.
class KeptCopy {
 public:
  /// @param ranks  rank of each <gpu> to keep
  KeptCopy(const std::map<xml_node, int>& ranks, int host) : ranks_(ranks), host_(host) {}

  ncclXml copy(const ncclXml& from) {
    ncclXml to = ncclXml::create("system");
    for (const xml_node child : from.root().children())
      copyKept(child, to.root());
    return to;
  }

 private:
  bool copyKept(xml_node from, xml_node parent) {
    const std::string_view name = from.name();
    const auto rank = ranks_.find(from);
    const bool isOwnGpu = rank != ranks_.end();
    if (isOwnGpu || (name == "net" && from.attribute("dev"))) {
      xml_node copied = parent.append_copy(from);
      if (isOwnGpu) setXml(copied, "rank", rank->second);
      return true;
    }
    xml_node copied = parent.append_child(from.name());
    for (const pugi::xml_attribute attribute : from.attributes())
      copied.append_copy(attribute);
    if (name == "cpu") setXml(copied, "host_hash", hashOf(host_));
    bool isNeeded = false;
    for (const xml_node child : from.children())
      isNeeded |= copyKept(child, copied);
    if (!isNeeded && isTrimmable(name)) parent.remove_child(copied);
    return isNeeded;
  }

  const std::map<xml_node, int>& ranks_;
  int host_;
};

/// The document that the ranks of a group have in common.
Result<ncclXml> groupXml(const std::vector<PipelineHost>& hosts, const HostGroup& group,
                         bool fuse) {
  std::vector<std::map<xml_node, int>> parts;  // devices that one document brings
  for (int i = 0; i < static_cast<int>(group.places.size()); i++) {
    const bool isNew = i == 0 || fuse || group.places[i].host != group.places[i - 1].host;
    if (isNew) parts.emplace_back();
    parts.back()[group.places[i].gpu] = group.firstRank + i;
  }
  ncclXml fused = ncclXml::create("system");
  int first = 0;
  for (const std::map<xml_node, int>& part : parts) {
    const int host = group.places[first].host;
    TRY(ncclTopoFuseXml(fused, KeptCopy(part, host).copy(*hosts[host].xml)));
    first += static_cast<int>(part.size());
  }
  return fused;
}

/// Adds what the Neuron search finds.
Status searchFabric(TopoDomain& domain, const PipelineHost& host, const PipelineOptions& options) {
  const NeuronGraphOptions wanted{.minChannels = options.minChannels,
                                  .maxChannels = options.maxChannels,
                                  .crossNic = options.crossNic,
                                  .host = host.fabricHost,
                                  .podNodes = host.podNodes};
  domain.neuron = TRY(neuronTopoGetGraph(*host.fabric, domain.system, wanted));
  if (neuronTopoUseNewAlgorithm(host.fabric->family, options.neuronSearch)) {
    domain.ring = domain.neuron->ring;
  }
  return Ok{};
}

/// What one rank sees: its domain of the group's system.
Result<TopoDomain> domainOf(const ncclTopoSystem& whole, int rank, int nRanks,
                            const PipelineHost& host, const PipelineOptions& options) {
  TopoDomain domain;
  domain.system = whole;
  ncclTopoTrimSystem(domain.system, rank, nRanks);
  ncclTopoComputePaths(domain.system, options.paths);
  ncclTopoSearchInit(domain.system);
  for (const ncclTopoNode& gpu : domain.system.nodes(Type::Gpu))
    domain.ranks.push_back(gpu.gpu.rank);
  if (host.fabric != nullptr) TRY(searchFabric(domain, host, options));
  TRY(searchGraphs(domain, options));
  return domain;
}

Result<std::vector<TopoDomain>> domainsOf(const std::vector<PipelineHost>& hosts,
                                          const HostGroup& group, int nRanks,
                                          const PipelineOptions& options) {
  const ncclXml xml = TRY(groupXml(hosts, group, options.fuse));
  const LoadedTopo loaded = TRY(ncclTopoGetSystemFromXml(xml));
  ncclTopoSystem whole = loaded.system;
  ncclTopoComputePaths(whole, options.paths);
  std::vector<TopoDomain> domains;
  std::vector<bool> done(group.places.size(), false);
  for (int i = 0; i < static_cast<int>(group.places.size()); i++) {
    if (done[i]) continue;
    const int rank = group.firstRank + i;
    if (ncclTopoRankToIndex(whole, rank) == -1) {
      return fail(ncclInvalidUsage, "rank %d: its device is not part of the system of %s", rank,
                  hosts[group.places[i].host].xml->name().c_str());
    }
    domains.push_back(TRY(domainOf(whole, rank, nRanks, hosts[group.hosts[0]], options)));
    for (const int member : domains.back().ranks)
      done[member - group.firstRank] = true;
  }
  return domains;
}

void shift(ncclTopoGraph& graph, int by) {
  for (std::vector<int>& channel : graph.intra) {
    for (int& rank : channel)
      rank += by;
  }
}

/// The hosts with their ranks, one group a host, or one for all in a clique.
Result<std::vector<HostGroup>> groupHosts(const std::vector<PipelineHost>& hosts, bool clique) {
  std::map<const ncclXml*, std::vector<xml_node>> known;
  std::vector<HostGroup> groups;
  int rank = 0;
  for (int h = 0; h < static_cast<int>(hosts.size()); h++) {
    const ncclXml& xml = *hosts[h].xml;
    if (!known.contains(&xml)) known[&xml] = TRY(topoGpus(xml));
    const std::vector<xml_node>& gpus = known[&xml];
    if (groups.empty() || !clique) groups.push_back({{}, rank, {}});
    HostGroup& group = groups.back();
    group.hosts.push_back(h);
    const auto count = static_cast<int>(gpus.size());
    for (const int gpu : hosts[h].gpus) {
      if (gpu >= 0 && gpu < count) continue;
      return fail(ncclInvalidArgument, "device %d: %s has %d", gpu, xml.name().c_str(), count);
    }
    const bool all = hosts[h].gpus.empty();
    const int used = all ? count : static_cast<int>(hosts[h].gpus.size());
    if (used == 0) return fail(ncclInvalidUsage, "%s has no <gpu>", xml.name().c_str());
    for (int i = 0; i < used; i++)
      group.places.push_back({h, gpus[all ? i : hosts[h].gpus[i]]});
    rank += used;
  }
  return groups;
}

/// A net plugin numbers its devices from 0, whatever the document says: in the order of their
/// numbers, then as they stand.
Status numberNets(const ncclXml& xml, std::vector<std::string>& notes) {
  std::vector<std::pair<int, xml_node>> nets;
  for (const xml_node net : elementsBelow(xml, "net")) {
    if (net.attribute("dev")) nets.emplace_back(TRY(xmlInt32(xml, net, "dev")), net);
  }
  std::stable_sort(nets.begin(), nets.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  bool changed = false;
  for (int dev = 0; dev < static_cast<int>(nets.size()); dev++) {
    changed |= nets[dev].first != dev;
    setXml(nets[dev].second, "dev", dev);
  }
  if (changed) {
    notes.push_back(xml.name() + ": the dev of its <net> are not 0 to " +
                    std::to_string(nets.size() - 1) + "; numbered in their order");
  }
  return Ok{};
}

/// Reads the documents as they stand, with all devices, so that what is wrong with them is said
/// with its line.
Status checkDocuments(const std::vector<PipelineHost>& hosts, std::vector<std::string>& notes) {
  std::vector<const ncclXml*> done;
  for (const PipelineHost& host : hosts) {
    if (std::find(done.begin(), done.end(), host.xml) != done.end()) continue;
    done.push_back(host.xml);
    TRY(checkRoot(*host.xml, "system"));
    int rank = 0;
    for (xml_node gpu : TRY(topoGpus(*host.xml)))
      setXml(gpu, "rank", rank++);
    TRY(numberNets(*host.xml, notes));
    LoadedTopo loaded = TRY(ncclTopoGetSystemFromXml(*host.xml));
    std::move(loaded.notes.begin(), loaded.notes.end(), std::back_inserter(notes));
  }
  return Ok{};
}

/// Generation of the oldest device.
int minSm(const std::vector<TopoDomain>& domains) {
  int sm = INT32_MAX;
  for (const TopoDomain& domain : domains) {
    for (const ncclTopoNode& gpu : domain.system.nodes(Type::Gpu))
      sm = std::min(sm, gpu.gpu.sm);
  }
  return sm;
}

}  // namespace

Result<std::vector<xml_node>> topoGpus(const ncclXml& xml) {
  std::vector<std::tuple<int, int, int>> order;  // dev, part, position
  const std::vector<xml_node> found = elementsBelow(xml, "gpu");
  for (int i = 0; i < static_cast<int>(found.size()); i++) {
    const int dev = TRY(xmlInt32(xml, found[i], "dev"));
    const int part = TRY(xmlInt32Or(xml, found[i], "mlopart", kTopoUndef));
    order.emplace_back(dev, part, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<xml_node> sorted;
  sorted.reserve(found.size());
  for (const auto& [dev, part, position] : order)
    sorted.push_back(found[position]);
  return sorted;
}

Result<PipelineResult> runPipeline(const std::vector<PipelineHost>& hosts,
                                   const PipelineOptions& options) {
  if (hosts.empty()) return fail(ncclInvalidArgument, "no host");
  if (options.clique && hosts[0].fabric != nullptr) {
    return fail(
        ncclInvalidArgument,
        "NVLink cliques are for hosts of a topology file; the hosts of Trainium pods are joined as "
        "their cluster says (trn2-ultraserver)");
  }
  PipelineResult result;
  TRY(checkDocuments(hosts, result.notes));
  const std::vector<HostGroup> groups = TRY(groupHosts(hosts, options.clique));
  const HostGroup& last = groups.back();
  const int nRanks = last.firstRank + static_cast<int>(last.places.size());
  std::vector<ncclTopoRanks> records(static_cast<size_t>(nRanks));
  // What hosts of one kind have in common: where its domains begin and end, and its first rank.
  struct Kind {
    size_t first, count;
    int firstRank;
  };
  using Key =
      std::tuple<const ncclXml*, std::vector<int>, const NeuronFabric*, int, std::vector<int>>;
  std::map<Key, Kind> kinds;
  for (const HostGroup& group : groups) {
    const PipelineHost& host = hosts[group.hosts[0]];
    const auto [kind, isNew] =
        kinds.try_emplace(Key{host.xml, host.gpus, host.fabric, host.fabricHost, host.podNodes});
    if (isNew) {
      std::vector<TopoDomain> domains = TRY(domainsOf(hosts, group, nRanks, options));
      kind->second = {result.domains.size(), domains.size(), group.firstRank};
      std::move(domains.begin(), domains.end(), std::back_inserter(result.domains));
    }
    for (size_t d = 0; d < kind->second.count; d++) {
      ncclTopoGraph ring = result.domains[kind->second.first + d].ring;
      ncclTopoGraph tree = result.domains[kind->second.first + d].tree;
      shift(ring, group.firstRank - kind->second.firstRank);
      shift(tree, group.firstRank - kind->second.firstRank);
      TRY(ncclTopoPresetHost(ring, tree, records));
    }
  }
  result.nodeOf = ncclTopoNodesOf(records);
  const ChannelBounds bounds{.min = 1, .max = options.maxJoined, .minSm = minSm(result.domains)};
  result.global =
      TRY(ncclTopoConnect(result.nodeOf, std::move(records), bounds, options.hostOrder));
  return result;
}

Result<TopoDomain> topoDirect(const ncclXml& xml, bool inter, const PipelineOptions& options,
                              std::vector<std::string>& notes) {
  LoadedTopo loaded = TRY(ncclTopoGetSystemFromXml(xml));
  std::move(loaded.notes.begin(), loaded.notes.end(), std::back_inserter(notes));
  TopoDomain domain;
  domain.system = std::move(loaded.system);
  if (domain.system.count(Type::Gpu) == 0) {
    return fail(ncclInvalidUsage, "%s: no <gpu> has a rank", xml.name().c_str());
  }
  for (const ncclTopoNode& gpu : domain.system.nodes(Type::Gpu))
    domain.ranks.push_back(gpu.gpu.rank);
  domain.system.inter = inter;
  ncclTopoComputePaths(domain.system, options.paths);
  ncclTopoSearchInit(domain.system);
  return domain;
}

Status searchGraphs(TopoDomain& domain, const PipelineOptions& options) {
  if (domain.ring.nChannels == 0) {
    ncclTopoGraph ring;
    ring.crossNic = options.crossNic;
    ring.minChannels = options.minChannels;
    ring.maxChannels = options.maxChannels;
    domain.ring = TRY(ncclTopoCompute(domain.system, ring, options.search));
  }
  if (!options.trees) {
    domain.tree = domain.ring;
    return Ok{};
  }
  ncclTopoGraph tree;
  tree.id = 1;
  tree.pattern = ncclTopoPattern::BalancedTree;
  tree.crossNic = options.crossNic;
  tree.minChannels = tree.maxChannels = domain.ring.nChannels;
  domain.tree = TRY(ncclTopoCompute(domain.system, tree, options.search));
  return Ok{};
}

}  // namespace nccom
