#include "graph/pod.h"

#include <algorithm>
#include <set>

namespace nccom {
namespace {

/// Whether any device of one host has a link to any of the other.
bool areJoined(const NeuronFabric& pod, int a, int b) {
  for (int device = 0; device < pod.devicesPerHost; device++) {
    for (const FabricLink& link : pod.linksFrom(a * pod.devicesPerHost + device)) {
      if (pod.devices[link.to].host == b) return true;
    }
  }
  return false;
}

int rackOf(const NeuronFabric& pod, int node) {
  const int first = node * pod.devicesPerHost;
  return pod.devices[first].rack;
}

/// One rack up, across to the partner of its last host, and down to the partner of the first.
std::vector<int> switchedOrder(const NeuronFabric& pod, const std::vector<int>& nodes) {
  std::vector<int> up, down;
  for (const int node : nodes)
    (rackOf(pod, node) == rackOf(pod, nodes[0]) ? up : down).push_back(node);
  std::reverse(down.begin(), down.end());
  if (up.empty() || down.empty()) return nodes;
  // Hosts with a partner in the other rack go to the ends.
  std::vector<std::pair<int, int>> partners;
  for (const int a : up) {
    for (const int b : down) {
      if (areJoined(pod, a, b)) partners.emplace_back(a, b);
    }
  }
  const auto moveTo = [](std::vector<int>& order, int node, bool front) {
    order.erase(std::find(order.begin(), order.end(), node));
    order.insert(front ? order.begin() : order.end(), node);
  };
  if (!partners.empty()) {
    moveTo(up, partners.front().first, true);
    moveTo(down, partners.front().second, false);
  }
  if (partners.size() > 1) {
    moveTo(up, partners.back().first, false);
    moveTo(down, partners.back().second, true);
  }
  up.insert(up.end(), down.begin(), down.end());
  return up;
}

Status checkNode(const NeuronFabric& pod, int node) {
  if (node >= 0 && node < pod.nHosts) return Ok{};
  return fail(ncclInvalidArgument, "node %d of a pod of %d hosts, expected 0..%d", node, pod.nHosts,
              pod.nHosts - 1);
}

Result<int> deviceAt(const NeuronFabric& pod, int node, int rid) {
  TRY(checkNode(pod, node));
  for (int d = node * pod.devicesPerHost; d < (node + 1) * pod.devicesPerHost; d++) {
    if (pod.devices[d].routingId == rid) return d;
  }
  return fail(ncclInvalidArgument, "node %d has no device with routing id %d", node, rid);
}

/// The order of the ring of Z links: 0, 1, 2 ..., as far as links lead on.
bool isNext(const NeuronFabric& pod, int node, int next) {
  return next == (node + 1) % pod.nHosts && areJoined(pod, node, next);
}

}  // namespace

Result<PodInterNodeGraph> ncclTopoGetP2pPodInterNodeGraph(const NeuronFabric& pod,
                                                          std::vector<int> nodes) {
  if (pod.podType == NeuronPodType::None) {
    return fail(ncclInvalidArgument, "a host of %s on its own has no pod",
                std::string(pod.platform->name).c_str());
  }
  if (nodes.empty()) return fail(ncclInvalidArgument, "no node of the pod, expected at least one");
  for (const int node : nodes)
    TRY(checkNode(pod, node));
  std::sort(nodes.begin(), nodes.end());
  if (std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end()) {
    return fail(ncclInvalidArgument, "node %d is named twice",
                *std::adjacent_find(nodes.begin(), nodes.end()));
  }
  PodInterNodeGraph graph;
  if (pod.podType == NeuronPodType::Switch) nodes = switchedOrder(pod, nodes);
  // Start after the gap, if the ring of Z links has one, so that the gap is what closes the order.
  if (pod.podType == NeuronPodType::P2p) {
    const auto n = static_cast<int>(nodes.size());
    for (int i = 0; i < n; i++) {
      if (areJoined(pod, nodes[(i + n - 1) % n], nodes[i])) continue;
      std::rotate(nodes.begin(), nodes.begin() + i, nodes.end());
      break;
    }
  }
  graph.nodes = nodes;
  const size_t n = nodes.size();
  for (size_t i = 0; i < n; i++) {
    graph.direct.push_back(n > 1 && areJoined(pod, nodes[i], nodes[(i + 1) % n]));
    graph.reversed.push_back(i % 2 == 1);
    graph.crossRackToRack |= rackOf(pod, nodes[i]) != rackOf(pod, nodes[0]);
  }
  return graph;
}

Result<int> podPeerNode(const NeuronFabric& pod, int device, int node, int portDistance) {
  if (pod.podType != NeuronPodType::P2p) {
    return fail(ncclInvalidArgument, "%s: no P2P pod", std::string(pod.platform->name).c_str());
  }
  TRY(checkNode(pod, node));
  if (device < 0 || device >= pod.devicesPerHost || portDistance < 0) {
    return fail(ncclInvalidArgument, "device %d, distance %d; expected 0..%d and at least 0",
                device, portDistance, pod.devicesPerHost - 1);
  }
  int at = node;
  for (int hop = 0; hop < portDistance % pod.nHosts; hop++) {
    const int next = (at + 1) % pod.nHosts;
    if (!isNext(pod, at, next)) {
      return fail(ncclInvalidArgument, "device %d: no link from node %d to node %d", device, at,
                  next);
    }
    at = next;
  }
  return at;
}

Result<bool> podNodeCanAccessPeerNode(const NeuronFabric& pod, int localRid, int localNode,
                                      int remoteRid, int remoteNode) {
  const int from = TRY(deviceAt(pod, localNode, localRid));
  const int to = TRY(deviceAt(pod, remoteNode, remoteRid));
  return localNode == remoteNode || pod.link(from, to) != nullptr;
}

}  // namespace nccom
