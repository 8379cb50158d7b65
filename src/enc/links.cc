#include "enc/links.h"

#include <algorithm>
#include <array>

#include "graph/neuron_cores.h"
#include "graph/neuron_search.h"

namespace nccom {
namespace {

constexpr std::array kLocalities{EdgeLocality::SharedMemory, EdgeLocality::Rmtv, EdgeLocality::D2d,
                                 EdgeLocality::Local};
constexpr std::array kLinks{FabricLinkKind::NeuronLink, FabricLinkKind::PodZ,
                            FabricLinkKind::Tray,       FabricLinkKind::SledSwitch,
                            FabricLinkKind::RackSwitch, FabricLinkKind::CrossRack};
constexpr int kSwitch = -1;  // instead of a device

size_t kindOf(EdgeLocality locality) {
  return static_cast<size_t>(std::find(kLocalities.begin(), kLocalities.end(), locality) -
                             kLocalities.begin());
}
size_t kindOf(FabricLinkKind kind) {
  return kLocalities.size() +
         static_cast<size_t>(std::find(kLinks.begin(), kLinks.end(), kind) - kLinks.begin());
}

/// Devices that links join have the same number.
std::vector<int> componentsOf(const NeuronFabric& fabric) {
  std::vector<int> component(fabric.devices.size(), -1);
  for (int first = 0; first < fabric.deviceCount(); first++) {
    if (component[first] >= 0) continue;
    component[first] = first;
    std::vector<int> queue{first};
    for (size_t i = 0; i < queue.size(); i++) {
      for (const FabricLink& link : fabric.linksFrom(queue[i])) {
        if (component[link.to] >= 0) continue;
        component[link.to] = first;
        queue.push_back(link.to);
      }
    }
  }
  return component;
}

}  // namespace

Result<std::optional<encLinks>> encLinks::of(const enc_comm_info& info) {
  if (info.platform == nullptr || info.peers.empty()) return std::optional<encLinks>();
  NeuronFabric fabric = TRY(neuronFabric(*info.platform, info.pod, info.lnc));
  const int perHost = fabric.coreCount() / fabric.nHosts;
  std::vector<Place> places;
  for (size_t rank = 0; rank < info.peers.size(); rank++) {
    const enc_peer_info& peer = info.peers[rank];
    if (peer.server < 0 || peer.core < 0 || peer.core >= perHost) {
      return fail(ncclInvalidArgument,
                  "rank %zu is on core %d of server %d: %.*s has cores 0 to %d at LNC %d", rank,
                  peer.core, peer.server, static_cast<int>(info.platform->name.size()),
                  info.platform->name.data(), perHost - 1, info.lnc);
    }
    places.push_back(
        {peer.server / fabric.nHosts, peer.server % fabric.nHosts * perHost + peer.core});
  }
  return std::optional(encLinks(std::move(fabric), std::move(places)));
}

encLinks::encLinks(NeuronFabric fabric, std::vector<Place> places)
    : fabric_(std::move(fabric)), component_(componentsOf(fabric_)), places_(std::move(places)) {}

bool encLinks::joined(int from, int to) const {
  const Place &a = places_[from], &b = places_[to];
  return a.pod == b.pod &&
         component_[fabric_.cores[a.core].device] == component_[fabric_.cores[b.core].device];
}

const encRoute& encLinks::route(int from, int to) {
  if (!joined(from, to)) return none_;
  const std::pair<int, int> cores(places_[from].core, places_[to].core);
  const auto known = routes_.find(cores);
  if (known != routes_.end()) return known->second;
  return routes_.emplace(cores, find(cores.first, cores.second)).first->second;
}

encRoute encLinks::find(int fromCore, int toCore) const {
  encRoute route;
  route.joined = true;
  const int from = fabric_.cores[fromCore].device, to = fabric_.cores[toCore].device;
  if (from == to) {
    route.locality =
        fromCore == toCore ? EdgeLocality::SharedMemory : coreLocality(fabric_, fromCore, toCore);
    return route;
  }
  route.locality = EdgeLocality::RemoteMla;
  const std::vector<int> way = shortestWay(fabric_, from, to);
  for (size_t i = 1; i < way.size(); i++) {
    route.links.push_back(
        static_cast<int>(fabric_.link(way[i - 1], way[i]) - fabric_.links.data()));
  }
  route.hops = static_cast<int>(route.links.size());
  return route;
}

std::string encLinks::whyNot(int from, int to) const {
  const Place &a = places_[from], &b = places_[to];
  const auto text = [&](int rank, const Place& place) {
    const NeuronCore& core = fabric_.cores[place.core];
    return "rank " + std::to_string(rank) + " on device " +
           std::to_string(core.device % fabric_.devicesPerHost) + " of server " +
           std::to_string(place.pod * fabric_.nHosts + core.device / fabric_.devicesPerHost);
  };
  return std::string(fabric_.platform->name) + " has no links from " + text(from, a) + " to " +
         text(to, b);
}

void encLinks::carry(int from, int to, uint64_t bytes) {
  if (from == to || bytes == 0) return;
  const encRoute& way = route(from, to);
  if (!way.joined) return;
  const Place &a = places_[from], &b = places_[to];
  mostHops_ = std::max(mostHops_, way.hops);
  if (way.hops == 0) loads_[{kindOf(way.locality), a.pod, a.core, b.core}] += bytes;
  for (const int number : way.links) {
    const FabricLink& link = fabric_.links[number];
    const size_t kind = kindOf(link.kind);
    if (link.group < 0) {
      loads_[{kind, a.pod, link.from, link.to}] += bytes;
    } else {
      loads_[{kind, a.pod, link.from, kSwitch}] += bytes;
      loads_[{kind, a.pod, kSwitch, link.to}] += bytes;
    }
  }
}

/// "0:3 -> 0:7": servers, and their cores or devices.
std::string encLinks::nameOf(const Link& link) const {
  const bool within = link.kind < kLocalities.size();
  const int perHost = within ? fabric_.coreCount() / fabric_.nHosts : fabric_.devicesPerHost;
  const auto end = [&](int number) {
    if (number == kSwitch) return std::string("switch");
    return std::to_string(link.pod * fabric_.nHosts + number / perHost) + ":" +
           std::to_string(number % perHost);
  };
  return end(link.from) + " -> " + end(link.to);
}

std::vector<encLinkUse> encLinks::uses() const {
  std::vector<encLinkUse> uses;
  size_t kind = kLocalities.size() + kLinks.size();
  for (const auto& [link, bytes] : loads_) {
    if (uses.empty() || link.kind != kind) {
      kind = link.kind;
      const bool within = kind < kLocalities.size();
      uses.emplace_back();
      uses.back().kind =
          within ? toText(kLocalities[kind]) : toText(kLinks[kind - kLocalities.size()]);
      uses.back().within = within;
    }
    encLinkUse& use = uses.back();
    use.links++;
    use.bytes += bytes;
    if (bytes <= use.most) continue;
    use.most = bytes;
    use.busiest = nameOf(link);
  }
  return uses;
}

}  // namespace nccom
