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

Comm::Comm(std::shared_ptr<Endpoint> endpoint, Control control, Peer peer)
    : endpoint_(std::move(endpoint)), control_(std::move(control)), peer_(std::move(peer)) {}

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

uint64_t Comm::wireTag(int tag, Kind kind) const {
  const auto user = static_cast<uint64_t>(static_cast<uint32_t>(tag));
  const int bits = std::min(endpoint_->tagBits() - kUserTagBits, 32) - 1;  // one for the kind
  const uint64_t connection = peer_.connection & ((uint64_t{1} << bits) - 1);
  const uint64_t announced = kind == Kind::AnnouncedBytes ? 1 : 0;
  return (announced << bits | connection) << kUserTagBits | user;
}

void Comm::sayBye(uint64_t count) {
  const Note bye{Note::Bye, count};
  control_.send(&bye, sizeof bye);
  control_.finish();
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
  for (Note note; control_.take(&note, sizeof note);) {
    peerSaidBye_ |= note.kind == Note::Bye;
    noted(note);
  }
  if (endpoint_->broken()) {
    return failed(ncclSystemError, "%s: the endpoint of device %s is broken", what,
                  endpoint_->device().name.c_str());
  }
  if (alive) return ncclSuccess;
  const auto now = Clock::now();
  if (!std::exchange(peerGone_, true)) {
    lastMove_ = now;
    if (!peerSaidBye_) endpoint_->cleanUpAfter(peer_.address);
  }
  if (!drained() && now - lastMove_ < kGrace) return ncclSuccess;
  if (peerSaidBye_) return failed(ncclRemoteError, "%s: the peer has closed the connection", what);
  return failed(ncclRemoteError, "%s: the peer is gone: control connection %s", what,
                control_.why().c_str());
}

ncclResult_t Comm::operationFailed(const char* what, const Operation& operation, int tag,
                                   size_t bytes) {
  if (operation.error == FI_ETRUNC) {  // not every provider says by how much
    const size_t whole = std::max<size_t>(bytes + operation.overflow, operation.word);
    const std::string size =
        whole > bytes ? " of " + std::to_string(whole) + " bytes" : " that is longer";
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

SendComm::SendComm(std::shared_ptr<Endpoint> endpoint, Control control, Peer peer, fi_addr_t to)
    : Comm(std::move(endpoint), std::move(control), std::move(peer)),
      to_(to),
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
  sayBye(sent_);
}

void SendComm::noted(const Note& note) {
  if (note.kind == Note::Received) received_ = note.count;
}

/// Posts the bytes that the provider had no room for when they were announced.
ncclResult_t SendComm::postRest() {
  if (partly_ == nullptr) return ncclSuccess;
  bool posted = false;
  TRY(endpoint_->send(*partly_->operation, partly_->post, &posted));
  if (posted) partly_ = nullptr;
  return ncclSuccess;
}

ncclResult_t SendComm::isend(void* data, size_t bytes, int tag, const Memory* memory,
                             Request** out) {
  *out = nullptr;
  const Device& device = endpoint_->device();
  if (bytes > device.info->ep_attr->max_msg_size) {
    return failed(ncclInvalidUsage, "isend of %zu bytes; provider %s takes at most %zu", bytes,
                  device.provider(), device.info->ep_attr->max_msg_size);
  }
  TRY(postRest());
  const auto full = [this] {
    return partly_ != nullptr || unused_.empty() || sent_ - received_ >= kWindow;
  };
  if (full()) {
    endpoint_->progress();
    TRY(checkPeer("isend"));
    if (full()) return ncclSuccess;
  }
  Send& send = *unused_.back();
  send.tag = tag;
  send.operation->state.store(Operation::State::Idle, std::memory_order_relaxed);  // ours alone
  const bool announced = bytes > device.wholeBytes;
  const bool tagged = device.protocol == Protocol::Tagged;
  send.post = {data, bytes, memory, to_, wireTag(tag), tagged ? bytes : static_cast<uint32_t>(tag)};
  bool posted = false;
  if (announced) {
    TRY(endpoint_->announce(send.post, &posted));
    send.post.tag = wireTag(tag, Kind::AnnouncedBytes);
    if (posted) partly_ = &send;
    if (posted) TRY(postRest());
  } else {
    TRY(endpoint_->send(*send.operation, send.post, &posted));
  }
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
  TRY(postRest());
  if (!send.operation->finished()) endpoint_->progress();
  if (!send.operation->finished()) return idle("send");
  moved();
  if (send.operation->state.load(std::memory_order_relaxed) == Operation::State::Failed) {
    return operationFailed("send", *send.operation, send.tag, send.post.bytes);
  }
  if (sizes != nullptr) sizes[0] = static_cast<int>(send.post.bytes);
  send.inUse = false;
  unused_.push_back(&send);
  *done = 1;
  return ncclSuccess;
}

// ---- receiving ---------------------------------------------------------------------------------

RecvComm::RecvComm(std::shared_ptr<Endpoint> endpoint, Control control, Peer peer)
    : Comm(std::move(endpoint), std::move(control), std::move(peer)),
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
  sayBye(received_);
}

void RecvComm::noted(const Note& note) {
  if (note.kind != Note::Bye) return;
  sent_ = note.count;
  knowsSent_ = true;
}

bool RecvComm::Recv::done() const {
  return std::all_of(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(count),
                     [](const Slot& slot) { return slot.stage == Stage::Done; });
}

/// Announced bytes of one tag are met in the order of their receives: earlier ones of the tag must
/// have been posted, or have turned out to be whole.
bool RecvComm::mayPostBytes(const Slot& slot) const {
  for (const Recv* recv : posted_) {
    for (size_t i = 0; i < recv->count; ++i) {
      const Slot& other = recv->slots[i];
      if (&other == &slot) return true;
      if (other.tag == slot.tag && other.stage < Stage::BytesPosted) return false;
    }
  }
  return true;
}

/// The operation of a slot is finished: decides what follows.
ncclResult_t RecvComm::arrived(Slot& slot) {
  const Operation& operation = *slot.operation;
  if (operation.state.load(std::memory_order_relaxed) == Operation::State::Failed) {
    return operationFailed("receive", operation, slot.tag, slot.post.bytes);
  }
  const bool tagged = endpoint_->device().protocol == Protocol::Tagged;
  if (!tagged && operation.word != static_cast<uint32_t>(slot.tag)) {
    return failed(ncclInvalidUsage, "receive with tag %d met the message of tag %d", slot.tag,
                  static_cast<int>(operation.word));
  }
  slot.received = operation.bytes;
  if (!tagged || slot.stage == Stage::BytesPosted || operation.word == operation.bytes) {
    slot.stage = Stage::Done;
    return ncclSuccess;
  }
  if (operation.word > slot.post.bytes) {
    return failed(ncclInvalidUsage,
                  "receive: a message of %llu bytes, tag %d, for a receive of %zu bytes",
                  static_cast<unsigned long long>(operation.word), slot.tag, slot.post.bytes);
  }
  slot.stage = Stage::Announced;
  return ncclSuccess;
}

/// Takes one slot as far as it goes; `stuck` when the provider has no room.
ncclResult_t RecvComm::advance(Slot& slot, bool* stuck) {
  const bool waits = slot.stage == Stage::Posted || slot.stage == Stage::BytesPosted;
  if (waits && slot.operation->finished()) TRY(arrived(slot));
  if (slot.stage != Stage::Unposted && slot.stage != Stage::Announced) return ncclSuccess;
  Endpoint::Post post = slot.post;
  if (slot.stage == Stage::Announced) {
    if (!mayPostBytes(slot)) return ncclSuccess;
    post.tag = wireTag(slot.tag, Kind::AnnouncedBytes);
  }
  bool posted = false;
  TRY(endpoint_->recv(*slot.operation, post, &posted));
  *stuck = !posted;
  if (posted) slot.stage = slot.stage == Stage::Announced ? Stage::BytesPosted : Stage::Posted;
  return ncclSuccess;
}

ncclResult_t RecvComm::advance() {
  bool stuck = false;
  for (Recv* recv : posted_) {
    for (size_t i = 0; i < recv->count; ++i) {
      TRY(advance(recv->slots[i], &stuck));
      if (stuck) return ncclSuccess;
    }
  }
  return ncclSuccess;
}

ncclResult_t RecvComm::irecv(const Buffers& buffers, Request** out) {
  *out = nullptr;
  const int most = maxRecvs(endpoint_->device().protocol);
  if (buffers.n < 1 || buffers.n > most) {
    return failed(ncclInvalidUsage, "irecv of %d messages, expected 1 to %d", buffers.n, most);
  }
  if (unused_.empty()) return ncclSuccess;
  Recv& recv = *unused_.back();
  recv.count = static_cast<size_t>(buffers.n);
  for (size_t i = 0; i < recv.count; ++i) {
    if (buffers.sizes[i] < 0) {
      return failed(ncclInvalidArgument, "irecv of %d bytes", buffers.sizes[i]);
    }
    Slot& slot = recv.slots[i];
    slot.stage = Stage::Unposted;
    slot.tag = buffers.tags[i];
    void* memory = buffers.memories != nullptr ? buffers.memories[i] : nullptr;
    slot.post = {buffers.data[i],
                 static_cast<size_t>(buffers.sizes[i]),
                 static_cast<const Memory*>(memory),
                 FI_ADDR_UNSPEC,
                 wireTag(slot.tag),
                 0};
  }
  unused_.pop_back();
  posted_.push_back(&recv);
  recv.inUse = true;
  TRY(advance());
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
  if (!recv.done()) TRY(advance());
  if (!recv.done()) {
    endpoint_->progress();
    TRY(advance());
  }
  if (!recv.done()) return idle("receive");
  for (size_t i = 0; sizes != nullptr && i < recv.count; ++i) {
    sizes[i] = static_cast<int>(recv.slots[i].received);
  }
  moved();
  received_ += recv.count;
  tell();
  recv.inUse = false;
  std::erase(posted_, &recv);
  unused_.push_back(&recv);
  *done = 1;
  return ncclSuccess;
}

}  // namespace nccom::ofi
