#include "enc/mesh_geometry.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "enc/alg_limits.h"

namespace nccom {
namespace {

constexpr int kHostCores = 1;  // of a device of this machine

Status checkRanks(const enc_comm_info& info, const std::vector<int>& ranks, int self) {
  if (info.peers.empty()) {
    return fail(ncclInvalidArgument, "mesh: the machine of the communicator is not known");
  }
  if (self < 0 || self >= static_cast<int>(ranks.size())) {
    return fail(ncclInvalidArgument, "mesh: member %d of %zu", self, ranks.size());
  }
  std::set<int> seen;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= info.rank_n || !seen.insert(rank).second) {
      return fail(ncclInvalidArgument,
                  "mesh: rank %d is there twice or out of range: want each of "
                  "%d once",
                  rank, info.rank_n);
    }
  }
  return Ok{};
}

/// Links between devices of a server; of this machine, whose devices share memory, one.
class Links {
 public:
  explicit Links(const enc_comm_info& info) : platform_(info.platform) {}

  bool joined(int a, int b) const {
    return a == b || platform_ == nullptr || platform_->portTo(a, b) >= 0;
  }
  int routingId(int device) const {
    return platform_ == nullptr ? device : platform_->devices[device].routingId;
  }
  /// [device] links from `from`; -1: no way.
  std::vector<int> distances(int from) const;
  /// Engine group of `to` that drives the last link of a shortest route; -1: there is none.
  int entrySeng(int from, int to) const;

 private:
  const NeuronPlatform* platform_;
};

std::vector<int> Links::distances(int from) const {
  std::vector<int> found(platform_->deviceCount(), -1), queue{from};
  found[from] = 0;
  for (size_t i = 0; i < queue.size(); i++) {
    for (const int next : platform_->devices[queue[i]].neighbours) {
      if (next < 0 || found[next] >= 0) continue;
      found[next] = found[queue[i]] + 1;
      queue.push_back(next);
    }
  }
  return found;
}

int Links::entrySeng(int from, int to) const {
  const std::vector<int> far = distances(from);
  for (int port = 0; port < kMaxDevicePorts; port++) {
    const int before = platform_->devices[to].neighbours[port];
    if (before >= 0 && far[before] >= 0 && far[before] == far[to] - 1) {
      return std::countr_zero(static_cast<unsigned>(platform_->portSengs[port]));
    }
  }
  return -1;
}

/// Chips of the members, and where each member is in them.
void gatherChips(const enc_comm_info& info, const std::vector<int>& ranks, encMeshGeometry& g) {
  std::map<std::pair<int, int>, std::vector<int>> chips;
  for (size_t member = 0; member < ranks.size(); member++) {
    const enc_peer_info& peer = info.peers[ranks[member]];
    chips[{peer.server, peer.device}].push_back(static_cast<int>(member));
  }
  g.chip.resize(ranks.size());
  g.place.resize(ranks.size());
  for (const auto& [where, members] : chips) {
    for (size_t place = 0; place < members.size(); place++) {
      g.chip[members[place]] = static_cast<int>(g.chips.size());
      g.place[members[place]] = static_cast<int>(place);
    }
    g.chips.push_back({where.first, where.second, members});
  }
}

encSituation situationOf(const enc_comm_info& info, const std::vector<int>& ranks,
                         const encMeshGeometry& g) {
  encSituation s = info.situation;
  std::map<int, int> perServer;
  for (const int rank : ranks)
    perServer[info.peers[rank].server]++;
  std::map<int, std::set<int>> devices;
  for (const encMeshChip& chip : g.chips)
    devices[chip.server].insert(chip.device);
  s.rank_n = g.n();
  s.node_n = static_cast<int>(perServer.size());
  s.local_rank_n = perServer.begin()->second;
  s.devices = static_cast<int>(devices.begin()->second.size());
  for (const auto& [server, count] : perServer) {
    if (count != s.local_rank_n) s.local_rank_n = 0;
    if (static_cast<int>(devices[server].size()) != s.devices) s.devices = 0;
  }
  s.ranksPerDevice = g.perChip();
  s.enable_pod = s.node_n > 1 && info.situation.enable_pod;
  if (s.local_rack_rank_n > 0 && s.node_n == 1) s.local_rack_rank_n = s.rank_n;
  return s;
}

/// How self sees a member.
encMeshPeer peerOf(const enc_comm_info& info, const Links& links, int own, int rank, bool pod) {
  const enc_peer_info& me = info.peers[own];
  const enc_peer_info& other = info.peers[rank];
  encMeshPeer peer;
  peer.pod_node_id = other.server % std::max(1, info.pod.nHosts);
  peer.shares = info.sameNode(own, rank);
  if (me.server != other.server) {
    peer.neuron_dev = pod ? kPodMlaDev : kNetworkDev;
    peer.rid = -1;
    return peer;
  }
  const int cores =
      info.platform == nullptr ? kHostCores : info.platform->logicalPerDevice(info.lnc);
  peer.neuron_dev = other.core;
  peer.rid = links.routingId(other.device) * cores + other.slot;
  peer.isNeighbor = links.joined(me.device, other.device);
  return peer;
}

/// Where data of a chip enters another, by its members: those at the engine group first.
int entryPlace(const enc_comm_info& info, const std::vector<int>& ranks, const encMeshChip& to,
               int seng, int spread) {
  const auto count = static_cast<int>(to.members.size());
  // Hosts of a pod may be mounted turned, which swaps the dies.
  const int elected = info.pod.electedNode(to.server % std::max(1, info.pod.nHosts));
  std::vector<int> near;
  for (int place = 0; place < count; place++) {
    const enc_peer_info& peer = info.peers[ranks[to.members[place]]];
    if (info.platform->coreAt(peer.core, info.lnc, elected).seng == seng) near.push_back(place);
  }
  if (near.empty()) return spread % count;
  return near[spread % static_cast<int>(near.size())];
}

void findRoutes(const enc_comm_info& info, const std::vector<int>& ranks, const Links& links,
                encMeshGeometry& g) {
  const size_t n = g.chips.size();
  g.entry.assign(n, std::vector<int>(n, 0));
  g.hops.assign(n, -1);
  const encMeshChip& own = g.chips[g.chip[g.self]];
  for (size_t to = 0; to < n; to++) {
    if (g.chips[to].server != own.server) continue;
    g.hops[to] = info.platform == nullptr ? (g.chips[to].device == own.device ? 0 : 1)
                                          : links.distances(own.device)[g.chips[to].device];
  }
  for (size_t from = 0; from < n; from++) {
    for (size_t to = 0; to < n; to++) {
      const auto count = static_cast<int>(g.chips[to].members.size());
      const bool routed =
          info.platform != nullptr && g.chips[from].server == g.chips[to].server && from != to;
      const auto spread = static_cast<int>(from);
      g.entry[from][to] =
          routed ? entryPlace(info, ranks, g.chips[to],
                              links.entrySeng(g.chips[from].device, g.chips[to].device), spread)
                 : spread % count;
    }
  }
}

}  // namespace

int encMeshGeometry::perChip() const {
  for (const encMeshChip& c : chips) {
    if (c.members.size() != chips.front().members.size()) return 0;
  }
  return chips.empty() ? 0 : static_cast<int>(chips.front().members.size());
}

bool encMeshGeometry::usesNet() const {
  return std::any_of(peers.begin(), peers.end(),
                     [](const encMeshPeer& peer) { return peer.neuron_dev == kNetworkDev; });
}

Result<encMeshGeometry> encMeshGeometryOf(const enc_comm_info& info, const std::vector<int>& ranks,
                                          int self) {
  TRY(checkRanks(info, ranks, self));
  encMeshGeometry g;
  g.self = self;
  g.options = info.options;
  g.peers.resize(ranks.size());
  gatherChips(info, ranks, g);
  g.situation = situationOf(info, ranks, g);
  g.type = encMeshType(g.situation);
  const Links links(info);
  for (size_t member = 0; member < ranks.size(); member++) {
    g.peers[member] = peerOf(info, links, ranks[self], ranks[member], g.situation.enable_pod);
  }
  if (g.type == enc_alg_mesh_type::MeshTrn2 || g.type == enc_alg_mesh_type::MeshSwitch) {
    findRoutes(info, ranks, links, g);
  }
  return g;
}

}  // namespace nccom
