#include "graph/search_bound.h"

#include <algorithm>
#include <bit>

namespace nccom {
namespace {

using Units = SearchModel::Units;
using Edge = SearchModel::Edge;
using Costs = SearchModel::Costs;

constexpr int kMaskBits = 64;  // GPUs up to which essential links are looked for

}  // namespace

bool SearchBound::fits(const Edge& edge, const Costs& costs) const {
  const auto hops = model_.hops(edge);
  return std::all_of(hops.begin(), hops.end(), [&](const SearchModel::Hop& hop) {
    return model_.capacity()[hop.link] >= costs[hop.share];
  });
}

void SearchBound::addGate(Gates& gates, const Edge& edge, bool atStart, const Costs& costs) {
  const int link = atStart ? edge.firstLink : edge.lastLink;
  if (link == -1) {
    gates.isEndless = true;
    return;
  }
  Units cost = costs[0];
  for (const SearchModel::Hop& hop : model_.hops(edge)) {
    if (hop.link == link && hop.share < 2) cost = costs[hop.share];
  }
  const auto known = std::find_if(gates.gates.begin(), gates.gates.end(),
                                  [&](const Gate& gate) { return gate.link == link; });
  if (known == gates.gates.end()) {
    gates.gates.push_back({link, std::max(cost, 1)});
  } else {
    known->cost = std::min(known->cost, std::max(cost, 1));
  }
}

void SearchBound::addEdges() {
  const int n = model_.nGpus();
  for (int a = 0; a < n; a++) {
    for (int b = 0; b < n; b++) {
      const Edge& edge = model_.gpuToGpu(a, b);
      if (a == b || !task_.allowsIntra(edge) || !fits(edge, task_.intra)) continue;
      note(static_cast<uint64_t>(a) << 32 | static_cast<uint64_t>(b));
      if (n <= kMaskBits) next_[a] |= uint64_t{1} << b;
      addGate(out_[a], edge, true, task_.intra);
      addGate(in_[b], edge, false, task_.intra);
    }
  }
}

void SearchBound::addNetEdges(const std::vector<Units>& netUnits) {
  const bool endsAtNet = !task_.isTree();
  for (int net = 0; net < model_.nNets(); net++) {
    if (netUnits[net] < task_.netCost) continue;
    for (int gpu = 0; gpu < model_.nGpus(); gpu++) {
      const Edge& from = model_.netToGpu(net, gpu);
      if (task_.allowsInter(from) && fits(from, task_.inter)) {
        note(static_cast<uint64_t>(1 << 20 | net << 10 | gpu));
        addGate(in_[gpu], from, false, task_.inter);
      }
      const Edge& to = model_.gpuToNet(gpu, net);
      if (task_.allowsInter(to) && fits(to, task_.toNet)) {
        note(static_cast<uint64_t>(1 << 21 | net << 10 | gpu));
        if (endsAtNet) addGate(out_[gpu], to, true, task_.inter);
      }
    }
  }
}

uint64_t SearchBound::reach(const std::vector<uint64_t>& neighbours, int from) const {
  uint64_t seen = uint64_t{1} << from;
  uint64_t open = seen;
  while (open != 0) {
    const int gpu = std::countr_zero(open);
    open &= open - 1;
    open |= neighbours[gpu] & ~seen;
    seen |= neighbours[gpu];
  }
  return seen;
}

/// Whether one channel can be hoped to visit all GPUs.
bool SearchBound::spans(const std::vector<uint64_t>& neighbours) const {
  const int n = model_.nGpus();
  const uint64_t all = n == kMaskBits ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
  uint64_t entered = 0;
  int nDeadEnds = 0;
  for (int g = 0; g < n; g++) {
    entered |= neighbours[g];
    nDeadEnds += neighbours[g] == 0 ? 1 : 0;
  }
  const bool closes = !task_.isTree() && !task_.hasNets;
  const int nMayMiss = closes ? 0 : 1;
  if (nDeadEnds > nMayMiss || n - std::popcount(entered) > nMayMiss) return false;
  if (closes) {
    for (int g = 0; g < n; g++) {
      if (reach(neighbours, g) != all) return false;
    }
    return true;
  }
  for (int g = 0; g < n; g++) {
    if (reach(neighbours, g) == all) return true;
  }
  return false;
}

/// Links between GPUs that would lower the bound.
std::vector<SearchBound::Gate> SearchBound::narrowLinks() const {
  const int n = model_.nGpus();
  std::vector<Gate> narrow;
  for (int a = 0; a < n; a++) {
    for (int b = 0; b < n; b++) {
      if ((next_[a] >> b & 1) == 0) continue;
      for (const SearchModel::Hop& hop : model_.hops(model_.gpuToGpu(a, b))) {
        const Units cost = std::max(task_.intra[hop.share], 1);
        if (model_.capacity()[hop.link] / cost >= atMost_) continue;
        const auto known = std::find_if(narrow.begin(), narrow.end(),
                                        [&](const Gate& gate) { return gate.link == hop.link; });
        if (known == narrow.end()) {
          narrow.push_back({hop.link, cost});
        } else {
          known->cost = std::min(known->cost, cost);
        }
      }
    }
  }
  return narrow;
}

/// Whether the GPUs fall apart without a link.
bool SearchBound::isEssential(int link) const {
  const int n = model_.nGpus();
  std::vector<uint64_t> without = next_;
  for (int a = 0; a < n; a++) {
    for (int b = 0; b < n; b++) {
      if ((next_[a] >> b & 1) == 0) continue;
      const auto hops = model_.hops(model_.gpuToGpu(a, b));
      const bool uses = std::any_of(hops.begin(), hops.end(),
                                    [&](const SearchModel::Hop& hop) { return hop.link == link; });
      if (uses) without[a] &= ~(uint64_t{1} << b);
    }
  }
  return !spans(without);
}

/// Every channel uses each essential link.
void SearchBound::addEssentials() {
  if (model_.nGpus() > kMaskBits || model_.nGpus() < 2) return;
  if (!spans(next_)) {
    atMost_ = 0;
    boundingLink_ = -1;
    return;
  }
  for (const Gate& gate : narrowLinks()) {
    if (!isEssential(gate.link)) continue;
    essentials_.push_back(gate);
    const int most = model_.capacity()[gate.link] / gate.cost;
    if (most >= atMost_) continue;
    atMost_ = most;
    boundingLink_ = gate.link;
  }
}

void SearchBound::prepare(const PackTask& task, const std::vector<Units>& netUnits) {
  task_ = task;
  const auto nGpus = static_cast<size_t>(model_.nGpus());
  next_.assign(nGpus, 0);
  out_.assign(nGpus, {});
  in_.assign(nGpus, {});
  essentials_.clear();
  netIn_ = netOut_ = {};
  fingerprint_ = 0;
  boundingLink_ = -1;
  addEdges();
  if (task.hasNets) {
    addNetEdges(netUnits);
    netIn_ = netSide(true, netUnits);
    netOut_ = netSide(false, netUnits);
  }
  atMost_ = kMany;
  atMost_ = atMost(model_.capacity(), netUnits, 0);
  findBoundingLink();
  if (atMost_ > 0) addEssentials();
}

/// A link around the GPU that bounds, else one that NICs share.
void SearchBound::findBoundingLink() {
  for (const std::vector<Gates>* side : {&in_, &out_}) {
    for (const Gates& gates : *side) {
      if (gates.gates.empty() || through(gates, model_.capacity()) > atMost_) continue;
      boundingLink_ = gates.gates.front().link;
      return;
    }
  }
  for (const NetSide* side : {&netIn_, &netOut_}) {
    for (const NetCut& cut : side->cuts) {
      if (cut.gate.link == -1 || model_.capacity()[cut.gate.link] / cut.gate.cost > atMost_)
        continue;
      boundingLink_ = cut.gate.link;
      return;
    }
  }
}

int SearchBound::through(const Gates& gates, const std::vector<Units>& capacity) {
  if (gates.isEndless) return kMany;
  int sum = 0;
  for (const Gate& gate : gates.gates)
    sum += capacity[gate.link] / gate.cost;
  return sum;
}

/// @param mayEnd  each channel has one GPU without such a neighbour
int SearchBound::throughAll(const std::vector<Gates>& gates, const std::vector<Units>& capacity,
                            int limit, bool mayEnd) const {
  const int n = model_.nGpus();
  if (!mayEnd) {
    for (const Gates& gate : gates)
      limit = std::min(limit, through(gate, capacity));
    return limit;
  }
  if (n < 2) return limit;
  for (; limit > 0; limit--) {
    int sum = 0;
    for (const Gates& gate : gates)
      sum += std::min(limit, through(gate, capacity));
    if (sum >= limit * (n - 1)) break;
    limit = std::min(limit, sum / (n - 1) + 1);
  }
  return limit;
}

/// Keeps cuts in order of size, without those that cross another.
void SearchBound::NetSide::add(NetCut cut) {
  const auto crosses = [&](const NetCut& other) {
    size_t nShared = 0;
    for (const int net : cut.nets)
      nShared += std::count(other.nets.begin(), other.nets.end(), net) > 0 ? 1 : 0;
    return nShared != 0 && nShared != std::min(cut.nets.size(), other.nets.size());
  };
  if (cut.nets.empty() || std::any_of(cuts.begin(), cuts.end(), crosses)) return;
  const auto place = std::upper_bound(
      cuts.begin(), cuts.end(), cut,
      [](const NetCut& a, const NetCut& b) { return a.nets.size() < b.nets.size(); });
  cuts.insert(place, std::move(cut));
}

/// Links that all ways from a NET (or to it) use.
std::vector<SearchBound::Gate> SearchBound::commonGates(int net, bool isIn, bool* hasWay) const {
  std::vector<Gate> common;
  *hasWay = false;
  for (int gpu = 0; gpu < model_.nGpus(); gpu++) {
    const Edge& edge = isIn ? model_.netToGpu(net, gpu) : model_.gpuToNet(gpu, net);
    if (!task_.allowsInter(edge) || !fits(edge, isIn ? task_.inter : task_.toNet)) continue;
    std::vector<Gate> own;
    for (const SearchModel::Hop& hop : model_.hops(edge)) {
      // A balanced tree pays half a bandwidth twice: a gate counts whole channels.
      if (hop.share < 2) own.push_back({hop.link, std::max(task_.inter[hop.share], 1)});
    }
    if (!*hasWay) common = own;
    *hasWay = true;
    std::erase_if(common, [&](Gate& gate) {
      const auto same = std::find_if(own.begin(), own.end(),
                                     [&](const Gate& other) { return other.link == gate.link; });
      if (same != own.end()) gate.cost = std::min(gate.cost, same->cost);
      return same == own.end();
    });
  }
  return common;
}

SearchBound::NetSide SearchBound::netSide(bool isIn, const std::vector<Units>& netUnits) const {
  const auto nNets = static_cast<size_t>(model_.nNets());
  NetSide side;
  side.hasWay.assign(nNets, 0);
  std::vector<NetCut> ports(nNets);
  std::vector<NetCut> links;
  for (int net = 0; net < model_.nNets(); net++) {
    if (netUnits[net] < task_.netCost) continue;
    bool hasWay = false;
    const std::vector<Gate> gates = commonGates(net, isIn, &hasWay);
    if (!hasWay) continue;
    side.hasWay[net] = 1;
    ports[model_.portOf(net)].nets.push_back(net);
    for (const Gate& gate : gates) {
      const auto known = std::find_if(links.begin(), links.end(), [&](const NetCut& cut) {
        return cut.gate.link == gate.link;
      });
      if (known == links.end()) {
        links.push_back({gate, {net}});
      } else {
        known->nets.push_back(net);
        known->gate.cost = std::min(known->gate.cost, gate.cost);
      }
    }
  }
  for (NetCut& port : ports) {
    if (isIn && task_.netCost > 0) side.add({{-1, task_.netCost}, std::move(port.nets)});
  }
  for (NetCut& link : links)
    side.add(std::move(link));
  return side;
}

int SearchBound::throughNets(const NetSide& side, const std::vector<Units>& capacity,
                             const std::vector<Units>& netUnits) const {
  netShare_.resize(side.hasWay.size());
  for (size_t net = 0; net < side.hasWay.size(); net++)
    netShare_[net] = side.hasWay[net] != 0 ? kMany : 0;
  for (const NetCut& cut : side.cuts) {
    Units left = cut.gate.link == -1 ? 0 : capacity[cut.gate.link];
    if (cut.gate.link == -1) {
      for (const int net : cut.nets)
        left = std::max(left, netUnits[net]);
    }
    int surplus = -(left / cut.gate.cost);
    for (const int net : cut.nets)
      surplus += netShare_[net];
    for (const int net : cut.nets) {
      if (surplus <= 0) break;
      const int less = std::min(surplus, netShare_[net]);
      netShare_[net] -= less;
      surplus -= less;
    }
  }
  int sum = 0;
  for (const int share : netShare_)
    sum += share;
  return sum;
}

int SearchBound::atMost(const std::vector<Units>& capacity, const std::vector<Units>& netUnits,
                        int enough) const {
  int most = kMany;
  for (const Gate& gate : essentials_)
    most = std::min(most, capacity[gate.link] / gate.cost);
  if (most < enough) return most;
  if (task_.hasNets) {
    most = std::min(
        {most, throughNets(netIn_, capacity, netUnits), throughNets(netOut_, capacity, netUnits)});
  }
  if (most < enough || (model_.nGpus() == 1 && !task_.hasNets)) return most;
  // Where nets end a ring, every GPU has a neighbour before and after; a tree ends somewhere.
  most = throughAll(in_, capacity, most, task_.isTree() && !task_.hasNets);
  if (most < enough) return most;
  return throughAll(out_, capacity, most, task_.isTree());
}

}  // namespace nccom
