#include "graph/connect.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "graph/paths.h"

namespace nccom {
namespace {

using Table = std::vector<std::vector<int>>;  // [channel][rank]

/// What only agrees on the weakest host holds for all.
void mergeGraphs(const std::vector<ncclTopoRanks>& all, ncclRings& rings) {
  rings.nSearched = all[0].nChannels;
  rings.bwIntra = all[0].bwIntra;
  rings.bwInter = all[0].bwInter;
  for (const ncclTopoRanks& record : all) {
    rings.nSearched = std::min(rings.nSearched, static_cast<int>(record.nChannels));
    rings.bwIntra = std::min(rings.bwIntra, record.bwIntra);
    rings.bwInter = std::min(rings.bwInter, record.bwInter);
  }
}

Status checkRecords(int rank, const std::vector<int>& nodeOf,
                    const std::vector<ncclTopoRanks>& all) {
  const auto nRanks = static_cast<int>(nodeOf.size());
  if (all.size() != nodeOf.size() || rank < 0 || rank >= nRanks) {
    return fail(ncclInvalidArgument, "rank %d with %zu records and %d host indices", rank,
                all.size(), nRanks);
  }
  for (int r = 0; r < nRanks; r++) {
    if (nodeOf[r] < 0 || nodeOf[r] >= nRanks) {
      return fail(ncclInvalidArgument, "rank %d has host index %d, expected 0..%d", r, nodeOf[r],
                  nRanks - 1);
    }
    if (all[r].nChannels < 1 || all[r].nChannels > kMaxChannels) {
      return fail(ncclInvalidArgument, "rank %d has %d channels, expected 1..%d", r,
                  all[r].nChannels, kMaxChannels);
    }
    for (int c = 0; c < all[r].nChannels; c++) {
      for (const int other :
           {all[r].ringRecv[c], all[r].ringSend[c], all[r].ringPrev[c], all[r].ringNext[c]}) {
        if (other >= -1 && other < nRanks) continue;
        return fail(ncclInvalidArgument, "rank %d names rank %d on channel %d, expected 0..%d", r,
                    other, c, nRanks - 1);
      }
    }
  }
  return Ok{};
}

/// First rank of each host; every host index up to the largest must have one.
Result<std::vector<int>> firstRanks(const std::vector<int>& nodeOf) {
  std::vector<int> first;
  for (int r = 0; r < static_cast<int>(nodeOf.size()); r++) {
    if (nodeOf[r] >= static_cast<int>(first.size())) first.resize(nodeOf[r] + 1, -1);
    if (first[nodeOf[r]] == -1) first[nodeOf[r]] = r;
  }
  const auto empty = std::find(first.begin(), first.end(), -1);
  if (empty != first.end()) {
    return fail(ncclInvalidArgument, "no rank has host index %d of 0..%zu",
                static_cast<int>(empty - first.begin()), first.size() - 1);
  }
  return first;
}

/// Where channels alternate between two NICs, odd hosts swap each pair, so that traffic stays on
/// one rail.
void alternateRails(const std::vector<int>& nodeOf, int nChannels,
                    std::vector<ncclTopoRanks>& all) {
  if (nChannels % 2 != 0) return;
  for (size_t r = 0; r < all.size(); r++) {
    if (all[r].crossNicRing != 2 || nodeOf[r] % 2 == 0) continue;
    for (int c = 0; c < nChannels; c += 2) {
      std::swap(all[r].ringRecv[c], all[r].ringRecv[c + 1]);
      std::swap(all[r].ringSend[c], all[r].ringSend[c + 1]);
      std::swap(all[r].ringPrev[c], all[r].ringPrev[c + 1]);
      std::swap(all[r].ringNext[c], all[r].ringNext[c + 1]);
    }
  }
}

/// The head of each host's part follows the tail of the host before.
void joinHosts(const std::vector<int>& first, const std::vector<ncclTopoRanks>& all, int channel,
               std::vector<int>& prev, std::vector<int>& next) {
  for (size_t r = 0; r < all.size(); r++) {
    prev[r] = all[r].ringPrev[channel];
    next[r] = all[r].ringNext[channel];
  }
  for (size_t n = 0; n < first.size(); n++) {
    const int tail = all[first[n]].ringSend[channel];
    const int head = all[first[(n + 1) % first.size()]].ringRecv[channel];
    if (tail < 0 || head < 0) continue;  // the ring check will name the gap
    next[tail] = head;
    prev[head] = tail;
  }
}

}  // namespace

Result<ncclTopoRanks> ncclTopoPreset(const ncclTopoGraph& graph, int rank) {
  ncclTopoRanks record;
  record.nChannels = graph.nChannels;
  record.crossNicRing = graph.crossNic;
  record.sameChannels = graph.sameChannels ? 1 : 0;
  record.typeIntra = static_cast<int32_t>(graph.typeIntra);
  record.typeInter = static_cast<int32_t>(graph.typeInter);
  record.bwIntra = graph.bwIntra;
  record.bwInter = graph.bwInter;
  for (auto* table : {&record.ringRecv, &record.ringSend, &record.ringPrev, &record.ringNext}) {
    table->fill(-1);
  }
  for (int c = 0; c < graph.nChannels; c++) {
    const std::vector<int>& order = graph.intra[c];
    const auto place = std::find(order.begin(), order.end(), rank);
    if (place == order.end()) {
      return fail(ncclInvalidArgument, "channel %d of the graph does not contain rank %d", c, rank);
    }
    record.ringRecv[c] = order.front();
    record.ringSend[c] = order.back();
    if (place != order.begin()) record.ringPrev[c] = *(place - 1);
    if (place + 1 != order.end()) record.ringNext[c] = *(place + 1);
  }
  return record;
}

Result<ncclRings> ncclTopoPostset(int rank, const std::vector<int>& nodeOf,
                                  std::vector<ncclTopoRanks> all, const ChannelBounds& bounds) {
  if (bounds.min < 1 || bounds.max < bounds.min || bounds.max > kMaxChannels) {
    return fail(ncclInvalidArgument, "channel bounds %d..%d, expected within 1..%d", bounds.min,
                bounds.max, kMaxChannels);
  }
  TRY(checkRecords(rank, nodeOf, all));
  const std::vector<int> first = TRY(firstRanks(nodeOf));
  ncclRings rings;
  mergeGraphs(all, rings);
  alternateRails(nodeOf, rings.nSearched, all);
  const int nChannels = std::clamp(2 * rings.nSearched, bounds.min, bounds.max);
  Table prev(nChannels, std::vector<int>(nodeOf.size()));
  Table next = prev;
  for (int c = 0; c < nChannels; c++) {
    joinHosts(first, all, c % rings.nSearched, prev[c], next[c]);
  }
  rings.nSearched = std::min(rings.nSearched, nChannels);
  rings.channels = TRY(ncclBuildRings(rank, prev, next));
  return rings;
}

Result<std::vector<ncclRing>> ncclBuildRings(int rank, const Table& prev, const Table& next) {
  std::vector<ncclRing> rings;
  for (int channel = 0; channel < static_cast<int>(next.size()); channel++) {
    const std::vector<int>& successors = next[channel];
    const auto nRanks = static_cast<int>(successors.size());
    std::vector<bool> found(nRanks, false);
    ncclRing ring;
    int current = rank;
    for (int i = 0; i < nRanks && current >= 0; i++) {
      ring.userRanks.push_back(current);
      found[current] = true;
      current = successors[current];
    }
    if (current != rank) {
      return fail(ncclInternalError, "ring %d does not loop back to start (%d != %d)", channel,
                  current, rank);
    }
    const auto missing = std::find(found.begin(), found.end(), false);
    if (missing != found.end()) {
      return fail(ncclInternalError, "ring %d does not contain rank %d", channel,
                  static_cast<int>(missing - found.begin()));
    }
    ring.prev = prev[channel][rank];
    ring.next = successors[rank];
    if (ring.prev != ring.userRanks.back()) {
      return fail(ncclInternalError, "ring %d enters rank %d from rank %d and from rank %d",
                  channel, rank, ring.prev, ring.userRanks.back());
    }
    rings.push_back(std::move(ring));
  }
  return rings;
}

Result<NetDeviceChoice> ncclTopoGetNetDev(const ncclTopoSystem& system, const ncclTopoGraph& graph,
                                          int channel, int rank) {
  if (channel < 0 || graph.nChannels < 1 ||
      static_cast<int>(graph.inter.size()) < graph.nChannels) {
    return fail(ncclInvalidArgument, "channel %d: the graph has %d channels and %zu pairs of NICs",
                channel, graph.nChannels, graph.inter.size());
  }
  const int c = channel % graph.nChannels;
  const int64_t id = graph.inter[c][graph.intra[c].front() == rank ? 0 : 1];
  const int net = ncclTopoIdToIndex(system, ncclTopoNodeType::Net, id);
  if (net == -1) {
    return fail(ncclInvalidArgument, "channel %d: no NIC with id 0x%llx in the system; it has %d",
                c, static_cast<unsigned long long>(id), system.count(ncclTopoNodeType::Net));
  }
  return NetDeviceChoice{.id = id, .dev = system.nodes(ncclTopoNodeType::Net)[net].net.dev};
}

Result<NetDeviceChoice> ncclTopoGetLocalNetDev(const ncclTopoSystem& system, int channel,
                                               int rank) {
  const int gpu = ncclTopoRankToIndex(system, rank);
  const int net = gpu == -1 ? -1 : ncclTopoGetLocalNet(system, gpu, channel);
  if (net == -1) {
    return fail(ncclInvalidArgument, "rank %d reaches no NIC; the system has %d", rank,
                system.count(ncclTopoNodeType::Net));
  }
  const ncclTopoNode& node = system.nodes(ncclTopoNodeType::Net)[net];
  return NetDeviceChoice{.id = node.id, .dev = node.net.dev};
}

int P2pChannels::channelOf(int distance, int part) const {
  // Mirrored, so that peers next to each other use channels far apart.
  const auto index =
      static_cast<int>((static_cast<unsigned>(distance) * static_cast<unsigned>(perPeer) +
                        static_cast<unsigned>(part)) %
                       static_cast<unsigned>(nChannels));
  return mirrorBits(index, nChannels);
}

Result<P2pChannels> ncclTopoComputeP2pChannels(const ncclTopoSystem& system, int rank,
                                               int nChannels, int maxChannels) {
  const int own = ncclTopoRankToIndex(system, rank);
  if (own == -1) return fail(ncclInvalidArgument, "rank %d is not in the system", rank);
  int perPeer = kMaxChannels;
  for (int peer = 0; peer < system.count(ncclTopoNodeType::Gpu); peer++) {
    if (peer == own) continue;
    const ncclTopoPath& path = system.path(gpuRef(peer), gpuRef(own));
    const bool isFabric = path.type == ncclTopoPathType::Nvl || path.type == ncclTopoPathType::Nvb;
    const float linkGBps = nvLinkGBps(system.nodes(ncclTopoNodeType::Gpu)[own].gpu.sm);
    const int filled = isFabric ? static_cast<int>(path.bwGBps / linkGBps) : 1;
    perPeer = std::min(perPeer, 2 * std::max(1, filled));
  }
  if (system.inter) perPeer = std::min(perPeer, 2);  // the network is the bottleneck
  const auto limit = static_cast<int>(
      std::bit_floor(static_cast<unsigned>(std::clamp(maxChannels, 1, kMaxChannels))));
  const auto ceil = [](int value) {
    return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(value, 1))));
  };
  P2pChannels channels;
  channels.nChannels = std::min(ceil(nChannels), limit);
  channels.perPeer = std::min(ceil(perPeer), channels.nChannels);
  return channels;
}

}  // namespace nccom
