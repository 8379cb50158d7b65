// Who takes part in a collective: replica groups, as a NEFF describes them.
//
// A program names one or more topologies (the loader's word); a topology is a list of groups that
// share no rank; a group is a list of global device ids, in the order of their ranks in it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "misc/result.h"

namespace nccom {

/// Distinct groups of a program, the derived ones included; 16 since release 2.32 of the runtime.
constexpr int kMaxReplicaGroups = 16;

using encSignature = std::array<uint8_t, 16>;

/// One topology. No group at all stands for one group of everybody.
using encGroupSet = std::vector<std::vector<uint32_t>>;

// NOLINTBEGIN(readability-identifier-naming): the runtime's names

/// What of the global communicator is needed to read groups.
struct enc_glb_comm {
  uint32_t g_device_id = 0;   // the own global id, which groups and pairs name
  uint32_t g_device_cnt = 1;  // size of the world
  bool operator==(const enc_glb_comm&) const = default;
};

/// The group of a topology to which the own device belongs.
struct enc_replica_group_info {
  int rank = -1;                 // in `participants`
  int rank_n = 0;                // of `participants`
  int group_id = -1;             // index in the list of all groups
  int src_target_pairs_id = -1;  // set of pairs it is derived from; -1: it was declared
  int num_ops = 0;               // operations that use it
  bool sendrecv = false;         // made for sends and receives
  bool nccl_mesh_supported = true;
  bool must_use_ring_alg = false;
  encSignature signature{};
  std::vector<uint32_t> participants;
  std::vector<uint32_t> bootstrap_participants;  // unsorted: they are the key of a communicator
  int bootstrap_rank = -1;
  bool operator==(const enc_replica_group_info&) const = default;
};

// NOLINTEND(readability-identifier-naming)

/// Debug switches of the runtime that alter groups.
struct encGroupOptions {
  bool sortGroups = false;       // NEURON_RT_DBG_CC_SORT_RG: participants ascending
  bool forceSingleRank = false;  // NEURON_RT_DBG_CC_FORCE_SINGLE_RANK_RG: each rank on its own
};

/// The own group of one topology.
///
/// @param index, count  of the topology among all: they only name it in errors
/// @return group_id and src_target_pairs_id are -1
/// @error ncclInvalidArgument  a rank outside the world or in two places, an empty group among
///                             others, or no group with the own rank; names the topology, the
///                             group and the rank
Result<enc_replica_group_info> encParseReplicaGroup(const enc_glb_comm& global,
                                                    const encGroupSet& topology, uint32_t index,
                                                    uint32_t count,
                                                    const encGroupOptions& options = {});

/// The own groups of all topologies, group_id counting them.
///
/// @error ncclInvalidArgument  as above; topologies with different numbers of ranks; an implicit
///                             group of everybody that is not the only topology; more groups than
///                             kMaxReplicaGroups
Result<std::vector<enc_replica_group_info>> encParseReplicaGroups(
    const enc_glb_comm& global, const std::vector<encGroupSet>& topologies,
    const encGroupOptions& options = {});

}  // namespace nccom
