// encRingChannel: one rank's end of a ring channel. Turns the ring's steps (send, recv_reduce_send,
// recv_copy_send ...) into descriptors, and keeps slots, credits and network entries in step.
//
// A slot use is a number that counts from 0 within the operation; use j lives in slot j mod
// kRingSlots. Both ends count alike, so use j that we send is use j that next receives:
//
//   next on our host     WAIT credit >= j+1-slots    TRANSFER -> next's slot      INC next received
//   next on another one  WAIT netSent >= j+1-slots   TRANSFER -> own send slot    NET_SEND
//   prev on our host     WAIT received >= j+1        TRANSFER <- own slot         INC prev credit
//   prev on another one  WAIT netReceived >= j+1     TRANSFER <- own slot         INC self
//   netCredit
//       and a second queue posts the receives:       WAIT netCredit >= j+1-slots  NET_RECV
#pragma once

#include <cstdint>
#include <optional>

#include "enc/builder.h"

namespace nccom {

/// One step for one half chunk. INPUT and OUTPUT are our own.
struct encRingStep {
  encStep step = encStep::Send;
  bool receive = false;                          // a source is what prev sent
  bool send = false;                             // a destination is next's slot
  std::optional<int64_t> input = std::nullopt;   // offset of the other source
  std::optional<int64_t> output = std::nullopt;  // offset of the other destination
  uint64_t bytes = 0;                            // 0: nothing is sent, on either side
  bool scaleInput = false;
  bool divide = false;
};

class encRingChannel {
 public:
  /// @param sends, receives  whether this rank has a next (a prev) in this operation
  encRingChannel(encBuilder& builder, int channel, bool sends, bool receives);

  /// Steps that follow run `repeat` times; INPUT and OUTPUT move by `strideBytes` each time. The
  /// slot uses of an iteration must be a multiple of kRingSlots if it is repeated.
  void beginBlock(uint64_t repeat, int64_t strideBytes);
  void step(const encRingStep& step);
  void endBlock();
  /// Waits until the network has sent everything; declares what others raise.
  void finish();

 private:
  void beginMain();
  void waitFor(const encRingStep& step);
  void release(const encRingStep& step);
  void postReceive(const encRingStep& step);
  encAddress sendSlot() const;

  encBuilder& builder_;
  const int channel_;
  int next_ = -1, prev_ = -1;
  bool nextRemote_ = false, prevRemote_ = false;
  size_t mainQueue_ = 0, receiveQueue_ = 0;
  uint32_t sendConnection_ = 0, receiveConnection_ = 0;
  uint64_t sent_ = 0, received_ = 0;            // slot uses before the current block
  uint64_t blockSent_ = 0, blockReceived_ = 0;  // within an iteration of it
  uint64_t repeat_ = 1;
  int64_t stride_ = 0;
};

}  // namespace nccom
