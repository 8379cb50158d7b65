#include "transport/proxy.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "misc/log.h"
#include "misc/thread.h"

namespace nccom {
namespace {

// While nothing moves the thread first yields, then naps longer and longer. The time to yield is
// that of a round trip on a fast network; where ranks exceed cores a yield takes so long that the
// time is over after a few, so the core is left to the ranks.
constexpr std::chrono::microseconds kYieldTime{50};
constexpr std::chrono::microseconds kFirstNap{20};
constexpr std::chrono::microseconds kLongestNap{200};
constexpr unsigned long kTimerSlackNs = 1000;  // the default of 50 us would dwarf the first naps

constexpr std::chrono::seconds kWatchEvery{1};
constexpr std::chrono::milliseconds kConnectPoll{1};

}  // namespace

Proxy::~Proxy() {
  Snapshot left;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    calls_++;
    left = connections_;
  }
  called_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const auto& connection : *left)
    connection->close();
}

Proxy::Snapshot Proxy::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_;
}

void Proxy::add(std::shared_ptr<NetConnection> connection) {
  {
    const std::lock_guard lock(mutex_);
    auto all = std::make_shared<NetConnections>(*connections_);
    all->push_back(std::move(connection));
    connections_ = std::move(all);
    calls_++;
    if (hasThread_ && !thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  called_.notify_all();
}

Status Proxy::awaitConnected(const NetConnections& connections, const Deadline& deadline) {
  while (true) {
    if (!hasThread_) drive(connections);
    const std::string* missing = nullptr;
    for (const auto& connection : connections) {
      if (!TRY(connection->ready())) missing = &connection->name();
    }
    if (missing == nullptr) return Ok{};
    if (deadline.aborted()) {
      return fail(ncclInternalError, "%s: aborted while connecting", missing->c_str());
    }
    if (deadline.passed()) {
      return fail(ncclRemoteError, "%s: not connected within %lld ms", missing->c_str(),
                  static_cast<long long>(deadline.length().count()));
    }
    std::unique_lock lock(mutex_);
    moved_.wait_for(lock, kConnectPoll);
  }
}

void Proxy::remove(const NetConnections& connections) {
  const auto until = Clock::now() + kDrainTime;
  const auto sending = [](const auto& connection) { return connection->sending(); };
  while (std::any_of(connections.begin(), connections.end(), sending) && Clock::now() < until) {
    if (!drive(connections)) std::this_thread::sleep_for(kFirstNap);
  }
  {
    const std::lock_guard lock(mutex_);
    auto rest = std::make_shared<NetConnections>();
    for (const auto& connection : *connections_) {
      const bool leaves =
          std::find(connections.begin(), connections.end(), connection) != connections.end();
      if (!leaves) rest->push_back(connection);
    }
    connections_ = std::move(rest);
  }
  for (const auto& connection : connections)
    connection->close();
}

bool Proxy::progress() {
  const Snapshot all = connections();
  if (all->empty()) return false;
  const bool moved = drive(*all);
  watch();
  return moved;
}

bool Proxy::drive(const NetConnections& connections) {
  bool moved = false;
  for (const auto& connection : connections)
    moved |= connection->progress();
  return moved;
}

void Proxy::netPosted() {
  if (!hasThread_) return;
  // P1, pairs with S1 in the thread. All read-modify-writes of sleeping_ are in one order. If this
  // one comes after S1 it finds 1, and calls. If it comes before, S1 reads what it wrote (acquire
  // of this release), so the index that the caller has advanced is seen by the look after S1, and
  // the thread does not sleep.
  if (sleeping_.fetch_add(0, std::memory_order_acq_rel) == 0) return;
  {
    const std::lock_guard lock(mutex_);
    calls_++;
  }
  called_.notify_all();
}

void Proxy::run() {
  becomeInternalThread("nccom-proxy");
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  auto movedAt = Clock::now();
  auto napTime = kFirstNap;
  while (true) {
    if (progress()) {
      movedAt = Clock::now();
      napTime = kFirstNap;
      moved_.notify_all();
      continue;
    }
    if (Clock::now() - movedAt < kYieldTime) {
      sched_yield();
      continue;
    }
    if (sleepWhileIdle()) {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      movedAt = Clock::now();
      napTime = kFirstNap;
    } else {
      nap(napTime);
      napTime = std::min(2 * napTime, kLongestNap);
    }
  }
}

/// Sleeps as long as no connection has work. False: one has, nothing was slept.
bool Proxy::sleepWhileIdle() {
  std::unique_lock lock(mutex_);
  if (stop_) return true;
  const uint64_t calls = calls_;
  const Snapshot all = connections_;
  lock.unlock();
  sleeping_.exchange(1, std::memory_order_acq_rel);  // S1, pairs with P1 in netPosted()
  const bool busy = std::any_of(all->begin(), all->end(),
                                [](const auto& connection) { return connection->busy(); });
  if (!busy) {
    lock.lock();
    called_.wait(lock, [&] { return stop_ || calls_ != calls; });
  }
  sleeping_.exchange(0, std::memory_order_relaxed);
  return !busy;
}

/// Waits for the network a little; a post or a new connection ends it.
void Proxy::nap(std::chrono::microseconds time) {
  std::unique_lock lock(mutex_);
  const uint64_t calls = calls_;
  lock.unlock();
  sleeping_.exchange(1, std::memory_order_relaxed);  // a post that misses it waits for this nap
  lock.lock();
  called_.wait_for(lock, time, [&] { return stop_ || calls_ != calls; });
  sleeping_.exchange(0, std::memory_order_relaxed);
}

/// Says which connections have stood still, at most once a second for all and once a
/// kWatchdogTime for each.
void Proxy::watch() {
  const auto now = Clock::now();
  int64_t last = watchedAt_.load(std::memory_order_relaxed);
  const int64_t ticks = now.time_since_epoch().count();
  if (ticks - last < std::chrono::duration_cast<Clock::duration>(kWatchEvery).count()) return;
  if (!watchedAt_.compare_exchange_strong(last, ticks, std::memory_order_relaxed)) return;
  for (const auto& connection : *connections()) {
    const auto stalled = connection->stalled();
    if (!stalled) continue;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*stalled);
    if (seconds >= kWatchdogTime && seconds % kWatchdogTime < kWatchEvery) {
      WARN("proxy: nothing has moved for %lld s: %s", static_cast<long long>(seconds.count()),
           connection->report().c_str());
    }
  }
}

std::string Proxy::report() const {
  std::string text;
  for (const auto& connection : *connections()) {
    if (connection->busy()) text += connection->report() + "\n";
  }
  return text;
}

}  // namespace nccom
