#include "enc/ring_channel.h"

#include <utility>

#include "misc/check.h"

namespace nccom {
namespace {

using Semaphore = encRingSemaphore;

/// Position of `rank` in `ring`.
size_t positionOf(const std::vector<int>& ring, int rank) {
  size_t position = 0;
  while (ring[position] != rank)
    position++;
  return position;
}

}  // namespace

encRingChannel::encRingChannel(encBuilder& builder, int channel, bool sends, bool receives)
    : builder_(builder), channel_(channel) {
  const enc_comm_info& info = builder.info();
  const encLayout& layout = builder.layout();
  const std::vector<int>& ring = info.rings[channel];
  const size_t position = positionOf(ring, info.rank);
  const auto id = static_cast<uint32_t>(channel);
  if (receives) {
    prev_ = ring[(position + ring.size() - 1) % ring.size()];
    prevRemote_ = !info.sameNode(info.rank, prev_);
    if (prevRemote_) {
      receiveQueue_ = builder.addQueue(id);
      receiveConnection_ = builder.connection(prev_, channel, false,
                                              layout.semaphore(Semaphore::NetReceived, channel));
    }
  }
  if (sends) {
    next_ = ring[(position + 1) % ring.size()];
    nextRemote_ = !info.sameNode(info.rank, next_);
    if (nextRemote_) {
      sendConnection_ =
          builder.connection(next_, channel, true, layout.semaphore(Semaphore::NetSent, channel));
    }
  }
  mainQueue_ = builder.addQueue(id);
  if (sends && !nextRemote_) {
    // All slots that earlier operations filled at next are free: the count starts at slot 0 again.
    builder.append(mainQueue_, encWait(encStep::PostSend, next_,
                                       layout.semaphore(Semaphore::Credit, channel), 0));
  }
}

void encRingChannel::beginBlock(uint64_t repeat, int64_t strideBytes) {
  repeat_ = repeat;
  stride_ = repeat > 1 ? strideBytes : 0;
  builder_.beginBlock(mainQueue_, repeat);
  if (prevRemote_) builder_.beginBlock(receiveQueue_, repeat);
}

void encRingChannel::step(const encRingStep& step) {
  if (step.bytes == 0) return;
  const encLayout& layout = builder_.layout();
  const int self = builder_.self();
  NCCL_CHECK(step.bytes <= layout.slotBytes);
  waitFor(step);
  encDesc transfer;
  transfer.step = step.step;
  transfer.bytes = step.bytes;
  transfer.divide = step.divide;
  if (step.receive) {
    const int64_t slot = layout.receiveSlot(channel_, received_ + blockReceived_);
    transfer.sources.push_back({self, encBuffer::Scratch, 0, slot, 0});
  }
  if (step.input) {
    if (step.scaleInput) transfer.scaledSources = uint64_t{1} << transfer.sources.size();
    transfer.sources.push_back({self, encBuffer::Input, 0, *step.input, stride_});
  }
  if (step.output) {
    transfer.destinations.push_back({self, encBuffer::Output, 0, *step.output, stride_});
  }
  if (step.send) transfer.destinations.push_back(sendSlot());
  builder_.append(mainQueue_, std::move(transfer));
  release(step);
  if (step.send) blockSent_++;
  if (step.receive) blockReceived_++;
}

encAddress encRingChannel::sendSlot() const {
  const encLayout& layout = builder_.layout();
  const uint64_t use = sent_ + blockSent_;
  if (nextRemote_) {
    return {builder_.self(), encBuffer::Scratch, 0, layout.netSendSlot(channel_, use), 0};
  }
  return {next_, encBuffer::Scratch, 0, layout.receiveSlot(channel_, use), 0};
}

/// The data is there, and so is the room.
void encRingChannel::waitFor(const encRingStep& step) {
  const encLayout& layout = builder_.layout();
  if (step.receive) {
    const uint32_t semaphore =
        layout.semaphore(prevRemote_ ? Semaphore::NetReceived : Semaphore::Received, channel_);
    const auto value = static_cast<int64_t>(received_ + blockReceived_) + 1;
    builder_.append(mainQueue_, encWait(step.step, prevRemote_ ? kProxy : prev_, semaphore, value));
  }
  if (step.send) {
    const uint32_t semaphore =
        layout.semaphore(nextRemote_ ? Semaphore::NetSent : Semaphore::Credit, channel_);
    const int64_t value = static_cast<int64_t>(sent_ + blockSent_) + 1 - kRingSlots;
    if (value > 0 || repeat_ > 1) {
      builder_.append(mainQueue_,
                      encWait(step.step, nextRemote_ ? kProxy : next_, semaphore, value));
    }
  }
}

void encRingChannel::release(const encRingStep& step) {
  const encLayout& layout = builder_.layout();
  const int self = builder_.self();
  if (step.send) {
    encDesc desc = encInc(step.step, next_, layout.semaphore(Semaphore::Received, channel_));
    if (nextRemote_) {
      desc = encDesc{};
      desc.type = encDescType::NetSend;
      desc.step = step.step;
      desc.connection = sendConnection_;
      desc.net = sendSlot();
      desc.bytes = step.bytes;
    }
    builder_.append(mainQueue_, std::move(desc));
  }
  if (step.receive) {
    if (prevRemote_) postReceive(step);
    builder_.append(
        mainQueue_,
        encInc(step.step, prevRemote_ ? self : prev_,
               layout.semaphore(prevRemote_ ? Semaphore::NetCredit : Semaphore::Credit, channel_)));
  }
}

/// The receive that this step consumes; in the other queue, which runs ahead as far as slots are
/// free.
void encRingChannel::postReceive(const encRingStep& step) {
  const encLayout& layout = builder_.layout();
  const int self = builder_.self();
  const uint64_t use = received_ + blockReceived_;
  const int64_t value = static_cast<int64_t>(use) + 1 - kRingSlots;
  if (value > 0 || repeat_ > 1) {
    builder_.append(
        receiveQueue_,
        encWait(encStep::PostRecv, self, layout.semaphore(Semaphore::NetCredit, channel_), value));
  }
  encDesc desc;
  desc.type = encDescType::NetRecv;
  desc.step = encStep::PostRecv;
  desc.connection = receiveConnection_;
  desc.net = {self, encBuffer::Scratch, 0, layout.receiveSlot(channel_, use), 0};
  desc.bytes = step.bytes;
  builder_.append(receiveQueue_, std::move(desc));
}

void encRingChannel::endBlock() {
  if (repeat_ > 1) {
    NCCL_CHECK(blockSent_ % kRingSlots == 0 && blockReceived_ % kRingSlots == 0);
    const encLayout& layout = builder_.layout();
    const uint32_t credit = layout.semaphore(Semaphore::Credit, channel_);
    const uint32_t netSent = layout.semaphore(Semaphore::NetSent, channel_);
    for (encDesc& desc : builder_.block(mainQueue_).descs) {
      if (desc.type != encDescType::Wait) continue;
      const bool forRoom = desc.semaphore == credit || desc.semaphore == netSent;
      desc.stride = static_cast<int64_t>(forRoom ? blockSent_ : blockReceived_);
    }
    if (prevRemote_) {
      for (encDesc& desc : builder_.block(receiveQueue_).descs) {
        if (desc.type == encDescType::Wait) desc.stride = static_cast<int64_t>(blockReceived_);
      }
    }
  }
  sent_ += blockSent_ * repeat_;
  received_ += blockReceived_ * repeat_;
  blockSent_ = blockReceived_ = 0;
}

void encRingChannel::finish() {
  const encLayout& layout = builder_.layout();
  if (nextRemote_ && sent_ > 0) {
    builder_.beginBlock(mainQueue_, 1);
    builder_.append(mainQueue_,
                    encWait(encStep::Sync, kProxy, layout.semaphore(Semaphore::NetSent, channel_),
                            static_cast<int64_t>(sent_)));
  }
  builder_.expect(layout.semaphore(nextRemote_ ? Semaphore::NetSent : Semaphore::Credit, channel_),
                  sent_);
  if (prevRemote_) builder_.expect(layout.semaphore(Semaphore::NetCredit, channel_), received_);
  builder_.expect(
      layout.semaphore(prevRemote_ ? Semaphore::NetReceived : Semaphore::Received, channel_),
      received_);
}

}  // namespace nccom
