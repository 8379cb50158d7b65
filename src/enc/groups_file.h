// Groups as users write them: a JSON object with NEFF's keys.
//
//   {"replica_groups": [[[0,1],[2,3]], [[0,2],[1,3]]],      topology, group, rank
//    "src_target_pairs": [[[0,1],[1,0]]],                   set, pair, [source, target]
//    "#rank_world_size": 4}                                 not required
//
// With one topology, or one set, its brackets may be left out: {"replica_groups": [[0,1],[2,3]]}.
// {"replica_groups": [[]]} is a group of everybody.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "enc/replica_groups.h"
#include "enc/src_target_pairs.h"
#include "misc/result.h"

namespace nccom {

struct encGroupsFile {
  std::vector<encGroupSet> replicaGroups;  // [topology][group][rank]
  std::vector<encPairSet> srcTargetPairs;  // [set]
  std::optional<uint32_t> worldSize;       // if the file says so
  bool operator==(const encGroupsFile&) const = default;

  /// The smallest world that has all ranks: what the file says, or the highest rank and one more.
  uint32_t smallestWorld() const;
};

/// @param file  the name to give it in errors
/// @error ncclInvalidArgument  no JSON (with its place); a key that is unknown, twice, or missing
///                             (there is neither groups nor pairs); something else than a rank in
///                             the place of one; a pair of other than two; a rank beyond the size
///                             of the world that the file itself names
Result<encGroupsFile> encParseGroupsFile(const std::string& text, const std::string& file);

/// The groups of one rank of a world, checked: see encParseReplicaGroups, encParseSrcTargetPairs.
/// @param file  the name to give it in errors
/// @error ncclInvalidArgument  as there; a world smaller than the file's, or a rank outside it
Result<encGroups> encGroupsOf(const encGroupsFile& groups, const std::string& file,
                              const enc_glb_comm& global, const encGroupOptions& options = {});

}  // namespace nccom
