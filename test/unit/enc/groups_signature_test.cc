#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "enc/signature.h"

namespace nccom {
namespace {

enc_replica_group_info groupOf(std::vector<uint32_t> participants) {
  enc_replica_group_info group;
  group.rank = 0;
  group.rank_n = static_cast<int>(participants.size());
  group.participants = std::move(participants);
  return group;
}

std::string hex(const encSignature& signature) {
  std::string text;
  for (const uint8_t byte : signature) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

TEST(Signature, IsTheMd5OfParticipantsAndOperations) {
  // md5 of 00000000 01000000, then of the same and 01000000
  // 0002000000000000 0a000000 04000000.
  const enc_replica_group_info group = groupOf({0, 1});
  EXPECT_EQ(hex(encGroupSignature({0, 2}, group, {}).value()), "da35686b165e3223d5d49c046644e68e");
  const std::vector<encSignedOp> ops{{enc_op_type::AllReduce, 512, 10, 4, 0}};
  EXPECT_EQ(hex(encGroupSignature({0, 2}, group, ops).value()), "7e0eaeac0ef611c85d5d03d04a3d3e08");
}

TEST(Signature, ChangesWithEverythingThatIsSigned) {
  const encSignedOp op{enc_op_type::AllReduce, 512, 10, 4, 0};
  const std::vector<std::pair<std::vector<uint32_t>, std::vector<encSignedOp>>> variants{
      {{0, 1}, {}},
      {{1, 0}, {}},
      {{0, 1, 2}, {}},
      {{0, 1}, {op}},
      {{0, 1}, {op, op}},
      {{0, 1}, {{enc_op_type::AllGather, 512, 10, 4, 0}}},
      {{0, 1}, {{enc_op_type::AllReduce, 513, 10, 4, 0}}},
      {{0, 1}, {{enc_op_type::AllReduce, 512, 7, 4, 0}}},
      {{0, 1}, {{enc_op_type::AllReduce, 512, 10, 8, 0}}},
      {{0, 1}, {{enc_op_type::Send, 512, 0, 0, 1}}},
      {{0, 1}, {{enc_op_type::Send, 512, 0, 0, 2}}},
  };
  std::set<encSignature> signatures;
  for (const auto& [participants, ops] : variants) {
    signatures.insert(encGroupSignature({0, 2}, groupOf(participants), ops).value());
  }
  EXPECT_EQ(signatures.size(), variants.size());
}

TEST(Signature, IsOneForBothEndsOfAMessage) {
  const enc_replica_group_info group = groupOf({3, 6});
  const std::vector<encSignedOp> send{{enc_op_type::Send, 100, 0, 0, 6}};
  const std::vector<encSignedOp> recv{{enc_op_type::Recv, 100, 0, 0, 0}};
  EXPECT_EQ(encGroupSignature({3, 8}, group, send).value(),
            encGroupSignature({6, 8}, group, recv).value());
  EXPECT_NE(encGroupSignature({3, 8}, group, send).value(),
            encGroupSignature({5, 8}, group, recv).value());
}

TEST(Signature, OfPairsIsNotThatOfTheGroupTheyMake) {
  enc_src_target_pairs_info pairs;
  pairs.pairs = {{0, 1}};
  const std::vector<encSignedOp> ops{{enc_op_type::Permute, 8, 10, 0, 2}};
  const encSignature signature = encPairsSignature(pairs, ops).value();
  EXPECT_NE(signature, encGroupSignature({0, 2}, groupOf({0, 1}), ops).value());
  pairs.pairs = {{0, 1}, {1, 0}};
  EXPECT_NE(signature, encPairsSignature(pairs, ops).value());
}

TEST(Signature, OfAProgramCoversItsGroupsAndPairs) {
  encGroups groups;
  EXPECT_FALSE(encContextSignature(groups).ok());
  groups.replica_groups = {groupOf({0, 1}), groupOf({0, 2})};
  groups.src_target_pairs.resize(1);
  std::set<encSignature> signatures{encContextSignature(groups).value()};
  groups.replica_groups[1].signature[5] = 1;
  signatures.insert(encContextSignature(groups).value());
  groups.src_target_pairs[0].signature[15] = 1;
  signatures.insert(encContextSignature(groups).value());
  EXPECT_EQ(signatures.size(), 3U);
}

TEST(SignatureMessage, IsSeventeenBytes) {
  encSignatureMessage message;
  for (size_t i = 0; i < message.signature.size(); i++) {
    message.signature[i] = static_cast<uint8_t>(i * 17);
  }
  for (const bool ok : {false, true}) {
    message.ok = ok;
    const auto bytes = message.bytes();
    EXPECT_EQ(bytes.size(), 17U);
    EXPECT_EQ(encSignatureMessage::of(bytes).value(), message);
    EXPECT_FALSE(encSignatureMessage::of(std::span(bytes).first(16)).ok());
  }
  auto bytes = message.bytes();
  bytes.back() = 2;
  EXPECT_FALSE(encSignatureMessage::of(bytes).ok());
  EXPECT_FALSE(encSignatureMessage::of({}).ok());
}

TEST(SignatureTree, HasEveryRankOnceBelowItsParent) {
  for (int nRanks = 1; nRanks < 40; nRanks++) {
    std::vector<int> seen(nRanks);
    for (int rank = 0; rank < nRanks; rank++) {
      for (const int child : encSignatureChildren(rank, nRanks)) {
        EXPECT_EQ(encSignatureParent(child), rank);
        EXPECT_GT(child, rank);
        seen.at(child)++;
      }
    }
    for (int rank = 1; rank < nRanks; rank++)
      EXPECT_EQ(seen[rank], 1);
    EXPECT_EQ(seen[0], 0);
  }
  EXPECT_EQ(encSignatureParent(0), -1);
}

TEST(Signatures, AreReconciledOnlyIfAllAreEqual) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 200; trial++) {
    std::vector<encSignature> signatures(1 + random() % 33);
    EXPECT_TRUE(encReconcileSignatures(0, signatures).ok());
    if (signatures.size() == 1) continue;
    const size_t odd = random() % signatures.size();
    signatures[odd][random() % 16] ^= 1;
    const Status status = encReconcileSignatures(3, signatures);
    ASSERT_FALSE(status.ok()) << odd << " of " << signatures.size();
    EXPECT_NE(status.error().message.find("[gid: 3] failed signature validation"),
              std::string::npos);
    // The odd rank is named, whichever of the two it is in its pairs.
    EXPECT_NE(status.error().message.find(std::to_string(odd)), std::string::npos)
        << status.error().message;
  }
}

TEST(Signatures, TellAPeerThatDiffersFromOneBelowWhichAnotherDiffers) {
  encSignatureMessage own, child;
  child.signature[0] = 1;
  const Status differs = encTakeSignature(own, child, 5);
  EXPECT_FALSE(own.ok);
  EXPECT_EQ(differs.error().message,
            "failed signature check from peer: 5. This is likely caused by a compilation error "
            "generating mismatched collectives between the peers");
  own = {};
  child = {};
  child.ok = false;
  EXPECT_EQ(encTakeSignature(own, child, 5).error().message,
            "a signature check failed below peer 5");
  EXPECT_FALSE(own.ok);
}

}  // namespace
}  // namespace nccom
