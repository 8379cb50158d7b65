// The threads that execute operations: workers of its own, and whoever waits for a stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "plugins/device_emu/comm.h"
#include "plugins/device_emu/context.h"
#include "plugins/device_emu/page.h"
#include "plugins/device_emu/stream.h"

namespace nccom::emu {

struct EngineLimits {
  uint32_t cores = 1;    // that this process may use
  int32_t threads = -1;  // workers: -1: as many as are of use, 0: none
  uint64_t l2Bytes = 1 << 20;
};

// Who works. A helper is a thread in help(); a worker is a thread of the engine. No more threads
// work at a time than there are cores or local ranks, and helpers go first: with one rank and a
// thread that synchronises, the workers sleep and a message needs no hand-over.
//
// Who sleeps, and where. Of the helpers that find nothing to do one listens at the doorbell, and
// one of the workers at theirs; whoever comes second waits on its bench, until there is more than
// one thing to do or it is needed as listener. So a semaphore raised from outside wakes one thread.
//
// A program that synchronises again and again is not worth waking a worker in between: the last
// helper leaves its place as if it were still there, if a worker, the sentry, is taking naps of 1
// ms just then. Who comes next takes that place. If nobody has come in a whole nap, the sentry
// gives the place up and goes to work. The sentry naps as long as helpers come and go.
//
// Nothing is lost inside the process without doorbells: who raises a semaphore goes on with the
// queue parked there, who parks a queue looks again after letting go of it, and a thread sleeps
// only after it has announced that and then looked at everything once more.
class Engine : public ScheduleClient {
 public:
  /// A transfer of this size gives another thread time to wake up and take another queue.
  static constexpr uint64_t kWorthSharing = 64 << 10;
  /// Foreign memory is moved in pieces of this size, by system calls.
  static constexpr uint64_t kForeignTile = 256 << 10;
  /// A launch of at most this volume is executed by the launching thread as far as it goes.
  static constexpr uint64_t kInlineBytes = 64 << 10;
  /// A launch of this volume takes longer than the nap of the sentry, who would find it.
  static constexpr uint64_t kWorthWaking = 16 << 20;

  Engine(Doorbell& doorbell, const EngineLimits& limits);
  ~Engine() override;

  /// Communicators whose operations are executed. Workers are added as there are ranks for them.
  void add(const std::shared_ptr<Comm>& comm);
  void remove(const Comm& comm);
  std::shared_ptr<const CommList> comms() const;
  /// A number of the list of communicators: changes with it.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  /// `ranks` of this host compete for its cores, as far as is known.
  void competing(uint32_t ranks);

  /// Works until `waiter` is done. Any thread, but not from within a call-back of the host.
  void help(Schedule& schedule, Waiter& waiter);
  /// After a launch: executes what is short, wakes somebody for the rest.
  void launched(Comm& comm, uint64_t volume);
  /// Executes what can be executed now: for callers that poll while the engine has no threads.
  void lookOnce();
  /// Wakes a sleeping thread if another queue could run while the caller is busy.
  void share(const Context& context);

  uint64_t tileBytes(uint32_t buffers) const;
  /// Whether a transfer that writes so much is to write past the caches: none of it would be left
  /// there when it is read, and lines need not be fetched to be overwritten. By measurement: from
  /// twice the L2 on 1.2 times as fast, out of all caches twice.
  bool streams(uint64_t written) const { return written >= 2 * limits_.l2Bytes; }

  void activate(Op& op) override;
  void wake(Waiter& waiter) override;
  void rouse() override { doorbell_.ring(); }

  /// Looks at `cell` as long as is worth it until it is at least `target`, or `stop()`.
  /// @return false: it is time for something else
  bool spinFor(const std::atomic<uint64_t>& cell, uint64_t target,
               const std::function<bool()>& stop);

 private:
  struct Lease;
  class Idle;

  // one thread's look at everything
  bool work(Context& context);
  void visit(Context& context, Comm& comm);
  void runQueue(Context& context, Comm& comm, uint32_t queue);
  void drain(Context& context);
  void settle(Context& context, Comm& comm);
  static void announce(const Context& context);
  static void announce(Comm& comm);
  static bool anyRunnable(const Context& context);
  static bool runnable(const Comm& comm);
  static bool network(Comm& comm);
  void refresh(Context& context);
  void giveBack(std::unique_ptr<Context> context);
  void dropSpare();
  void watch(Context& context);
  static std::chrono::nanoseconds sleepTime(const Context& context);

  // helpers
  bool join(Waiter& waiter);
  void leave(Context& context);
  static bool isPromoted(const Waiter& waiter);
  static bool waitForPlace(Waiter& waiter);
  void rest(Lease& lease, Waiter& waiter);
  void sit(Waiter& waiter);
  void promote();

  // workers
  struct Worker {
    std::thread thread;
    EventCount bench;
    bool benched = false;  // guarded by roster_
  };
  void addWorkers();
  void workerLoop(Worker& self, uint32_t index);
  void restWorker(Lease& lease, Worker& self, uint32_t index);
  bool startNap();
  void endNap();
  void giveUpReserved();
  void sitWorker(Worker& self);
  bool allowed(uint32_t index) const;

  Doorbell& doorbell_;
  const EngineLimits limits_;
  std::atomic<uint64_t> generation_{1};
  std::atomic<uint32_t> places_{1};         // how many may work at a time
  std::atomic<uint32_t> competing_{1};      // ranks of this host, seen from our communicators
  std::atomic<int64_t> spinNs_{200'000};    // how long it has proved useful to spin
  std::atomic<uint32_t> busyRounds_{0};     // waits in which nobody yields
  std::atomic<uint32_t> backOff_{32};       // how many after the next long yield
  std::atomic<uint32_t> awake_{0};          // threads at work, as opposed to asleep
  std::atomic<uint32_t> benched_{0};        // threads that share() could wake; a hint
  std::atomic<Waiter*> listener_{nullptr};  // the helper that sleeps at the doorbell
  std::atomic<bool> workerListens_{false};
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> watchAtNs_{0};

  // A context that knows the list of communicators, for whoever comes next; its owner.
  std::atomic<Context*> spare_{nullptr};

  mutable std::mutex roster_;  // guards all below
  std::shared_ptr<const CommList> comms_;
  std::vector<std::unique_ptr<Context>> contexts_;  // not in use
  std::vector<Waiter*> surplus_;                    // helpers without a place
  std::vector<Waiter*> seated_;                     // helpers with a place, on their bench
  std::vector<std::unique_ptr<Worker>> workers_;
  uint64_t joins_ = 0;                 // helpers that have come so far
  uint64_t napJoins_ = 0;              // the same when the nap began
  bool napping_ = false;               // the sentry will look within a nap
  std::atomic<bool> reserved_{false};  // a helper has left and kept its place; see launched()
};

}  // namespace nccom::emu
