// encLayout: the static maps that every rank of a communicator agrees on without talking: numbers
// of semaphores and of network connections, and who owns which bytes of a rank's scratch.
//
// What makes reuse across operations safe: a scratch region has exactly one writer and one pair of
// semaphores (data there, room again) for ever, whatever operation uses it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "enc/comm_info.h"
#include "enc/program.h"
#include "misc/limits.h"

namespace nccom {

/// Slots of a ring channel, and of a point-to-point peer and direction. Four: two chunks of two
/// halves, so that one chunk is filled while the other is read.
inline constexpr uint32_t kRingSlots = 4;
inline constexpr uint32_t kP2pSlots = 4;
/// Messages that a rank may have posted to one peer without knowing that they were pulled.
inline constexpr uint32_t kMaxPosted = 64;

/// A rank's semaphores of one ring channel, and who raises them.
enum class encRingSemaphore : uint8_t {
  Received,     // prev: a receive slot was filled
  Credit,       // next: one of its receive slots, which we fill, is free again
  NetCredit,    // self: a receive slot that the network fills is free again
  NetSent,      // proxy: a network-send slot has been sent
  NetReceived,  // proxy: a receive slot was filled from the network
};
inline constexpr uint32_t kRingSemaphores = 5;

/// A rank's semaphores for one peer.
enum class encPeerSemaphore : uint8_t {
  Posted,          // peer: posted a message to us
  Done,            // peer: pulled a message that we had posted
  NetCredit,       // self: a receive slot is free again
  NetSent,         // proxy
  NetReceived,     // proxy
  CollectiveDone,  // peer: has read all it needs of our INPUT in this collective
};
inline constexpr uint32_t kPeerSemaphores = 6;

struct encLayout {
  int nRanks = 1;
  int nChannels = 0;
  uint64_t slotBytes = 0;        // of a ring channel
  uint64_t p2pSlotBytes = 0;     // of a remote peer
  std::vector<int> remoteIndex;  // [nRanks] position among the ranks of other hosts; -1: same host

  /// @param info  as encCheckComm accepts it
  static encLayout of(const enc_comm_info& info);

  uint32_t semaphore(encRingSemaphore which, int channel) const {
    return static_cast<uint32_t>(channel) * kRingSemaphores + static_cast<uint32_t>(which);
  }
  uint32_t semaphore(encPeerSemaphore which, int peer) const {
    return static_cast<uint32_t>(nChannels) * kRingSemaphores +
           static_cast<uint32_t>(peer) * kPeerSemaphores + static_cast<uint32_t>(which);
  }
  uint32_t semaphores() const {
    return static_cast<uint32_t>(nChannels) * kRingSemaphores +
           static_cast<uint32_t>(nRanks) * kPeerSemaphores;
  }
  /// "credit of ring channel 3", "posted by rank 7".
  std::string semaphoreName(uint32_t semaphore) const;

  /// Number of a connection's host index on this rank, below connections().
  uint32_t hostIndex(const encConnection& connection) const;
  uint32_t connections() const { return 2 * static_cast<uint32_t>(nChannels + nRanks); }

  // Offsets into a rank's scratch. Receive slots have the same place on every rank, since prev
  // writes there; the p2p slots are touched by their own rank and its proxy only.
  int64_t receiveSlot(int channel, uint64_t use) const;
  int64_t netSendSlot(int channel, uint64_t use) const;
  int64_t p2pSendSlot(int peer, uint64_t use) const;
  int64_t p2pReceiveSlot(int peer, uint64_t use) const;
  uint64_t scratchBytes() const;

  bool operator==(const encLayout&) const = default;
};

}  // namespace nccom
