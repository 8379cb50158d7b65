#include "enc/mesh_roles.h"

#include <bit>

namespace nccom {
namespace {

using Role = mesh_group_types;

/// Members after self, wrapping around.
std::vector<int> othersOf(const encMeshGeometry& geometry) {
  std::vector<int> others;
  for (int k = 1; k < geometry.n(); k++)
    others.push_back((geometry.self + k) % geometry.n());
  return others;
}

std::vector<int> candidates(const encMeshGeometry& g, Role role) {
  const int chip = g.chip[g.self];
  std::vector<int> found;
  if (role == Role::SELF || role == Role::ALL_INTER_ROOTS) found.push_back(g.self);
  if (role == Role::INTRA_GROUP_ROOTS || role == Role::INTRA_GROUP_MEMBERS) {
    return g.chips[chip].members;
  }
  for (const int member : othersOf(g)) {
    const encMeshPeer& peer = g.peers[member];
    const bool isRoot = g.chip[member] != chip && peer.neuron_dev != kNetworkDev;
    if (role == Role::INTRA_GROUP_NEIGHBORS ? peer.isNeighbor : role != Role::SELF && isRoot) {
      found.push_back(member);
    }
  }
  return found;
}

}  // namespace

Result<encMeshClasses> encClassifyMeshPeers(const encMeshGeometry& g) {
  encMeshClasses classes;
  const encMeshPeer& own = g.peers[g.self];
  for (int i = 0; i < g.n(); i++) {
    const encMeshPeer& peer = g.peers[i];
    classes.hops.push_back(-1);
    if (peer.neuron_dev == kNetworkDev) {
      classes.netInter.push_back(i);
      continue;
    }
    if (peer.neuron_dev <= kUnknownDev) {
      return fail(ncclInvalidArgument,
                  "mesh: member %d is on device %d: want a core, %d across the network or %d on "
                  "another host of the pod",
                  i, peer.neuron_dev, kNetworkDev, kPodMlaDev);
    }
    classes.srcDevs++;
    if (peer.neuron_dev == kPodMlaDev) {
      if (i == g.self) {
        return fail(ncclInvalidArgument,
                    "mesh: member %d is another host of the pod to itself: want a core", i);
      }
      classes.podRoots.insert(peer.pod_node_id);
      continue;
    }
    if (!classes.localRids.insert(peer.rid).second) {
      return fail(ncclInvalidArgument,
                  "mesh: member %d has routing id %d as another one: want each once", i, peer.rid);
    }
    classes.hops.back() =
        std::popcount(static_cast<unsigned>(own.rid) ^ static_cast<unsigned>(peer.rid));
    if ((own.neuron_dev ^ 1) == peer.neuron_dev) classes.sibling = i;
  }
  return classes;
}

Result<encMeshRoles> encMeshRolesOf(const encMeshGeometry& g, const encMeshClasses& classes) {
  encMeshRoles roles;
  for (size_t role = 0; role < roles.size(); role++) {
    for (const int member : candidates(g, static_cast<Role>(role))) {
      if (g.peers[member].neuron_dev == kPodMlaDev && classes.sibling != -1) {
        return fail(ncclInvalidArgument,
                    "mesh: %s has member %d of another host of the pod, and member %d is the "
                    "sibling of member %d: want one or the other",
                    toText(static_cast<Role>(role)), member, classes.sibling, g.self);
      }
      roles[role].push_back(member);
    }
  }
  const bool useNet = !classes.netInter.empty();
  if (g.situation.node_n != 1 && useNet == g.situation.enable_pod) {
    return fail(ncclInvalidArgument,
                "mesh: %d nodes, %zu members behind the network, enable_pod %d: want either a "
                "network or a pod between nodes",
                g.situation.node_n, classes.netInter.size(), g.situation.enable_pod ? 1 : 0);
  }
  if (!useNet) return roles;
  auto& all = roles[static_cast<size_t>(Role::ALL_INTER_ROOTS)];
  const size_t count = classes.netInter.size();
  for (size_t k = 0; k < count; k++)
    all.push_back(classes.netInter[(static_cast<size_t>(g.self) + k) % count]);
  if (all.size() <= membersOf(roles, Role::INTER_GROUP_ROOTS).size()) {
    return fail(ncclInvalidArgument, "mesh: %zu roots of all groups, %zu of others: want more",
                all.size(), membersOf(roles, Role::INTER_GROUP_ROOTS).size());
  }
  return roles;
}

}  // namespace nccom
