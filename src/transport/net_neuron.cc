#include "transport/net_neuron.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "misc/check.h"
#include "misc/log.h"

namespace nccom {
namespace {

constexpr int kSizeUnsaid = -1;  // some nets never say how much they received

std::string nameOf(const NetEnd& end, const Net& net) {
  return "rank " + std::to_string(end.rank) + (end.send ? " -> " : " <- ") + "rank " +
         std::to_string(end.peer) +
         (end.channel >= 0 ? " channel " + std::to_string(end.channel) : " point to point") +
         " over " + net.name() + "/" + std::to_string(end.netDev);
}

/// Whether an entry lies within [0, bytes) in its first and last, hence every, iteration.
bool within(const NetEntry& entry, uint64_t repeat, uint64_t bytes) {
  if (entry.bytes > bytes || entry.offset > bytes - entry.bytes) return false;
  if (repeat <= 1) return true;
  int64_t moved = 0;
  int64_t last = 0;
  if (__builtin_mul_overflow(repeat - 1, entry.stride, &moved) ||
      __builtin_add_overflow(entry.offset, moved, &last)) {
    return false;
  }
  return last >= 0 && static_cast<uint64_t>(last) <= bytes - entry.bytes;
}

}  // namespace

uint64_t NetEntries::count() const {
  uint64_t total = 0;
  for (const NetBlock& block : blocks)
    total += block.repeat * block.entries.size();
  return total;
}

NetConnection::NetConnection(std::shared_ptr<Net> net, NetEnd end)
    : net_(std::move(net)),
      end_(std::move(end)),
      name_(nameOf(end_, *net_)),
      movedAt_(Clock::now().time_since_epoch().count()) {}

NetConnection::~NetConnection() {
  close();
}

Result<std::shared_ptr<NetConnection>> NetConnection::listen(std::shared_ptr<Net> net, NetEnd end,
                                                             NetHandle& handle) {
  std::shared_ptr<NetConnection> self(new NetConnection(std::move(net), std::move(end)));
  self->maxBytes_ = TRY(self->net_->properties(self->end_.netDev)).maxP2pBytes;
  auto listening = self->net_->listen(self->end_.netDev, handle);
  if (!listening.ok()) return self->error("listen", listening.error());
  self->listener_ = UniqueNetListen(*self->net_, listening.value());
  return self;
}

Result<std::shared_ptr<NetConnection>> NetConnection::connect(std::shared_ptr<Net> net, NetEnd end,
                                                              const NetHandle& handle) {
  std::shared_ptr<NetConnection> self(new NetConnection(std::move(net), std::move(end)));
  self->maxBytes_ = TRY(self->net_->properties(self->end_.netDev)).maxP2pBytes;
  self->handle_ = handle;
  return self;
}

Error NetConnection::error(const char* what, const Error& cause) const {
  return fail(cause.code, "%s: %s failed: %s", name_.c_str(), what, cause.message.c_str());
}

// ---- submitting -------------------------------------------------------------------------------

Status NetConnection::check(const NetEntries& entries) const {
  for (const NetBlock& block : entries.blocks) {
    for (const NetEntry& entry : block.entries) {
      if (!within(entry, block.repeat, end_.memoryBytes)) {
        return fail(
            ncclInternalError,
            "%s: %s: an entry of %llu bytes at %llu, %llu times with stride %lld, lies "
            "outside the %llu bytes registered",
            name_.c_str(), entries.name.c_str(), static_cast<unsigned long long>(entry.bytes),
            static_cast<unsigned long long>(entry.offset),
            static_cast<unsigned long long>(block.repeat), static_cast<long long>(entry.stride),
            static_cast<unsigned long long>(end_.memoryBytes));
      }
      if (entry.bytes > maxBytes_ || entry.bytes > std::numeric_limits<int>::max()) {
        return fail(ncclInvalidUsage,
                    "%s: %s: an entry of %llu bytes; the net sends at most %zu in a message",
                    name_.c_str(), entries.name.c_str(),
                    static_cast<unsigned long long>(entry.bytes), maxBytes_);
      }
    }
  }
  return Ok{};
}

Status NetConnection::submit(std::shared_ptr<const NetEntries> entries) {
  if (state_.load(std::memory_order_acquire) == State::Failed) return failure_;
  const std::lock_guard lock(submitMutex_);
  if (entries != checked_) {
    TRY(check(*entries));
    checked_ = entries;
  }
  const uint64_t count = entries->count();
  if (count == 0) return Ok{};
  submitted_.push_back(std::move(entries));
  submittedEntries_.fetch_add(count, std::memory_order_relaxed);
  return Ok{};
}

/// Called after the index was read: whatever the index counts had been submitted before.
void NetConnection::takeSubmitted() {
  const std::lock_guard lock(submitMutex_);
  for (auto& entries : submitted_)
    operations_.push_back(std::move(entries));
  submitted_.clear();
  settle();
}

NetBuffer NetConnection::nextEntry() const {
  const NetEntry& entry = operations_.front()->blocks[cursor_.block].entries[cursor_.entry];
  const int64_t moved = static_cast<int64_t>(cursor_.iteration) * entry.stride;
  NetBuffer buffer;
  buffer.data = end_.memory + entry.offset + moved;
  buffer.bytes = entry.bytes;
  buffer.tag = operations_.front()->tag;
  buffer.memory = memory_;
  return buffer;
}

/// Moves the cursor to an entry that exists, if it is not at one: blocks may be empty, and end.
void NetConnection::settle() {
  while (!operations_.empty()) {
    const std::vector<NetBlock>& blocks = operations_.front()->blocks;
    while (cursor_.block < blocks.size()) {
      const NetBlock& block = blocks[cursor_.block];
      if (block.entries.empty() || cursor_.iteration == block.repeat) {
        cursor_ = {cursor_.block + 1, 0, 0};
      } else if (cursor_.entry == block.entries.size()) {
        cursor_.entry = 0;
        cursor_.iteration++;
      } else {
        return;
      }
    }
    operations_.pop_front();
    cursor_ = {};
  }
}

// ---- moving -----------------------------------------------------------------------------------

uint64_t NetConnection::posted() const {
  // acquire, pairs with the device's release when it advances the index: a sender's data is in its
  // slot before we see the count
  return std::atomic_ref<uint64_t>(end_.index->posted).load(std::memory_order_acquire);
}

bool NetConnection::busy() const {
  // Without the lock close() could end between the look at the state and that at the index.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return !lock.owns_lock() || hasWork();
}

bool NetConnection::hasWork() const {
  switch (state_.load(std::memory_order_relaxed)) {
    case State::Connecting:
      return true;
    case State::Ready:
      return posted() != completed_.load(std::memory_order_relaxed);
    case State::Failed:
    case State::Closed:
      break;
  }
  return false;
}

Result<bool> NetConnection::ready() const {
  const State state = state_.load(std::memory_order_acquire);
  if (state == State::Failed) return failure_;
  return state == State::Ready;
}

bool NetConnection::progress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  if (!hasWork()) {
    idle_ = true;
    return false;
  }
  const auto moved = step();
  if (!moved.ok()) {
    failWith(moved.error());
    return true;
  }
  if (moved.value() || idle_) {
    movedAt_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  }
  idle_ = false;
  return moved.value();
}

/// Under mutex_, so that close() can promise that `failed` is not running.
void NetConnection::failWith(Error error) {
  failure_ = std::move(error);
  state_.store(State::Failed, std::memory_order_release);
  if (end_.failed) end_.failed(failure_);
}

Result<bool> NetConnection::step() {
  if (state_.load(std::memory_order_relaxed) == State::Connecting) return tryConnect();
  const bool reaped = TRY(reap());
  const bool begun = TRY(start(posted()));
  return reaped || begun;
}

Result<bool> NetConnection::tryConnect() {
  if (end_.send) {
    auto made = net_->connect(end_.netDev, handle_);
    if (!made.ok()) return error("connect", made.error());
    if (made.value() == nullptr) return false;
    sender_ = UniqueNetSend(*net_, made.value());
  } else {
    auto made = net_->accept(listener_.get());
    if (!made.ok()) return error("accept", made.error());
    if (made.value() == nullptr) return false;
    receiver_ = UniqueNetRecv(*net_, made.value());
    listener_.reset();
  }
  TRY(connected());
  return true;
}

Status NetConnection::connected() {
  if (end_.memoryBytes > 0) {
    auto registered =
        end_.send ? net_->regMr(sender_.get(), end_.memory, end_.memoryBytes, end_.memoryKind)
                  : net_->regMr(receiver_.get(), end_.memory, end_.memoryBytes, end_.memoryKind);
    if (!registered.ok()) return error("registering memory", registered.error());
    memory_ = registered.value();
  }
  const std::string own = std::to_string(end_.rank) + "[" + std::to_string(end_.device) + "]";
  const std::string other = std::to_string(end_.peer) + "[" + std::to_string(end_.peerDevice) + "]";
  const std::string path = end_.send ? own + " -> " + other : other + " -> " + own;
  char channel[16] = "p2p";
  if (end_.channel >= 0) snprintf(channel, sizeof channel, "%02d", end_.channel);
  INFO(kLogNet, "Channel %s : %s [%s] via NET/%s/%d", channel, path.c_str(),
       end_.send ? "send" : "receive", net_->name().c_str(), end_.netDev);
  state_.store(State::Ready, std::memory_order_release);
  return Ok{};
}

/// Completes entries, oldest first: nets may only be asked about their oldest request.
Result<bool> NetConnection::reap() {
  uint64_t completed = completed_.load(std::memory_order_relaxed);
  const uint64_t before = completed;
  const uint64_t started = started_.load(std::memory_order_relaxed);
  uint64_t bytes = 0;
  Result<bool> done = true;
  while (completed != started) {
    Request& request = requests_[completed % kMaxRequests];
    done = finished(request);
    if (!done.ok() || !done.value()) break;
    bytes += request.buffer.bytes;
    completed++;
  }
  if (completed != before) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    completed_.store(completed, std::memory_order_relaxed);
    end_.complete(completed - before);
  }
  if (!done.ok()) return done.error();
  return completed != before;
}

Result<bool> NetConnection::finished(Request& request) {
  if (request.stage == Stage::Empty) return true;
  if (request.stage == Stage::Flush && request.request == nullptr) return true;
  int size = kSizeUnsaid;
  const auto done = net_->test(request.request, std::span<int>(&size, 1));
  if (!done.ok()) {
    const std::string what = (request.stage == Stage::Send ? "sending " : "receiving ") +
                             std::to_string(request.buffer.bytes) + " bytes";
    return error(what.c_str(), done.error());
  }
  if (!done.value()) return false;
  request.request = nullptr;
  if (request.stage != Stage::Recv) return true;
  TRY(checkSize(request, size));
  if (end_.memoryKind == NetMemoryKind::Host) return true;
  auto flush = net_->iflush(receiver_.get(), std::span<const NetBuffer>(&request.buffer, 1));
  if (!flush.ok()) return error("iflush", flush.error());
  request.stage = Stage::Flush;
  request.request = flush.value();
  return request.request == nullptr;
}

Status NetConnection::checkSize(const Request& request, int received) const {
  if (received == kSizeUnsaid || static_cast<uint64_t>(received) == request.buffer.bytes) {
    return Ok{};
  }
  return fail(ncclRemoteError,
              "%s: received %d bytes, expected %zu: ranks %d and %d do not run the same operation",
              name_.c_str(), received, request.buffer.bytes, end_.peer, end_.rank);
}

Result<bool> NetConnection::start(uint64_t posted) {
  const uint64_t first = started_.load(std::memory_order_relaxed);
  if (first == posted) return false;
  takeSubmitted();
  const uint64_t known = submittedEntries_.load(std::memory_order_relaxed);
  if (posted > known) {
    return fail(ncclInternalError, "%s: the device posted %llu entries; only %llu were submitted",
                name_.c_str(), static_cast<unsigned long long>(posted),
                static_cast<unsigned long long>(known));
  }
  uint64_t next = first;
  const uint64_t limit =
      std::min(posted, completed_.load(std::memory_order_relaxed) + kMaxRequests);
  while (next < limit && TRY(startOne(requests_[next % kMaxRequests], nextEntry()))) {
    cursor_.entry++;
    settle();
    started_.store(++next, std::memory_order_relaxed);
  }
  return next != first;
}

/// False: the net has no room now.
Result<bool> NetConnection::startOne(Request& request, const NetBuffer& buffer) {
  request = {Stage::Empty, nullptr, buffer};
  if (buffer.bytes == 0) return true;
  auto begun = end_.send ? net_->isend(sender_.get(), buffer)
                         : net_->irecv(receiver_.get(), std::span<const NetBuffer>(&buffer, 1));
  if (!begun.ok()) {
    const std::string what = std::string(end_.send ? "isend" : "irecv") + " of " +
                             std::to_string(buffer.bytes) + " bytes";
    return error(what.c_str(), begun.error());
  }
  request.stage = end_.send ? Stage::Send : Stage::Recv;
  request.request = begun.value();
  return begun.value() != nullptr;
}

// ---- ending -----------------------------------------------------------------------------------

bool NetConnection::sending() const {
  const std::lock_guard lock(mutex_);
  return end_.send && state_.load(std::memory_order_relaxed) == State::Ready && hasWork();
}

void NetConnection::close() {
  const std::lock_guard lock(mutex_);
  if (state_.exchange(State::Closed, std::memory_order_relaxed) == State::Closed) return;
  if (memory_ != nullptr) {
    const Status freed =
        end_.send ? net_->deregMr(sender_.get(), memory_) : net_->deregMr(receiver_.get(), memory_);
    if (!freed.ok()) WARN("%s: %s", name_.c_str(), freed.error().message.c_str());
    memory_ = nullptr;
  }
  listener_.reset();
  sender_.reset();
  receiver_.reset();
  operations_.clear();
}

// ---- saying -----------------------------------------------------------------------------------

NetConnection::Counters NetConnection::counters() const {
  const std::lock_guard lock(mutex_);
  return countersLocked();
}

NetConnection::Counters NetConnection::countersLocked() const {
  Counters now;
  now.started = started_.load(std::memory_order_relaxed);
  now.completed = completed_.load(std::memory_order_relaxed);
  now.submitted = submittedEntries_.load(std::memory_order_relaxed);
  now.bytes = bytes_.load(std::memory_order_relaxed);
  const bool closed = state_.load(std::memory_order_relaxed) == State::Closed;
  now.posted = closed ? now.started : posted();  // the index may be gone
  return now;
}

std::optional<std::chrono::steady_clock::duration> NetConnection::stalled() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !hasWork() || idle_) return std::nullopt;
  const Clock::time_point moved{Clock::duration(movedAt_.load(std::memory_order_relaxed))};
  return Clock::now() - moved;
}

std::string NetConnection::report() const {
  const std::lock_guard lock(mutex_);
  std::string text = name_;
  switch (state_.load(std::memory_order_relaxed)) {
    case State::Connecting:
      return text + ": not connected yet";
    case State::Closed:
      return text + ": closed";
    case State::Failed:
      text += " (failed)";
      break;
    case State::Ready:
      break;
  }
  const Counters now = countersLocked();
  if (!operations_.empty()) text += ": " + operations_.front()->name;
  return text + ": " + std::to_string(now.completed) + " entries complete, " +
         std::to_string(now.started - now.completed) + " with the net, " +
         std::to_string(now.posted - now.started) + " waiting for it, " +
         std::to_string(now.submitted - now.posted) + " not posted by the device";
}

}  // namespace nccom
