// The thread that opens the door to peers and notices who leaves or dies.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "plugins/device_emu/owned.h"
#include "plugins/device_emu/peers.h"
#include "plugins/device_emu/status.h"

namespace nccom::emu {

struct HelloMessage;

// An eventfd: makes poll() return. Rung from any thread; outlives the watcher in those who hold it.
class PollBell {
 public:
  explicit PollBell(OwnedFd fd) : fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }
  void ring() const;
  void clear() const;

 private:
  OwnedFd fd_;
};

// One poll() loop over the listener, callers who have not yet said who they are, and the
// connections to and from peers. It owns all of these sockets, so no other thread can close one
// under it.
class PeerWatcher {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    Clock::duration helloTime = std::chrono::seconds(5);  // a caller silent for longer is dropped
    size_t maxPending = 64;                               // callers beyond: the oldest is dropped
  };

  /// @param hbmFd  handed to callers that know self's token; must stay open as long as this
  static Result<std::unique_ptr<PeerWatcher>> open(const ProcessExport& self, int hbmFd,
                                                   PeerProcesses::OnDeath onDeath, Limits limits);
  PeerWatcher(const PeerWatcher&) = delete;
  PeerWatcher& operator=(const PeerWatcher&) = delete;
  /// Says goodbye to all connections; joins.
  ~PeerWatcher();

  /// Takes over a connection to `peer`, until it ends or nobody holds `peer` any more.
  void watch(OwnedFd connection, const std::shared_ptr<PeerProcess>& peer);
  /// Rung when a PeerProcess ends.
  std::shared_ptr<PollBell> bell() const { return bell_; }

  bool died(const ProcessToken& token) const;

 private:
  enum class Phase : uint8_t {
    Pending,   // has not said hello
    Inbound,   // a process that has mapped our HBM
    Outbound,  // a process whose HBM we have mapped
    Closed     // to be removed
  };
  struct Connection {
    OwnedFd fd;
    Phase phase;
    ProcessToken token;               // of the other; not while Pending
    pid_t pid;                        // of the other
    Clock::time_point until;          // Pending: to say hello
    std::weak_ptr<PeerProcess> peer;  // Outbound
  };

  PeerWatcher(const ProcessExport& self, int hbmFd, PeerProcesses::OnDeath onDeath, Limits limits);
  void run();
  void adopt();
  void acceptAll();
  void dropOldestPending();
  void serve(Connection& connection);
  void welcome(Connection& connection, const HelloMessage& hello, ssize_t bytes);
  void ended(Connection& connection, bool goodbye);
  void expire();
  int pollTimeoutMs() const;

  const ProcessExport self_;
  const int hbmFd_;
  const PeerProcesses::OnDeath onDeath_;
  const Limits limits_;
  const pid_t pid_;

  OwnedFd listener_;
  std::shared_ptr<PollBell> bell_;

  // The watcher thread's own.
  std::vector<Connection> connections_;
  Clock::time_point acceptAfter_ = Clock::time_point::min();  // out of descriptors until then

  mutable std::mutex mutex_;  // guards stop_, incoming_ and dead_
  bool stop_ = false;
  std::vector<Connection> incoming_;  // from watch(), not yet in connections_
  std::set<ProcessToken> dead_;

  std::thread thread_;
};

}  // namespace nccom::emu
