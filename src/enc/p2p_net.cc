#include "enc/p2p_net.h"

#include <algorithm>
#include <utility>

#include "misc/check.h"

namespace nccom {
namespace {

using Semaphore = encPeerSemaphore;

/// How a message fills slots: `repeat` iterations of all slots, then the rest.
struct Split {
  uint64_t repeat = 0, repeatedBytes = 0, restBytes = 0;
};

Split split(uint64_t bytes, uint64_t slotBytes) {
  const uint64_t round = slotBytes * kP2pSlots;
  const uint64_t repeat = bytes / round;
  if (repeat < 2) return {0, 0, bytes};
  return {repeat, repeat * round, bytes - repeat * round};
}

encDesc netDesc(encDescType type, uint32_t connection, encAddress slot, uint64_t bytes) {
  encDesc desc;
  desc.type = type;
  desc.step = type == encDescType::NetSend ? encStep::Send : encStep::PostRecv;
  desc.connection = connection;
  desc.net = slot;
  desc.bytes = bytes;
  return desc;
}

size_t queueOf(encBuilder& builder, std::optional<size_t>& queue, uint32_t id) {
  if (!queue) queue = builder.addQueue(id);
  return *queue;
}

}  // namespace

encP2pNet::encP2pNet(encBuilder& builder)
    : builder_(builder), sent_(builder.info().rank_n, 0), received_(builder.info().rank_n, 0) {}

void encP2pNet::send(int peer, encAddress source, uint64_t bytes) {
  const Split parts = split(bytes, builder_.layout().p2pSlotBytes);
  if (parts.repeat > 0) {
    sendSlots(peer, source, parts.repeat, parts.repeatedBytes / parts.repeat);
    source.offset += static_cast<int64_t>(parts.repeatedBytes);
  }
  if (parts.restBytes > 0) sendSlots(peer, source, 1, parts.restBytes);
}

/// One block: `bytes` in each of `repeat` iterations, slot after slot.
void encP2pNet::sendSlots(int peer, encAddress source, uint64_t repeat, uint64_t bytes) {
  const encLayout& layout = builder_.layout();
  const size_t queue = queueOf(builder_, sendQueue_, 0);
  const uint32_t netSent = layout.semaphore(Semaphore::NetSent, peer);
  const uint32_t connection = builder_.connection(peer, kP2pChannel, true, netSent);
  const auto stride = static_cast<int64_t>(repeat > 1 ? bytes : 0);
  uint64_t use = sent_[peer];
  builder_.beginBlock(queue, repeat);
  for (uint64_t done = 0; done < bytes; use++) {
    const uint64_t piece = std::min(bytes - done, layout.p2pSlotBytes);
    const encAddress slot{builder_.self(), encBuffer::Scratch, 0, layout.p2pSendSlot(peer, use), 0};
    encDesc wait =
        encWait(encStep::Send, kProxy, netSent, static_cast<int64_t>(use) + 1 - kP2pSlots);
    wait.stride = repeat > 1 ? kP2pSlots : 0;
    if (wait.value > 0 || repeat > 1) builder_.append(queue, std::move(wait));
    encAddress from = source;
    from.offset += static_cast<int64_t>(done);
    from.stride = stride;
    builder_.append(queue, encTransfer(encStep::Send, from, slot, piece));
    builder_.append(queue, netDesc(encDescType::NetSend, connection, slot, piece));
    done += piece;
  }
  NCCL_CHECK(repeat == 1 || use - sent_[peer] == kP2pSlots);
  sent_[peer] += (use - sent_[peer]) * repeat;
}

void encP2pNet::receive(int peer, encAddress destination, uint64_t bytes) {
  const Split parts = split(bytes, builder_.layout().p2pSlotBytes);
  if (parts.repeat > 0) {
    receiveSlots(peer, destination, parts.repeat, parts.repeatedBytes / parts.repeat);
    destination.offset += static_cast<int64_t>(parts.repeatedBytes);
  }
  if (parts.restBytes > 0) receiveSlots(peer, destination, 1, parts.restBytes);
}

void encP2pNet::receiveSlots(int peer, encAddress destination, uint64_t repeat, uint64_t bytes) {
  const encLayout& layout = builder_.layout();
  const size_t post = queueOf(builder_, postQueue_, 1);
  const size_t copy = queueOf(builder_, copyQueue_, 2);
  const int self = builder_.self();
  const uint32_t received = layout.semaphore(Semaphore::NetReceived, peer);
  const uint32_t credit = layout.semaphore(Semaphore::NetCredit, peer);
  const uint32_t connection = builder_.connection(peer, kP2pChannel, false, received);
  uint64_t use = received_[peer];
  builder_.beginBlock(post, repeat);
  builder_.beginBlock(copy, repeat);
  for (uint64_t done = 0; done < bytes; use++) {
    const uint64_t piece = std::min(bytes - done, layout.p2pSlotBytes);
    const encAddress slot{self, encBuffer::Scratch, 0, layout.p2pReceiveSlot(peer, use), 0};
    const auto number = static_cast<int64_t>(use) + 1;
    encDesc room = encWait(encStep::PostRecv, self, credit, number - kP2pSlots);
    encDesc data = encWait(encStep::RecvCopy, kProxy, received, number);
    room.stride = data.stride = repeat > 1 ? kP2pSlots : 0;
    if (room.value > 0 || repeat > 1) builder_.append(post, std::move(room));
    builder_.append(post, netDesc(encDescType::NetRecv, connection, slot, piece));
    encAddress to = destination;
    to.offset += static_cast<int64_t>(done);
    to.stride = static_cast<int64_t>(repeat > 1 ? bytes : 0);
    builder_.append(copy, std::move(data));
    builder_.append(copy, encTransfer(encStep::RecvCopy, slot, to, piece));
    builder_.append(copy, encInc(encStep::RecvCopy, self, credit));
    done += piece;
  }
  NCCL_CHECK(repeat == 1 || use - received_[peer] == kP2pSlots);
  received_[peer] += (use - received_[peer]) * repeat;
}

void encP2pNet::finish() {
  const encLayout& layout = builder_.layout();
  if (sendQueue_) builder_.beginBlock(*sendQueue_, 1);
  for (int peer = 0; peer < layout.nRanks; peer++) {
    if (sent_[peer] > 0) {
      const uint32_t semaphore = layout.semaphore(Semaphore::NetSent, peer);
      builder_.append(*sendQueue_,
                      encWait(encStep::Sync, kProxy, semaphore, static_cast<int64_t>(sent_[peer])));
      builder_.expect(semaphore, sent_[peer]);
    }
    builder_.expect(layout.semaphore(Semaphore::NetReceived, peer), received_[peer]);
    builder_.expect(layout.semaphore(Semaphore::NetCredit, peer), received_[peer]);
  }
}

}  // namespace nccom
