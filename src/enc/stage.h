// A stage: a collective over some of a communicator's ranks, from buffers to buffers. What every
// composer composes. A flat collective is one stage over all ranks, from INPUT to OUTPUT; a
// hierarchy is several, the later ones working on what the earlier ones left.
//
// Members are numbered 0 .. n-1 in the stage, and have ranks in the communicator; descriptors name
// ranks. Bytes of a stage's buffers have offsets 0 .. in the message, whatever places they lie at.
#pragma once

#include <cstdint>
#include <vector>

#include "enc/program.h"
#include "enc/task.h"

namespace nccom {

/// Semaphores of events, and pipes, that a stage may use: those of one level.
enum class encLevel : uint8_t { Intra, Inter };
inline constexpr uint32_t kLevels = 2;

/// Where the bytes of a stage's INPUT or OUTPUT lie, on every member alike.
struct encPages {
  encBuffer buffer = encBuffer::Input;
  uint16_t index = 0;
  int64_t base = 0;    // of byte 0
  int64_t stride = 0;  // of its addresses, for loops of the program
  /// Not empty: byte o lies at base + places[o / pieceBytes] + o % pieceBytes.
  uint64_t pieceBytes = 0;
  std::vector<int64_t> places;

  encAddress at(int rank, uint64_t offset) const;
  /// Of `bytes` from `offset` on, those that lie one behind the other with the first.
  uint64_t run(uint64_t offset, uint64_t bytes) const;
};

/// Bytes of some rank from a place on: one behind the other, or as pages say.
class encSpan {
 public:
  encSpan(encAddress address) : address_(address) {}  // NOLINT(google-explicit-constructor)
  /// @param pages  must outlive the span
  encSpan(const encPages& pages, int rank, uint64_t offset)
      : pages_(&pages), rank_(rank), offset_(offset) {}

  encAddress at(uint64_t from) const;
  /// Of `bytes` from `from` on, those that lie one behind the other with the first.
  uint64_t run(uint64_t from, uint64_t bytes) const;

 private:
  const encPages* pages_ = nullptr;
  int rank_ = 0;
  uint64_t offset_ = 0;
  encAddress address_;
};

/// A part of a message. bytes 0: nothing to do, on any rank.
struct encPart {
  uint64_t begin = 0, bytes = 0;
  bool operator==(const encPart&) const = default;
};

struct encStage {
  encOp op = encOp::AllReduce;  // AllGather, AllReduce, ReduceScatter; AlltoAll on meshes;
                                // Broadcast, Reduce on rings
  encLevel level = encLevel::Intra;
  std::vector<int> ranks;  // of the communicator, by member
  int self = 0;            // own member number
  int root = 0;            // member
  uint64_t elementBytes = 1;
  /// AllGather, ReduceScatter, AlltoAll: part i is [i * partBytes, (i + 1) * partBytes) of the
  /// message, as far as that goes: the last parts may be short or empty. Else unused.
  uint64_t partBytes = 0;
  uint64_t messageBytes = 0;  // all parts together; the whole for the other operations
  encPages input, output;     // one part: AllGather's input, ReduceScatter's output
  /// AllGather's INPUT is the own part of OUTPUT, on every member; `input` says where ours is.
  bool inPlace = false;
  bool scaleInputs = false;  // INPUT is multiplied by the launch's scale where it enters
  bool divide = false;       // complete sums are divided by the launch's divisor
  /// Members may read our INPUT and write our OUTPUT as soon as we have launched. Else they must
  /// hear from us first (encBuilder knows nothing of it: composers see to it).
  bool first = true;
  uint64_t workBegin = 0, workBytes = 0;  // scratch for it alone, within the work area
  uint32_t channel = 0;                   // number of its first queue
  int maxChannels = 32;                   // queues that it may use
  bool mayLoop = true;                    // repeated blocks are allowed

  int n() const { return static_cast<int>(ranks.size()); }
  int rank() const { return ranks[self]; }
  encPart part(int member) const;
  encSpan in(int member, uint64_t offset) const {
    if (inPlace) return out(member, part(member).begin + offset);
    return {input, ranks[member], offset};
  }
  encSpan out(int member, uint64_t offset) const { return {output, ranks[member], offset}; }
  /// Own scratch, and that of others: `offset` counts from workBegin.
  encAddress work(int member, uint64_t offset) const {
    return {ranks[member], encBuffer::Scratch, 0, static_cast<int64_t>(workBegin + offset), 0};
  }
  /// Others write our OUTPUT directly only if it is the launch's: the order between operations that
  /// scratch would need is not kept for it.
  bool writesOthers() const { return output.buffer == encBuffer::Output; }
};

}  // namespace nccom
