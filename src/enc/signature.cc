#include "enc/signature.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace nccom {
namespace {

/// Bytes to sign, little endian on every machine.
class Bytes {
 public:
  void add32(uint32_t value) { add(value, 4); }
  void add64(uint64_t value) { add(value, 8); }
  void add(const encSignature& digest) {
    bytes_.insert(bytes_.end(), digest.begin(), digest.end());
  }

  Result<encSignature> md5() const {
    encSignature digest{};
    unsigned length = 0;
    if (EVP_Digest(bytes_.data(), bytes_.size(), digest.data(), &length, EVP_md5(), nullptr) != 1 ||
        length != digest.size()) {
      return fail(ncclSystemError,
                  "the crypto library computes no MD5, which signatures of groups are");
    }
    return digest;
  }

 private:
  void add(uint64_t value, int nBytes) {
    for (int i = 0; i < nBytes; i++)
      bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }

  std::vector<uint8_t> bytes_;
};

uint32_t number(enc_op_type op) {
  return static_cast<uint32_t>(op);
}

/// 16 bytes of a send or receive, 20 of any other operation.
void addGroupOp(Bytes& bytes, const encSignedOp& op, uint32_t ownId) {
  if (op.op == enc_op_type::Send || op.op == enc_op_type::Recv) {
    bytes.add32(number(enc_op_type::Send));
    bytes.add64(op.count);
    bytes.add32(op.op == enc_op_type::Recv ? ownId : op.channel);
    return;
  }
  bytes.add32(number(op.op));
  bytes.add64(op.count);
  bytes.add32(op.dtype);
  bytes.add32(op.redOp);
}

/// 24 bytes: pairs say who sends to whom, the channel which ring of theirs it takes.
void addPairsOp(Bytes& bytes, const encSignedOp& op) {
  bytes.add32(number(op.op));
  bytes.add64(op.count);
  bytes.add32(op.dtype);
  bytes.add32(op.redOp);
  bytes.add32(op.channel);
}

}  // namespace

Result<encSignature> encGroupSignature(const enc_glb_comm& global,
                                       const enc_replica_group_info& group,
                                       std::span<const encSignedOp> ops) {
  Bytes bytes;
  for (const uint32_t participant : group.participants)
    bytes.add32(participant);
  for (const encSignedOp& op : ops)
    addGroupOp(bytes, op, global.g_device_id);
  return bytes.md5();
}

Result<encSignature> encPairsSignature(const enc_src_target_pairs_info& info,
                                       std::span<const encSignedOp> ops) {
  Bytes bytes;
  for (const std::vector<uint32_t>& pair : info.pairs) {
    for (const uint32_t rank : pair)
      bytes.add32(rank);
  }
  for (const encSignedOp& op : ops)
    addPairsOp(bytes, op);
  return bytes.md5();
}

Result<encSignature> encContextSignature(const encGroups& groups) {
  Bytes bytes;
  bool isEmpty = true;
  for (const enc_replica_group_info& group : groups.replica_groups) {
    if (group.rank < 0 && !group.sendrecv) continue;
    bytes.add(group.signature);
    isEmpty = false;
  }
  for (const enc_src_target_pairs_info& pairs : groups.src_target_pairs) {
    bytes.add(pairs.signature);
    isEmpty = false;
  }
  if (isEmpty) return fail(ncclInvalidUsage, "a program without groups has no signature");
  return bytes.md5();
}

std::array<uint8_t, encSignatureMessage::kBytes> encSignatureMessage::bytes() const {
  std::array<uint8_t, kBytes> message{};
  std::copy(signature.begin(), signature.end(), message.begin());
  message.back() = ok ? 1 : 0;
  return message;
}

Result<encSignatureMessage> encSignatureMessage::of(std::span<const uint8_t> bytes) {
  if (bytes.size() != kBytes || bytes.back() > 1) {
    return fail(ncclInvalidArgument,
                "a signature message of %zu bytes with verdict %d; %zu bytes are wanted, verdict 0 "
                "or 1",
                bytes.size(), bytes.empty() ? -1 : bytes.back(), kBytes);
  }
  encSignatureMessage message;
  std::copy_n(bytes.begin(), message.signature.size(), message.signature.begin());
  message.ok = bytes.back() == 1;
  return message;
}

int encSignatureParent(int rank) {
  return rank == 0 ? -1 : (rank - 1) / 2;
}

std::vector<int> encSignatureChildren(int rank, int nRanks) {
  std::vector<int> children;
  for (int64_t child = 2 * int64_t{rank} + 1; child <= 2 * int64_t{rank} + 2; child++) {
    if (child < nRanks) children.push_back(static_cast<int>(child));
  }
  return children;
}

Status encTakeSignature(encSignatureMessage& own, const encSignatureMessage& child, int childRank) {
  if (child.signature != own.signature) {
    own.ok = false;
    return fail(
        ncclInvalidUsage,
        "failed signature check from peer: %d. This is likely caused by a compilation error "
        "generating mismatched collectives between the peers",
        childRank);
  }
  if (!child.ok) {
    own.ok = false;
    return fail(ncclInvalidUsage, "a signature check failed below peer %d", childRank);
  }
  return Ok{};
}

Status encReconcileSignatures(int groupId, std::span<const encSignature> ofRank) {
  const int nRanks = static_cast<int>(ofRank.size());
  std::vector<encSignatureMessage> messages;
  for (const encSignature& signature : ofRank)
    messages.push_back({signature, true});
  std::string peers;
  for (int rank = nRanks - 1; rank > 0; rank--) {  // children have higher numbers than parents
    const int parent = encSignatureParent(rank);
    const bool differs = messages[rank].signature != messages[parent].signature;
    const bool failed = !encTakeSignature(messages[parent], messages[rank], rank).ok();
    if (failed && differs) {
      peers +=
          (peers.empty() ? "" : ", ") + std::to_string(rank) + " unlike " + std::to_string(parent);
    }
  }
  if (nRanks == 0 || messages.front().ok) return Ok{};
  return fail(
      ncclInvalidUsage,
      "[gid: %d] failed signature validation: mismatched collectives between the peers (%s)",
      groupId, peers.c_str());
}

}  // namespace nccom
