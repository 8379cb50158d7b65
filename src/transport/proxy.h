// The proxy of a process: drives all its network connections.
//
// By default from a thread of its own, which sleeps while no connection has work. Without the
// thread whoever waits for a collective drives it (progress()), which one rank a process needs no
// thread for. Both may drive at once: a connection is driven by one at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "misc/deadline.h"
#include "misc/result.h"
#include "transport/net_neuron.h"

namespace nccom {

using NetConnections = std::vector<std::shared_ptr<NetConnection>>;

class Proxy {
 public:
  explicit Proxy(bool hasThread) : hasThread_(hasThread) {}
  /// Closes what is left.
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// Begins to drive a connection: first it connects.
  void add(std::shared_ptr<NetConnection> connection);

  /// Returns when all of `connections` are connected.
  ///
  /// @error  of the first that fails; ncclRemoteError naming one that is not connected in time;
  ///         ncclInternalError when the deadline's flag is raised
  Status awaitConnected(const NetConnections& connections, const Deadline& deadline);

  /// Closes connections, after a moment for what they still have to send: kDrainTime for all of
  /// them together, whatever the peers do. When it returns, the proxy no longer knows them.
  void remove(const NetConnections& connections);
  void remove(const std::shared_ptr<NetConnection>& connection) {
    remove(NetConnections{connection});
  }

  /// Moves what can be moved, of all connections. True if anything did. Never waits.
  bool progress();

  /// The device has advanced an index: the thread may have to wake. Any thread, any time; cheap.
  void netPosted();

  /// A line a connection that has work, for hang reports.
  std::string report() const;

  /// How long a connection may have work without any moving before the log says so, again and
  /// again.
  static constexpr std::chrono::seconds kWatchdogTime{10};
  static constexpr std::chrono::milliseconds kDrainTime{200};

 private:
  using Clock = std::chrono::steady_clock;
  using Snapshot = std::shared_ptr<const NetConnections>;

  Snapshot connections() const;
  bool drive(const NetConnections& connections);
  void run();
  bool sleepWhileIdle();
  void nap(std::chrono::microseconds time);
  void watch();

  const bool hasThread_;
  mutable std::mutex mutex_;  // guards what follows, but for the atomics
  Snapshot connections_ = std::make_shared<const NetConnections>();  // replaced, never changed
  bool stop_ = false;
  uint64_t calls_ = 0;  // for the thread
  std::condition_variable called_;
  std::condition_variable moved_;      // a connection may have become ready, or failed
  std::atomic<uint32_t> sleeping_{0};  // see netPosted()
  std::atomic<int64_t> watchedAt_{0};  // Clock's ticks; relaxed: only says when to look again
  std::thread thread_;
};

}  // namespace nccom
