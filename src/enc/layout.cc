#include "enc/layout.h"

#include <algorithm>

namespace nccom {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLine = 64;  // a cache line: slices that start on one never share it

/// A slot's share of `bytes`, rounded down to pages, or to lines when it is less than a page.
uint64_t slotOf(uint64_t bytes, uint32_t slots) {
  const uint64_t share = bytes / slots;
  const uint64_t unit = share >= kPage ? kPage : kLine;
  return std::max(share / unit * unit, kLine);
}

// Slots for the peers of other hosts shrink when there are many: scratch grows with the number of
// ranks, which all agree on, not with its square.
constexpr uint64_t kMostP2pBytes = 32 << 20;  // of a rank

uint64_t p2pSlotOf(const enc_comm_info& info) {
  const uint64_t share = kMostP2pBytes / 2 / static_cast<uint64_t>(info.rank_n);
  return slotOf(std::min(info.sizes.p2pBufferBytes, share), kP2pSlots);
}

constexpr const char* kRingNames[kRingSemaphores] = {"received", "credit", "network credit",
                                                     "network sent", "network received"};
constexpr const char* kPeerNames[kPeerSemaphores] = {"posted by",
                                                     "pulled by",
                                                     "network credit of",
                                                     "network sent to",
                                                     "network received from",
                                                     "collective done by"};

}  // namespace

encLayout encLayout::of(const enc_comm_info& info) {
  encLayout layout;
  layout.nRanks = info.rank_n;
  layout.nChannels = static_cast<int>(info.rings.size());
  layout.slotBytes = slotOf(info.sizes.bufferBytes, kRingSlots);
  layout.p2pSlotBytes = p2pSlotOf(info);
  layout.remoteIndex.assign(info.rank_n, -1);
  int remote = 0;
  for (int peer = 0; peer < info.rank_n; peer++) {
    if (!info.sameNode(info.rank, peer)) layout.remoteIndex[peer] = remote++;
  }
  return layout;
}

std::string encLayout::semaphoreName(uint32_t semaphore) const {
  const uint32_t ring = static_cast<uint32_t>(nChannels) * kRingSemaphores;
  if (semaphore < ring) {
    return std::string(kRingNames[semaphore % kRingSemaphores]) + " of ring channel " +
           std::to_string(semaphore / kRingSemaphores);
  }
  if (semaphore >= semaphores()) return "no semaphore";
  const uint32_t peer = semaphore - ring;
  return std::string(kPeerNames[peer % kPeerSemaphores]) + " rank " +
         std::to_string(peer / kPeerSemaphores);
}

uint32_t encLayout::hostIndex(const encConnection& connection) const {
  const int row =
      connection.channel == kP2pChannel ? nChannels + connection.peer : connection.channel;
  return 2 * static_cast<uint32_t>(row) + (connection.send ? 0 : 1);
}

int64_t encLayout::receiveSlot(int channel, uint64_t use) const {
  const uint64_t slot = static_cast<uint64_t>(channel) * 2 * kRingSlots + use % kRingSlots;
  return static_cast<int64_t>(slot * slotBytes);
}

int64_t encLayout::netSendSlot(int channel, uint64_t use) const {
  const uint64_t slot =
      static_cast<uint64_t>(channel) * 2 * kRingSlots + kRingSlots + use % kRingSlots;
  return static_cast<int64_t>(slot * slotBytes);
}

int64_t encLayout::p2pSendSlot(int peer, uint64_t use) const {
  const uint64_t ring = static_cast<uint64_t>(nChannels) * 2 * kRingSlots * slotBytes;
  const uint64_t slot = static_cast<uint64_t>(remoteIndex[peer]) * 2 * kP2pSlots + use % kP2pSlots;
  return static_cast<int64_t>(ring + slot * p2pSlotBytes);
}

int64_t encLayout::p2pReceiveSlot(int peer, uint64_t use) const {
  return p2pSendSlot(peer, use) + static_cast<int64_t>(kP2pSlots * p2pSlotBytes);
}

uint64_t encLayout::scratchBytes() const {
  const auto remote = static_cast<uint64_t>(
      std::count_if(remoteIndex.begin(), remoteIndex.end(), [](int index) { return index >= 0; }));
  return static_cast<uint64_t>(nChannels) * 2 * kRingSlots * slotBytes +
         remote * 2 * kP2pSlots * p2pSlotBytes;
}

}  // namespace nccom
