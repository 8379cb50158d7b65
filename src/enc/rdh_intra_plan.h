// The plan of recursive halving and doubling within a server: what every rank moves in which step,
// as a value. The composer (intra_rdh.h) turns one rank's steps into descriptors; rdh_intra_proof.h
// proves the plan of all ranks; tools print it.
//
// A chunk is the part of the message that a member ends reduce-scatter with; `idx` is that member.
// Halving stores only what a partner will read: in step t a rank sums up the chunks that it gives
// away then, from INPUT of its device and from what the partners of earlier steps had stored for
// it, and its own chunk last, straight to OUTPUT. So of d devices a rank stores d - 1 chunks, and
// reads of each partner the half that it keeps, as if sums had been kept all along.
//
// Ranks in different places of their devices take the axes in different order, so that all links
// of a device are busy at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "enc/intra_rdh.h"
#include "enc/mesh_types.h"
#include "enc/stage.h"
#include "misc/result.h"

namespace nccom {

enum class encRdhBuffer : uint8_t { Input, Output, Work };

/// A place in a member's buffers: an offset in the message, or in the part where a buffer is one
/// part (INPUT of AllGather, OUTPUT of ReduceScatter), or in its work area.
struct encRdhAddress {
  encRdhBuffer buffer = encRdhBuffer::Input;
  uint64_t offset = 0;
  auto operator<=>(const encRdhAddress&) const = default;
};

// rdh_transfer::dst_idx
inline constexpr int kRdhLeaf = -1;      // nobody passes it on from there
inline constexpr int kRdhPassedOn = 0;   // somebody does
inline constexpr int kRdhHalfChunk = 2;  // half of a chunk: the other half comes another way

// NOLINTBEGIN(readability-identifier-naming): the runtime's names
/// Destinations get the sum of the sources; "devices" are members of the stage.
struct rdh_transfer {
  int idx = 0;
  std::vector<int> src_devs;
  std::vector<encRdhAddress> src_addrs;
  std::vector<int> dst_devs;
  std::vector<encRdhAddress> dst_addrs;
  uint64_t size = 0;
  int dst_idx = kRdhLeaf;
  bool operator==(const rdh_transfer&) const = default;
};
// NOLINTEND(readability-identifier-naming)

/// A step of a rank: transfers, then it tells its peers, then it hears of them. Where OUTPUT of
/// others must not be written, ranks of a gathering step first tell and hear, then fetch.
struct encRdhStep {
  enc_mesh_event_type event = enc_mesh_event_type::EVT_RH_STEP_0;
  bool doubling = false;  // by which of the two semaphores for each peer (encRdhSemaphore)
  bool fetches = false;
  std::vector<int> peers;  // members
  std::vector<rdh_transfer> transfers;
  bool operator==(const encRdhStep&) const = default;
};

/// What one plan moves of a stage: all of it, or a window that fits into the work area.
struct encRdhWindow {
  encOp op = encOp::AllReduce;  // AllGather, AllReduce, ReduceScatter
  bool writesOthers = true;     // OUTPUT of others may be written
  std::vector<encPart> chunks;  // [idx] place in the message; bytes may be 0
  uint64_t alone = 0;           // place of the own chunk in a buffer that is one part
  uint64_t capacity = 0;        // of the work area
};

/// A share of a work area that is handed out from the front.
class encRdhBuffers {
 public:
  explicit encRdhBuffers(uint64_t capacity) : capacity_(capacity) {}
  /// Offset of so many bytes, on a multiple of 32.
  /// @error ncclInvalidArgument  there are not so many left
  Result<uint64_t> getNewBuffer(uint64_t bytes);

 private:
  uint64_t capacity_, offset_ = 0;
};
/// Bytes that getNewBuffer() takes for one chunk.
constexpr uint64_t encRdhBufferBytes(uint64_t bytes) {
  return (bytes + 31) / 32 * 32;
}

/// The number of a chunk among those of its section (the chunks of all ranks in one place of their
/// devices): those that a rank holds at any time have consecutive ones.
int encRdhPosition(const encRdhGeometry& geometry, int member);

/// The semaphore that `raiser` raises at `member`, which nobody else ever raises there: an event of
/// the bands RH and RD, by the way that joins the two.
enc_mesh_event_type encRdhSemaphore(const encRdhGeometry& geometry, int member, int raiser,
                                    bool doubling);

/// The steps of one member in a window.
/// @error ncclInvalidArgument  the work area is too small
Result<std::vector<encRdhStep>> encScheduleRdh(const encRdhGeometry& geometry,
                                               const encRdhWindow& window, int member);

/// Before the first window of a stage whose buffers others may not touch without hearing of it, and
/// after the last one: steps without transfers.
std::vector<encRdhStep> encRdhOpening(const encRdhGeometry& geometry, const encRdhWindow& window,
                                      int member);
std::vector<encRdhStep> encRdhClosing(const encRdhGeometry& geometry, const encRdhWindow& window,
                                      int member);

/// A line a step and a transfer.
std::string encRdhPlanText(const std::vector<encRdhStep>& steps);

}  // namespace nccom
