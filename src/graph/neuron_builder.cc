#include "graph/neuron_builder.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/mla_cycle.h"
#include "graph/paths.h"
#include "graph/pod.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;

// No tours of a torus cost nothing, so that the search for them ends by its steps only. Half of
// these find the best there are.
constexpr int kKangaringSteps = 8000;

Status checkOptions(const NeuronFabric& fabric, const NeuronGraphOptions& options) {
  if (options.minChannels < 1 || options.maxChannels < options.minChannels ||
      options.maxChannels > kMaxChannels) {
    return fail(ncclInvalidArgument, "channel bounds %d..%d, expected within 1..%d",
                options.minChannels, options.maxChannels, kMaxChannels);
  }
  if (options.host < 0 || options.host >= fabric.nHosts) {
    return fail(ncclInvalidArgument, "host %d of a fabric of %d, expected 0..%d", options.host,
                fabric.nHosts, fabric.nHosts - 1);
  }
  const std::vector<int>& nodes = options.podNodes;
  if (!nodes.empty() && std::find(nodes.begin(), nodes.end(), options.host) == nodes.end()) {
    return fail(ncclInvalidArgument, "host %d is not among the %zu nodes of the pod in use",
                options.host, nodes.size());
  }
  return Ok{};
}

std::string tourText(const NeuronTour& tour) {
  std::string text = tour.closed ? "closed tour" : "open tour";
  for (const int device : tour.devices)
    text += " " + std::to_string(device);
  if (tour.extraHops > 0) text += ", " + std::to_string(tour.extraHops) + " extra hops";
  if (tour.turnCost > 0) text += ", turn cost " + std::to_string(tour.turnCost);
  return text;
}

bool isOnePass(const NeuronTour& tour) {
  const std::set<int> devices(tour.devices.begin(), tour.devices.end());
  return tour.closed && tour.extraHops == 0 && devices.size() == tour.devices.size();
}

}  // namespace

Result<NeuronGraphBuilder> NeuronGraphBuilder::open(const NeuronFabric& fabric,
                                                    const ncclTopoSystem& system,
                                                    const NeuronGraphOptions& options) {
  TRY(checkOptions(fabric, options));
  NeuronGraphBuilder builder(fabric, system, options);
  TRY(builder.placeRanks());
  return builder;
}

Status NeuronGraphBuilder::placeRanks() {
  rankOf_.assign(fabric_.cores.size(), -1);
  const int perHost = fabric_.devicesPerHost * fabric_.coresPerDevice;
  for (const ncclTopoNode& gpu : system_.nodes(Type::Gpu)) {
    if (gpu.gpu.dev < 0 || gpu.gpu.dev >= perHost || gpu.gpu.rank < 0) {
      return fail(ncclInvalidArgument, "rank %d on device %d; a %s at LNC %d has 0..%d",
                  gpu.gpu.rank, gpu.gpu.dev, std::string(fabric_.platform->name).c_str(),
                  fabric_.lnc, perHost - 1);
    }
    int& rank = rankOf_[options_.host * perHost + gpu.gpu.dev];
    if (rank != -1) {
      return fail(ncclInvalidArgument, "ranks %d and %d are both on device %d", rank, gpu.gpu.rank,
                  gpu.gpu.dev);
    }
    rank = gpu.gpu.rank;
  }
  std::set<int> devices;
  for (int core = 0; core < fabric_.coreCount(); core++) {
    if (rankOf_[core] == -1) continue;
    cores_.push_back(core);
    devices.insert(fabric_.cores[core].device);
  }
  if (cores_.empty()) return fail(ncclInvalidArgument, "a system without ranks");
  devices_.assign(devices.begin(), devices.end());
  return Ok{};
}

/// Closed over links, if need be by passing devices more than once; else, where the ring goes on
/// at other hosts, open with fewer long legs; else closed with as few as can be.
NeuronTour NeuronGraphBuilder::findOneTour(NeuronSearch& search) const {
  std::vector<int> spare(fabric_.devices.size(), -1);
  for (const int core : cores_)
    spare[fabric_.cores[core].device]++;
  NeuronSearchRequest request;
  NeuronTour closed = search.findCheapest(request);
  foldTour(fabric_, closed, spare);
  if (closed.extraHops == 0 || !system_.inter) return closed;
  request.closed = false;
  NeuronTour open = search.findCheapest(request);
  foldTour(fabric_, open, spare);
  return open.extraHops < closed.extraHops ? open : closed;
}

void NeuronGraphBuilder::findTours(int wanted, int maxShare) {
  NeuronSearch search(fabric_, devices_);
  NeuronSearchRequest request;
  request.maxTours = std::clamp(search.maxDisjoint(), 1, wanted);
  graph_.tours = search.findPaths(request);
  const size_t nDisjoint = graph_.tours.size();
  // Three devices have one tour, whichever way.
  const bool hasOthers = !graph_.tours.empty() && devices_.size() > 3;
  for (int share = 1; share <= maxShare && hasOthers; share++) {
    request.priceCeiling = share;
    request.maxTours = wanted - static_cast<int>(graph_.tours.size());
    if (request.maxTours <= 0) break;
    for (NeuronTour& tour : search.findPaths(request))
      graph_.tours.push_back(std::move(tour));
  }
  if (graph_.tours.empty()) graph_.tours.push_back(findOneTour(search));
  say(std::to_string(cores_.size()) + " cores of " + std::to_string(devices_.size()) +
      " devices: " + std::to_string(graph_.tours.size()) + " tours, " + std::to_string(nDisjoint) +
      " of them edge-disjoint over links, each device once");
  for (const NeuronTour& tour : graph_.tours)
    say(tourText(tour));
}

NeuronNets NeuronGraphBuilder::findNets() const {
  NeuronNets nets;
  nets.nearest.resize(fabric_.cores.size());
  if (!hasNetworkLeg()) return nets;
  for (const int core : cores_) {
    const int gpu = ncclTopoRankToIndex(system_, rankOf_[core]);
    for (const int net : ncclTopoGetLocal(system_, gpuRef(gpu), Type::Net))
      nets.nearest[core].push_back(system_.nodes(Type::Net)[net].id);
    std::sort(nets.nearest[core].begin(), nets.nearest[core].end());
  }
  return nets;
}

void NeuronGraphBuilder::addChannels() {
  std::vector<NeuronBasePath> paths;
  NeuronStepPrices prices;
  for (const NeuronTour& tour : graph_.tours) {
    paths.push_back({convertDevicePathToCorePath(fabric_, tour, cores_, prices), tour.closed});
  }
  LaneOptions lanes;
  lanes.minChannels = options_.minChannels;
  lanes.maxChannels = options_.maxChannels;
  lanes.inter = system_.inter;
  lanes.crossNic = options_.crossNic != 0;
  const NeuronNets nets = findNets();
  channels_ = duplicatePaths(paths, nets, lanes);
  std::vector<std::vector<int>> orders;
  for (const NeuronChannel& channel : channels_)
    orders.push_back(channel.cores);
  graph_.hops = layChannels(fabric_, orders, !system_.inter);
  say(std::to_string(channels_.size()) + " channels" +
      (hasNetworkLeg() ? " over " + std::to_string(nets.all().size()) + " NICs" : ""));
}

Status NeuronGraphBuilder::addKangaring() {
  const size_t all = devices_.size() * static_cast<size_t>(fabric_.coresPerDevice);
  if (devices_.size() < 2 || cores_.size() != all || !isOnePass(graph_.tours[0])) {
    say("no kangaring: needs all cores of two or more devices on a tour of links");
    return Ok{};
  }
  // Tours of their own: a kangaring changes dies between coming and going.
  NeuronSearch search(fabric_, devices_);
  NeuronSearchRequest request;
  request.rule = TurnRule::Kangaring;
  request.steps = kKangaringSteps;
  request.maxTours = std::min(static_cast<int>(graph_.tours.size()), kMaxKangaPaths / 2);
  std::vector<NeuronTour> tours = search.findPaths(request);
  if (tours.size() < graph_.tours.size()) tours = graph_.tours;
  graph_.kangaring = TRY(kangaringPaths(fabric_, tours, rankOf_));
  say("built " + std::to_string(graph_.kangaring.paths.size()) + " kangaring paths");
  return Ok{};
}

void NeuronGraphBuilder::addMlaCycles() {
  graph_.mlaCycles = mlaCycles(fabric_, devices_);
  for (std::vector<int>& cycle : graph_.mlaCycles) {
    for (int& device : cycle)
      device -= options_.host * fabric_.devicesPerHost;
  }
  say("built " + std::to_string(graph_.mlaCycles.size()) + " mla cycles");
}

Status NeuronGraphBuilder::addPod() {
  if (options_.podNodes.empty()) return Ok{};
  const PodInterNodeGraph order = TRY(ncclTopoGetP2pPodInterNodeGraph(fabric_, options_.podNodes));
  graph_.ring.crossRackToRack = order.crossRackToRack;
  std::string text = "pod order";
  for (const int node : order.nodes)
    text += " " + std::to_string(node);
  say(text + (order.crossRackToRack ? ", across racks" : ""));
  return Ok{};
}

/// Bandwidths and path types of what has been laid out.
void NeuronGraphBuilder::rate(ncclTopoGraph& ring) const {
  ring.bwIntra = channelGBps(fabric_, graph_.hops);
  ring.typeIntra = cores_.size() == 1 ? ncclTopoPathType::Loc : ncclTopoPathType::Nvl;
  for (const std::vector<NeuronHop>& hops : graph_.hops) {
    for (const NeuronHop& hop : hops) {
      ring.nHops += std::max<int>(1, static_cast<int>(hop.links.size()));
      if (hop.links.size() > 1) ring.typeIntra = std::max(ring.typeIntra, ncclTopoPathType::Nvb);
      if (!hop.reachable) ring.typeIntra = std::max(ring.typeIntra, ncclTopoPathType::Sys);
    }
  }
  if (!hasNetworkLeg()) return;
  std::map<int64_t, std::array<int, 2>> uses;  // channels in and out
  for (const std::array<int64_t, 2>& nets : ring.inter) {
    uses[nets[0]][0]++;
    uses[nets[1]][1]++;
  }
  ring.bwInter = kLocalGBps;
  ring.typeInter = ncclTopoPathType::Loc;
  for (const auto& [id, count] : uses) {
    const ncclTopoNode& net = system_.nodes(Type::Net)[ncclTopoIdToIndex(system_, Type::Net, id)];
    const auto most = static_cast<float>(std::max(count[0], count[1]));
    ring.bwInter = std::min(ring.bwInter, net.net.bwGBps / most);
    ring.latencyInter = std::max(ring.latencyInter, net.net.latencyUs);
  }
  for (size_t c = 0; c < ring.intra.size(); c++) {
    const std::array<int, 2> ends = {ring.intra[c].front(), ring.intra[c].back()};
    for (size_t end = 0; end < 2; end++) {
      const int gpu = ncclTopoRankToIndex(system_, ends[end]);
      const int net = ncclTopoIdToIndex(system_, Type::Net, ring.inter[c][end]);
      const ncclTopoPath& path = system_.path(gpuRef(gpu), netRef(net));
      ring.typeInter = std::max(ring.typeInter, path.type);
      ring.bwInter = std::min(ring.bwInter, path.bwGBps);
    }
  }
}

ncclTopoGraph NeuronGraphBuilder::draft() const {
  ncclTopoGraph ring = graph_.ring;
  ring.minChannels = options_.minChannels;
  ring.maxChannels = options_.maxChannels;
  ring.nChannels = static_cast<int>(channels_.size());
  bool alternates = !options_.podNodes.empty();
  for (const NeuronChannel& channel : channels_) {
    std::vector<int> ranks;
    for (const int core : channel.cores)
      ranks.push_back(rankOf_[core]);
    ring.intra.push_back(std::move(ranks));
    if (hasNetworkLeg()) ring.inter.push_back(channel.nets);
    alternates |= hasNetworkLeg() && channel.nets[0] != channel.nets[1];
  }
  ring.crossNic = alternates ? 2 : 0;
  ring.sameChannels = std::all_of(ring.intra.begin(), ring.intra.end(),
                                  [&ring](const auto& order) { return order == ring.intra[0]; });
  rate(ring);
  return ring;
}

Result<NeuronGraph> NeuronGraphBuilder::finish() && {
  const ncclTopoGraph ring = draft();
  // A system without NICs has no <net> for the reader to insist on.
  ncclTopoSystem local;
  if (system_.inter && !hasNetworkLeg()) {
    local = system_;
    local.inter = false;
  }
  const ncclTopoSystem& reader = system_.inter && !hasNetworkLeg() ? local : system_;
  const ncclXml xml = TRY(ncclTopoGetXmlFromGraphs({ring}, reader));
  graph_.ring = TRY(ncclTopoGetGraphFromXml(xml, reader, ring));
  graph_.ring.why = graph_.why;
  return std::move(graph_);
}

}  // namespace nccom
