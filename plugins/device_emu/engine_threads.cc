// Who works, who sleeps, and where: see Engine.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "plugins/device_emu/engine.h"
#include "plugins/device_emu/engine_lease.h"
#include "plugins/device_emu/lines.h"

namespace nccom::emu {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kNap = std::chrono::milliseconds(1);
constexpr nanoseconds kBenchTime = std::chrono::seconds(1);  // an upper bound, for robustness only

/// Signals are for the application's threads.
void nameThread(uint32_t index) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), ("nccom-emu-" + std::to_string(index)).c_str());
}

}  // namespace

// ---- helpers ------------------------------------------------------------------------------------

void Engine::help(Schedule& schedule, Waiter& waiter) {
  schedule.add(waiter);
  if (!waiter.done.load(std::memory_order_acquire)) {
    Lease lease(*this);
    Idle idle(*this);
    bool placed = join(waiter);
    while (!waiter.done.load(std::memory_order_acquire)) {  // pairs with W1
      if (!placed) {
        placed = isPromoted(waiter) || (!idle.spin() && waitForPlace(waiter));
      } else if (work(*lease.context)) {
        idle.found();
      } else if (!waiter.done.load(std::memory_order_acquire) && !idle.spin()) {
        rest(lease, waiter);
      }
    }
    if (!placed) {
      const std::lock_guard lock(roster_);
      placed = waiter.promoted.load(std::memory_order_relaxed);
      std::erase(surplus_, &waiter);
    }
    if (placed) leave(*lease.context);
  }
  schedule.remove(waiter);
}

/// @return whether the waiter has a place; if not, it is among the surplus
bool Engine::join(Waiter& waiter) {
  const std::lock_guard lock(roster_);
  joins_++;
  if (reserved_) {
    reserved_ = false;
    awake_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (doorbell_.helpers.load(std::memory_order_relaxed) >=
      places_.load(std::memory_order_relaxed)) {
    surplus_.push_back(&waiter);
    return false;
  }
  doorbell_.helpers.fetch_add(1, std::memory_order_seq_cst);  // pairs with D1
  awake_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

/// Gives the place back, and sees to it that somebody is left for what is not finished.
void Engine::leave(Context& context) {
  refresh(context);
  const std::lock_guard lock(roster_);
  awake_.fetch_sub(1, std::memory_order_relaxed);
  const bool last = doorbell_.helpers.load(std::memory_order_relaxed) == 1 && surplus_.empty();
  if (last && napping_ && !anyRunnable(context)) {
    reserved_ = true;  // what is raised from now on is found by the next helper, or after the nap
    return;
  }
  const uint32_t left = doorbell_.helpers.fetch_sub(1, std::memory_order_seq_cst) - 1;  // D1
  if (left > 0) {
    if (listener_.load(std::memory_order_seq_cst) == nullptr && !seated_.empty()) {
      seated_.back()->bench.notify();
    }
    announce(context);  // what we have left may wait for other processes, and the others sleep
    if (anyRunnable(context)) doorbell_.helperBell.notify();
    return;
  }
  if (std::none_of(context.comms->begin(), context.comms->end(),
                   [](const auto& comm) { return comm->live(); })) {
    return;
  }
  if (!surplus_.empty()) {
    promote();
  } else {
    doorbell_.workerBell.notify();
  }
}

/// Gives a place to one of the surplus. `roster_` is held.
void Engine::promote() {
  Waiter& waiter = *surplus_.front();
  surplus_.erase(surplus_.begin());
  doorbell_.helpers.fetch_add(1, std::memory_order_seq_cst);  // D1
  awake_.fetch_add(1, std::memory_order_relaxed);
  waiter.promoted.store(true, std::memory_order_seq_cst);
  waiter.bench.notify();
}

bool Engine::isPromoted(const Waiter& waiter) {
  return waiter.promoted.load(std::memory_order_seq_cst);
}

bool Engine::waitForPlace(Waiter& waiter) {
  const EventCount::Key key = waiter.bench.prepareWait();
  if (waiter.done.load(std::memory_order_seq_cst) || isPromoted(waiter)) {
    waiter.bench.cancelWait();
  } else {
    waiter.bench.commitWait(key, kBenchTime);
  }
  return isPromoted(waiter);
}

/// Sleeps: at the doorbell if nobody else does, else on the bench.
void Engine::rest(Lease& lease, Waiter& waiter) {
  Context& context = *lease.context;
  awake_.fetch_sub(1, std::memory_order_relaxed);
  Waiter* nobody = nullptr;
  // seq_cst, pairs with wake(): either it sees who listens, or we see `done`
  if (listener_.compare_exchange_strong(nobody, &waiter, std::memory_order_seq_cst)) {
    const EventCount::Key key = doorbell_.helperBell.prepareWait();
    refresh(context);
    announce(context);
    if (waiter.done.load(std::memory_order_seq_cst) || anyRunnable(context)) {
      doorbell_.helperBell.cancelWait();
    } else {
      const nanoseconds time = sleepTime(context);
      lease.forget();
      doorbell_.helperBell.commitWait(key, time);
    }
    listener_.store(nullptr, std::memory_order_seq_cst);
  } else {
    refresh(context);
    announce(context);
    if (!anyRunnable(context)) {
      lease.forget();
      sit(waiter);
    }
  }
  refresh(context);
  awake_.fetch_add(1, std::memory_order_relaxed);
}

void Engine::sit(Waiter& waiter) {
  const EventCount::Key key = waiter.bench.prepareWait();
  {
    const std::lock_guard lock(roster_);
    seated_.push_back(&waiter);
    benched_.fetch_add(1, std::memory_order_relaxed);
  }
  if (waiter.done.load(std::memory_order_seq_cst) ||
      listener_.load(std::memory_order_seq_cst) == nullptr) {
    waiter.bench.cancelWait();
  } else {
    waiter.bench.commitWait(key, kBenchTime);
  }
  const std::lock_guard lock(roster_);
  std::erase(seated_, &waiter);
  benched_.fetch_sub(1, std::memory_order_relaxed);
}

bool Engine::spinFor(const std::atomic<uint64_t>& cell, uint64_t target,
                     const std::function<bool()>& stop) {
  // acquire, pairs with publishCall()
  const auto come = [&] { return cell.load(std::memory_order_acquire) >= target; };
  Idle idle(*this);
  // Cheap looks first: who is on its way is here before a clock is read a few times.
  for (int i = 0; i < (idle.isCrowded() ? 16 : 256); i++) {
    if (come()) return true;
    relax();
  }
  while (!come() && !stop()) {
    if (!idle.spin()) return false;
  }
  idle.found();
  return true;
}

void Engine::wake(Waiter& waiter) {
  if (listener_.load(std::memory_order_seq_cst) == &waiter) doorbell_.helperBell.notify();
  waiter.bench.notify();
}

void Engine::share(const Context& context) {
  // relaxed: a hint; a wrong answer costs parallelism for a moment
  if (awake_.load(std::memory_order_relaxed) >= places_.load(std::memory_order_relaxed)) return;
  const bool helperSleeps = listener_.load(std::memory_order_relaxed) != nullptr;
  if (!helperSleeps && !workerListens_.load(std::memory_order_relaxed) &&
      benched_.load(std::memory_order_relaxed) == 0) {
    return;
  }
  if (context.nHints == 0 && !anyRunnable(context)) return;
  const std::lock_guard lock(roster_);
  if (!seated_.empty()) return seated_.back()->bench.notify();
  if (helperSleeps) return doorbell_.helperBell.notify();
  if (!surplus_.empty() &&
      doorbell_.helpers.load(std::memory_order_relaxed) < places_.load(std::memory_order_relaxed)) {
    return promote();
  }
  for (uint32_t i = 0; i < workers_.size() && allowed(i); i++) {
    if (workers_[i]->benched) return workers_[i]->bench.notify();
  }
  doorbell_.workerBell.notify();
}

// ---- workers ------------------------------------------------------------------------------------

/// To the number that is of use; none goes before the end. `roster_` is held.
void Engine::addWorkers() {
  const auto ranks = static_cast<uint32_t>(comms_->size());
  const uint32_t most =
      limits_.threads < 0 ? limits_.cores : static_cast<uint32_t>(limits_.threads);
  places_.store(std::max(1U, std::min(ranks, std::max(most, limits_.cores))),
                std::memory_order_seq_cst);
  while (workers_.size() < std::min(most, ranks)) {
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    const auto index = static_cast<uint32_t>(workers_.size() - 1);
    try {
      worker.thread = std::thread([this, &worker, index] { workerLoop(worker, index); });
    } catch (const std::system_error&) {
      workers_.pop_back();  // no more threads for this process: helpers do without
      return;
    }
  }
}

/// Whether a worker may work beside the helpers that there are.
bool Engine::allowed(uint32_t index) const {
  const uint32_t places = places_.load(std::memory_order_seq_cst);
  const uint32_t helpers = doorbell_.helpers.load(std::memory_order_seq_cst);
  return index + helpers < places;
}

void Engine::workerLoop(Worker& self, uint32_t index) {
  nameThread(index);
  Lease lease(*this);
  Idle idle(*this);
  awake_.fetch_add(1, std::memory_order_relaxed);
  while (!stop_.load(std::memory_order_acquire)) {
    if (allowed(index)) {
      if (work(*lease.context)) {
        idle.found();
        continue;
      }
      if (idle.spin()) continue;
    } else if (refresh(*lease.context); anyRunnable(*lease.context)) {
      doorbell_.ring();  // what we were woken for is the helpers'
    }
    restWorker(lease, self, index);
  }
  awake_.fetch_sub(1, std::memory_order_relaxed);
}

/// Whether the sentry should look again soon.
bool Engine::startNap() {
  const std::lock_guard lock(roster_);
  napping_ =
      reserved_ || (joins_ != napJoins_ && doorbell_.helpers.load(std::memory_order_relaxed) > 0);
  napJoins_ = joins_;
  return napping_;
}

/// Gives up a place that nobody has come back to.
void Engine::endNap() {
  const std::lock_guard lock(roster_);
  napping_ = false;
  if (!reserved_ || joins_ != napJoins_) return;
  reserved_ = false;
  doorbell_.helpers.fetch_sub(1, std::memory_order_seq_cst);  // D1; then we look at all queues
}

void Engine::giveUpReserved() {
  const std::lock_guard lock(roster_);
  if (!reserved_) return;
  reserved_ = false;
  doorbell_.helpers.fetch_sub(1, std::memory_order_seq_cst);  // D1; the caller rings
}

void Engine::restWorker(Lease& lease, Worker& self, uint32_t index) {
  Context& context = *lease.context;
  awake_.fetch_sub(1, std::memory_order_relaxed);
  if (!workerListens_.exchange(true, std::memory_order_seq_cst)) {
    const EventCount::Key key = doorbell_.workerBell.prepareWait();
    refresh(context);
    announce(context);
    if (stop_.load(std::memory_order_seq_cst) || (allowed(index) && anyRunnable(context))) {
      doorbell_.workerBell.cancelWait();
    } else {
      nanoseconds time = allowed(index) ? sleepTime(context) : kBenchTime;
      if (startNap()) time = kNap;
      lease.forget();
      doorbell_.workerBell.commitWait(key, time);
      endNap();
    }
    workerListens_.store(false, std::memory_order_seq_cst);
  } else {
    refresh(context);
    announce(context);
    if (!allowed(index) || !anyRunnable(context)) {
      lease.forget();
      sitWorker(self);
    }
  }
  refresh(context);
  awake_.fetch_add(1, std::memory_order_relaxed);
}

void Engine::sitWorker(Worker& self) {
  const EventCount::Key key = self.bench.prepareWait();
  const auto announce = [&](bool benched) {
    const std::lock_guard lock(roster_);
    self.benched = benched;
    benched_.fetch_add(benched ? 1 : -1U, std::memory_order_relaxed);
  };
  announce(true);
  if (stop_.load(std::memory_order_seq_cst) || !workerListens_.load(std::memory_order_seq_cst)) {
    self.bench.cancelWait();
  } else {
    self.bench.commitWait(key, kBenchTime);
  }
  announce(false);
}

}  // namespace nccom::emu
