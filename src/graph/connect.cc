#include "graph/connect.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "graph/paths.h"

namespace nccom {
namespace {

/// What a record takes over from the graphs themselves. Places of ranks: none yet.
ncclTopoRanks emptyRecord(const ncclTopoGraph& ring, const ncclTopoGraph& tree) {
  ncclTopoRanks record;
  record.nChannels = std::min(ring.nChannels, tree.nChannels);
  record.crossNicRing = ring.crossNic;
  record.sameChannels = ring.sameChannels ? 1 : 0;
  record.typeIntra = static_cast<int32_t>(ring.typeIntra);
  record.typeInter = static_cast<int32_t>(ring.typeInter);
  record.bwIntra = ring.bwIntra;
  record.bwInter = ring.bwInter;
  for (auto* table : {&record.ringRecv, &record.ringSend, &record.ringPrev, &record.ringNext,
                      &record.treeToParent, &record.treeToChild0, &record.treeToChild1,
                      &record.treeUp, &record.treeDown}) {
    table->fill(-1);
  }
  return record;
}

int neighbour(const std::vector<int>& order, size_t place, int step) {
  const auto other = static_cast<int64_t>(place) + step;
  return other < 0 || other >= static_cast<int64_t>(order.size()) ? -1 : order[other];
}

void setRing(ncclTopoRanks& record, int channel, const std::vector<int>& order, size_t place) {
  record.ringRecv[channel] = order.front();
  record.ringSend[channel] = order.back();
  record.ringPrev[channel] = neighbour(order, place, -1);
  record.ringNext[channel] = neighbour(order, place, 1);
}

void setTree(ncclTopoRanks& record, int channel, const ncclTopoGraph& tree, size_t place) {
  const std::vector<int>& order = tree.intra[channel];
  const int head = order.front();
  const int second = order.size() > 1 ? order[1] : head;
  record.treeToParent[channel] = head;
  record.treeToChild0[channel] = tree.pattern == ncclTopoPattern::Tree ? head : second;
  record.treeToChild1[channel] = tree.pattern == ncclTopoPattern::SplitTree ? second : head;
  record.treeUp[channel] = neighbour(order, place, -1);
  record.treeDown[channel] = neighbour(order, place, 1);
}

/// A chain in ring order, with other hosts at its head.
ncclTopoGraph treeOf(const ncclTopoGraph& ring) {
  ncclTopoGraph tree = ring;
  tree.pattern = ncclTopoPattern::Tree;
  return tree;
}

Status checkChannels(const ncclTopoGraph& graph) {
  if (graph.nChannels >= 1 && graph.nChannels <= kMaxChannels &&
      static_cast<int>(graph.intra.size()) >= graph.nChannels) {
    return Ok{};
  }
  return fail(ncclInvalidArgument,
              "a graph with %d channels and %zu orders, expected 1..%d of each", graph.nChannels,
              graph.intra.size(), kMaxChannels);
}

}  // namespace

Result<ncclTopoRanks> ncclTopoPreset(const ncclTopoGraph& ring, int rank) {
  return ncclTopoPreset(ring, treeOf(ring), rank);
}

Result<ncclTopoRanks> ncclTopoPreset(const ncclTopoGraph& ring, const ncclTopoGraph& tree,
                                     int rank) {
  TRY(checkChannels(ring));
  TRY(checkChannels(tree));
  ncclTopoRanks record = emptyRecord(ring, tree);
  const auto placeIn = [rank](const std::vector<int>& order, int channel) -> Result<size_t> {
    const auto place = std::find(order.begin(), order.end(), rank);
    if (place != order.end()) return static_cast<size_t>(place - order.begin());
    return fail(ncclInvalidArgument, "channel %d of the graph does not contain rank %d", channel,
                rank);
  };
  for (int c = 0; c < record.nChannels; c++) {
    setRing(record, c, ring.intra[c], TRY(placeIn(ring.intra[c], c)));
    setTree(record, c, tree, TRY(placeIn(tree.intra[c], c)));
  }
  return record;
}

Status ncclTopoPresetHost(const ncclTopoGraph& ring, const ncclTopoGraph& tree,
                          std::vector<ncclTopoRanks>& all) {
  TRY(checkChannels(ring));
  TRY(checkChannels(tree));
  for (const ncclTopoGraph* graph : {&ring, &tree}) {
    for (const std::vector<int>& order : graph->intra) {
      for (const int rank : order) {
        if (rank >= 0 && rank < static_cast<int>(all.size())) continue;
        return fail(ncclInvalidArgument, "a graph with rank %d, expected 0..%zu", rank,
                    all.size() - 1);
      }
      if (order.empty()) return fail(ncclInvalidArgument, "a graph with a channel without ranks");
    }
  }
  const ncclTopoRanks blank = emptyRecord(ring, tree);
  for (const int rank : ring.intra[0])
    all[rank] = blank;
  for (int c = 0; c < blank.nChannels; c++) {
    for (size_t place = 0; place < ring.intra[c].size(); place++)
      setRing(all[ring.intra[c][place]], c, ring.intra[c], place);
    for (size_t place = 0; place < tree.intra[c].size(); place++)
      setTree(all[tree.intra[c][place]], c, tree, place);
  }
  return Ok{};
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
