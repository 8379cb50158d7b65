// The hosts' channels joined into rings and trees over all ranks.
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <utility>

#include "graph/connect.h"
#include "graph/trees.h"

namespace nccom {
namespace {

using Table = std::vector<std::vector<int>>;  // [channel][rank]

/// What only agrees on the weakest host holds for all.
struct Merged {
  int nSearched = 0;
  float bwIntra = 0;
  float bwInter = 0;
};

Merged mergeGraphs(const std::vector<ncclTopoRanks>& all) {
  Merged merged{all[0].nChannels, all[0].bwIntra, all[0].bwInter};
  for (const ncclTopoRanks& record : all) {
    merged.nSearched = std::min(merged.nSearched, static_cast<int>(record.nChannels));
    merged.bwIntra = std::min(merged.bwIntra, record.bwIntra);
    merged.bwInter = std::min(merged.bwInter, record.bwInter);
  }
  return merged;
}

Status checkRecord(int rank, const ncclTopoRanks& record, int nRanks) {
  if (record.nChannels < 1 || record.nChannels > kMaxChannels) {
    return fail(ncclInvalidArgument, "rank %d has %d channels, expected 1..%d", rank,
                record.nChannels, kMaxChannels);
  }
  for (const auto* table : {&record.ringRecv, &record.ringSend, &record.ringPrev, &record.ringNext,
                            &record.treeToParent, &record.treeToChild0, &record.treeToChild1,
                            &record.treeUp, &record.treeDown}) {
    for (int c = 0; c < record.nChannels; c++) {
      const int other = (*table)[c];
      if (other >= -1 && other < nRanks) continue;
      return fail(ncclInvalidArgument, "rank %d names rank %d on channel %d, expected 0..%d", rank,
                  other, c, nRanks - 1);
    }
  }
  return Ok{};
}

Status checkInput(const std::vector<int>& nodeOf, const std::vector<ncclTopoRanks>& all,
                  const ChannelBounds& bounds, int limit) {
  const auto nRanks = static_cast<int>(nodeOf.size());
  if (bounds.min < 1 || bounds.max < bounds.min || bounds.max > limit) {
    return fail(ncclInvalidArgument, "channel bounds %d..%d, expected within 1..%d", bounds.min,
                bounds.max, limit);
  }
  if (all.empty() || all.size() != nodeOf.size()) {
    return fail(ncclInvalidArgument, "%zu records and %d host indices, expected one a rank",
                all.size(), nRanks);
  }
  for (int r = 0; r < nRanks; r++) {
    if (nodeOf[r] < 0 || nodeOf[r] >= nRanks) {
      return fail(ncclInvalidArgument, "rank %d has host index %d, expected 0..%d", r, nodeOf[r],
                  nRanks - 1);
    }
    TRY(checkRecord(r, all[r], nRanks));
  }
  return Ok{};
}

/// Hosts by their place in the order in which rings pass them.
struct HostLine {
  std::vector<int> first;    // [place] the host's first rank
  std::vector<int> placeOf;  // [host index]
};

/// Every host index up to the largest must have a rank, and one place.
Result<HostLine> lineUp(const std::vector<int>& nodeOf, std::vector<int> hostOrder) {
  const int nHosts = *std::max_element(nodeOf.begin(), nodeOf.end()) + 1;
  if (hostOrder.empty()) {
    hostOrder.resize(nHosts);
    std::iota(hostOrder.begin(), hostOrder.end(), 0);
  }
  HostLine line{std::vector<int>(nHosts, -1), std::vector<int>(nHosts, -1)};
  for (int place = 0; place < static_cast<int>(hostOrder.size()); place++) {
    const int host = hostOrder[place];
    if (host < 0 || host >= nHosts || line.placeOf[host] != -1) {
      return fail(ncclInvalidArgument, "the order of hosts has host %d at place %d; there are %d",
                  host, place, nHosts);
    }
    line.placeOf[host] = place;
  }
  const auto unplaced = std::find(line.placeOf.begin(), line.placeOf.end(), -1);
  if (unplaced != line.placeOf.end()) {
    return fail(ncclInvalidArgument, "the order of hosts lacks host %d of %d",
                static_cast<int>(unplaced - line.placeOf.begin()), nHosts);
  }
  for (int r = static_cast<int>(nodeOf.size()) - 1; r >= 0; r--)
    line.first[line.placeOf[nodeOf[r]]] = r;
  const auto empty = std::find(line.first.begin(), line.first.end(), -1);
  if (empty != line.first.end()) {
    return fail(ncclInvalidArgument, "no rank has host index %d of 0..%d",
                hostOrder[empty - line.first.begin()], nHosts - 1);
  }
  return line;
}

/// Where channels alternate between two NICs, every second host swaps each pair, so that traffic
/// stays on one rail.
void alternateRails(const std::vector<int>& nodeOf, const HostLine& line, int nChannels,
                    std::vector<ncclTopoRanks>& all) {
  if (nChannels % 2 != 0) return;
  for (size_t r = 0; r < all.size(); r++) {
    if (all[r].crossNicRing != 2 || line.placeOf[nodeOf[r]] % 2 == 0) continue;
    for (int c = 0; c < nChannels; c += 2) {
      std::swap(all[r].ringRecv[c], all[r].ringRecv[c + 1]);
      std::swap(all[r].ringSend[c], all[r].ringSend[c + 1]);
      std::swap(all[r].ringPrev[c], all[r].ringPrev[c + 1]);
      std::swap(all[r].ringNext[c], all[r].ringNext[c + 1]);
    }
  }
}

/// Which of the searched channels and their first copies (c + nSearched) each channel repeats.
std::vector<int> channelSources(const Merged& merged, int nHosts, const ChannelBounds& bounds) {
  std::vector<int> sources;
  const auto resize = [&sources](int size) {
    const auto period = static_cast<int>(sources.size());
    sources.resize(size);
    for (int c = period; c < size; c++)
      sources[c] = sources[c - period];
  };
  for (int c = 0; c < 2 * merged.nSearched; c++)
    sources.push_back(c);
  constexpr int kManyChannels = 16;
  constexpr float kFastGBps = 45;  // @source NCCL: such hosts need more than two copies a channel
  if (bounds.minSm >= 90 && nHosts > 1 && merged.bwIntra > kFastGBps &&
      2 * merged.nSearched < kManyChannels) {
    resize(4 * merged.nSearched);
  }
  const auto n = static_cast<int>(sources.size());
  if (n > bounds.max) resize(bounds.max);
  if (n < bounds.min) resize(bounds.min);
  return sources;
}

/// The head of each host's part follows the tail of the host before.
void joinRing(const HostLine& line, const std::vector<ncclTopoRanks>& all, int channel,
              std::vector<int>& prev, std::vector<int>& next) {
  for (size_t r = 0; r < all.size(); r++) {
    prev[r] = all[r].ringPrev[channel];
    next[r] = all[r].ringNext[channel];
  }
  const std::vector<int>& first = line.first;
  for (size_t place = 0; place < first.size(); place++) {
    const int tail = all[first[place]].ringSend[channel];
    const int head = all[first[(place + 1) % first.size()]].ringRecv[channel];
    if (tail < 0 || head < 0) continue;  // the ring check will name the gap
    next[tail] = head;
    prev[head] = tail;
  }
}

/// Adds a child on another host.
Status addChild(std::vector<ncclTree>& tree, int parent, int child) {
  if (parent < 0) return fail(ncclInternalError, "no rank has the tree child %d", child);
  const auto free = std::find(tree[parent].down.begin(), tree[parent].down.end(), -1);
  if (free == tree[parent].down.end()) {
    return fail(ncclInternalError, "rank %d has more than %zu tree children: %d, %d, %d and %d",
                parent, tree[parent].down.size(), tree[parent].down[0], tree[parent].down[1],
                tree[parent].down[2], child);
  }
  *free = child;
  return Ok{};
}

/// The hosts' chains hung onto one of the two trees over hosts.
Result<std::vector<ncclTree>> joinTree(const HostLine& line, const std::vector<ncclTopoRanks>& all,
                                       int channel, int which) {
  std::vector<ncclTree> tree(all.size());
  for (size_t r = 0; r < all.size(); r++) {
    tree[r].up = all[r].treeUp[channel];
    tree[r].down[0] = all[r].treeDown[channel];
  }
  const auto nHosts = static_cast<int>(line.first.size());
  for (int place = 0; place < nHosts; place++) {
    const TreePlace host = ncclGetDtree(nHosts, place)[which];
    const ncclTopoRanks& own = all[line.first[place]];
    for (const int slot : {0, 1}) {
      if (host.down[slot] == -1) continue;
      const int parent = slot == 0 ? own.treeToChild0[channel] : own.treeToChild1[channel];
      const int child = all[line.first[host.down[slot]]].treeToParent[channel];
      if (child < 0) return fail(ncclInternalError, "a host below rank %d has no head", parent);
      TRY(addChild(tree, parent, child));
      tree[child].up = parent;
    }
  }
  return tree;
}

/// Fails unless all ranks hang on one root.
Status checkTree(const std::vector<ncclTree>& tree, int channel) {
  std::vector<int> reached;
  for (int r = 0; r < static_cast<int>(tree.size()); r++) {
    if (tree[r].up == -1) reached.push_back(r);
  }
  const size_t nRoots = reached.size();
  for (size_t i = 0; i < reached.size() && reached.size() <= tree.size(); i++) {
    for (const int child : tree[reached[i]].down) {
      if (child == -1) continue;
      if (tree[child].up != reached[i]) {
        return fail(ncclInternalError, "tree %d has rank %d below rank %d and below rank %d",
                    channel, child, reached[i], tree[child].up);
      }
      reached.push_back(child);
    }
  }
  if (nRoots == 1 && reached.size() == tree.size()) return Ok{};
  return fail(ncclInternalError, "tree %d has %zu roots and reaches %zu of %zu ranks", channel,
              nRoots, reached.size(), tree.size());
}

Result<ncclRing> buildRing(int channel, int rank, const std::vector<int>& prev,
                           const std::vector<int>& next) {
  const auto nRanks = static_cast<int>(next.size());
  std::vector<bool> found(nRanks, false);
  ncclRing ring;
  ring.userRanks.reserve(nRanks);
  int current = rank;
  for (int i = 0; i < nRanks && current >= 0; i++) {
    ring.userRanks.push_back(current);
    found[current] = true;
    current = next[current];
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
  ring.prev = prev[rank];
  ring.next = next[rank];
  if (ring.prev != ring.userRanks.back()) {
    return fail(ncclInternalError, "ring %d enters rank %d from rank %d and from rank %d", channel,
                rank, ring.prev, ring.userRanks.back());
  }
  return ring;
}

/// The ring as every rank sees it must be one.
Result<std::vector<int>> ringOfAll(int channel, const std::vector<int>& prev,
                                   const std::vector<int>& next) {
  ncclRing ring = TRY(buildRing(channel, 0, prev, next));
  for (int r = 0; r < static_cast<int>(next.size()); r++) {
    if (prev[next[r]] == r) continue;
    return fail(ncclInternalError, "ring %d enters rank %d from rank %d and from rank %d", channel,
                next[r], prev[next[r]], r);
  }
  return std::move(ring.userRanks);
}

/// What every rank computes alike.
struct Joined {
  Merged merged;
  HostLine line;
  std::vector<int> sources;
  std::vector<ncclTopoRanks> all;
};

Result<Joined> join(const std::vector<int>& nodeOf, std::vector<ncclTopoRanks> all,
                    const ChannelBounds& bounds, const std::vector<int>& hostOrder, int limit) {
  TRY(checkInput(nodeOf, all, bounds, limit));
  Joined joined;
  joined.line = TRY(lineUp(nodeOf, hostOrder));
  joined.merged = mergeGraphs(all);
  alternateRails(nodeOf, joined.line, joined.merged.nSearched, all);
  const auto nHosts = static_cast<int>(joined.line.first.size());
  joined.sources = channelSources(joined.merged, nHosts, bounds);
  joined.all = std::move(all);
  return joined;
}

}  // namespace

std::vector<int> ncclTopoNodesOf(const std::vector<ncclTopoRanks>& all) {
  std::map<int, int> hostOfHead;
  std::vector<int> nodeOf;
  nodeOf.reserve(all.size());
  for (const ncclTopoRanks& record : all) {
    const auto next = static_cast<int>(hostOfHead.size());
    nodeOf.push_back(hostOfHead.emplace(record.ringRecv[0], next).first->second);
  }
  return nodeOf;
}

Result<ncclRings> ncclTopoPostset(int rank, const std::vector<int>& nodeOf,
                                  std::vector<ncclTopoRanks> all, const ChannelBounds& bounds,
                                  const std::vector<int>& hostOrder) {
  if (rank < 0 || rank >= static_cast<int>(nodeOf.size())) {
    return fail(ncclInvalidArgument, "rank %d of %zu", rank, nodeOf.size());
  }
  const Joined joined = TRY(join(nodeOf, std::move(all), bounds, hostOrder, kMaxChannels));
  const int nSearched = joined.merged.nSearched;
  Table prev(joined.sources.size(), std::vector<int>(nodeOf.size()));
  Table next = prev;
  for (size_t c = 0; c < joined.sources.size(); c++)
    joinRing(joined.line, joined.all, joined.sources[c] % nSearched, prev[c], next[c]);
  ncclRings rings;
  rings.nSearched = std::min(nSearched, static_cast<int>(joined.sources.size()));
  rings.bwIntra = joined.merged.bwIntra;
  rings.bwInter = joined.merged.bwInter;
  rings.channels = TRY(ncclBuildRings(rank, prev, next));
  return rings;
}

Result<ncclGlobalChannels> ncclTopoConnect(const std::vector<int>& nodeOf,
                                           std::vector<ncclTopoRanks> all,
                                           const ChannelBounds& bounds,
                                           const std::vector<int>& hostOrder) {
  const Joined joined = TRY(join(nodeOf, std::move(all), bounds, hostOrder, kMaxJoinedChannels));
  const int nSearched = joined.merged.nSearched;
  const auto nHosts = static_cast<unsigned>(joined.line.first.size());
  ncclGlobalChannels channels;
  channels.nSearched = std::min(nSearched, static_cast<int>(joined.sources.size()));
  channels.bwIntra = joined.merged.bwIntra;
  channels.bwInter = joined.merged.bwInter;
  const auto hostDepth = static_cast<int>(std::bit_width(nHosts)) - 1;
  channels.treeDepth = static_cast<int>(nodeOf.size() / nHosts) - 1 + hostDepth;
  for (int c = 0; c < static_cast<int>(joined.sources.size()); c++) {
    const int source = joined.sources[c];
    const auto same = std::find(joined.sources.begin(), joined.sources.begin() + c, source);
    if (const auto known = same - joined.sources.begin(); known < c) {
      channels.rings.push_back(channels.rings[known]);
      channels.trees.push_back(channels.trees[known]);
      continue;
    }
    std::vector<int> prev(nodeOf.size());
    std::vector<int> next(nodeOf.size());
    joinRing(joined.line, joined.all, source % nSearched, prev, next);
    channels.rings.push_back(TRY(ringOfAll(c, prev, next)));
    channels.trees.push_back(
        TRY(joinTree(joined.line, joined.all, source % nSearched, source / nSearched)));
    TRY(checkTree(channels.trees.back(), c));
  }
  return channels;
}

Result<std::vector<ncclRing>> ncclBuildRings(int rank, const Table& prev, const Table& next) {
  std::vector<ncclRing> rings;
  for (size_t c = 0; c < next.size(); c++)
    rings.push_back(TRY(buildRing(static_cast<int>(c), rank, prev[c], next[c])));
  return rings;
}

}  // namespace nccom
