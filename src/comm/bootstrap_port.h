// A rank's own door: other ranks connect here, at any time, to make the rings or to send messages.
//
// Strangers are possible on any listening port: whoever does not say a Hello with the secret in
// time is dropped, and nobody waits for him. Whenever a rank waits for anything it waits here, so
// that messages are taken in (and kept) meanwhile and two ranks that send to each other cannot
// block.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/bootstrap_wire.h"
#include "misc/deadline.h"
#include "misc/result.h"
#include "misc/socket.h"

namespace nccom {

/// Messages that have come and nobody has taken yet.
class Mailbox {
 public:
  void keep(int from, uint32_t tag, std::string message) {
    messages_[{from, tag}].push_back(std::move(message));
  }
  /// The oldest of rank `from` with this tag.
  std::optional<std::string> take(int from, uint32_t tag);

 private:
  std::map<std::pair<int, uint32_t>, std::deque<std::string>> messages_;
};

class BootstrapPort {
 public:
  /// Listens at `at` as `rank` of `nRanks`. Hellos must carry `secret`.
  /// `abortFlag` is borrowed and may be null.
  static Result<BootstrapPort> open(const SocketAddress& at, uint64_t secret, int rank, int nRanks,
                                    const std::atomic<uint32_t>* abortFlag);

  const SocketAddress& address() const { return listener_.address(); }

  /// A connection to a rank's port, introduced by our Hello.
  Result<Socket> connectTo(int peer, const SocketAddress& to, HelloKind kind,
                           const Deadline& deadline) const;

  /// Waits until one of `fds` is ready, something came in here, or a little time has passed. `fds`
  /// gets its revents.
  ///
  /// @error  ncclInternalError  `deadline` was aborted
  /// @error  ncclRemoteError    `deadline` has passed
  /// @error  ncclSystemError    callers cannot be accepted: out of descriptors, say
  Status wait(std::span<pollfd> fds, const Deadline& deadline);

  struct Caller {
    Socket socket;
    ProcessName name;
  };
  /// The connection of this kind that rank `from` has made, if it has. Ring or Control.
  std::optional<Caller> takeCaller(HelloKind kind, int from);

  /// The oldest message with this tag of rank `from`, if it has come.
  std::optional<std::string> takeMessage(int from, uint32_t tag) {
    return mailbox_.take(from, tag);
  }
  /// Why nothing more will come from rank `from`, if that is so.
  std::optional<std::string> messagesEnded(int from) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {  // has connected, has not said his Hello
    Socket socket;
    Hello hello;
    size_t received = 0;
    Clock::time_point until;
    bool done = false;
  };
  struct Incoming {  // messages of a rank
    Socket socket;
    MessageHeader header;
    size_t headerReceived = 0;
    std::string payload;
    size_t payloadReceived = 0;
    std::string ended;  // why, when the connection has
  };

  BootstrapPort(ListenSocket listener, uint64_t secret, int rank, int nRanks,
                const std::atomic<uint32_t>* abortFlag)
      : listener_(std::move(listener)),
        secret_(secret),
        rank_(rank),
        nRanks_(nRanks),
        abortFlag_(abortFlag) {}

  bool takeIn();
  bool acceptAll();
  bool stepPending(Pending& pending);
  void admit(Pending& pending);
  bool stepIncoming(int from, Incoming& incoming);
  Result<bool> readSome(int from, Incoming& incoming);

  ListenSocket listener_;
  uint64_t secret_;
  int rank_, nRanks_;
  const std::atomic<uint32_t>* abortFlag_;
  ProcessName name_ = ownName();
  struct Failing {  // no caller could be accepted
    Error error;
    Clock::time_point until;  // for so long is it borne
  };
  std::optional<Failing> failing_;
  std::list<Pending> pending_;
  std::map<std::pair<HelloKind, int>, Caller> callers_;
  std::map<int, Incoming> incoming_;
  Mailbox mailbox_;
  std::vector<pollfd> fds_;  // scratch of wait()
};

}  // namespace nccom
