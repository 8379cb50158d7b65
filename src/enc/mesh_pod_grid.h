// The four nodes of a point-to-point pod as a square, and the partners that a rank has there.
//
// Cables make a ring of the nodes, alternately on the left and on the right side. A node's position
// has two bits: the left cable leads to the position that differs in the low one, the right cable
// to the one that differs in the high one. So both neighbours are one Z link away, and the opposite
// is two, by either of them:
//
//   nodes       0 --left-- 1          positions   00 ---- 01
//               |          |                       |      |
//             right      right                     |      |
//               |          |                       |      |
//               3 --left-- 2                      10 ---- 11
//
// The runtime's names: the direct neighbour is across the low bit; the proxy neighbour, which hands
// on to the opposite, across the high bit.
#pragma once

#include <array>
#include <vector>

#include "enc/comm_info.h"
#include "enc/stage.h"
#include "misc/result.h"

namespace nccom {

constexpr int kPodNodes = 4;

struct encPodGrid {
  std::array<std::vector<int>, kPodNodes> members;  // [position][place], by logical core
  std::array<int, kPodNodes> podNode{};             // pod_node_id of each position
  int position = 0, place = 0;                      // own

  int n() const { return kPodNodes * places(); }
  int places() const { return static_cast<int>(members[0].size()); }
  /// The member in our place at another position.
  int at(int of) const { return members[of][place]; }
  int direct() const { return at(position ^ 1); }
  int proxy() const { return at(position ^ 2); }
  int opposite() const { return at(position ^ 3); }
  const std::vector<int>& node() const { return members[position]; }
  bool operator==(const encPodGrid&) const = default;
};

/// @param ranks  of a stage, by member
/// @param self   member
/// @error ncclInvalidArgument  not all of the four nodes of such a pod, or nodes that take part
///                             with different cores: names the node
Result<encPodGrid> encPodGridOf(const enc_comm_info& info, const std::vector<int>& ranks, int self);

/// Partners of a rank on other nodes, as the runtime's composers resolve them.
struct encPodPartners {
  // NOLINTBEGIN(readability-identifier-naming): the runtime's names
  int direct_neighbor = -1, proxy_neighbor = -1;
  int dim0_neighbor = -1, dim1_neighbor = -1, opposite_peer = -1;
  // NOLINTEND(readability-identifier-naming)
  std::vector<int> destinations;  // of the operation's broadcast between nodes
  std::vector<int> podNodeIds;    // [member]
  int rank = 0;                   // own member
  bool operator==(const encPodPartners&) const = default;
};

/// @param op  AllGather, AllReduce or ReduceScatter
encPodPartners encPodPartnersOf(const encPodGrid& grid, encOp op);

/// The rules that the runtime asserts of an operation's partners.
///   AllGather      three destinations, and a proxy that is not the direct neighbour
///   AllReduce      two: first the proxy, then the direct neighbour
///   ReduceScatter  a neighbour along either dimension; of two opposites one has the greater
///                  pod_node_id, and the proxy of the last node is the one that pods count from
/// @error ncclInternalError  the member, the rule, and what was found
Status encCheckPodPartners(const encPodPartners& partners, encOp op);

}  // namespace nccom
