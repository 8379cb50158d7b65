#include "plugins/device_emu/stream.h"

#include <algorithm>
#include <utility>

#include "plugins/device_emu/comm.h"
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

Status Schedule::append(Stream& stream, Op& op) {
  const std::lock_guard lock(mutex_);
  if (op.comm->closing) {
    op.comm->freeOps.push_back(&op);
    return fail(ncclInvalidUsage, "launch on rank %d of a communicator that is being destroyed",
                op.comm->rank());
  }
  op.stream = &stream;
  stream.items.push_back({&op, nullptr, 0});
  stream.appended++;
  op.comm->pending.push_back(&op);
  if (stream.items.size() == 1) advance(stream);
  return Ok{};
}

Op* Schedule::reuse(Comm& comm) {
  const std::lock_guard lock(mutex_);
  if (comm.freeOps.empty()) return nullptr;
  Op* const op = comm.freeOps.back();
  comm.freeOps.pop_back();
  return op;
}

void Schedule::close(Comm& comm) {
  const std::lock_guard lock(mutex_);
  comm.closing = true;
}

void Schedule::cancel(Comm& comm, const Error& error) {
  const std::lock_guard lock(mutex_);
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
    op.program.reset();
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
  comm.pending.pop_front();
  comm.phase.store(Phase::kIdle, std::memory_order_release);  // pairs with the engine's look at it
  comm.freeOps.push_back(&op);
  advance(stream);
  if (!comm.pending.empty()) advance(*comm.pending.front()->stream);
  settle();
}

void Schedule::record(Stream& stream, const std::shared_ptr<Event>& event) {
  const std::lock_guard lock(mutex_);
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

bool Schedule::idle(const Stream& stream) const {
  const std::lock_guard lock(mutex_);
  return stream.items.empty();
}

bool Schedule::idle(const Comm& comm) const {
  const std::lock_guard lock(mutex_);
  return comm.pending.empty();
}

Status Schedule::takeError(Stream& stream) {
  const std::lock_guard lock(mutex_);
  Status error = std::move(stream.error);
  stream.error = Ok{};
  return error;
}

std::optional<Status> Schedule::takeErrorIfIdle(Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (!stream.items.empty()) return std::nullopt;
  return std::exchange(stream.error, Status(Ok{}));
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

std::function<bool()> Schedule::untilDrained(const Stream& stream) const {
  const std::lock_guard lock(mutex_);
  return [&stream, until = stream.appended] { return stream.ended >= until; };
}

std::function<bool()> Schedule::untilDeviceDrained(int device) const {
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

std::function<bool()> Schedule::untilIdle(const Comm& comm) const {
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
