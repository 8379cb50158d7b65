// How a ring operation cuts its message: channels, passes, chunks, halves. A function of sizes
// only, so that every rank cuts alike.
//
//   message | pass 0                                  | pass 1 ... | tail, with a clamped chunk |
//   pass    | channel 0: lane 0, 1, .. lanes-1 | channel 1: lane 0 ... |
//   lane    | half 0 | half 1 |                                              = one chunk
//
// AllReduce has a lane for every rank; the other operations have one, since their passes run over
// one rank's part.
//
// As in the runtime, a pass takes a chunk of each lane and channel, there are as many passes as the
// message has full ones, and the chunks of the last are clamped to what is left; chunks are even,
// and each step is issued for both halves. The chunk of a full pass is our own choice: the runtime
// is said to take a 32nd of a channel's buffer, here it is what two of its slots hold, so that one
// half is filled while the other is read, and less for messages that would leave channels idle.
#pragma once

#include <cstdint>

namespace nccom {

struct encPiece {
  uint64_t offset = 0, bytes = 0;  // in the message; bytes 0: nothing to do, on any rank
  bool operator==(const encPiece&) const = default;
};

/// One pass over [base, base + bytes) of the message.
struct encPass {
  uint64_t base = 0, bytes = 0;
  uint64_t lanes = 1;
  uint64_t chunkBytes = 0, halfBytes = 0;  // halfBytes <= chunkBytes <= 2 halfBytes
  encPiece piece(int channel, int lane, int half) const;
  bool operator==(const encPass&) const = default;
};

struct encChunking {
  int channels = 1;
  uint64_t lanes = 1;
  uint64_t chunkBytes = 0, halfBytes = 0;  // of a full pass, multiples of 64
  uint64_t fullPasses = 0;
  uint64_t tailBytes = 0;
  uint64_t unroll = 1;  // full passes in an iteration of the repeated block

  uint64_t passBytes() const { return static_cast<uint64_t>(channels) * lanes * chunkBytes; }
  encPass fullPass(uint64_t index) const;
  encPass tail() const;  // bytes 0: there is none
  bool operator==(const encChunking&) const = default;
};

struct encChunkingInput {
  uint64_t bytes = 0;  // of the message (of a rank's part, with one lane)
  int lanes = 1;
  int maxChannels = 1;
  uint64_t slotBytes = 0;    // multiple of 64
  uint64_t usesPerHalf = 1;  // slots that a rank fills for a half in a full pass
  bool chain = false;        // pipelined chain: several chunks must be under way at once
};

encChunking encChunk(const encChunkingInput& input);

}  // namespace nccom
