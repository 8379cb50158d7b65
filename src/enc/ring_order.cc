#include "enc/ring_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "graph/mla_cycle.h"

namespace nccom {
namespace {

encDeviceOrder orderOf(std::vector<int> devices, bool isCycle) {
  encDeviceOrder order;
  order.places.resize(devices.size());
  for (size_t place = 0; place < devices.size(); place++)
    order.places[devices[place]] = static_cast<int>(place);
  order.devices = std::move(devices);
  order.isCycle = isCycle;
  return order;
}

encDeviceOrder line(int devices) {
  std::vector<int> all(devices);
  std::iota(all.begin(), all.end(), 0);
  return orderOf(std::move(all), false);
}

/// Follows a chunk from rank to rank.
class Way {
 public:
  Way(const enc_comm_info& info, const encDeviceOrder& order) : info_(info), order_(order) {}

  void hop(int from, int to) {
    const enc_peer_info &a = info_.peers[from], &b = info_.peers[to];
    if (segments_.empty()) segments_.emplace_back();
    if (a.server != b.server) {
      segments_.emplace_back();
      lap_ = encWayPart::Lap::Early;
      return;
    }
    const int begin = order_.places[a.device], end = order_.places[b.device];
    if (begin <= end) {
      forward(a.server, begin, end);
    } else if (order_.isCycle) {
      forward(a.server, begin, size());
      lap_ = encWayPart::Lap::Late;
      forward(a.server, 0, end);
    } else {
      lap_ = encWayPart::Lap::Back;
      for (int place = begin; place > end; place--)
        segments_.back().push_back({a.server, lap_, size() - 1 - place});
    }
  }
  std::vector<encWaySegment> take() && { return std::move(segments_); }

 private:
  int size() const { return static_cast<int>(order_.devices.size()); }

  void forward(int server, int begin, int end) {
    if (begin < end && lap_ == encWayPart::Lap::Back) lap_ = encWayPart::Lap::Late;
    for (int place = begin; place < end; place++)
      segments_.back().push_back({server, lap_, place});
  }

  const enc_comm_info& info_;
  const encDeviceOrder& order_;
  std::vector<encWaySegment> segments_;
  encWayPart::Lap lap_ = encWayPart::Lap::Early;
};

/// Whether other groups may have cores of a server of this one.
bool leavesCores(const enc_comm_info& info) {
  if (info.platform == nullptr || info.peers.empty()) return false;
  std::map<int, int> ranksOf;  // by server
  for (const enc_peer_info& peer : info.peers)
    ranksOf[peer.server]++;
  const int cores = info.platform->logicalCores(info.lnc);
  return std::any_of(ranksOf.begin(), ranksOf.end(),
                     [&](const auto& server) { return server.second < cores; });
}

/// The ranks at which a ring comes to its servers, in the order of the ring.
std::vector<int> entriesOf(const enc_comm_info& info, const std::vector<int>& ring) {
  std::vector<int> entries;
  std::set<int> seen;
  for (size_t i = 0; i < ring.size(); i++) {
    const int server = info.peers[ring[i]].server;
    const int before = info.peers[ring[(i + ring.size() - 1) % ring.size()]].server;
    if (server != before && seen.insert(server).second) entries.push_back(ring[i]);
  }
  if (entries.empty()) entries.push_back(ring[0]);  // one server
  return entries;
}

}  // namespace

encDeviceOrder encOrderDevices(const NeuronFabric& fabric) {
  std::vector<int> all(static_cast<size_t>(fabric.deviceCount()));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::vector<int>> cycles = mlaCycles(fabric, all);
  if (cycles.empty()) return line(fabric.deviceCount());
  std::vector<int> cycle = cycles[0];
  std::rotate(cycle.begin(), std::find(cycle.begin(), cycle.end(), 0), cycle.end());
  if (cycle[1] > cycle.back()) std::reverse(cycle.begin() + 1, cycle.end());
  return orderOf(std::move(cycle), true);
}

Result<encDeviceOrder> encDeviceOrderOf(const enc_comm_info& info) {
  if (info.peers.size() != static_cast<size_t>(info.rank_n)) {
    return fail(ncclInvalidArgument, "places of %zu ranks are known: want %d", info.peers.size(),
                info.rank_n);
  }
  if (info.platform != nullptr) {
    return encOrderDevices(TRY(neuronFabric(*info.platform, info.lnc)));
  }
  int devices = 0;
  for (const enc_peer_info& peer : info.peers)
    devices = std::max(devices, peer.device + 1);
  return line(devices);
}

Result<std::vector<int>> encSortedRanks(const enc_comm_info& info) {
  const encDeviceOrder order = TRY(encDeviceOrderOf(info));
  std::vector<int> ranks(info.rank_n);
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto key = [&](int rank) {
    const enc_peer_info& peer = info.peers[rank];
    return std::tuple(peer.server, order.places[peer.device], peer.core, rank);
  };
  std::sort(ranks.begin(), ranks.end(), [&](int a, int b) { return key(a) < key(b); });
  return ranks;
}

Status encOrderRings(enc_comm_info& info) {
  if (!leavesCores(info)) return Ok{};
  std::map<int, std::vector<int>> ranksOf;  // by server, in order
  for (const int rank : TRY(encSortedRanks(info)))
    ranksOf[info.peers[rank].server].push_back(rank);
  for (size_t channel = 0; channel < info.rings.size(); channel++) {
    std::vector<int>& ring = info.rings[channel];
    const std::vector<int> entries = entriesOf(info, ring);
    ring.clear();
    for (const int entry : entries) {
      std::vector<int> stay = ranksOf[info.peers[entry].server];
      if (channel % 2 == 1) std::reverse(stay.begin(), stay.end());
      std::rotate(stay.begin(), std::find(stay.begin(), stay.end(), entry), stay.end());
      ring.insert(ring.end(), stay.begin(), stay.end());
    }
  }
  return Ok{};
}

std::vector<encWaySegment> encChunkWay(const enc_comm_info& info, const encDeviceOrder& order,
                                       const std::vector<int>& ring, size_t start) {
  Way way(info, order);
  for (size_t hop = 0; hop + 1 < ring.size(); hop++) {
    way.hop(ring[(start + hop) % ring.size()], ring[(start + hop + 1) % ring.size()]);
  }
  return std::move(way).take();
}

}  // namespace nccom
