#include "plugins/net_ofi/comm.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

#include "plugins/net_ofi/log.h"

namespace nccom::ofi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kPollsBetweenChecks = 256;  // tests without result; a check costs a system call
// How long what a peer has sent may still be under way in the fabric after it is gone.
constexpr std::chrono::milliseconds kGrace(1000);
// How long closing waits for the provider to give back what is under way.
constexpr std::chrono::milliseconds kSettle(1000);

constexpr size_t kRecvOperations = static_cast<size_t>(kMaxRequests) * kMaxRecvs;
constexpr int kUserTagBits = 32;

}  // namespace

int maxRecvs(Protocol protocol) {
  return protocol == Protocol::Tagged ? kMaxRecvs : 1;
}

Comm::Comm(std::shared_ptr<Endpoint> endpoint, Control control, uint32_t connection)
    : endpoint_(std::move(endpoint)), control_(std::move(control)), connection_(connection) {}

ncclResult_t Comm::registerMemory(void* data, size_t bytes, int type, Memory** out) {
  if (type != NCCL_PTR_HOST) {
    return failed(ncclInvalidArgument, "regMr of memory of type %d, only host memory (%d) is taken",
                  type, NCCL_PTR_HOST);
  }
  auto memory = std::make_unique<Memory>();
  TRY(endpoint_->registerMemory(data, bytes, *memory));
  *out = memory.release();
  return ncclSuccess;
}

ncclResult_t Comm::deregister(Memory* memory) {
  const std::unique_ptr<Memory> owner(memory);
  if (owner) endpoint_->deregister(std::move(*owner));
  return ncclSuccess;
}

uint64_t Comm::wireTag(int tag) const {
  const auto user = static_cast<uint64_t>(static_cast<uint32_t>(tag));
  if (endpoint_->device().protocol == Protocol::Message) return user;
  const int bits = std::min(endpoint_->tagBits() - kUserTagBits, 32);
  const uint64_t connection = connection_ & ((uint64_t{1} << bits) - 1);
  return connection << kUserTagBits | user;
}

void Comm::moved() {
  idlePolls_ = 0;
  if (peerGone_) lastMove_ = Clock::now();
}

ncclResult_t Comm::idle(const char* what) {
  if (++idlePolls_ % kPollsBetweenChecks != 0) return ncclSuccess;
  return checkPeer(what);
}

ncclResult_t Comm::checkPeer(const char* what) {
  const bool alive = control_.progress();
  for (Note note; control_.take(&note, sizeof note);)
    noted(note);
  if (endpoint_->broken()) {
    return failed(ncclSystemError, "%s: the endpoint of device %s is broken", what,
                  endpoint_->device().name.c_str());
  }
  if (alive) return ncclSuccess;
  const auto now = Clock::now();
  if (!std::exchange(peerGone_, true)) lastMove_ = now;
  if (!drained() && now - lastMove_ < kGrace) return ncclSuccess;
  return failed(ncclRemoteError, "%s: the peer is gone: control connection %s", what,
                control_.why().c_str());
}

ncclResult_t Comm::operationFailed(const char* what, const Operation& operation, int tag,
                                   size_t bytes) {
  if (operation.error == FI_ETRUNC) {  // not every provider says by how much
    const std::string size = operation.overflow > 0
                                 ? " of " + std::to_string(bytes + operation.overflow) + " bytes"
                                 : " that is longer";
    return failed(ncclInvalidUsage, "%s: a message%s, tag %d, for a receive of %zu bytes", what,
                  size.c_str(), tag, bytes);
  }
  return failed(ncclRemoteError, "%s of %zu bytes, tag %d, over %s: %s", what, bytes, tag,
                endpoint_->device().provider(), operation.text.c_str());
}

void Comm::settle(std::unique_ptr<Operation[]> operations, size_t count, bool cancel) {
  const auto busy = [](const Operation& operation) {
    // Idle is only ever set by this thread; pairs with the endpoint's completion
    return operation.state.load(std::memory_order_acquire) == Operation::State::Posted;
  };
  Operation* const begin = operations.get();
  Operation* const end = begin + count;
  if (std::none_of(begin, end, busy)) return;
  if (cancel) {
    std::for_each(begin, end, [&](Operation& operation) {
      if (busy(operation)) endpoint_->cancel(operation);
    });
  }
  const auto limit = Clock::now() + kSettle;
  while (std::any_of(begin, end, busy) && Clock::now() < limit && !endpoint_->broken()) {
    endpoint_->progress();
    if (!control_.progress()) break;
  }
  endpoint_->progress();
  if (std::any_of(begin, end, busy)) endpoint_->adopt(std::move(operations), count);
}

// ---- sending -----------------------------------------------------------------------------------

SendComm::SendComm(std::shared_ptr<Endpoint> endpoint, Control control, fi_addr_t peer,
                   uint32_t connection)
    : Comm(std::move(endpoint), std::move(control), connection),
      peer_(peer),
      operations_(std::make_unique<Operation[]>(kMaxSends)),
      sends_(kMaxSends) {
  for (size_t i = 0; i < kMaxSends; ++i) {
    sends_[i].comm = this;
    sends_[i].operation = &operations_[i];
    unused_.push_back(&sends_[i]);
  }
}

SendComm::~SendComm() {
  settle(std::move(operations_), kMaxSends, false);
  const Note bye{Note::Bye, sent_};
  control_.send(&bye, sizeof bye);
  control_.finish();
}

void SendComm::noted(const Note& note) {
  if (note.kind == Note::Received) received_ = note.count;
}

ncclResult_t SendComm::isend(void* data, size_t bytes, int tag, const Memory* memory,
                             Request** out) {
  *out = nullptr;
  const bool full = unused_.empty() || sent_ - received_ >= kWindow;
  if (full) {
    endpoint_->progress();
    TRY(checkPeer("isend"));
    if (unused_.empty() || sent_ - received_ >= kWindow) return ncclSuccess;
  }
  if (bytes > endpoint_->device().info->ep_attr->max_msg_size) {
    return failed(ncclInvalidUsage, "isend of %zu bytes; provider %s takes at most %zu", bytes,
                  endpoint_->device().provider(), endpoint_->device().info->ep_attr->max_msg_size);
  }
  Send& send = *unused_.back();
  send.tag = tag;
  send.bytes = bytes;
  bool posted = false;
  TRY(endpoint_->send(*send.operation, {data, bytes, memory, peer_, wireTag(tag)}, &posted));
  if (!posted) return idle("isend");
  moved();
  unused_.pop_back();
  send.inUse = true;
  ++sent_;
  *out = &send;
  return ncclSuccess;
}

ncclResult_t SendComm::test(Send& send, int* done, int* sizes) {
  *done = 0;
  if (!send.inUse) return failed(ncclInvalidUsage, "test of a send that is already done");
  if (!send.operation->finished()) endpoint_->progress();
  if (!send.operation->finished()) return idle("send");
  moved();
  if (send.operation->state.load(std::memory_order_relaxed) == Operation::State::Failed) {
    return operationFailed("send", *send.operation, send.tag, send.bytes);
  }
  if (sizes != nullptr) sizes[0] = static_cast<int>(send.bytes);
  send.inUse = false;
  unused_.push_back(&send);
  *done = 1;
  return ncclSuccess;
}

// ---- receiving ---------------------------------------------------------------------------------

RecvComm::RecvComm(std::shared_ptr<Endpoint> endpoint, Control control, uint32_t connection)
    : Comm(std::move(endpoint), std::move(control), connection),
      operations_(std::make_unique<Operation[]>(kRecvOperations)),
      recvs_(kMaxRequests) {
  for (size_t i = 0; i < recvs_.size(); ++i) {
    recvs_[i].comm = this;
    for (size_t slot = 0; slot < kMaxRecvs; ++slot) {
      recvs_[i].slots[slot].operation = &operations_[i * kMaxRecvs + slot];
    }
    unused_.push_back(&recvs_[i]);
  }
}

RecvComm::~RecvComm() {
  settle(std::move(operations_), kRecvOperations, true);
}

void RecvComm::noted(const Note& note) {
  if (note.kind != Note::Bye) return;
  sent_ = note.count;
  knowsSent_ = true;
}

/// Posts what the provider had no room for when its request was made.
ncclResult_t RecvComm::postRest() {
  if (partly_ == nullptr) return ncclSuccess;
  Recv& recv = *partly_;
  while (recv.posted < recv.count) {
    Slot& slot = recv.slots[static_cast<size_t>(recv.posted)];
    bool posted = false;
    TRY(endpoint_->recv(*slot.operation, slot.post, &posted));
    if (!posted) return ncclSuccess;
    ++recv.posted;
  }
  partly_ = nullptr;
  return ncclSuccess;
}

ncclResult_t RecvComm::irecv(const Buffers& buffers, Request** out) {
  *out = nullptr;
  const int most = maxRecvs(endpoint_->device().protocol);
  if (buffers.n < 1 || buffers.n > most) {
    return failed(ncclInvalidUsage, "irecv of %d messages, expected 1 to %d", buffers.n, most);
  }
  TRY(postRest());
  if (partly_ != nullptr || unused_.empty()) return idle("irecv");
  Recv& recv = *unused_.back();
  recv.count = buffers.n;
  recv.posted = 0;
  for (int i = 0; i < buffers.n; ++i) {
    if (buffers.sizes[i] < 0) {
      return failed(ncclInvalidArgument, "irecv of %d bytes", buffers.sizes[i]);
    }
    Slot& slot = recv.slots[static_cast<size_t>(i)];
    slot.operation->state.store(Operation::State::Idle, std::memory_order_relaxed);
    slot.tag = buffers.tags[i];
    slot.post = {
        buffers.data[i], static_cast<size_t>(buffers.sizes[i]),
        buffers.memories != nullptr ? static_cast<const Memory*>(buffers.memories[i]) : nullptr,
        FI_ADDR_UNSPEC, wireTag(buffers.tags[i])};
  }
  partly_ = &recv;
  TRY(postRest());
  if (recv.posted == 0) {
    partly_ = nullptr;
    return idle("irecv");
  }
  unused_.pop_back();
  recv.inUse = true;
  *out = &recv;
  return ncclSuccess;
}

void RecvComm::tell() {
  if (received_ - told_ < kTellEvery) return;
  told_ = received_;
  const Note note{Note::Received, received_};
  control_.send(&note, sizeof note);
}

ncclResult_t RecvComm::test(Recv& recv, int* done, int* sizes) {
  *done = 0;
  if (!recv.inUse) return failed(ncclInvalidUsage, "test of a receive that is already done");
  TRY(postRest());
  const auto unfinished = [&recv] {
    return std::any_of(recv.slots.begin(), recv.slots.begin() + recv.count,
                       [](const Slot& slot) { return !slot.operation->finished(); });
  };
  if (unfinished()) endpoint_->progress();
  for (int i = 0; i < recv.count; ++i) {
    const Slot& slot = recv.slots[static_cast<size_t>(i)];
    const Operation& operation = *slot.operation;
    if (!operation.finished()) return idle("receive");
    if (operation.state.load(std::memory_order_relaxed) == Operation::State::Failed) {
      return operationFailed("receive", operation, slot.tag, slot.post.bytes);
    }
    if (endpoint_->device().protocol == Protocol::Message && operation.data != slot.post.tag) {
      return failed(ncclInvalidUsage, "receive with tag %d met the message of tag %d", slot.tag,
                    static_cast<int>(operation.data));
    }
    if (sizes != nullptr) sizes[i] = static_cast<int>(operation.bytes);
  }
  moved();
  received_ += static_cast<uint64_t>(recv.count);
  tell();
  recv.inUse = false;
  unused_.push_back(&recv);
  *done = 1;
  return ncclSuccess;
}

}  // namespace nccom::ofi
