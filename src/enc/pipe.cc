#include "enc/pipe.h"

#include <utility>

#include "misc/check.h"

namespace nccom {
namespace {

using Semaphore = encPipeSemaphore;

encDesc netDesc(encDescType type, encStep step, uint32_t connection, encAddress slot,
                uint64_t bytes) {
  encDesc desc;
  desc.type = type;
  desc.step = step;
  desc.connection = connection;
  desc.net = slot;
  desc.bytes = bytes;
  return desc;
}

}  // namespace

encPipe::encPipe(encBuilder& builder, const encPipeMap& map, int prev, int next, size_t queue,
                 encReceives receives)
    : builder_(builder),
      map_(map),
      prev_(prev),
      next_(next),
      queue_(queue),
      receives_(receives),
      uses_(builder.pipeUses(map.semaphores)) {
  const enc_comm_info& info = builder.info();
  if (next >= 0 && !info.sameNode(info.rank, next)) {
    nextRemote_ = true;
    sendConnection_ = builder.connection(next, map.channel, true, semaphore(Semaphore::NetSent));
  }
  if (prev >= 0 && !info.sameNode(info.rank, prev)) {
    prevRemote_ = true;
    receiveConnection_ =
        builder.connection(prev, map.channel, false, semaphore(Semaphore::NetReceived));
    if (receives == encReceives::Ahead && !uses_.postQueue) {
      uses_.postQueue = builder.addQueue(static_cast<uint32_t>(map.channel));
    }
  }
}

void encPipe::begin() {
  NCCL_CHECK(!builder_.inLoop());
  if (uses_.begun) return;
  uses_.begun = true;
  // All slots that earlier operations filled at next are free: the count starts at slot 0 again.
  if (next_ < 0 || nextRemote_) return;
  builder_.append(queue_, encWait(encStep::PostSend, next_, semaphore(Semaphore::Credit), 0));
}

void encPipe::awaitRoom(encStep step) {
  NCCL_CHECK(uses_.begun);
  if (nextRemote_) {
    builder_.expect(semaphore(Semaphore::NetSent));
    if (builder_.inLoop() || uses_.sent >= kRingSlots) {
      builder_.wait(queue_, step, kProxy, semaphore(Semaphore::NetSent), kRingSlots);
    }
    return;
  }
  builder_.expect(semaphore(Semaphore::Credit));
  if (builder_.inLoop() || uses_.sent >= kRingSlots) {
    builder_.wait(queue_, step, next_, semaphore(Semaphore::Credit), kRingSlots);
  }
}

encAddress encPipe::room() const {
  if (nextRemote_) {
    return {builder_.self(), encBuffer::Scratch, 0, map_.netSendSlot(uses_.sent), 0};
  }
  return {next_, encBuffer::Scratch, 0, map_.receiveSlot(uses_.sent), 0};
}

void encPipe::sent(encStep step, uint64_t bytes) {
  NCCL_CHECK(bytes <= map_.slotBytes);
  if (nextRemote_) {
    builder_.append(queue_, netDesc(encDescType::NetSend, step, sendConnection_, room(), bytes));
  } else {
    builder_.append(queue_, encInc(step, next_, semaphore(Semaphore::Received)));
  }
  uses_.sent++;
}

void encPipe::signal(encStep step) {
  NCCL_CHECK(next_ >= 0 && !nextRemote_);
  builder_.append(queue_, encInc(step, next_, semaphore(Semaphore::Received)));
}

void encPipe::postReceive(size_t queue, encStep step, uint64_t bytes) {
  const encAddress slot{builder_.self(), encBuffer::Scratch, 0, map_.receiveSlot(uses_.posted), 0};
  builder_.append(queue, netDesc(encDescType::NetRecv, step, receiveConnection_, slot, bytes));
  builder_.expect(semaphore(Semaphore::NetReceived));
  uses_.posted++;
}

void encPipe::expectData(encStep step, uint64_t bytes) {
  if (!prevRemote_ || receives_ == encReceives::Ahead) return;
  NCCL_CHECK(bytes <= map_.slotBytes && uses_.posted < uses_.taken + kRingSlots);
  postReceive(queue_, step, bytes);
}

void encPipe::awaitData(encStep step, uint64_t bytes) {
  if (!prevRemote_) {
    builder_.expect(semaphore(Semaphore::Received));
    builder_.wait(queue_, step, prev_, semaphore(Semaphore::Received));
    return;
  }
  if (receives_ == encReceives::Ahead) {
    builder_.expect(semaphore(Semaphore::NetCredit));
    if (builder_.inLoop() || uses_.posted >= kRingSlots) {
      builder_.wait(*uses_.postQueue, encStep::PostRecv, builder_.self(),
                    semaphore(Semaphore::NetCredit), kRingSlots);
    }
    postReceive(*uses_.postQueue, encStep::PostRecv, bytes);
  } else if (uses_.posted == uses_.taken) {
    expectData(step, bytes);
  }
  const auto underWay = static_cast<int64_t>(uses_.posted - uses_.taken - 1);
  builder_.wait(queue_, step, kProxy, semaphore(Semaphore::NetReceived), underWay);
}

encAddress encPipe::data() const {
  return {builder_.self(), encBuffer::Scratch, 0, map_.receiveSlot(uses_.taken), 0};
}

void encPipe::taken(encStep step) {
  uses_.taken++;
  if (!prevRemote_) {
    builder_.append(queue_, encInc(step, prev_, semaphore(Semaphore::Credit)));
  } else if (receives_ == encReceives::Ahead) {
    builder_.append(queue_, encInc(step, builder_.self(), semaphore(Semaphore::NetCredit)));
  }
}

void encPipe::awaitSignal(encStep step) {
  NCCL_CHECK(prev_ >= 0 && !prevRemote_);
  builder_.expect(semaphore(Semaphore::Received));
  builder_.wait(queue_, step, prev_, semaphore(Semaphore::Received));
}

void encPipe::finish() {
  if (nextRemote_ && uses_.sent > 0) {
    builder_.wait(queue_, encStep::Sync, kProxy, semaphore(Semaphore::NetSent));
  }
}

}  // namespace nccom
