#include "enc/layout.h"

#include <algorithm>
#include <bit>

#include "enc/mesh_types.h"
#include "misc/check.h"

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

constexpr const char* kPipeNames[kPipeSemaphores] = {
    "received", "credit", "network credit", "network sent", "network received", "ready", "done"};
constexpr const char* kPeerNames[kPeerSemaphores] = {
    "pulled by",          "network credit of", "network sent to", "network received from",
    "collective done by", "staged by",         "taken by"};
constexpr int kHierPipes = 3;  // IntraReduce, IntraGather, Inter

int axesOf(const enc_comm_info& info) {
  const auto servers = static_cast<unsigned>(info.situation.node_n);
  return servers > 1 && std::has_single_bit(servers) ? std::countr_zero(servers) : 0;
}

}  // namespace

uint32_t encPipeMap::semaphore(encPipeSemaphore which) const {
  if (!isPeer) return semaphores + static_cast<uint32_t>(which);
  switch (which) {
    case encPipeSemaphore::NetCredit:
      return semaphores + static_cast<uint32_t>(encPeerSemaphore::NetCredit);
    case encPipeSemaphore::NetSent:
      return semaphores + static_cast<uint32_t>(encPeerSemaphore::NetSent);
    case encPipeSemaphore::NetReceived:
      return semaphores + static_cast<uint32_t>(encPeerSemaphore::NetReceived);
    default:
      NCCL_CHECK(false && "peers of other hosts are reached by network only");
  }
}

encLayout encLayout::of(const enc_comm_info& info) {
  encLayout layout;
  layout.nRanks = info.rank_n;
  layout.nChannels = static_cast<int>(info.rings.size());
  layout.nPaths = static_cast<int>(info.kangaring.paths.size());
  layout.nAxes = axesOf(info);
  layout.slotBytes = slotOf(info.sizes.bufferBytes, kRingSlots);
  layout.p2pSlotBytes = p2pSlotOf(info);
  layout.workBytes = info.peers.empty() ? 0 : info.sizes.workBytes;
  layout.remoteIndex.assign(info.rank_n, -1);
  int remote = 0;
  for (int peer = 0; peer < info.rank_n; peer++) {
    if (!info.sameNode(info.rank, peer)) layout.remoteIndex[peer] = remote++;
  }
  return layout;
}

int encLayout::pipes() const {
  return nChannels + nPaths + kHierPipes + nAxes;
}

encPipeMap encLayout::pipe(encPipeKind kind, int index) const {
  int number = index;
  if (kind != encPipeKind::Ring) number += nChannels;
  if (kind == encPipeKind::InterRdh) number += nPaths + kHierPipes;
  if (kind == encPipeKind::IntraReduce) number += nPaths;
  if (kind == encPipeKind::IntraGather) number += nPaths + 1;
  if (kind == encPipeKind::Inter) number += nPaths + 2;
  encPipeMap map;
  map.semaphores = static_cast<uint32_t>(number) * kPipeSemaphores;
  map.channel = number;
  map.slotBytes = slotBytes;
  map.receiveSlots =
      static_cast<int64_t>(static_cast<uint64_t>(number) * 2 * kRingSlots * slotBytes);
  map.sendSlots = map.receiveSlots + static_cast<int64_t>(kRingSlots * slotBytes);
  return map;
}

encPipeMap encLayout::peerPipe(int peer) const {
  encPipeMap map;
  map.isPeer = true;
  map.semaphores = semaphore(encPeerSemaphore{}, peer);  // the first of them
  map.channel = kP2pChannel;
  map.slotBytes = p2pSlotBytes;
  map.receiveSlots = p2pReceiveSlot(peer, 0);
  map.sendSlots = p2pSendSlot(peer, 0);
  return map;
}

namespace {

std::string pipeName(const encLayout& layout, int number) {
  if (number < layout.nChannels) return "ring channel " + std::to_string(number);
  number -= layout.nChannels;
  if (number < layout.nPaths) return "kangaring path " + std::to_string(number);
  number -= layout.nPaths;
  if (number == 0) return "the reducing ring within the server";
  if (number == 1) return "the gathering ring within the server";
  if (number == 2) return "the ring between servers";
  return "axis " + std::to_string(number - kHierPipes) + " between servers";
}

}  // namespace

std::string encLayout::semaphoreName(uint32_t semaphore) const {
  const uint32_t ofPipes = static_cast<uint32_t>(pipes()) * kPipeSemaphores;
  if (semaphore < ofPipes) {
    return std::string(kPipeNames[semaphore % kPipeSemaphores]) + " of " +
           pipeName(*this, static_cast<int>(semaphore / kPipeSemaphores));
  }
  if (semaphore >= semaphores()) return "no semaphore";
  const uint32_t events = eventSemaphore(encLevel::Intra, 0);
  if (semaphore < events) {
    const uint32_t peer = semaphore - ofPipes;
    return std::string(kPeerNames[peer % kPeerSemaphores]) + " rank " +
           std::to_string(peer / kPeerSemaphores);
  }
  if (semaphore >= directSemaphore(0)) {
    return "number " + std::to_string(semaphore - directSemaphore(0)) + " of all ranks' meeting";
  }
  const uint32_t event = semaphore - events;
  if (event >= kLevels * kEventSemaphores) {
    return "joint " + std::to_string(event - kLevels * kEventSemaphores) + " of stages";
  }
  const uint32_t type = event % kEventSemaphores;
  std::string name = "event " + std::to_string(type);
  if (type < kMeshEventTypes) name = encMeshEventName(static_cast<enc_mesh_event_type>(type));
  return name + (event < kEventSemaphores ? " within servers" : " between servers");
}

uint32_t encLayout::hostIndex(const encConnection& connection) const {
  const int row =
      connection.channel == kP2pChannel ? pipes() + connection.peer : connection.channel;
  return 2 * static_cast<uint32_t>(row) + (connection.send ? 0 : 1);
}

int64_t encLayout::p2pSendSlot(int peer, uint64_t use) const {
  const uint64_t ofPipes = static_cast<uint64_t>(pipes()) * 2 * kRingSlots * slotBytes;
  const uint64_t slot = static_cast<uint64_t>(remoteIndex[peer]) * 2 * kP2pSlots + use % kP2pSlots;
  return static_cast<int64_t>(ofPipes + workBytes + slot * p2pSlotBytes);
}

int64_t encLayout::p2pReceiveSlot(int peer, uint64_t use) const {
  return p2pSendSlot(peer, use) + static_cast<int64_t>(kP2pSlots * p2pSlotBytes);
}

uint64_t encLayout::workBegin() const {
  return static_cast<uint64_t>(pipes()) * 2 * kRingSlots * slotBytes;
}

uint64_t encLayout::scratchBytes() const {
  const auto remote = static_cast<uint64_t>(
      std::count_if(remoteIndex.begin(), remoteIndex.end(), [](int index) { return index >= 0; }));
  return workBegin() + workBytes + remote * 2 * kP2pSlots * p2pSlotBytes;
}

}  // namespace nccom
