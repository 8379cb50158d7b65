#include "graph/neuron_cores.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <tuple>

#include "graph/topo.h"
#include "misc/check.h"

namespace nccom {
namespace {

constexpr int kNever = 1 << 20;
constexpr int kPriceScale = 256;  // prices decide between steps of one kind only

/// What a step within a device costs, so that a path through one prefers what is near. A core that
/// does not drive the port it should use costs more than any step.
int stepCost(EdgeLocality locality) {
  switch (locality) {
    case EdgeLocality::SharedMemory:
      return 0;
    case EdgeLocality::D2d:
    case EdgeLocality::Rmtv:
      return 2 * kPriceScale;
    case EdgeLocality::RemoteMla:
    case EdgeLocality::Local:
      break;
  }
  return 5 * kPriceScale;
}

EdgeLocality sengLocality(const NeuronPlatform& platform, int a, int b) {
  if (a == b) return EdgeLocality::SharedMemory;
  if (a / platform.sengsPerDie == b / platform.sengsPerDie) return EdgeLocality::Rmtv;
  return (a ^ platform.sengsPerDie) == b ? EdgeLocality::D2d : EdgeLocality::Local;
}

int portCost(const NeuronPlatform& platform, uint8_t sengs, int seng) {
  if (sengs == 0 || (sengs >> seng & 1) != 0) return 0;
  int best = kNever;
  for (int other = 0; other < platform.sengsPerDevice(); other++) {
    if ((sengs >> other & 1) == 0) continue;
    best = std::min(best, kPriceScale + stepCost(sengLocality(platform, seng, other)));
  }
  return best;
}

struct Visit {
  int place = 0;         // in the tour
  uint8_t inSengs = 0;   // engine groups that drive the port it comes in by; 0: any
  uint8_t outSengs = 0;  // and goes out by
};

/// Shares the cores of one device out over its visits: the cheapest of all orders, by dynamic
/// programming over (visit, cores used, last core).
class DeviceOrder {
 public:
  DeviceOrder(const NeuronFabric& fabric, const std::vector<int>& cores,
              const std::vector<Visit>& visits, const NeuronStepPrices& prices)
      : fabric_(fabric),
        cores_(cores),
        visits_(visits),
        nCores_(static_cast<int>(cores.size())),
        steps_(cores.size() * cores.size()) {
    for (int from = 0; from < nCores_; from++) {
      for (int to = 0; to < nCores_; to++) {
        const auto price = prices.find({cores[from], cores[to]});
        steps_[from * nCores_ + to] = stepCost(coreLocality(fabric, cores[from], cores[to])) +
                                      (price == prices.end() ? 0 : price->second);
      }
    }
    NCCL_CHECK(nCores_ <= kMaxCoresPerDevice && visits.size() <= cores.size());
    states_.assign((visits.size() * cores.size()) << nCores_, {});
  }

  /// Cores of each visit.
  std::vector<std::vector<int>> find() {
    for (int core = 0; core < nCores_; core++)
      reach(0, 1 << core, core, entry(0, core), -1, -1);
    for (int visit = 0; visit < nVisits(); visit++) {
      for (int mask = 1; mask < 1 << nCores_; mask++) {
        for (int last = 0; last < nCores_; last++)
          extend(visit, mask, last);
      }
    }
    return unwind();
  }

 private:
  struct State {
    int cost = kNever;
    int8_t fromVisit = -1;
    int8_t fromLast = -1;
  };

  int nVisits() const { return static_cast<int>(visits_.size()); }
  int seng(int core) const { return fabric_.cores[cores_[core]].seng; }
  int entry(int visit, int core) const {
    return portCost(*fabric_.platform, visits_[visit].inSengs, seng(core));
  }
  int leave(int visit, int core) const {
    return portCost(*fabric_.platform, visits_[visit].outSengs, seng(core));
  }
  State& at(int visit, int mask, int last) {
    return states_[((static_cast<size_t>(visit) << nCores_) + mask) * nCores_ + last];
  }

  void reach(int visit, int mask, int last, int cost, int fromVisit, int fromLast) {
    State& state = at(visit, mask, last);
    if (cost >= state.cost) return;
    state = {cost, static_cast<int8_t>(fromVisit), static_cast<int8_t>(fromLast)};
  }

  void extend(int visit, int mask, int last) {
    const int cost = at(visit, mask, last).cost;
    if (cost >= kNever) return;
    for (int next = 0; next < nCores_; next++) {
      if ((mask >> next & 1) != 0) continue;
      const int step = steps_[last * nCores_ + next];
      reach(visit, mask | 1 << next, next, cost + step, visit, last);
      if (visit + 1 == nVisits()) continue;
      reach(visit + 1, mask | 1 << next, next, cost + leave(visit, last) + entry(visit + 1, next),
            visit, last);
    }
  }

  std::vector<std::vector<int>> unwind() {
    const int all = (1 << nCores_) - 1;
    int visit = nVisits() - 1;
    int last = 0;
    for (int core = 1; core < nCores_; core++) {
      const auto total = [&](int c) { return at(visit, all, c).cost + leave(visit, c); };
      if (total(core) < total(last)) last = core;
    }
    std::vector<std::vector<int>> order(visits_.size());
    for (int mask = all; mask != 0;) {
      order[visit].insert(order[visit].begin(), cores_[last]);
      const State state = at(visit, mask, last);
      mask &= ~(1 << last);
      visit = static_cast<int>(state.fromVisit);
      last = static_cast<int>(state.fromLast);
    }
    return order;
  }

  const NeuronFabric& fabric_;
  const std::vector<int>& cores_;
  const std::vector<Visit>& visits_;
  const int nCores_;
  std::vector<int> steps_;  // cost of [from][to]
  std::vector<State> states_;
};

/// Engine groups at the ports between the places of a tour.
std::vector<Visit> portsOf(const NeuronFabric& fabric, const NeuronTour& tour) {
  const size_t n = tour.devices.size();
  std::vector<Visit> visits(n);
  for (size_t i = 0; i < n; i++) {
    visits[i].place = static_cast<int>(i);
    if (n == 1 || (i + 1 == n && !tour.closed)) continue;
    const FabricLink* link = fabric.link(tour.devices[i], tour.devices[(i + 1) % n]);
    if (link == nullptr) continue;
    visits[i].outSengs = link->fromSengs;
    visits[(i + 1) % n].inSengs = link->toSengs;
  }
  return visits;
}

/// What channels share: (kind, number, number), so that equal keys are the same resource.
using Resource = std::tuple<int, int, int>;

void addLoad(const NeuronFabric& fabric, const NeuronHop& hop,
             std::map<Resource, std::pair<int, float>>& load) {
  const auto use = [&load](const Resource& resource, float gbps) {
    auto& entry = load.try_emplace(resource, 0, gbps).first->second;
    entry.first++;
  };
  for (const int index : hop.links) {
    const FabricLink& link = fabric.links[index];
    if (link.group == -1) {
      use({0, index, 0}, link.bwGBps);
    } else {
      use({1, link.from, link.fromPort}, link.bwGBps);
      use({2, link.to, link.toPort}, link.bwGBps);
    }
  }
  if (hop.locality == EdgeLocality::RemoteMla) return;
  const auto edge =
      std::lower_bound(fabric.edges.begin(), fabric.edges.end(), std::pair(hop.from, hop.to),
                       [](const NeuronEdge& a, const std::pair<int, int>& key) {
                         return std::pair(a.from, a.to) < key;
                       });
  const bool isDirect = edge != fabric.edges.end() && edge->from == hop.from && edge->to == hop.to;
  const NeuronPlatform& platform = *fabric.platform;
  const float local =
      platform.d2dGBps > 0 ? std::min(platform.d2dGBps, platform.rmtvGBps) : platform.rmtvGBps;
  use({3, hop.from, hop.to}, isDirect ? edge->bwGBps : local * static_cast<float>(fabric.lnc));
}

/// Links of the shortest way whose links are used least, by relaxing until nothing gets cheaper.
std::vector<int> leastUsedWay(const NeuronFabric& fabric, int from, int to,
                              const std::vector<int>& uses) {
  constexpr int kHopCost = 1 << 16;  // more than any uses of a way
  std::vector<int> cost(fabric.devices.size(), -1);
  std::vector<int> linkTo(fabric.devices.size(), -1);
  cost[from] = 0;
  std::vector<int> queue = {from};
  for (size_t i = 0; i < queue.size(); i++) {
    const int device = queue[i];
    for (const FabricLink& link : fabric.linksFrom(device)) {
      const auto index = static_cast<int>(&link - fabric.links.data());
      const int through = cost[device] + kHopCost + uses[index];
      if (cost[link.to] != -1 && cost[link.to] <= through) continue;
      cost[link.to] = through;
      linkTo[link.to] = index;
      queue.push_back(link.to);
    }
  }
  std::vector<int> way;
  for (int device = to; device != from; device = fabric.links[linkTo[device]].from)
    way.push_back(linkTo[device]);
  std::reverse(way.begin(), way.end());
  return way;
}

}  // namespace

const char* toText(EdgeLocality locality) {
  switch (locality) {
    case EdgeLocality::SharedMemory:
      return "shared memory";
    case EdgeLocality::RemoteMla:
      return "remote MLA";
    case EdgeLocality::D2d:
      return "D2D";
    case EdgeLocality::Rmtv:
      return "RMTV";
    case EdgeLocality::Local:
      return "local";
  }
  return "?";
}

EdgeLocality coreLocality(const NeuronFabric& fabric, int from, int to) {
  const NeuronCore& a = fabric.cores[from];
  const NeuronCore& b = fabric.cores[to];
  if (a.device != b.device) return EdgeLocality::RemoteMla;
  return sengLocality(*fabric.platform, a.seng, b.seng);
}

NeuronCorePath convertDevicePathToCorePath(const NeuronFabric& fabric, const NeuronTour& tour,
                                           const std::vector<int>& cores,
                                           NeuronStepPrices& prices) {
  std::map<int, std::vector<int>> coresOf;
  for (const int core : cores)
    coresOf[fabric.cores[core].device].push_back(core);
  std::map<int, std::vector<Visit>> visitsOf;
  for (const Visit& visit : portsOf(fabric, tour))
    visitsOf[tour.devices[visit.place]].push_back(visit);
  std::vector<std::vector<int>> coresAt(tour.devices.size());
  for (const auto& [device, visits] : visitsOf) {
    const auto order = DeviceOrder(fabric, coresOf[device], visits, prices).find();
    for (size_t i = 0; i < visits.size(); i++) {
      coresAt[visits[i].place] = order[i];
      for (size_t k = 1; k < order[i].size(); k++) {
        prices[{order[i][k - 1], order[i][k]}]++;
        prices[{order[i][k], order[i][k - 1]}]++;
      }
    }
  }
  NeuronCorePath path;
  for (const std::vector<int>& some : coresAt) {
    path.visits.push_back(static_cast<int>(path.cores.size()));
    path.cores.insert(path.cores.end(), some.begin(), some.end());
  }
  return path;
}

NeuronCorePath reversed(const NeuronCorePath& path) {
  NeuronCorePath back;
  back.cores.assign(path.cores.rbegin(), path.cores.rend());
  const auto n = static_cast<int>(path.cores.size());
  back.visits.push_back(0);
  for (auto visit = path.visits.rbegin(); visit + 1 != path.visits.rend(); ++visit)
    back.visits.push_back(n - *visit);
  return back;
}

NeuronCorePath rotatePath(const NeuronCorePath& path, int visit) {
  NeuronCorePath turned = path;
  const int first = path.visits[visit];
  const auto n = static_cast<int>(path.cores.size());
  std::rotate(turned.cores.begin(), turned.cores.begin() + first, turned.cores.end());
  for (int& start : turned.visits)
    start = (start - first + n) % n;
  std::sort(turned.visits.begin(), turned.visits.end());
  return turned;
}

std::vector<NeuronHop> neuronHops(const NeuronFabric& fabric, const std::vector<int>& cores,
                                  bool closed) {
  std::vector<NeuronHop> hops;
  const size_t n = cores.size();
  for (size_t i = 0; i < n && n > 1; i++) {
    if (i + 1 == n && !closed) break;
    NeuronHop hop;
    hop.from = cores[i];
    hop.to = cores[(i + 1) % n];
    hop.locality = coreLocality(fabric, hop.from, hop.to);
    if (hop.locality == EdgeLocality::RemoteMla) {
      const std::vector<int> way =
          shortestWay(fabric, fabric.cores[hop.from].device, fabric.cores[hop.to].device);
      hop.reachable = !way.empty();
      for (size_t k = 1; k < way.size(); k++)
        hop.links.push_back(
            static_cast<int>(fabric.link(way[k - 1], way[k]) - fabric.links.data()));
    }
    hops.push_back(std::move(hop));
  }
  return hops;
}

std::vector<std::vector<NeuronHop>> layChannels(const NeuronFabric& fabric,
                                                const std::vector<std::vector<int>>& channels,
                                                bool closed) {
  std::vector<std::vector<NeuronHop>> laid;
  std::vector<int> uses(fabric.links.size(), 0);
  for (const std::vector<int>& cores : channels) {
    laid.push_back(neuronHops(fabric, cores, closed));
    for (const NeuronHop& hop : laid.back()) {
      if (hop.links.size() == 1) uses[hop.links[0]]++;
    }
  }
  for (std::vector<NeuronHop>& hops : laid) {
    for (NeuronHop& hop : hops) {
      if (hop.links.size() < 2) continue;
      hop.links =
          leastUsedWay(fabric, fabric.cores[hop.from].device, fabric.cores[hop.to].device, uses);
      for (const int link : hop.links)
        uses[link]++;
    }
  }
  return laid;
}

float channelGBps(const NeuronFabric& fabric, const std::vector<std::vector<NeuronHop>>& channels) {
  std::map<Resource, std::pair<int, float>> load;
  for (const std::vector<NeuronHop>& hops : channels) {
    for (const NeuronHop& hop : hops)
      addLoad(fabric, hop, load);
  }
  float least = kLocalGBps;
  for (const auto& [resource, use] : load)
    least = std::min(least, use.second / static_cast<float>(use.first));
  return least;
}

std::string neuronHopsText(const NeuronFabric& fabric, const std::vector<NeuronHop>& hops) {
  std::string out;
  const auto add = [&out](const Error& text) { out += text.message; };
  for (const NeuronHop& hop : hops) {
    add(fail(ncclSuccess, "%4d -> %-4d %s", hop.from, hop.to, toText(hop.locality)));
    for (const int index : hop.links) {
      const FabricLink& link = fabric.links[index];
      add(fail(ncclSuccess, ", %s %d:%d -> %d:%d %g GB/s", toText(link.kind), link.from,
               link.fromPort, link.to, link.toPort, static_cast<double>(link.bwGBps)));
    }
    if (!hop.reachable) out += ", through the host";
    out += '\n';
  }
  return out;
}

}  // namespace nccom
