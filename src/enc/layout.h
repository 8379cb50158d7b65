// encLayout: the static maps that every rank of a communicator agrees on without talking: numbers
// of semaphores and of network connections, and who owns which bytes of a rank's scratch.
//
// What makes reuse across operations safe: a slot has exactly one writer and one pair of semaphores
// (data there, room again) for ever, whatever operation uses it. The work area may have many, but
// nobody touches it before its owner's program has started or after it has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/stage.h"
#include "misc/limits.h"

namespace nccom {

/// Slots of a ring channel, and of a point-to-point peer and direction. Four: two chunks of two
/// halves, so that one chunk is filled while the other is read.
inline constexpr uint32_t kRingSlots = 4;
inline constexpr uint32_t kP2pSlots = 4;
/// Messages that a rank may have posted to one peer that were not read yet: a post waits for that.
/// Those that go by value take room, and are fewer.
inline constexpr uint32_t kMaxPosted = 64, kMaxPostedValues = 8;
constexpr uint32_t encPostedAhead(bool byValue) {
  return byValue ? kMaxPostedValues : kMaxPosted;
}

/// Pipes: what carries data from one rank to the next through slots of the receiver's scratch. A
/// rank has two ends of each, towards its prev and its next.
enum class encPipeKind : uint8_t {
  Ring,         // of a channel
  Kangaring,    // of a path
  IntraReduce,  // rings of a hierarchy, within a server: reduce-scatter
  IntraGather,  // all-gather
  Inter,        // between servers
  InterRdh,     // of an axis: both ways
};
/// A rank's semaphores of one pipe, and who raises them.
enum class encPipeSemaphore : uint8_t {
  Received,     // prev: a receive slot was filled, or what it wrote elsewhere is there
  Credit,       // next: one of its receive slots, which we fill, is free again
  NetCredit,    // self: a receive slot that the network fills is free again
  NetSent,      // proxy: a network-send slot has been sent
  NetReceived,  // proxy: a receive slot was filled from the network
  Ready,        // a rank beside the pipe: its buffers may be used
  Done,         // a rank beside the pipe: has finished with our buffers
};
inline constexpr uint32_t kPipeSemaphores = 7;

/// A rank's semaphores for one peer.
enum class encPeerSemaphore : uint8_t {
  Done,            // peer: pulled a message that we had posted by reference
  NetCredit,       // self: a receive slot is free again
  NetSent,         // proxy
  NetReceived,     // proxy
  CollectiveDone,  // peer: has read all it needs of our INPUT in this collective
  Staged,          // peer: what it staged is there to be read
  Taken,           // peer: has read what we staged
};
inline constexpr uint32_t kPeerSemaphores = 7;

/// Semaphores of events: one an event type and level, raised by whoever takes part in the event.
inline constexpr uint32_t kEventSemaphores = 64;
/// Between the queues of a rank that run the stages of a hierarchy side by side.
inline constexpr uint32_t kJointSemaphores = 4;
/// Rounds in which all ranks that share memory meet: for up to 2^20 of them.
inline constexpr uint32_t kDirectSemaphores = 20;

/// A pipe's semaphores and slots.
struct encPipeMap {
  uint32_t semaphores = 0;  // number of the first
  bool isPeer = false;      // point-to-point slots: the semaphores are those of a peer
  int channel = 0;          // of its connections
  uint64_t slotBytes = 0;
  int64_t receiveSlots = 0, sendSlots = 0;  // offsets in the scratch

  uint32_t semaphore(encPipeSemaphore which) const;
  int64_t receiveSlot(uint64_t use) const {
    return receiveSlots + static_cast<int64_t>(use % kRingSlots * slotBytes);
  }
  int64_t netSendSlot(uint64_t use) const {
    return sendSlots + static_cast<int64_t>(use % kRingSlots * slotBytes);
  }
};

struct encLayout {
  int nRanks = 1;
  int nChannels = 0;             // rings
  int nPaths = 0;                // kangarings
  int nAxes = 0;                 // of RDH between servers
  uint64_t slotBytes = 0;        // of a pipe
  uint64_t p2pSlotBytes = 0;     // of a remote peer
  uint64_t workBytes = 0;        // of the work area
  std::vector<int> remoteIndex;  // [nRanks] position among the ranks of other hosts; -1: same host

  /// @param info  as encCheckComm accepts it
  static encLayout of(const enc_comm_info& info);

  int pipes() const;
  /// @param index  channel, path, axis; else 0
  encPipeMap pipe(encPipeKind kind, int index) const;
  /// The point-to-point slots of a peer on another host, as a pipe both ways.
  encPipeMap peerPipe(int peer) const;

  uint32_t semaphore(encPeerSemaphore which, int peer) const {
    return static_cast<uint32_t>(pipes()) * kPipeSemaphores +
           static_cast<uint32_t>(peer) * kPeerSemaphores + static_cast<uint32_t>(which);
  }
  /// @param event  below kEventSemaphores
  uint32_t eventSemaphore(encLevel level, uint32_t event) const {
    return static_cast<uint32_t>(pipes()) * kPipeSemaphores +
           static_cast<uint32_t>(nRanks) * kPeerSemaphores +
           static_cast<uint32_t>(level) * kEventSemaphores + event;
  }
  uint32_t jointSemaphore(uint32_t joint) const {
    return eventSemaphore(encLevel::Intra, kLevels * kEventSemaphores) + joint;
  }
  /// Raised by one rank at a distance that goes with the number: see direct.cc.
  uint32_t directSemaphore(uint32_t number) const {
    return jointSemaphore(kJointSemaphores) + number;
  }
  uint32_t semaphores() const { return directSemaphore(kDirectSemaphores); }
  /// "credit of ring channel 3", "pulled by rank 7", "EVT_SYNC within servers".
  std::string semaphoreName(uint32_t semaphore) const;

  /// Number of a connection's host index on this rank, below connections().
  uint32_t hostIndex(const encConnection& connection) const;
  uint32_t connections() const { return 2 * static_cast<uint32_t>(pipes() + nRanks); }

  // Offsets into a rank's scratch. Receive slots of pipes have the same place on every rank, since
  // prev writes there; so has the work area. The p2p slots are touched by their own rank and its
  // proxy only.
  int64_t p2pSendSlot(int peer, uint64_t use) const;
  int64_t p2pReceiveSlot(int peer, uint64_t use) const;
  /// The work area: any rank of the host may write there while its owner is in the operation.
  uint64_t workBegin() const;
  bool isWork(int64_t offset) const {
    return offset >= static_cast<int64_t>(workBegin()) &&
           offset < static_cast<int64_t>(workBegin() + workBytes);
  }
  uint64_t scratchBytes() const;

  bool operator==(const encLayout&) const = default;
};

}  // namespace nccom
