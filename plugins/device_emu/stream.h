// Streams, events, and the order in which operations become runnable.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "include/plugin/nccom_device.h"
#include "plugins/device_emu/biased_mutex.h"
#include "plugins/device_emu/epoch.h"
#include "plugins/device_emu/eventcount.h"
#include "plugins/device_emu/status.h"

namespace nccom::emu {

class Comm;
class Engine;
struct Op;

using Clock = std::chrono::steady_clock;

// A marker's place in a stream. Guarded by the schedule's mutex.
struct Event {
  uint64_t recorded = 0;   // records so far
  uint64_t completed = 0;  // the last of them that was reached
  Clock::time_point at{};  // when it was reached
};

// A FIFO of operations and events. Guarded by the schedule's mutex.
struct Stream {
  struct Item {
    Op* op;                        // an operation,
    std::shared_ptr<Event> event;  // an event's marker, or neither: a cancelled operation
    uint64_t record;
  };

  explicit Stream(int onDevice) : device(onDevice) {}

  const int device;
  std::deque<Item> items;
  uint64_t appended = 0, ended = 0;  // items so far
  Op* exchange = nullptr;            // if it is not null, there are no items: see exchange.h
  Status error = Ok{};               // first failure since the last synchronisation
};

// A thread that waits for the schedule to reach a state.
struct Waiter {
  explicit Waiter(std::function<bool()> isReady) : ready(std::move(isReady)) {}

  std::function<bool()> ready;  // called with the schedule's mutex held
  // W1 release by the schedule when ready() holds, pairs with the waiting thread's acquire
  std::atomic<bool> done{false};
  std::atomic<bool> promoted{false};  // guarded by the engine's roster, read when benched
  EventCount bench;                   // where it sleeps when it is not the one that listens
};

/// Takes what has become runnable; called with the schedule's mutex held.
class ScheduleClient {
 public:
  virtual ~ScheduleClient() = default;
  /// `op` is first in its stream and its communicator: it may start.
  virtual void activate(Op& op) = 0;
  /// A waiter that may be asleep has its `done` set.
  virtual void wake(Waiter& waiter) = 0;
  /// Nobody may be looking at what was activated.
  virtual void rouse() = 0;
};

// All streams of a process. Thread-safe; one mutex, held for a few instructions a call.
class Schedule {
 public:
  explicit Schedule(ScheduleClient& client) : client_(client) {}
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  Stream* createStream(int device);
  Stream* defaultStream(int device);
  /// Whether `stream` is one of ours, not yet destroyed.
  bool knows(const void* stream) const;
  /// To be called when the stream is empty.
  /// @error ncclInvalidUsage  a default stream, which lives as long as the device
  Status destroyStream(Stream* stream);

  /// @return whether the engine has something to do; `op` may have ended
  /// @error  the communicator is being destroyed
  Result<bool> append(Stream& stream, Op& op);
  /// append() of an operation like one of the last of `comm` that have ended; nothing: it has none.
  std::optional<bool> repeat(Stream& stream, Comm& comm, const void* program,
                             const nccomLaunch_v1& launch);
  /// An operation of `comm` that has ended; null: none.
  Op* reuse(Comm& comm);
  /// Nothing more is appended to `comm`.
  void close(Comm& comm);
  /// Ends the operations of `comm` that are not activated yet with `error`, wherever they are in
  /// their streams: a communicator that has failed waits for no other.
  void cancel(Comm& comm, const Error& error);
  /// The operation has ended: what comes after it may start. `op` may be reused afterwards.
  void ended(Op& op, const Status& status);

  void record(Stream& stream, const std::shared_ptr<Event>& event);
  bool reached(const Event& event) const;
  /// @error ncclInvalidUsage  one of them was never recorded
  /// @error ncclInProgress    one of them was not reached yet
  Result<float> elapsedMs(const Event& start, const Event& stop) const;

  bool idle(Stream& stream);
  bool idle(Comm& comm);
  /// The first failure since the last call.
  Status takeError(Stream& stream);
  /// The same if the stream is empty, or has an exchange that ends soon; else nothing.
  std::optional<Status> takeErrorSoon(Stream& stream, Engine& engine);

  /// Waiters; the predicates look at what the mutex guards.
  void add(Waiter& waiter);
  void remove(Waiter& waiter);
  std::function<bool()> untilDrained(Stream& stream);
  std::function<bool()> untilDeviceDrained(int device);
  std::function<bool()> untilReached(std::shared_ptr<Event> event) const;
  /// Until no operation of `comm` is left.
  std::function<bool()> untilIdle(Comm& comm);
  /// Waits until no thread looks at what others have published for `comm`, which has no operation.
  void awaitLookers(Comm& comm);

  std::vector<Stream*> streamsOf(int device) const;

 private:
  bool appendOpen(Stream& stream, Op& op);
  void advance(Stream& stream);
  void settle();
  void push(Stream& stream, Op& op);
  bool tryExchange(Stream& stream, Op& op);
  bool finish(Op& exchange);
  bool settleExchange(Op* exchange);
  void rouseFor(Op* exchange);

  ScheduleClient& client_;
  // Where one thread calls for a rank, it is that thread's.
  mutable BiasedMutex mutex_;  // guards all below, Stream, Event, and Comm's pending operations
  std::map<const void*, std::unique_ptr<Stream>> streams_;
  Epoch gone_;  // of streams
  std::map<int, Stream*> defaults_;
  std::vector<Waiter*> waiters_;
  size_t queued_ = 0;  // operations of the engine's that have not ended
};

}  // namespace nccom::emu
