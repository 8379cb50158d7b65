#include "plugins/device_emu/stream.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "plugins/device_emu/comm.h"
#include "plugins/device_emu/engine.h"
#include "plugins/device_emu/exchange.h"
#include "plugins/device_emu/op.h"

namespace nccom::emu {

Stream* Schedule::createStream(int device) {
  auto stream = std::make_unique<Stream>(device);
  Stream* const raw = stream.get();
  const std::lock_guard lock(mutex_);
  streams_.emplace(raw, std::move(stream));
  return raw;
}

Stream* Schedule::defaultStream(int device) {
  const std::lock_guard lock(mutex_);
  Stream*& slot = defaults_[device];
  if (slot == nullptr) {
    auto stream = std::make_unique<Stream>(device);
    slot = stream.get();
    streams_.emplace(slot, std::move(stream));
  }
  return slot;
}

bool Schedule::knows(const void* stream) const {
  thread_local Remembered<const void*> found;
  if (found.find(gone_, [stream](const void* known) { return known == stream; })) return true;
  const uint64_t epoch = gone_.now();
  const std::lock_guard lock(mutex_);
  if (!streams_.contains(stream)) return false;
  found.keep(epoch, stream);
  return true;
}

Status Schedule::destroyStream(Stream* stream) {
  const std::lock_guard lock(mutex_);
  const auto own = defaults_.find(stream->device);
  if (own != defaults_.end() && own->second == stream) {
    return fail(ncclInvalidUsage, "the default stream of device %d cannot be destroyed",
                stream->device);
  }
  streams_.erase(stream);
  gone_.next();
  return Ok{};
}

Result<bool> Schedule::append(Stream& stream, Op& op) {
  const std::lock_guard lock(mutex_);
  Comm& comm = *op.comm;
  if (comm.closing) {
    comm.freeOps.push_back(&op);
    return fail(ncclInvalidUsage, "launch on rank %d of a communicator that is being destroyed",
                comm.rank());
  }
  return appendOpen(stream, op);
}

std::optional<bool> Schedule::repeat(Stream& stream, Comm& comm, const void* program,
                                     const nccomLaunch_v1& launch) {
  const std::lock_guard lock(mutex_);
  settleExchange(comm.exchange.load(std::memory_order_relaxed));
  Op* const op = comm.closing ? nullptr : comm.repeat(program, launch);
  if (op == nullptr) return std::nullopt;
  return appendOpen(stream, *op);
}

bool Schedule::appendOpen(Stream& stream, Op& op) {
  Comm& comm = *op.comm;
  settleExchange(stream.exchange);
  settleExchange(comm.exchange.load(std::memory_order_relaxed));
  comm.showLaunched(op);
  op.stream = &stream;
  const bool first = stream.items.empty() && comm.pending.empty();
  // What others have queued in this process may have waited for our value.
  if (first && tryExchange(stream, op)) return queued_ > 0;
  push(stream, op);
  return true;
}

void Schedule::push(Stream& stream, Op& op) {
  stream.items.push_back({&op, nullptr, 0});
  stream.appended++;
  queued_++;
  op.comm->pending.push_back(&op);
  if (stream.items.size() == 1) advance(stream);
}

// ---- exchanges ----------------------------------------------------------------------------------

/// @return whether it is one, and has ended or waits for values
bool Schedule::tryExchange(Stream& stream, Op& op) {
  Comm& comm = *op.comm;
  const Started started = startExchange(comm, op);
  if (started == Started::kDone) comm.freeOps.push_back(&op);
  if (started != Started::kWaits) return started == Started::kDone;
  stream.exchange = &op;
  comm.exchange.store(&op, std::memory_order_relaxed);
  return true;
}

/// Ends it, of which all values have come.
/// @return  false: another rank has called something else
bool Schedule::finish(Op& exchange) {
  Comm& comm = *exchange.comm;
  if (!finishExchange(comm, exchange)) return false;
  exchange.stream->exchange = nullptr;
  comm.exchange.store(nullptr, std::memory_order_relaxed);
  comm.freeOps.push_back(&exchange);
  return true;
}

/// Ends it, or makes it an operation of the engine's. Null: does nothing.
/// @return whether the engine has something to do
bool Schedule::settleExchange(Op* exchange) {
  if (exchange == nullptr) return false;
  Comm& comm = *exchange->comm;
  const bool mayEnd = !comm.failed() && missingOf(comm, *exchange).cell == nullptr;
  if (mayEnd && finish(*exchange)) return false;
  exchange->stream->exchange = nullptr;
  exchange->comm->exchange.store(nullptr, std::memory_order_relaxed);
  push(*exchange->stream, *exchange);
  return true;
}

/// The same for threads that will not do it themselves.
void Schedule::rouseFor(Op* exchange) {
  if (settleExchange(exchange)) client_.rouse();
}

namespace {

/// With the schedule's mutex held: nobody else writes.
void countLookers(Comm& comm, int more) {
  const uint32_t before = comm.lookers.load(std::memory_order_relaxed);
  comm.lookers.store(before + static_cast<uint32_t>(more), std::memory_order_release);
}

}  // namespace

std::optional<Status> Schedule::takeErrorSoon(Stream& stream, Engine& engine) {
  std::unique_lock lock(mutex_);
  Op* const op = stream.exchange;
  if (op != nullptr) {
    Comm& comm = *op->comm;
    const uint64_t number = op->opCount;
    const auto same = [&] { return stream.exchange == op && op->opCount == number; };
    for (bool soon = true; soon && same();) {
      const MissingValue missing = missingOf(comm, *op);
      if (comm.failed()) break;
      if (missing.cell == nullptr) {
        (void)finish(*op);
        break;
      }
      countLookers(comm, 1);
      lock.unlock();
      soon = engine.spinFor(*missing.cell, missing.number, [&] {
        // relaxed: we look again with the mutex
        return comm.failed() || comm.exchange.load(std::memory_order_relaxed) != op;
      });
      lock.lock();
      countLookers(comm, -1);
    }
  }
  if (stream.exchange != nullptr || !stream.items.empty()) return std::nullopt;
  return std::exchange(stream.error, Status(Ok{}));
}

void Schedule::awaitLookers(Comm& comm) {
  while (comm.lookers.load(std::memory_order_acquire) != 0)
    std::this_thread::yield();
}

// ---- operations and events ----------------------------------------------------------------------

Op* Schedule::reuse(Comm& comm) {
  const std::lock_guard lock(mutex_);
  // The last ones stay as they are: they may be called again.
  if (comm.freeOps.size() < Comm::kKeptOps) return nullptr;
  Op* const op = comm.freeOps.front();
  comm.freeOps.erase(comm.freeOps.begin());
  return op;
}

void Schedule::close(Comm& comm) {
  const std::lock_guard lock(mutex_);
  comm.closing = true;
}

void Schedule::cancel(Comm& comm, const Error& error) {
  const std::lock_guard lock(mutex_);
  rouseFor(comm.exchange.load(std::memory_order_relaxed));
  // relaxed: the phase leaves and reaches kIdle with our mutex held
  const size_t kept = comm.phase.load(std::memory_order_relaxed) == Phase::kIdle ? 0 : 1;
  while (comm.pending.size() > kept) {
    Op& op = *comm.pending.back();
    comm.pending.pop_back();
    Stream& stream = *op.stream;
    if (stream.error.ok()) stream.error = error;
    for (Stream::Item& item : stream.items) {
      if (item.op == &op) item.op = nullptr;
    }
    queued_--;
    op.launched.reset();
    op.program = nullptr;
    comm.freeOps.push_back(&op);
    advance(stream);
  }
  settle();
}

void Schedule::ended(Op& op, const Status& status) {
  const std::lock_guard lock(mutex_);
  Stream& stream = *op.stream;
  Comm& comm = *op.comm;
  if (!status.ok() && stream.error.ok()) stream.error = status;
  stream.items.pop_front();
  stream.ended++;
  queued_--;
  comm.pending.pop_front();
  comm.phase.store(Phase::kIdle, std::memory_order_release);  // pairs with the engine's look at it
  comm.freeOps.push_back(&op);
  advance(stream);
  if (!comm.pending.empty()) advance(*comm.pending.front()->stream);
  settle();
}

void Schedule::record(Stream& stream, const std::shared_ptr<Event>& event) {
  const std::lock_guard lock(mutex_);
  rouseFor(stream.exchange);
  event->recorded++;
  stream.items.push_back({nullptr, event, event->recorded});
  stream.appended++;
  if (stream.items.size() == 1) {
    advance(stream);
    settle();
  }
}

/// Passes markers; activates the operation that comes then if its communicator is free for it.
void Schedule::advance(Stream& stream) {
  while (!stream.items.empty() && stream.items.front().op == nullptr) {
    const Stream::Item& item = stream.items.front();
    if (item.event != nullptr) {
      item.event->completed = std::max(item.event->completed, item.record);
      item.event->at = Clock::now();
    }
    stream.items.pop_front();
    stream.ended++;
  }
  if (stream.items.empty()) return;
  Op& op = *stream.items.front().op;
  // relaxed: the phase leaves and reaches kIdle with our mutex held
  const bool free = op.comm->phase.load(std::memory_order_relaxed) == Phase::kIdle;
  if (free && op.comm->pending.front() == &op) client_.activate(op);
}

bool Schedule::reached(const Event& event) const {
  const std::lock_guard lock(mutex_);
  return event.completed == event.recorded;
}

Result<float> Schedule::elapsedMs(const Event& start, const Event& stop) const {
  const std::lock_guard lock(mutex_);
  for (const Event* event : {&start, &stop}) {
    const char* which = event == &start ? "start" : "stop";
    if (event->recorded == 0) {
      return fail(ncclInvalidUsage, "elapsed time: the %s event was never recorded", which);
    }
    if (event->completed != event->recorded) {
      return fail(ncclInProgress, "elapsed time: the %s event was not reached yet", which);
    }
  }
  return std::chrono::duration<float, std::milli>(stop.at - start.at).count();
}

bool Schedule::idle(Stream& stream) {
  const std::lock_guard lock(mutex_);
  rouseFor(stream.exchange);
  return stream.items.empty();
}

bool Schedule::idle(Comm& comm) {
  const std::lock_guard lock(mutex_);
  rouseFor(comm.exchange.load(std::memory_order_relaxed));
  return comm.pending.empty();
}

Status Schedule::takeError(Stream& stream) {
  const std::lock_guard lock(mutex_);
  Status error = std::move(stream.error);
  stream.error = Ok{};
  return error;
}

void Schedule::add(Waiter& waiter) {
  const std::lock_guard lock(mutex_);
  if (waiter.ready()) {
    waiter.done.store(true, std::memory_order_release);  // W1
  } else {
    waiters_.push_back(&waiter);
  }
}

void Schedule::remove(Waiter& waiter) {
  const std::lock_guard lock(mutex_);
  std::erase(waiters_, &waiter);
}

void Schedule::settle() {
  std::erase_if(waiters_, [this](Waiter* waiter) {
    if (!waiter->ready()) return false;
    waiter->done.store(true, std::memory_order_seq_cst);  // W1
    client_.wake(*waiter);
    return true;
  });
}

std::function<bool()> Schedule::untilDrained(Stream& stream) {
  const std::lock_guard lock(mutex_);
  settleExchange(stream.exchange);  // the caller is going to help
  return [&stream, until = stream.appended] { return stream.ended >= until; };
}

std::function<bool()> Schedule::untilDeviceDrained(int device) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, stream] : streams_) {
    if (stream->device == device) rouseFor(stream->exchange);
  }
  return [this, device] {
    return std::all_of(streams_.begin(), streams_.end(), [device](const auto& entry) {
      return entry.second->device != device || entry.second->items.empty();
    });
  };
}

std::function<bool()> Schedule::untilReached(std::shared_ptr<Event> event) const {
  const std::lock_guard lock(mutex_);
  const uint64_t until = event->recorded;
  return [event = std::move(event), until] { return event->completed >= until; };
}

std::function<bool()> Schedule::untilIdle(Comm& comm) {
  const std::lock_guard lock(mutex_);
  rouseFor(comm.exchange.load(std::memory_order_relaxed));
  return [&comm] { return comm.pending.empty(); };
}

std::vector<Stream*> Schedule::streamsOf(int device) const {
  const std::lock_guard lock(mutex_);
  std::vector<Stream*> streams;
  for (const auto& [key, stream] : streams_) {
    if (stream->device == device) streams.push_back(stream.get());
  }
  return streams;
}

}  // namespace nccom::emu
