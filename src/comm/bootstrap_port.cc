#include "comm/bootstrap_port.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "misc/log.h"

namespace nccom {
namespace {

constexpr std::chrono::milliseconds kStrangerTime{10000};  // to say a complete Hello
// A rank listens before it checks in, so a port that refuses has ended; the time is for queues that
// overflow when very many connect at once.
constexpr std::chrono::milliseconds kRefusedTime{3000};
constexpr int kLookAgainMs = 100;  // while strangers have to be timed out, or accepting fails
constexpr std::chrono::milliseconds kAcceptPatience{2000};  // with callers that cannot be accepted

}  // namespace

std::optional<std::string> Mailbox::take(int from, uint32_t tag) {
  const auto found = messages_.find({from, tag});
  if (found == messages_.end()) return std::nullopt;
  std::string message = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) messages_.erase(found);
  return message;
}

Result<BootstrapPort> BootstrapPort::open(const SocketAddress& at, uint64_t secret, int rank,
                                          int nRanks, const std::atomic<uint32_t>* abortFlag) {
  return BootstrapPort(TRY(ListenSocket::open(at)), secret, rank, nRanks, abortFlag);
}

Result<Socket> BootstrapPort::connectTo(int peer, const SocketAddress& to, HelloKind kind,
                                        const Deadline& deadline) const {
  const auto length = std::min(deadline.length(), kRefusedTime);
  Socket socket = TRY(Socket::connect(to, Deadline::after(length, abortFlag_)));
  Hello hello;
  hello.secret = secret_;
  hello.kind = kind;
  hello.from = rank_;
  hello.to = peer;
  hello.name = name_;
  TRY(socket.send(&hello, sizeof hello, deadline));
  return socket;
}

Status BootstrapPort::wait(std::span<pollfd> fds, const Deadline& deadline) {
  if (deadline.aborted()) return fail(ncclInternalError, "aborted");
  fds_.assign(fds.begin(), fds.end());
  // A listener whose callers cannot be accepted stays readable: look again, do not spin.
  fds_.push_back({failing_ ? -1 : listener_.fd(), POLLIN, 0});
  for (const Pending& pending : pending_)
    fds_.push_back({pending.socket.fd(), POLLIN, 0});
  for (const auto& [from, incoming] : incoming_)
    fds_.push_back({incoming.ended.empty() ? incoming.socket.fd() : -1, POLLIN, 0});
  const int most = pending_.empty() && !failing_ ? 1000 : kLookAgainMs;
  const int ready = poll(fds_.data(), fds_.size(), deadline.sleepMs(most));
  if (ready < 0 && errno != EINTR) return fail(ncclSystemError, "poll: %s", strerror(errno));
  std::copy_n(fds_.begin(), fds.size(), fds.begin());
  const auto isReady = [](const pollfd& entry) { return entry.revents != 0; };
  const auto ours = fds_.begin() + static_cast<ptrdiff_t>(fds.size());
  bool moved = std::any_of(fds.begin(), fds.end(), isReady);
  if (failing_ || !pending_.empty() || std::any_of(ours, fds_.end(), isReady)) moved |= takeIn();
  // Strangers may hold the descriptors, and will be dropped.
  if (failing_ && pending_.empty() && Clock::now() >= failing_->until) return failing_->error;
  if (!moved && deadline.passed()) {
    return fail(ncclRemoteError, "no progress within %lld ms (NEURON_CCOM_SOCK_TIMEOUT)",
                static_cast<long long>(deadline.length().count()));
  }
  return Ok{};
}

std::optional<BootstrapPort::Caller> BootstrapPort::takeCaller(HelloKind kind, int from) {
  const auto found = callers_.find({kind, from});
  if (found == callers_.end()) return std::nullopt;
  Caller caller = std::move(found->second);
  callers_.erase(found);
  return caller;
}

std::optional<std::string> BootstrapPort::messagesEnded(int from) const {
  const auto found = incoming_.find(from);
  if (found == incoming_.end() || found->second.ended.empty()) return std::nullopt;
  return found->second.ended;
}

/// Whether anything came in that a caller may wait for.
bool BootstrapPort::takeIn() {
  bool moved = acceptAll();
  for (Pending& pending : pending_)
    moved |= stepPending(pending);
  pending_.remove_if([](const Pending& pending) { return pending.done; });
  for (auto& [from, incoming] : incoming_)
    moved |= stepIncoming(from, incoming);
  return moved;
}

bool BootstrapPort::acceptAll() {
  bool any = false;
  while (true) {
    auto accepted = listener_.tryAccept();
    if (!accepted.ok()) {
      if (!failing_) failing_ = {accepted.error(), Clock::now() + kAcceptPatience};
      return any;
    }
    failing_.reset();
    if (!accepted.value()) return any;
    any = true;
    Pending pending;
    pending.socket = std::move(accepted).value();
    pending.until = Clock::now() + kStrangerTime;
    pending_.push_back(std::move(pending));
  }
}

bool BootstrapPort::stepPending(Pending& pending) {
  char* bytes = reinterpret_cast<char*>(&pending.hello);
  const auto got =
      pending.socket.tryRecv(bytes + pending.received, sizeof(Hello) - pending.received);
  const char* complaint = nullptr;
  if (got.ok()) pending.received += got.value();
  const size_t magicBytes = std::min(pending.received, sizeof kBootstrapMagic);
  if (!got.ok()) {
    complaint = "left without a word";
  } else if (memcmp(bytes, &kBootstrapMagic, magicBytes) != 0) {
    complaint = "does not speak this protocol";
  } else if (pending.received < sizeof(Hello) && Clock::now() >= pending.until) {
    complaint = "said nothing in time";
  }
  if (complaint != nullptr) {
    INFO(kLogBootstrap, "bootstrap of rank %d: %s %s; dropped", rank_,
         pending.socket.peer().text().c_str(), complaint);
    pending.done = true;
    return false;
  }
  if (pending.received < sizeof(Hello)) return false;
  admit(pending);
  return true;
}

void BootstrapPort::admit(Pending& pending) {
  const Hello& hello = pending.hello;
  pending.done = true;
  const bool right = hello.secret == secret_ && hello.version == kBootstrapVersion &&
                     hello.to == rank_ && hello.from >= 0 && hello.from < nRanks_;
  if (!right) {
    INFO(kLogBootstrap, "bootstrap of rank %d: %s belongs to another communicator; dropped", rank_,
         pending.socket.peer().text().c_str());
    return;
  }
  switch (hello.kind) {
    case HelloKind::Ring:
    case HelloKind::Control:
      callers_.insert_or_assign({hello.kind, hello.from},
                                Caller{std::move(pending.socket), hello.name});
      return;
    case HelloKind::Messages: {
      Incoming incoming;
      incoming.socket = std::move(pending.socket);
      incoming_.insert_or_assign(hello.from, std::move(incoming));
      return;
    }
  }
  INFO(kLogBootstrap, "bootstrap of rank %d: rank %d wants something unknown, %u; dropped", rank_,
       hello.from, static_cast<unsigned>(hello.kind));
}

bool BootstrapPort::stepIncoming(int from, Incoming& incoming) {
  bool any = false;
  while (incoming.ended.empty()) {
    const auto moved = readSome(from, incoming);
    if (!moved.ok()) {
      incoming.ended = moved.error().message;
      return true;
    }
    if (!moved.value()) return any;
    any = true;
  }
  return any;
}

/// Reads once; keeps the message when it is complete. False: there is nothing to read now.
Result<bool> BootstrapPort::readSome(int from, Incoming& incoming) {
  const bool inHeader = incoming.headerReceived < sizeof(MessageHeader);
  if (inHeader) {
    char* bytes = reinterpret_cast<char*>(&incoming.header);
    const size_t got = TRY(incoming.socket.tryRecv(
        bytes + incoming.headerReceived, sizeof(MessageHeader) - incoming.headerReceived));
    incoming.headerReceived += got;
    if (incoming.headerReceived < sizeof(MessageHeader)) return got > 0;
    if (incoming.header.bytes > kMaxMessageBytes) {
      return fail(ncclRemoteError, "a message of %llu bytes; at most %llu are taken",
                  static_cast<unsigned long long>(incoming.header.bytes),
                  static_cast<unsigned long long>(kMaxMessageBytes));
    }
    incoming.payload.resize(incoming.header.bytes);
    incoming.payloadReceived = 0;
  }
  const size_t left = incoming.payload.size() - incoming.payloadReceived;
  const size_t got =
      TRY(incoming.socket.tryRecv(incoming.payload.data() + incoming.payloadReceived, left));
  incoming.payloadReceived += got;
  if (incoming.payloadReceived == incoming.payload.size()) {
    mailbox_.keep(from, incoming.header.tag, std::exchange(incoming.payload, {}));
    incoming.headerReceived = 0;
    return true;
  }
  return inHeader || got > 0;
}

}  // namespace nccom
