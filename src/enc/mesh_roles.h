// The two passes that bin the peers of a full mesh: by what lies between them and a rank, and into
// the roles that events take their neighbour groups from.
#pragma once

#include <array>
#include <set>
#include <vector>

#include "enc/mesh_geometry.h"
#include "enc/mesh_types.h"
#include "misc/result.h"

namespace nccom {

/// The first pass.
struct encMeshClasses {
  std::vector<int> netInter;  // members that the network lies between, in order
  std::set<int> podRoots;     // hosts of the pod, by node id
  std::set<int> localRids;    // routing ids of this host's members, self included
  std::vector<int> hops;      // [member] Hamming distance of routing ids; -1: not on this host
  int sibling = -1;           // the member on the core whose number differs in the lowest bit only
  int srcDevs = 0;            // members that no network lies between: of pods too
  bool operator==(const encMeshClasses&) const = default;
};

/// Members by role; a rank's own place in them is the first where they start with it.
using encMeshRoles = std::array<std::vector<int>, kMeshRoles>;

/// @error ncclInvalidArgument  a member on no known device; two members of one routing id; a rank
/// that the pod lies between it
///                             and itself
Result<encMeshClasses> encClassifyMeshPeers(const encMeshGeometry& geometry);

/// The second pass. The roles, and what the runtime asserts of them, are known; which ranks it
/// looks at for each is not. Ours, the candidates of a role: the own member (SELF); those of the
/// own chip, each a root of its own (INTRA_GROUP_ROOTS); those of other chips that no network lies
/// between, the next one first (INTER_GROUP_ROOTS); self and those (ALL_INTER_ROOTS), to which the
/// network's come, in an order that starts elsewhere on each rank; those of linked chips
/// (INTRA_GROUP_NEIGHBORS).
///
/// @error ncclInvalidArgument  a sibling next to pod peers; nodes that are joined by both network
///                             and pod, or by neither; a network of nobody; roots that are not more
///                             than those of other groups
Result<encMeshRoles> encMeshRolesOf(const encMeshGeometry& geometry, const encMeshClasses& classes);

inline const std::vector<int>& membersOf(const encMeshRoles& roles, mesh_group_types role) {
  return roles[static_cast<size_t>(role)];
}

}  // namespace nccom
