#include "comm/comm.h"

#include <algorithm>
#include <utility>

#include "comm/bootstrap.h"
#include "comm/launch.h"
#include "comm/monitor.h"
#include "comm/net_links.h"
#include "comm/process.h"
#include "misc/datatype.h"
#include "misc/log.h"
#include "plugin/device.h"

namespace nccom {

Communicator::Communicator(Process& process, const CommRequest& request)
    : process_(process), request_(request) {}

Communicator::~Communicator() {
  end();
}

Status Communicator::usable() {
  // acquire: a state that has changed is looked at with the mutex held
  if (state_.load(std::memory_order_acquire) == CommState::Ready) return Ok{};
  const std::lock_guard lock(mutex_);
  switch (state_.load(std::memory_order_relaxed)) {
    case CommState::Ready:
      return Ok{};
    case CommState::Failed:
      return error_;
    case CommState::Finalized:
      return fail(ncclInvalidUsage, "rank %d: the communicator has been finalized", rank());
    case CommState::Ended:
      break;
  }
  return fail(ncclInvalidUsage, "rank %d: the communicator has been destroyed", rank());
}

Status Communicator::state() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == CommState::Failed) return error_;
    if (state_ == CommState::Ended) return Ok{};
  }
  // A failure that the device found by itself (a deadline, a mismatched call).
  Status found = device_->error();
  if (!found.ok()) failWith(found.error());
  return found;
}

bool Communicator::markFailed(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (state_ == CommState::Failed || state_ == CommState::Ended) return false;
  state_ = CommState::Failed;
  error_ = error;
  // relaxed: see Deadline::aborted
  abortFlag_.store(1, std::memory_order_relaxed);
  return true;
}

void Communicator::failWith(const Error& error) {
  if (!markFailed(error)) return;
  WARN("rank %d: the communicator failed: %s", rank(), error.message.c_str());
  const Parts parts = this->parts();
  if (parts.member != 0) process_.monitor().fault(parts.member, error.code, error.message);
  if (parts.device != nullptr) (void)parts.device->abort(error.code, error.message);
}

void Communicator::deviceFailed(void* comm, ncclResult_t code, const char* text) {
  // On a thread of the device, which has stopped the operations: only the others must hear.
  auto* self = static_cast<Communicator*>(comm);
  if (!self->markFailed(Error{code, text})) return;
  WARN("rank %d: the communicator failed: %s", self->rank(), text);
  const Parts parts = self->parts();
  if (parts.member != 0) self->process_.monitor().fault(parts.member, code, text);
}

void Communicator::stalled(void* comm, uint64_t collective, const char* name) {
  auto* self = static_cast<Communicator*>(comm);
  self->process_.monitor().ask(self->parts().member, collective, name);
}

void Communicator::asked(const Question& question) {
  Launcher* launcher = nullptr;
  {
    const std::lock_guard lock(mutex_);
    launcher = launcher_.get();
  }
  if (launcher == nullptr) return;  // not joined yet
  const auto own = launcher->called(question.collective);
  if (own == nullptr || *own == question.call) return;
  failWith(fail(ncclInvalidUsage, "rank %d called %s, rank %d called %s (collective %llu)",
                question.rank, question.call.c_str(), rank(), own->c_str(),
                static_cast<unsigned long long>(question.collective)));
}

void Communicator::netPosted(void* comm) {
  static_cast<Communicator*>(comm)->process_.proxy().netPosted();
}

int Communicator::netProgress(void* comm) {
  return static_cast<Communicator*>(comm)->process_.proxy().progress() ? 1 : 0;
}

Communicator::Parts Communicator::parts() {
  const std::lock_guard lock(mutex_);
  return {member_, device_.get()};
}

bool Communicator::connected(const CollectiveCall& call) const {
  if (!links_->needed()) return true;
  const auto wanted = launcher_->connectionsOf(call);
  return wanted.ok() && links_->connected(wanted.value());
}

bool Communicator::connected(std::span<const MessageCall> calls) const {
  if (!links_->needed()) return true;
  const auto wanted = launcher_->connectionsOf(calls);
  return wanted.ok() && links_->connected(wanted.value());
}

Status Communicator::connect(const CollectiveCall& call) {
  TRY(usable());
  return connect(TRY(launcher_->connectionsOf(call)));
}

Status Communicator::connect(std::span<const MessageCall> calls) {
  TRY(usable());
  return connect(TRY(launcher_->connectionsOf(calls)));
}

Status Communicator::connect(const std::vector<encConnection>& connections) {
  Status made = links_->connect(connections);
  if (made.ok()) return made;
  failWith(made.error());
  return state();  // the first cause, which may have come from another rank
}

Status Communicator::launched(Status status) {
  // Where the proxy has been told of the operation, a refusal cannot be taken back.
  if (!status.ok() && links_->needed()) failWith(status.error());
  return status;
}

bool Communicator::mayRepeat() const {
  // acquire, as in usable(); the links are there before a communicator is ready
  return state_.load(std::memory_order_acquire) == CommState::Ready && !links_->needed();
}

std::optional<Status> Communicator::repeat(const CollectiveCall& call) {
  return mayRepeat() ? launcher_->repeat(call) : std::nullopt;
}

std::optional<Status> Communicator::repeat(std::span<const MessageCall> calls) {
  return mayRepeat() ? launcher_->repeat(calls) : std::nullopt;
}

Status Communicator::launch(const CollectiveCall& call) {
  TRY(usable());
  uint64_t preMulScale = 0;
  if (call.redOp >= ncclNumOps) {
    const std::lock_guard lock(mutex_);
    preMulScale = redOps_[redOpIndex(call.redOp)].scale;
  }
  return launched(launcher_->launch(call, preMulScale));
}

Status Communicator::launch(std::span<const MessageCall> calls) {
  TRY(usable());
  for (const MessageCall& call : calls) {
    if (call.stream == calls[0].stream) continue;
    return fail(ncclInvalidUsage,
                "rank %d: sends and receives of one group are on different streams", rank());
  }
  return launched(launcher_->launch(calls));
}

Status Communicator::synchronize() {
  return device_->synchronize();
}

Status Communicator::finalize() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == CommState::Finalized || state_ == CommState::Ended) return Ok{};
    if (state_ == CommState::Failed) return error_;
  }
  Status done = synchronize();
  if (!done.ok()) {
    failWith(done.error());
    return done;
  }
  const std::lock_guard lock(mutex_);
  if (state_ == CommState::Failed) return error_;
  state_ = CommState::Finalized;
  return Ok{};
}

void Communicator::end() {
  bool inOrder = false;
  Error cause{ncclRemoteError, "rank " + std::to_string(rank()) + " gave up joining"};
  {
    const std::lock_guard lock(mutex_);
    if (state_ == CommState::Ended) return;
    inOrder = state_ == CommState::Finalized;
    if (state_ == CommState::Failed) cause = error_;
    state_ = CommState::Ended;
  }
  INFO(kLogDestroy, "comm %p rank %d nranks %d %s", static_cast<void*>(this), rank(), nRanks(),
       inOrder ? "destroyed" : "ended after a failure");
  if (member_ == 0) return;
  // Whoever still works with us hears at once why that is over.
  Monitor& monitor = process_.monitor();
  if (!inOrder) monitor.fault(member_, cause.code, cause.message);
  monitor.leave(member_);
}

int Communicator::redOpIndex(ncclRedOp_t op) const {
  return static_cast<int>(op) - ncclNumOps;
}

Result<ncclRedOp_t> Communicator::addPreMulSum(const void* scalar, ncclDataType_t type) {
  TRY(usable());
  if (ncclTypeSize(type) == 0) {
    return fail(ncclInvalidArgument, "rank %d: datatype is %d: expected 0 to %d", rank(),
                static_cast<int>(type), ncclNumTypes - 1);
  }
  const UserRedOp made{true, type, launchScaleOf(scalar, type)};
  const std::lock_guard lock(mutex_);
  const auto dead =
      std::find_if(redOps_.begin(), redOps_.end(), [](const UserRedOp& op) { return !op.live; });
  const auto index = dead - redOps_.begin();
  if (dead == redOps_.end()) {
    redOps_.push_back(made);
  } else {
    *dead = made;
  }
  return static_cast<ncclRedOp_t>(ncclNumOps + index);
}

Status Communicator::removeRedOp(ncclRedOp_t op) {
  const std::lock_guard lock(mutex_);
  const int index = redOpIndex(op);
  if (index < 0) {
    return fail(ncclInvalidArgument,
                "rank %d: op %d is one of NCCL's own, which cannot be destroyed", rank(),
                static_cast<int>(op));
  }
  if (index >= static_cast<int>(redOps_.size()) || !redOps_[index].live) {
    return fail(ncclInvalidArgument, "rank %d: op %d was not made on this communicator", rank(),
                static_cast<int>(op));
  }
  redOps_[index].live = false;
  return Ok{};
}

Status Communicator::checkRedOp(ncclRedOp_t op, ncclDataType_t type) {
  const int value = static_cast<int>(op);
  if (value >= 0 && value < ncclNumOps) return Ok{};
  const std::lock_guard lock(mutex_);
  const int index = redOpIndex(op);
  if (value < 0 || index >= static_cast<int>(redOps_.size()) || !redOps_[index].live) {
    return fail(ncclInvalidArgument,
                "rank %d: op is %d: expected 0 to %d, or an operator made on this communicator",
                rank(), value, ncclNumOps - 1);
  }
  if (redOps_[index].type == type) return Ok{};
  return fail(ncclInvalidArgument, "rank %d: op %d was made for datatype %s, and is used with %s",
              rank(), value, ncclTypeName(redOps_[index].type), ncclTypeName(type));
}

Result<void*> Communicator::registerBuffer(void* buffer, size_t bytes) {
  TRY(usable());
  // All memory can be used without registration; the handle only has to mean something until it is
  // given back.
  const std::lock_guard lock(mutex_);
  registrations_.push_back(std::make_unique<Registration>(Registration{buffer, bytes}));
  return static_cast<void*>(registrations_.back().get());
}

Status Communicator::deregisterBuffer(void* handle) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(registrations_.begin(), registrations_.end(),
                                  [handle](const auto& each) { return each.get() == handle; });
  if (found == registrations_.end()) {
    return fail(ncclInvalidArgument,
                "rank %d: handle %p is not a registration of this communicator", rank(), handle);
  }
  registrations_.erase(found);
  return Ok{};
}

}  // namespace nccom
