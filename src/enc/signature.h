// Signatures: before the ranks of a group connect they compare digests of who they are and what
// they will run, so that programs of different builds do not meet.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "enc/alg_types.h"
#include "enc/replica_groups.h"
#include "enc/src_target_pairs.h"
#include "misc/result.h"

namespace nccom {

/// What of a posted operation all ranks of its group have in common.
struct encSignedOp {
  enc_op_type op = enc_op_type::AllReduce;
  uint64_t count = 0;    // elements
  uint32_t dtype = 0;    // of the operation; not of sends and receives
  uint32_t redOp = 0;    // the same
  uint32_t channel = 0;  // permute_ring_ch_id; of a send: the peer's global id
  bool operator==(const encSignedOp&) const = default;
};

/// MD5 of a group: its participants, and its operations in order. A receive is signed as the send
/// that it answers, so both ends of a pair have one digest.
/// @error ncclSystemError  the crypto library has no MD5
Result<encSignature> encGroupSignature(const enc_glb_comm& global,
                                       const enc_replica_group_info& group,
                                       std::span<const encSignedOp> ops);

/// MD5 of a set of pairs: its sorted pairs, and the operations that follow it.
/// @error ncclSystemError  as above
Result<encSignature> encPairsSignature(const enc_src_target_pairs_info& info,
                                       std::span<const encSignedOp> ops);

/// MD5 of the signatures of all groups that have the own rank, then of all sets of pairs.
/// @error ncclInvalidUsage  there is no group and no set
/// @error ncclSystemError   as above
Result<encSignature> encContextSignature(const encGroups& groups);

/// What a rank sends up the tree: its own signature, and whether all below it have the same.
/// 17 bytes on the wire.
struct encSignatureMessage {
  encSignature signature{};
  bool ok = true;
  bool operator==(const encSignatureMessage&) const = default;

  static constexpr size_t kBytes = 17;
  std::array<uint8_t, kBytes> bytes() const;
  /// @error ncclInvalidArgument  not 17 bytes, or a verdict other than 0 and 1
  static Result<encSignatureMessage> of(std::span<const uint8_t> bytes);
};

/// The binary tree over the ranks of a group by which signatures travel.
int encSignatureParent(int rank);                             // -1: the root
std::vector<int> encSignatureChildren(int rank, int nRanks);  // none, one or two

/// Takes a child's message into the own one.
/// @error ncclInvalidUsage  its signature differs, or one below it does; `own.ok` is false then
Status encTakeSignature(encSignatureMessage& own, const encSignatureMessage& child, int childRank);

/// All ranks of a group at once: every message up the tree.
/// @error ncclInvalidUsage  they are not all equal; names the group and the peers that are not what
///                          their parents are
Status encReconcileSignatures(int groupId, std::span<const encSignature> ofRank);

}  // namespace nccom
