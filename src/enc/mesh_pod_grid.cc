#include "enc/mesh_pod_grid.h"

#include <algorithm>
#include <string>
#include <utility>

namespace nccom {
namespace {

constexpr int kDirectBit = 1, kProxyBit = 2;

std::string textOf(const std::vector<int>& list) {
  std::string text;
  for (const int value : list)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "{" + text + "}";
}

/// [pod node] position. Each round over the cables reaches one more node at least, as long as there
/// are any to reach.
/// @error ncclInvalidArgument  a node that no cable leads to, or two cables to different positions
Result<std::array<int, kPodNodes>> positionsOf(const NeuronPodShape& pod) {
  std::array<int, kPodNodes> positions{0, -1, -1, -1};
  for (int round = 0; round < kPodNodes; round++) {
    for (const PodCable& cable : pod.cables) {
      const int bit = cable.isLeft ? kDirectBit : kProxyBit;
      int &a = positions[cable.hostA], &b = positions[cable.hostB];
      if (a >= 0 && b < 0) b = a ^ bit;
      if (b >= 0 && a < 0) a = b ^ bit;
    }
  }
  for (const PodCable& cable : pod.cables) {
    const int bit = cable.isLeft ? kDirectBit : kProxyBit;
    const int a = positions[cable.hostA], b = positions[cable.hostB];
    if (a >= 0 && b >= 0 && (a ^ b) == bit) continue;
    return fail(ncclInvalidArgument,
                "two_step_pod_mesh: the cable between pod nodes %d and %d is no side of a square",
                cable.hostA, cable.hostB);
  }
  return positions;
}

Status checkPod(const enc_comm_info& info) {
  const NeuronPodShape& pod = info.pod;
  if (pod.type == NeuronPodType::P2p && pod.nHosts == kPodNodes && pod.cables.size() == kPodNodes) {
    return Ok{};
  }
  return fail(ncclInvalidArgument,
              "two_step_pod_mesh: the pod is \"%s\", of %d nodes with %zu cables: want the four of "
              "a point-to-point pod in a ring",
              std::string(pod.name).c_str(), pod.nHosts, pod.cables.size());
}

Status checkNodes(const enc_comm_info& info, const std::vector<int>& ranks,
                  const encPodGrid& grid) {
  const auto cores = [&](const std::vector<int>& members) {
    std::vector<int> list;
    list.reserve(members.size());
    for (const int member : members)
      list.push_back(info.peers[ranks[member]].core);
    return list;
  };
  const std::vector<int> first = cores(grid.members[0]);
  for (size_t position = 0; position < kPodNodes; position++) {
    const std::vector<int> found = cores(grid.members[position]);
    if (!found.empty() && found == first) continue;
    return fail(ncclInvalidArgument,
                "two_step_pod_mesh of %zu ranks: pod node %d takes part with cores %s, node %d "
                "with %s: want the same on all four",
                ranks.size(), grid.podNode[position], textOf(found).c_str(), grid.podNode[0],
                textOf(first).c_str());
  }
  return Ok{};
}

}  // namespace

Result<encPodGrid> encPodGridOf(const enc_comm_info& info, const std::vector<int>& ranks,
                                int self) {
  if (info.peers.empty()) {
    return fail(ncclInvalidArgument,
                "two_step_pod_mesh: the machine of the communicator is not known");
  }
  TRY(checkPod(info));
  const std::array<int, kPodNodes> positions = TRY(positionsOf(info.pod));
  encPodGrid grid;
  for (int node = 0; node < kPodNodes; node++)
    grid.podNode[positions[node]] = node;
  for (size_t member = 0; member < ranks.size(); member++) {
    const int server = info.peers[ranks[member]].server;
    if (server >= kPodNodes) {
      return fail(ncclInvalidArgument,
                  "two_step_pod_mesh: rank %d is on node %d: want nodes 0 to %d of one pod",
                  ranks[member], server, kPodNodes - 1);
    }
    grid.members[positions[server]].push_back(static_cast<int>(member));
  }
  const auto coreOf = [&](int member) { return info.peers[ranks[member]].core; };
  for (size_t position = 0; position < kPodNodes; position++) {
    std::vector<int>& node = grid.members[position];
    std::sort(node.begin(), node.end(), [&](int a, int b) { return coreOf(a) < coreOf(b); });
    const auto own = std::find(node.begin(), node.end(), self);
    if (own == node.end()) continue;
    grid.position = static_cast<int>(position);
    grid.place = static_cast<int>(own - node.begin());
  }
  TRY(checkNodes(info, ranks, grid));
  return grid;
}

encPodPartners encPodPartnersOf(const encPodGrid& grid, encOp op) {
  encPodPartners partners;
  partners.rank = grid.at(grid.position);
  partners.direct_neighbor = partners.dim0_neighbor = grid.direct();
  partners.proxy_neighbor = partners.dim1_neighbor = grid.proxy();
  partners.opposite_peer = grid.opposite();
  partners.destinations = {grid.proxy(), grid.direct()};
  if (op == encOp::AllGather) partners.destinations.push_back(grid.opposite());
  partners.podNodeIds.resize(grid.n());
  for (size_t position = 0; position < kPodNodes; position++) {
    for (const int member : grid.members[position])
      partners.podNodeIds[member] = grid.podNode[position];
  }
  return partners;
}

namespace {

Status checkGather(const encPodPartners& p) {
  if (p.destinations.size() != 3) {
    return fail(ncclInternalError,
                "two_step_pod_mesh: AllGather of member %d has %zu destinations "
                "%s: want 3",
                p.rank, p.destinations.size(), textOf(p.destinations).c_str());
  }
  if (p.proxy_neighbor == p.direct_neighbor) {
    return fail(ncclInternalError,
                "two_step_pod_mesh: AllGather of member %d: member %d is both its proxy and its "
                "direct neighbor: want two",
                p.rank, p.proxy_neighbor);
  }
  return Ok{};
}

Status checkReduce(const encPodPartners& p) {
  if (p.destinations == std::vector<int>{p.proxy_neighbor, p.direct_neighbor}) return Ok{};
  return fail(ncclInternalError,
              "two_step_pod_mesh: AllReduce of member %d has destinations %s: want 2, the proxy %d "
              "and the direct neighbor %d",
              p.rank, textOf(p.destinations).c_str(), p.proxy_neighbor, p.direct_neighbor);
}

Status checkReduceScatter(const encPodPartners& p) {
  if (p.dim0_neighbor < 0 || p.dim1_neighbor < 0) {
    return fail(ncclInternalError,
                "two_step_pod_mesh: ReduceScatter of member %d has neighbors %d and %d along the "
                "dimensions: want both",
                p.rank, p.dim0_neighbor, p.dim1_neighbor);
  }
  const auto nodeOf = [&](int member) { return p.podNodeIds[member]; };
  const int own = nodeOf(p.rank), opposite = nodeOf(p.opposite_peer);
  if (own == opposite) {
    return fail(ncclInternalError,
                "two_step_pod_mesh: ReduceScatter of member %d: pod_node_id %d is its opposite's "
                "too: want one of the two greater",
                p.rank, own);
  }
  // The last node is the greater of its pair, and the first one is its proxy.
  const bool isLast =
      own > opposite && own == *std::max_element(p.podNodeIds.begin(), p.podNodeIds.end());
  if (!isLast || nodeOf(p.proxy_neighbor) == 0) return Ok{};
  return fail(ncclInternalError,
              "two_step_pod_mesh: ReduceScatter of member %d on pod node %d: pod_node_id of its "
              "proxy is %d: want 0",
              p.rank, own, nodeOf(p.proxy_neighbor));
}

}  // namespace

Status encCheckPodPartners(const encPodPartners& partners, encOp op) {
  if (op == encOp::AllGather) return checkGather(partners);
  if (op == encOp::AllReduce) {
    TRY(checkReduceScatter(partners));
    return checkReduce(partners);
  }
  if (op == encOp::ReduceScatter) return checkReduceScatter(partners);
  return fail(ncclInvalidArgument,
              "two_step_pod_mesh: %s: want AllGather, AllReduce or ReduceScatter", encOpName(op));
}

}  // namespace nccom
