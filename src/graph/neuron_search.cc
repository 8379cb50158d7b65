#include "graph/neuron_search.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "misc/check.h"

namespace nccom {
namespace {

constexpr int kUnreachableHops = 64;  // a leg that no links can carry: more than any way has

/// Two-colours the graph of links. Null colour sums: some component has an odd cycle.
struct Colouring {
  int components = 0;
  bool bipartite = true;
  int imbalance = 0;  // nodes of one colour beyond those of the other, over all components
};

Colouring colour(const std::vector<NeuronNode>& nodes) {
  Colouring result;
  std::vector<int> colours(nodes.size(), -1);
  for (int first = 0; first < static_cast<int>(nodes.size()); first++) {
    if (colours[first] != -1) continue;
    result.components++;
    colours[first] = 0;
    int balance = 0;
    std::vector<int> queue = {first};
    for (size_t i = 0; i < queue.size(); i++) {
      const int node = queue[i];
      balance += colours[node] == 0 ? 1 : -1;
      for (const NeuronSearchEdge& edge : nodes[node].edges.remote) {
        if (colours[edge.target] == colours[node]) result.bipartite = false;
        if (colours[edge.target] != -1) continue;
        colours[edge.target] = 1 - colours[node];
        queue.push_back(edge.target);
      }
    }
    result.imbalance += std::abs(balance);
  }
  return result;
}

}  // namespace

int turnCost(const NeuronPlatform& platform, TurnRule rule, uint8_t inSengs, uint8_t outSengs) {
  if (inSengs == 0 || outSengs == 0) return 0;
  const int sengs = platform.sengsPerDevice();
  const int opposite = platform.sengsPerDie;  // the same place on the other die: XOR with this
  int best = -1;
  for (int in = 0; in < sengs; in++) {
    for (int out = 0; out < sengs; out++) {
      if ((inSengs >> in & 1) == 0 || (outSengs >> out & 1) == 0) continue;
      const bool sameDie = in / platform.sengsPerDie == out / platform.sengsPerDie;
      int cost = 0;
      switch (rule) {
        case TurnRule::Ring:
          cost = (sameDie || (in ^ opposite) == out) ? 0 : 1;
          break;
        case TurnRule::Kangaring:
          if (sengs > platform.sengsPerDie && sameDie) cost = 4;
          if (!sameDie && (in ^ opposite) != out) cost = 1;
          break;
      }
      if (best == -1 || cost < best) best = cost;
    }
  }
  return std::max(best, 0);
}

std::vector<int> shortestWay(const NeuronFabric& fabric, int from, int to,
                             const std::vector<bool>& allowed) {
  std::vector<int> cameFrom(fabric.devices.size(), -1);
  cameFrom[from] = from;
  std::vector<int> queue = {from};
  for (size_t i = 0; i < queue.size() && cameFrom[to] == -1; i++) {
    for (const FabricLink& link : fabric.linksFrom(queue[i])) {
      if (cameFrom[link.to] != -1) continue;
      if (link.to != to && !allowed.empty() && !allowed[link.to]) continue;
      cameFrom[link.to] = queue[i];
      queue.push_back(link.to);
    }
  }
  std::vector<int> way;
  if (cameFrom[to] == -1) return way;
  for (int device = to; device != from; device = cameFrom[device])
    way.push_back(device);
  way.push_back(from);
  std::reverse(way.begin(), way.end());
  return way;
}

std::vector<NeuronNode> constructNodes(const NeuronFabric& fabric,
                                       const std::vector<int>& devices) {
  std::vector<int> nodeOf(fabric.devices.size(), -1);
  for (size_t i = 0; i < devices.size(); i++)
    nodeOf[devices[i]] = static_cast<int>(i);
  std::vector<NeuronNode> nodes(devices.size());
  for (size_t i = 0; i < devices.size(); i++) {
    NeuronNode& node = nodes[i];
    node.device = devices[i];
    std::vector<NeuronSearchEdge>& remote = node.edges.remote;
    for (const FabricLink& link : fabric.linksFrom(devices[i])) {
      if (nodeOf[link.to] == -1) continue;
      NeuronSearchEdge edge;
      edge.target = nodeOf[link.to];
      edge.link = static_cast<int>(&link - fabric.links.data());
      edge.switched = link.group >= 0;
      edge.outSengs = link.fromSengs;
      edge.inSengs = link.toSengs;
      remote.push_back(edge);
    }
    // Breadth first over the whole fabric: how far the rest is.
    std::vector<int> hops(fabric.devices.size(), -1);
    hops[devices[i]] = 0;
    std::vector<int> queue = {devices[i]};
    for (size_t k = 0; k < queue.size(); k++) {
      for (const FabricLink& link : fabric.linksFrom(queue[k])) {
        if (hops[link.to] != -1) continue;
        hops[link.to] = hops[queue[k]] + 1;
        queue.push_back(link.to);
      }
    }
    for (size_t other = 0; other < devices.size(); other++) {
      const int n = hops[devices[other]];
      if (n == 0 || n == 1) continue;
      NeuronSearchEdge edge;
      edge.target = static_cast<int>(other);
      edge.extraHops = n == -1 ? kUnreachableHops : n - 1;
      node.edges.far.push_back(edge);
    }
  }
  return nodes;
}

NeuronSearch::NeuronSearch(const NeuronFabric& fabric, const std::vector<int>& devices)
    : fabric_(fabric),
      nodes_(constructNodes(fabric, devices)),
      price_(fabric.links.size(), 0),
      visited_(devices.size(), false) {
  NCCL_CHECK(!devices.empty());
}

void NeuronSearch::setRequest(const NeuronSearchRequest& request) {
  request_ = request;
  constexpr size_t kSets = 1U << kMaxSengsPerDevice;  // of engine groups
  turnCosts_.resize(kSets * kSets);
  for (size_t in = 0; in < kSets; in++) {
    for (size_t out = 0; out < kSets; out++) {
      turnCosts_[in << kMaxSengsPerDevice | out] = turnCost(
          *fabric_.platform, request.rule, static_cast<uint8_t>(in), static_cast<uint8_t>(out));
    }
  }
}

int NeuronSearch::maxDisjoint() const {
  if (nodes_.size() < 3) return 1;
  size_t fewest = nodes_[0].edges.remote.size();
  for (const NeuronNode& node : nodes_)
    fewest = std::min(fewest, node.edges.remote.size());
  return static_cast<int>(fewest / 2);
}

int NeuronSearch::edgePrice(const NeuronSearchEdge& edge) const {
  return edge.link == -1 ? 0 : price_[edge.link];
}

bool NeuronSearch::hasRoomFor(const NeuronSearchEdge& edge) const {
  return edge.extraHops <= extraHopsLeft_ && edgePrice(edge) <= request_.priceCeiling;
}

bool NeuronSearch::tryIncreasePrice(const NeuronSearchEdge& edge) {
  if (!hasRoomFor(edge)) return false;
  extraHopsLeft_ -= edge.extraHops;
  if (edge.link != -1) price_[edge.link]++;
  return true;
}

void NeuronSearch::decreasePrice(const NeuronSearchEdge& edge) {
  extraHopsLeft_ += edge.extraHops;
  if (edge.link != -1) price_[edge.link]--;
}

int NeuronSearch::turnAt(const NeuronSearchEdge& in, const NeuronSearchEdge& out) const {
  return turnCosts_[in.inSengs << kMaxSengsPerDevice | out.outSengs];
}

const NeuronSearchEdge* NeuronSearch::edgeTo(int node, int target) const {
  for (const auto* edges : {&nodes_[node].edges.remote, &nodes_[node].edges.far}) {
    const auto found = std::lower_bound(
        edges->begin(), edges->end(), target,
        [](const NeuronSearchEdge& edge, int wanted) { return edge.target < wanted; });
    if (found != edges->end() && found->target == target) return &*found;
  }
  return nullptr;
}

void NeuronSearch::orderEdges(int node, std::vector<NeuronSearchEdge>& out) const {
  const NeuronNode::EdgeSet& edges = nodes_[node].edges;
  out = edges.remote;
  if (extraHopsLeft_ > 0) out.insert(out.end(), edges.far.begin(), edges.far.end());
  const NeuronSearchEdge* in = path_.size() > 1 ? &path_.back().edge : nullptr;
  std::erase_if(out, [this](const NeuronSearchEdge& edge) {
    return isClosingCycle(edge.target) || !hasRoomFor(edge);
  });
  const auto key = [&](const NeuronSearchEdge& edge) {
    return std::tuple(edge.extraHops, edge.locality, edgePrice(edge), edge.switched,
                      in == nullptr ? 0 : turnAt(*in, edge), edge.target);
  };
  std::sort(out.begin(), out.end(), [&key](const NeuronSearchEdge& a, const NeuronSearchEdge& b) {
    return key(a) < key(b);
  });
}

int NeuronSearch::openUses(int node) const {
  int n = 0;
  for (const NeuronSearchEdge& edge : nodes_[node].edges.remote) {
    const int other = edge.target;
    const bool isOpen = !visited_[other] || other == path_.back().node || other == path_[0].node;
    if (isOpen && hasRoomFor(edge)) n++;
  }
  return n;
}

/// Whether, now that the path has moved on from node `left`, a device around it can no longer be
/// passed through, or the start no longer be reached. Decides nothing where legs may be long.
bool NeuronSearch::isDeadEnd(int left) const {
  if (extraHopsLeft_ > 0 || !request_.closed || path_.size() == nodes_.size()) return false;
  const auto isStuck = [this](int node) { return !visited_[node] && openUses(node) < 2; };
  for (const NeuronSearchEdge& edge : nodes_[left].edges.remote) {
    if (isStuck(edge.target)) return true;
  }
  for (const NeuronSearchEdge& edge : nodes_[path_[0].node].edges.remote) {
    if (!visited_[edge.target] && hasRoomFor(edge)) return false;
  }
  return true;
}

bool NeuronSearch::isDone() const {
  if (stepsLeft_ <= 0) return true;
  return static_cast<int>(best_.size()) == request_.maxTours && bestTurns_ == 0;
}

void NeuronSearch::findPathRec() {
  if (path_.size() == nodes_.size()) {
    if (!request_.closed || nodes_.size() == 1) return finishTour(nullptr);
    const NeuronSearchEdge* closing = edgeTo(path_.back().node, path_[0].node);
    if (closing != nullptr && hasRoomFor(*closing)) finishTour(closing);
    return;
  }
  std::vector<NeuronSearchEdge> edges;
  orderEdges(path_.back().node, edges);
  for (const NeuronSearchEdge& edge : edges) {
    stepsLeft_--;
    if (isDone()) return;
    const int turn = path_.size() > 1 ? turnAt(path_.back().edge, edge) : 0;
    const bool isBounded = static_cast<int>(best_.size()) == request_.maxTours;
    if (isBounded && currentTurns_ + turns_ + turn >= bestTurns_) continue;
    if (!tryIncreasePrice(edge)) continue;
    const int left = path_.back().node;
    visited_[edge.target] = true;
    turns_ += turn;
    path_.push_back({edge.target, edge});
    if (!isDeadEnd(left)) findPathRec();
    path_.pop_back();
    turns_ -= turn;
    visited_[edge.target] = false;
    decreasePrice(edge);
  }
}

/// Records the path as a tour; then looks for further tours beside it.
void NeuronSearch::finishTour(const NeuronSearchEdge* closing) {
  NeuronTour tour;
  tour.closed = request_.closed;
  tour.turnCost = turns_;
  for (const Leg& leg : path_) {
    tour.devices.push_back(nodes_[leg.node].device);
    tour.extraHops += leg.edge.extraHops;
  }
  if (closing != nullptr) {
    tour.extraHops += closing->extraHops;
    tour.turnCost += turnAt(path_.back().edge, *closing) + turnAt(*closing, path_[1].edge);
  }
  // The path holds its links already, one way.
  for (const Leg& leg : path_)
    if (leg.edge.link != -1) price_[leg.edge.link]--;
  changePrices(tour, 1);
  current_.push_back(tour);
  currentTurns_ += tour.turnCost;
  const bool isBetter = current_.size() > best_.size() ||
                        (current_.size() == best_.size() && currentTurns_ < bestTurns_);
  if (isBetter) {
    best_ = current_;
    bestTurns_ = currentTurns_;
  }
  if (static_cast<int>(current_.size()) < request_.maxTours && !isDone()) {
    const std::vector<Leg> path = std::exchange(path_, {});
    const std::vector<bool> visited =
        std::exchange(visited_, std::vector<bool>(nodes_.size(), false));
    const int turns = std::exchange(turns_, 0);
    searchLevel();
    path_ = path;
    visited_ = visited;
    turns_ = turns;
  }
  currentTurns_ -= tour.turnCost;
  current_.pop_back();
  changePrices(tour, -1);
  for (const Leg& leg : path_)
    if (leg.edge.link != -1) price_[leg.edge.link]++;
}

void NeuronSearch::changePrices(const NeuronTour& tour, int by) {
  const size_t n = tour.devices.size();
  for (size_t i = 0; i < n && n > 1; i++) {
    if (i + 1 == n && !tour.closed) break;
    const int from = tour.devices[i];
    const int to = tour.devices[(i + 1) % n];
    for (const auto& [a, b] : {std::pair(from, to), std::pair(to, from)}) {
      const FabricLink* link = fabric_.link(a, b);
      if (link != nullptr) price_[link - fabric_.links.data()] += by;
    }
  }
}

void NeuronSearch::searchLevel() {
  const int nStarts = request_.closed ? 1 : static_cast<int>(nodes_.size());
  for (int start = 0; start < nStarts && !isDone(); start++) {
    visited_[start] = true;
    path_.assign(1, {start, {}});
    findPathRec();
    path_.clear();
    visited_[start] = false;
  }
}

std::vector<NeuronTour> NeuronSearch::findPaths(const NeuronSearchRequest& request) {
  setRequest(request);
  extraHopsLeft_ = 0;
  stepsLeft_ = request.steps;
  best_.clear();
  bestTurns_ = 0;
  if (fewestExtraHops() == 0) searchLevel();
  for (const NeuronTour& tour : best_)
    changePrices(tour, 1);
  return best_;
}

/// Every leg of a closed tour joins two colours of a two-colourable graph, and two components
/// are joined by long legs only.
int NeuronSearch::fewestExtraHops() const {
  if (nodes_.size() == 1) return 0;
  const Colouring colouring = colour(nodes_);
  int fewest = colouring.components > 1 ? colouring.components : 0;
  if (colouring.bipartite) fewest = std::max(fewest, colouring.imbalance);
  return request_.closed ? fewest : std::max(0, fewest - 1);
}

NeuronTour NeuronSearch::findCheapest(const NeuronSearchRequest& request) {
  constexpr int kRounds = 6;
  setRequest(request);
  request_.maxTours = 1;
  request_.priceCeiling = std::numeric_limits<int>::max();
  const int fewest = fewestExtraHops();
  const int unlimited = kUnreachableHops * (static_cast<int>(nodes_.size()) + 1);
  for (int round = 0; round <= kRounds; round++) {
    extraHopsLeft_ = round < kRounds ? fewest + round : unlimited;
    // The last round takes the nearest device each time: no step is ever undone.
    stepsLeft_ =
        round < kRounds ? request.steps / (2 * kRounds) : 4 * static_cast<int>(nodes_.size()) + 4;
    best_.clear();
    bestTurns_ = 0;
    searchLevel();
    if (!best_.empty()) break;
  }
  NCCL_CHECK(!best_.empty());
  NeuronTour tour = best_[0];
  if (tour.extraHops > fewest) improve(tour);
  changePrices(tour, 1);
  return tour;
}

int NeuronSearch::extraHopsBetween(int deviceNode, int otherNode) const {
  return edgeTo(deviceNode, otherNode)->extraHops;
}

/// Turns parts of the tour round as long as that saves hops.
void NeuronSearch::improve(NeuronTour& tour) const {
  std::vector<int> order;
  for (const int device : tour.devices) {
    const auto node = std::find_if(nodes_.begin(), nodes_.end(), [device](const NeuronNode& other) {
      return other.device == device;
    });
    order.push_back(static_cast<int>(node - nodes_.begin()));
  }
  const auto n = static_cast<int>(order.size());
  const auto cost = [&](int from, int to) {
    if (!tour.closed && (from < 0 || to >= n)) return 0;
    return extraHopsBetween(order[(from + n) % n], order[to % n]);
  };
  bool improved = n > 3;
  while (improved) {
    improved = false;
    for (int first = 0; first < n - 1; first++) {
      for (int last = first + 1; last < n; last++) {
        if (last - first == n - 1) continue;
        const int before = cost(first - 1, first) + cost(last, last + 1);
        const bool isHead = !tour.closed && first == 0;
        const bool isTail = !tour.closed && last == n - 1;
        const int after = (isHead ? 0 : extraHopsBetween(order[(first - 1 + n) % n], order[last])) +
                          (isTail ? 0 : extraHopsBetween(order[first], order[(last + 1) % n]));
        if (after >= before) continue;
        std::reverse(order.begin() + first, order.begin() + last + 1);
        tour.extraHops += after - before;
        improved = true;
      }
    }
  }
  for (int i = 0; i < n; i++)
    tour.devices[i] = nodes_[order[i]].device;
}

void foldTour(const NeuronFabric& fabric, NeuronTour& tour, std::vector<int> spare) {
  std::vector<bool> allowed(spare.size());
  std::vector<int> folded;
  tour.extraHops = 0;
  const size_t n = tour.devices.size();
  for (size_t i = 0; i < n; i++) {
    const int from = tour.devices[i];
    folded.push_back(from);
    if (n == 1 || (i + 1 == n && !tour.closed)) break;
    const int to = tour.devices[(i + 1) % n];
    if (fabric.link(from, to) != nullptr) continue;
    for (size_t device = 0; device < spare.size(); device++)
      allowed[device] = spare[device] > 0;
    std::vector<int> way = shortestWay(fabric, from, to, allowed);
    if (way.empty()) {
      way = shortestWay(fabric, from, to);
      tour.extraHops += way.empty() ? kUnreachableHops : static_cast<int>(way.size()) - 2;
      continue;
    }
    for (size_t k = 1; k + 1 < way.size(); k++) {
      folded.push_back(way[k]);
      spare[way[k]]--;
    }
  }
  tour.devices = std::move(folded);
}

}  // namespace nccom
