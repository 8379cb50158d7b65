// Pods (UltraServers): hosts that reach each other without the network.
//
// In a P2P pod the devices of one grid place form a ring over the hosts, by Z links. In a switched
// pod the hosts of a rack share a switch, and each device has a link to the one in the same place
// of the other rack.
#pragma once

#include <vector>

#include "graph/fabric.h"
#include "misc/result.h"

namespace nccom {

/// How rings pass the hosts of a pod.
struct PodInterNodeGraph {
  std::vector<int> nodes;    // node ids in ring order
  std::vector<bool> direct;  // [i] links join nodes[i] to nodes[i + 1], the last to the first
  /// [i] the host passes its channels backwards. Between hosts that are joined place by place the
  /// ring then goes on from the device on which it left the host before.
  std::vector<bool> reversed;
  bool crossRackToRack = false;  // hosts of several racks
  bool operator==(const PodInterNodeGraph&) const = default;
};

/// The order in which rings pass these hosts of the pod: over links as far as there are any.
/// P2P: along the ring of Z links; switched: one rack up, across, and the other rack down.
///
/// @param nodes  node ids, in any order
/// @error ncclInvalidArgument  not a pod; a node it does not have, or one named twice; no node
Result<PodInterNodeGraph> ncclTopoGetP2pPodInterNodeGraph(const NeuronFabric& pod,
                                                          std::vector<int> nodes);

/// The node that `portDistance` Z links lead to, starting at `node` in the direction 0, 1, 2 ...
/// @param device  within its host
/// @error ncclInvalidArgument  not a P2P pod; no such node or device; the pod has no ring there
Result<int> podPeerNode(const NeuronFabric& pod, int device, int node, int portDistance);

/// Whether a device can read and write another one's memory without the network: on its own host,
/// or over one link or switch.
/// @param localRid, remoteRid  routing ids, as FabricDevice has them
/// @error ncclInvalidArgument  a node or routing id that the fabric does not have
Result<bool> podNodeCanAccessPeerNode(const NeuronFabric& pod, int localRid, int localNode,
                                      int remoteRid, int remoteNode);

}  // namespace nccom
