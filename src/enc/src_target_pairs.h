// Groups that follow from source-target pairs: those are together who are joined by pairs, however
// far apart.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "enc/replica_groups.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

// NOLINTBEGIN(readability-identifier-naming): the runtime's names

/// A set of pairs, and the own device's group in it.
struct enc_src_target_pairs_info {
  std::vector<std::vector<uint32_t>> pairs;  // {source, target} each, sorted
  std::vector<uint32_t> participants;
  encSignature signature{};
  int rank = -1;  // in `participants`
  int rank_n = 0;
  int replica_group_id = -1;
  int src_target_pairs_id = -1;  // number of the set
  bool operator==(const enc_src_target_pairs_info&) const = default;
};

/// All groups of a program, as one rank sees them.
struct encGroups {
  std::vector<enc_replica_group_info> replica_groups;  // the declared, then the derived ones
  std::vector<enc_src_target_pairs_info> src_target_pairs;
  bool operator==(const encGroups&) const = default;
};

// NOLINTEND(readability-identifier-naming)

/// Adds a group for each set of pairs: the ranks that the pairs join to the own one, in the order
/// in which the sorted pairs name them.
///
/// The pairs are sorted first, and looked up by the global id, so every rank derives the same
/// components and each finds itself in its own.
///
/// @param global  null: there is no global communicator yet
/// @error ncclInvalidUsage     there is no global communicator
/// @error ncclInvalidArgument  a set without pairs, or that does not name the own rank; a rank
///                             outside the world; more groups than kMaxReplicaGroups
Status encParseSrcTargetPairs(const enc_glb_comm* global, std::span<const encPairSet> sets,
                              encGroups& groups, const encGroupOptions& options = {});

/// The rings that the pairs of a permutation form, each from its lowest rank along the pairs; a
/// pair of a rank with itself is a ring of one. Ordered by their lowest rank.
///
/// @param set  number of the set, to name it in errors
/// @error ncclInvalidArgument  pairs that form no ring: a rank that is twice a source or twice a
///                             target, or only one of both
Result<std::vector<std::vector<uint32_t>>> encPermuteRings(const encPairSet& pairs, size_t set);

}  // namespace nccom
