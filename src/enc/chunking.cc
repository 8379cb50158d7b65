#include "enc/chunking.h"

#include <algorithm>
#include <numeric>

#include "enc/layout.h"

namespace nccom {
namespace {

// Bytes, by choice: below these a descriptor's fixed cost outweighs what the split gains. Where
// slots are smaller than these, a slot is the measure.
constexpr uint64_t kLine = 64;
constexpr uint64_t kMinChannelStep = 64 << 10;  // a channel moves at least this much in a step
constexpr uint64_t kMinHalf = 8 << 10;
// Smaller chunks would all travel the ring for the price of one: lanes stay empty instead.
constexpr uint64_t kMinChunk = 8 << 10;
constexpr uint64_t kMinChainChunk = 16 << 10;
constexpr uint64_t kChainChunks = 8;  // of a message: fills the pipe without many descriptors

uint64_t roundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}
uint64_t divideUp(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// The first half of a chunk; all of it when two halves are not worth their descriptors.
uint64_t halfOf(uint64_t chunkBytes, uint64_t slotBytes) {
  if (chunkBytes <= slotBytes && chunkBytes < 2 * kMinHalf) return chunkBytes;
  return roundUp(divideUp(chunkBytes, 2), kLine);
}

}  // namespace

encPiece encPass::piece(int channel, int lane, int half) const {
  const uint64_t chunk = (static_cast<uint64_t>(channel) * lanes + lane) * chunkBytes;
  const uint64_t begin = std::min(bytes, chunk + (half == 0 ? 0 : halfBytes));
  const uint64_t end = std::min(bytes, chunk + (half == 0 ? halfBytes : chunkBytes));
  return {base + begin, end - begin};
}

encPass encChunking::fullPass(uint64_t index) const {
  return {index * passBytes(), passBytes(), lanes, chunkBytes, halfBytes};
}

encPass encChunking::tail() const {
  const uint64_t share = divideUp(tailBytes, static_cast<uint64_t>(channels) * lanes);
  const uint64_t chunk = std::min(chunkBytes, std::max(kMinChunk, roundUp(share, kLine)));
  // A full chunk may fill two slots, a clamped one must not fill one beyond its end.
  const uint64_t half = halfBytes == chunkBytes ? chunk : halfOf(chunk, halfBytes);
  return {fullPasses * passBytes(), tailBytes, lanes, chunk, half};
}

encChunking encChunk(const encChunkingInput& input) {
  encChunking result;
  result.lanes = static_cast<uint64_t>(input.lanes);
  const uint64_t step = input.bytes / result.lanes;
  result.channels =
      static_cast<int>(std::clamp<uint64_t>(step / std::min(kMinChannelStep, input.slotBytes), 1,
                                            static_cast<uint64_t>(input.maxChannels)));
  const uint64_t channels = static_cast<uint64_t>(result.channels);
  uint64_t chunk = 2 * input.slotBytes;
  if (input.chain) {
    const uint64_t share = roundUp(divideUp(input.bytes, channels * kChainChunks), kLine);
    chunk = std::min(chunk, std::max(share, std::min(kMinChainChunk, input.slotBytes)));
  }
  const uint64_t whole = roundUp(divideUp(input.bytes, channels * result.lanes), kLine);
  result.chunkBytes = std::min(chunk, std::max(kMinChunk, whole));
  result.halfBytes = halfOf(result.chunkBytes, input.slotBytes);
  result.fullPasses = input.bytes / result.passBytes();
  result.tailBytes = input.bytes % result.passBytes();
  const uint64_t halves = result.halfBytes < result.chunkBytes ? 2 : 1;
  const uint64_t uses = halves * input.usesPerHalf;
  result.unroll = uses == 0 ? 1 : kRingSlots / std::gcd<uint64_t>(uses, kRingSlots);
  return result;
}

}  // namespace nccom
