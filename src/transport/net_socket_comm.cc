#include "transport/net_socket_comm.h"

#include <algorithm>
#include <cstring>

namespace nccom {
namespace {

constexpr uint32_t kMessageMagic = 0x4d4d434e;        // "NCMM"
constexpr size_t kStagingBytes = 16384;               // of small messages, read in one call
constexpr size_t kMaxAsideBytes = size_t{256} << 20;  // of messages that came early
constexpr size_t kGatherMessages = 8;                 // written in one call

}  // namespace

// ---- sending -----------------------------------------------------------------------------------

SocketSendComm::SocketSendComm(Socket socket)
    : socket_(std::move(socket)), sends_(kSocketMaxSends) {
  for (Send& send : sends_) {
    send.comm = this;
    unused_.push_back(&send);
  }
}

Result<SocketRequest*> SocketSendComm::isend(const NetBuffer& buffer) {
  if (broken_) return *broken_;
  if (buffer.bytes > kSocketMaxBytes) {
    return fail(ncclInvalidUsage, "net Socket: isend of %zu bytes; at most %zu are possible",
                buffer.bytes, kSocketMaxBytes);
  }
  if (unused_.empty()) return static_cast<SocketRequest*>(nullptr);
  Send& send = *unused_.back();
  unused_.pop_back();
  send.header = {kMessageMagic, buffer.tag, buffer.bytes};
  send.data = static_cast<const std::byte*>(buffer.data);
  send.sent = 0;
  send.inUse = true;
  queue_.push_back(&send);
  TRY(progress());
  return static_cast<SocketRequest*>(&send);
}

Result<bool> SocketSendComm::test(Send& send, std::span<int> sizes) {
  if (!send.inUse) {
    return fail(ncclInvalidUsage, "net Socket: test of a send that is already done");
  }
  if (send.sent < send.total()) TRY(progress());
  if (send.sent < send.total()) return false;
  if (!sizes.empty()) sizes[0] = static_cast<int>(send.header.bytes);
  send.inUse = false;
  unused_.push_back(&send);
  return true;
}

/// The unwritten pieces of the messages at the head of the queue; returns how many pieces.
size_t SocketSendComm::gather(std::span<iovec> pieces) {
  size_t count = 0;
  for (Send* send : queue_) {
    if (count + 2 > pieces.size()) break;
    const size_t inHeader = std::min(send->sent, sizeof send->header);
    const size_t inData = send->sent - inHeader;
    if (inHeader < sizeof send->header) {
      pieces[count++] = {reinterpret_cast<std::byte*>(&send->header) + inHeader,
                         sizeof send->header - inHeader};
    }
    if (inData < send->header.bytes) {
      pieces[count++] = {const_cast<std::byte*>(send->data) + inData,  // NOLINT: only read
                         send->header.bytes - inData};
    }
  }
  return count;
}

void SocketSendComm::advance(size_t bytes) {
  while (bytes > 0) {
    Send& send = *queue_.front();
    const size_t now = std::min(bytes, send.total() - send.sent);
    send.sent += now;
    bytes -= now;
    if (send.sent == send.total()) queue_.pop_front();
  }
}

Status SocketSendComm::progress() {
  if (broken_) return *broken_;
  while (!queue_.empty()) {
    std::array<iovec, 2 * kGatherMessages> pieces;  // NOLINT: filled as far as used
    const size_t count = gather(pieces);
    const auto sent = socket_.trySend(std::span<const iovec>(pieces.data(), count));
    if (!sent.ok()) {
      broken_ = fail(sent.error().code, "net Socket: %s", sent.error().message.c_str());
      return *broken_;
    }
    if (sent.value() == 0) return Ok{};
    advance(sent.value());
  }
  return Ok{};
}

// ---- receiving ---------------------------------------------------------------------------------

SocketRecvComm::SocketRecvComm(Socket socket)
    : socket_(std::move(socket)), recvs_(kSocketMaxRequests), staging_(kStagingBytes) {
  for (Recv& recv : recvs_) {
    recv.comm = this;
    unused_.push_back(&recv);
  }
}

Result<SocketRequest*> SocketRecvComm::irecv(std::span<const NetBuffer> buffers) {
  if (broken_) return *broken_;
  if (buffers.empty() || buffers.size() > kSocketMaxRecvs) {
    return fail(ncclInvalidUsage, "net Socket: irecv of %zu messages, expected 1 to %zu",
                buffers.size(), kSocketMaxRecvs);
  }
  if (unused_.empty()) return static_cast<SocketRequest*>(nullptr);
  Recv& recv = *unused_.back();
  unused_.pop_back();
  recv.count = recv.missing = buffers.size();
  recv.inUse = true;
  for (size_t i = 0; i < buffers.size(); ++i) {
    recv.slots[i] = {static_cast<std::byte*>(buffers[i].data), buffers[i].bytes, buffers[i].tag, 0,
                     false};
  }
  TRY(takeAside(recv));
  if (recv.missing > 0) posted_.push_back(&recv);
  return static_cast<SocketRequest*>(&recv);
}

Result<bool> SocketRecvComm::test(Recv& recv, std::span<int> sizes) {
  if (!recv.inUse) {
    return fail(ncclInvalidUsage, "net Socket: test of a receive that is already done");
  }
  if (recv.missing > 0) TRY(progress());
  if (recv.missing > 0) return false;
  for (size_t i = 0; i < std::min(sizes.size(), recv.count); ++i) {
    sizes[i] = static_cast<int>(recv.slots[i].received);
  }
  recv.inUse = false;
  unused_.push_back(&recv);
  return true;
}

Error SocketRecvComm::tooSmall(const Slot& slot, size_t bytes) const {
  return fail(ncclInvalidUsage,
              "net Socket: a message of %zu bytes, tag %d, from %s for a receive of %zu bytes",
              bytes, slot.tag, socket_.peer().text().c_str(), slot.capacity);
}

/// Gives what came early to a new receive.
Status SocketRecvComm::takeAside(Recv& recv) {
  for (size_t i = 0; i < recv.count && !aside_.empty(); ++i) {
    Slot& slot = recv.slots[i];
    const auto early = std::find_if(aside_.begin(), aside_.end(),
                                    [&](const Aside& message) { return message.tag == slot.tag; });
    if (early == aside_.end()) continue;
    const size_t bytes = early->bytes.size();
    if (bytes > slot.capacity) {
      broken_ = tooSmall(slot, bytes);
      return *broken_;
    }
    if (bytes > 0) memcpy(slot.data, early->bytes.data(), bytes);
    slot.received = bytes;
    slot.matched = true;
    --recv.missing;
    asideBytes_ -= bytes;
    aside_.erase(early);
  }
  return Ok{};
}

/// The first posted receive that waits for a tag.
std::pair<SocketRecvComm::Recv*, SocketRecvComm::Slot*> SocketRecvComm::posted(int tag) {
  for (Recv* recv : posted_) {
    for (size_t i = 0; i < recv->count; ++i) {
      Slot& slot = recv->slots[i];
      if (!slot.matched && slot.tag == tag) return {recv, &slot};
    }
  }
  return {nullptr, nullptr};
}

bool SocketRecvComm::anyUnmatched() const {
  return std::any_of(posted_.begin(), posted_.end(), [](const Recv* recv) {
    return std::any_of(recv->slots.begin(), recv->slots.begin() + static_cast<long>(recv->count),
                       [](const Slot& slot) { return !slot.matched; });
  });
}

/// Decides where the next message goes; false: it stays in the socket for now.
Result<bool> SocketRecvComm::begin(const SocketHeader& header) {
  if (header.magic != kMessageMagic || header.bytes > kSocketMaxBytes) {
    return fail(ncclRemoteError, "net Socket: no message header from %s: 0x%08x, %llu bytes",
                socket_.peer().text().c_str(), header.magic,
                static_cast<unsigned long long>(header.bytes));
  }
  const auto [recv, slot] = posted(header.tag);
  if (recv == nullptr) {
    if (!anyUnmatched()) return false;
    if (asideBytes_ + header.bytes > kMaxAsideBytes) {
      return fail(ncclInvalidUsage,
                  "net Socket: %zu bytes from %s were set aside for receives that are not posted, "
                  "and the next message, tag %d, has %llu bytes; at most %zu are kept",
                  asideBytes_, socket_.peer().text().c_str(), header.tag,
                  static_cast<unsigned long long>(header.bytes), kMaxAsideBytes);
    }
    Arriving& message = arriving_.emplace();
    message.header = header;
    message.aside = {header.tag, std::vector<std::byte>(header.bytes)};
    asideBytes_ += header.bytes;
    return true;
  }
  if (header.bytes > slot->capacity) return tooSmall(*slot, header.bytes);
  slot->matched = true;
  Arriving& message = arriving_.emplace();
  message.header = header;
  message.recv = recv;
  message.slot = slot;
  return true;
}

std::byte* SocketRecvComm::destination() {
  std::byte* base =
      arriving_->slot != nullptr ? arriving_->slot->data : arriving_->aside.bytes.data();
  return base + arriving_->received;
}

/// Completes the receive of a message that has arrived; one that was set aside meets a receive that
/// was posted meanwhile.
Status SocketRecvComm::finishArrived() {
  Arriving message = std::move(*arriving_);
  arriving_.reset();
  if (message.recv == nullptr) {
    const auto [recv, slot] = posted(message.header.tag);
    if (recv == nullptr) {
      aside_.push_back(std::move(message.aside));
      return Ok{};
    }
    asideBytes_ -= message.header.bytes;
    if (message.header.bytes > slot->capacity) return tooSmall(*slot, message.header.bytes);
    if (message.header.bytes > 0) {
      memcpy(slot->data, message.aside.bytes.data(), message.header.bytes);
    }
    slot->matched = true;
    message.recv = recv;
    message.slot = slot;
  }
  message.slot->received = message.header.bytes;
  if (--message.recv->missing == 0) std::erase(posted_, message.recv);
  return Ok{};
}

/// Uses up what was read; `wantsBytes` tells whether more of the stream is wanted now.
Status SocketRecvComm::parse(bool& wantsBytes) {
  while (true) {
    if (!arriving_) {
      wantsBytes = !posted_.empty();
      if (posted_.empty() || end_ - begin_ < sizeof(SocketHeader)) return Ok{};
      SocketHeader header;
      memcpy(&header, staging_.data() + begin_, sizeof header);
      wantsBytes = TRY(begin(header));
      if (!wantsBytes) return Ok{};
      begin_ += sizeof header;
    }
    const size_t now = std::min(end_ - begin_, arriving_->header.bytes - arriving_->received);
    if (now > 0) memcpy(destination(), staging_.data() + begin_, now);
    begin_ += now;
    arriving_->received += now;
    if (arriving_->received < arriving_->header.bytes) {
      wantsBytes = true;
      return Ok{};
    }
    TRY(finishArrived());
  }
}

/// Reads on: the bytes of a large message in place, all else into the staging buffer.
Result<size_t> SocketRecvComm::receiveMore() {
  if (arriving_ && arriving_->header.bytes - arriving_->received >= kStagingBytes) {
    const size_t received =
        TRY(socket_.tryRecv(destination(), arriving_->header.bytes - arriving_->received));
    arriving_->received += received;
    return received;
  }
  if (begin_ > 0) memmove(staging_.data(), staging_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  const size_t received = TRY(socket_.tryRecv(staging_.data() + end_, kStagingBytes - end_));
  end_ += received;
  return received;
}

Status SocketRecvComm::progress() {
  if (broken_) return *broken_;
  while (true) {
    bool wantsBytes = false;
    const Status parsed = parse(wantsBytes);
    if (!parsed.ok()) {
      broken_ = parsed.error();
      return *broken_;
    }
    if (!wantsBytes) return Ok{};
    const auto received = receiveMore();
    if (!received.ok()) {
      broken_ = fail(received.error().code, "net Socket: %s", received.error().message.c_str());
      return *broken_;
    }
    if (received.value() == 0) return Ok{};
  }
}

}  // namespace nccom
