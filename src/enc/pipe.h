// encPipe: one rank's two ends of a pipe. `prev` fills our receive slots, we fill `next`'s; both
// ends count the uses of slots alike, so use j that we send is use j that next receives. On a host
// a message may also go past the slots: the sender writes where the receiver wants it, and signals.
//
//   next on our host     WAIT credit >= j+1-slots    TRANSFER -> next's slot      INC next received
//                        or                          TRANSFER -> next's OUTPUT    INC next received
//   next on another one  WAIT netSent >= j+1-slots   TRANSFER -> own send slot    NET_SEND
//   prev on our host     WAIT received               TRANSFER <- own slot         INC prev credit
//   prev on another one  WAIT netReceived            TRANSFER <- own slot
//       receives are posted ahead, by a second queue: WAIT netCredit >= j+1-slots   NET_RECV
//       which our                                                       INC self netCredit   allows
//       or in the same queue, in order, before what they bring is awaited
#pragma once

#include <cstdint>
#include <optional>

#include "enc/builder.h"

namespace nccom {

/// Who posts network receives.
enum class encReceives : uint8_t {
  Ahead,    // a queue of their own, as far as slots are free
  InOrder,  // the steps' queue: expectData(), else awaitData()
};

class encPipe {
 public:
  /// @param prev, next  ranks; -1: we do not receive (send) in this operation
  /// @param queue       of the steps
  encPipe(encBuilder& builder, const encPipeMap& map, int prev, int next, size_t queue,
          encReceives receives);

  bool sendsRemote() const { return nextRemote_; }
  bool receivesRemote() const { return prevRemote_; }
  uint64_t slotBytes() const { return map_.slotBytes; }

  /// Before this object fills its first slot, and before any loop.
  void begin();

  // ---- sending: awaitRoom, a transfer into room(), sent; or a transfer elsewhere, signal -------
  void awaitRoom(encStep step);
  encAddress room() const;
  void sent(encStep step, uint64_t bytes);
  /// What we wrote into memory of next, which is on our host, is there.
  void signal(encStep step);

  // ---- receiving: awaitData, a transfer from data(), taken; or awaitSignal ---------------------
  /// Posts a receive of `bytes` that will be awaited later; at most kRingSlots may be under way.
  /// Does nothing unless receives are InOrder and prev is on another host.
  void expectData(encStep step, uint64_t bytes);
  void awaitData(encStep step, uint64_t bytes);
  encAddress data() const;
  void taken(encStep step);
  void awaitSignal(encStep step);

  /// Waits until the network has sent everything.
  void finish();

 private:
  void postReceive(size_t queue, encStep step, uint64_t bytes);
  uint32_t semaphore(encPipeSemaphore which) const { return map_.semaphore(which); }

  encBuilder& builder_;
  const encPipeMap map_;
  const int prev_, next_;
  const size_t queue_;
  const encReceives receives_;
  bool nextRemote_ = false, prevRemote_ = false;
  uint32_t sendConnection_ = 0, receiveConnection_ = 0;
  encPipeUses& uses_;
};

}  // namespace nccom
