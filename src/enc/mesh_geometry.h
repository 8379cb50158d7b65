// What a mesh is built from: where the members of a stage are, as one of them sees them.
#pragma once

#include <cstdint>
#include <vector>

#include "enc/comm_info.h"
#include "misc/result.h"

namespace nccom {

/// Values of neuron_dev that say what lies between two ranks, or that it is not known; others are
/// logical cores.
constexpr int kNetworkDev = -1;
constexpr int kUnknownDev = -3;
constexpr int kPodMlaDev = -2;  // NEC_POD_MLA_DEV: another host of the pod

struct encMeshPeer {
  int neuron_dev = 0;       // NOLINT(readability-identifier-naming): the runtime's name
  int rid = 0;              // routing id of the core: its device's, then its place in the device
  int pod_node_id = 0;      // NOLINT(readability-identifier-naming): of its host, in its pod
  bool isNeighbor = false;  // on the same device, or on one that a link leads to
  bool shares = true;       // memory
  bool operator==(const encMeshPeer&) const = default;
};

/// Members on one device.
struct encMeshChip {
  int server = 0, device = 0;
  std::vector<int> members;
  bool operator==(const encMeshChip&) const = default;
};

struct encMeshGeometry {
  encSituation situation;  // of the members, without an operation
  encAlgOptions options;
  enc_alg_mesh_type type = enc_alg_mesh_type::Invalid;  // of the mesh that they get
  int self = 0;
  std::vector<encMeshPeer> peers;  // [member]
  std::vector<encMeshChip> chips;  // by server and device
  std::vector<int> chip, place;    // [member] its chip, and its place there
  /// [from chip][to chip] place of the member next to where the shortest route comes in
  std::vector<std::vector<int>> entry;
  std::vector<int> hops;  // [chip] links on the way from the own one; -1: none leads there

  int n() const { return static_cast<int>(peers.size()); }
  /// Members of every chip; 0: they differ.
  int perChip() const;
  bool usesNet() const;
  bool operator==(const encMeshGeometry&) const = default;
};

/// @param ranks  of the stage, by member
/// @param self   member
/// @error ncclInvalidArgument  the machine is not known; a rank that there is not, or is there
/// twice
Result<encMeshGeometry> encMeshGeometryOf(const enc_comm_info& info, const std::vector<int>& ranks,
                                          int self);

}  // namespace nccom
