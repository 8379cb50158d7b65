#include "enc/chunking.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "enc/layout.h"

namespace nccom {
namespace {

std::string text(const encChunkingInput& in) {
  return std::to_string(in.bytes) + " bytes, " + std::to_string(in.lanes) + " lanes, " +
         std::to_string(in.maxChannels) + " channels, slot " + std::to_string(in.slotBytes) +
         (in.chain ? ", chain" : "");
}

encChunkingInput sample(uint64_t seed) {
  std::mt19937_64 random(seed);
  encChunkingInput in;
  in.bytes = random() % (uint64_t{1} << random() % 24);
  in.lanes = random() % 2 == 0 ? 1 : static_cast<int>(random() % 64) + 1;
  in.maxChannels = static_cast<int>(random() % 8) + 1;
  in.slotBytes = 64 << random() % 12;
  in.usesPerHalf = random() % 130;
  in.chain = random() % 3 == 0;
  return in;
}

std::vector<encPass> passes(const encChunking& chunking) {
  std::vector<encPass> all;
  for (uint64_t i = 0; i < chunking.fullPasses; i++)
    all.push_back(chunking.fullPass(i));
  if (chunking.tailBytes > 0) all.push_back(chunking.tail());
  return all;
}

TEST(Chunking, CutsTheMessageIntoPiecesInOrderWithoutGaps) {
  for (uint64_t seed = 0; seed < 2000; seed++) {
    const encChunkingInput in = sample(seed);
    const encChunking chunking = encChunk(in);
    uint64_t end = 0;
    if (in.bytes / chunking.passBytes() > 2000) continue;
    for (const encPass& pass : passes(chunking)) {
      for (int channel = 0; channel < chunking.channels; channel++) {
        for (int lane = 0; lane < in.lanes; lane++) {
          for (int half = 0; half < 2; half++) {
            const encPiece piece = pass.piece(channel, lane, half);
            ASSERT_LE(piece.bytes, in.slotBytes) << text(in);
            if (piece.bytes == 0) continue;
            ASSERT_EQ(piece.offset, end) << text(in);
            ASSERT_EQ(piece.offset % 64, 0u) << text(in);
            end = piece.offset + piece.bytes;
          }
        }
      }
    }
    ASSERT_EQ(end, in.bytes) << text(in);
  }
}

TEST(Chunking, SlotUsesOfARepeatedBlockFillAllSlots) {
  for (uint64_t seed = 0; seed < 2000; seed++) {
    const encChunkingInput in = sample(seed);
    const encChunking chunking = encChunk(in);
    const uint64_t halves = chunking.halfBytes < chunking.chunkBytes ? 2 : 1;
    EXPECT_EQ(chunking.unroll * halves * in.usesPerHalf % kRingSlots, 0u) << text(in);
    EXPECT_LE(chunking.unroll, kRingSlots) << text(in);
  }
}

TEST(Chunking, GivesSmallMessagesOneChannelAndLargeOnesAll) {
  const auto channels = [](uint64_t bytes) {
    return encChunk({.bytes = bytes, .lanes = 8, .maxChannels = 8, .slotBytes = 128 << 10})
        .channels;
  };
  EXPECT_EQ(channels(8), 1);
  EXPECT_EQ(channels(1 << 20), 2);
  EXPECT_EQ(channels(64 << 20), 8);
}

TEST(Chunking, ChainsKeepSeveralChunksUnderWay) {
  const encChunking chunking =
      encChunk({.bytes = 1 << 20, .maxChannels = 1, .slotBytes = 128 << 10, .chain = true});
  EXPECT_EQ(chunking.fullPasses, 8u);
}

}  // namespace
}  // namespace nccom
