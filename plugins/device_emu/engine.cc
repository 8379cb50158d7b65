#include "plugins/device_emu/engine.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <string>

#include "plugins/device_emu/executor.h"
#include "plugins/device_emu/lifecycle.h"
#include "plugins/device_emu/watch.h"

namespace nccom::emu {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kWatchEvery = milliseconds(10);
constexpr nanoseconds kBenchTime = std::chrono::seconds(1);  // an upper bound, for robustness only

bool tryLock(Comm& comm, uint32_t queue) {
  // L seq_cst: acquires what the last holder did; ordered before the looks at phase and failure
  return comm.page().locks[queue].held.exchange(1, std::memory_order_seq_cst) == 0;
}
void unlock(Comm& comm, uint32_t queue) {
  comm.page().locks[queue].held.store(0, std::memory_order_seq_cst);
}
bool isLocked(const Comm& comm, uint32_t queue) {
  return comm.page().locks[queue].held.load(std::memory_order_seq_cst) != 0;
}

bool isLive(const Comm& comm) {
  return comm.phase.load(std::memory_order_seq_cst) != Phase::kIdle;
}

/// Signals are for the application's threads.
void nameThread(uint32_t index) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), ("nccom-emu-" + std::to_string(index)).c_str());
}

bool polled(const Comm& comm) {
  return comm.config().host.netProgress != nullptr && comm.config().nConnections > 0;
}

}  // namespace

/// A context for the calling thread.
struct Engine::Lease {
  explicit Lease(Engine& owner) : engine(owner) {
    const std::lock_guard lock(engine.roster_);
    if (engine.contexts_.empty()) {
      context = std::make_unique<Context>();
    } else {
      context = std::move(engine.contexts_.back());
      engine.contexts_.pop_back();
    }
    context->comms = engine.comms_;
    context->generation = engine.generation();
  }
  ~Lease() {
    forget();
    context->budgetBytes = UINT64_MAX;
    const std::lock_guard lock(engine.roster_);
    engine.contexts_.push_back(std::move(context));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// Who sleeps keeps no communicator alive.
  void forget() {
    context->comms.reset();
    context->generation = 0;
    context->nHints = 0;
    context->again = false;
  }

  Engine& engine;
  std::unique_ptr<Context> context;
};

/// How long to keep looking before going to sleep. Not at all where the ranks of the host outnumber
/// its cores. Nobody yields: on a busy machine that is to queue up behind every other program,
/// while a sleeper that is woken goes before them.
class Engine::Idle {
 public:
  explicit Idle(const Engine& engine) : engine_(engine) {}

  void reset() { looks_ = 0; }

  /// @return false: time to sleep
  bool spin() {
    if (engine_.competing_.load(std::memory_order_relaxed) <= engine_.limits_.cores) {
      if (looks_++ == 0) since_ = Clock::now();
      if (Clock::now() - since_ < kSpin) {
        pause();
        return true;
      }
    }
    reset();
    return false;
  }

 private:
  static constexpr nanoseconds kSpin = std::chrono::microseconds(40);  // about two context switches

  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    for (int i = 0; i < 8; i++)
      __builtin_ia32_pause();
#endif
  }

  const Engine& engine_;
  uint32_t looks_ = 0;
  Clock::time_point since_;
};

Engine::Engine(Doorbell& doorbell, const EngineLimits& limits)
    : doorbell_(doorbell), limits_(limits), comms_(std::make_shared<const CommList>()) {}

Engine::~Engine() {
  stop_.store(true, std::memory_order_seq_cst);
  std::vector<std::unique_ptr<Worker>> workers;
  {
    const std::lock_guard lock(roster_);
    workers.swap(workers_);
  }
  doorbell_.workerBell.notify();
  for (const auto& worker : workers) {
    worker->bench.notify();
    worker->thread.join();
  }
}

// ---- communicators ------------------------------------------------------------------------------

void Engine::add(const std::shared_ptr<Comm>& comm) {
  const std::lock_guard lock(roster_);
  auto list = std::make_shared<CommList>(*comms_);
  const auto place = std::find_if(list->begin(), list->end(), [&](const auto& other) {
    return other->rank() > comm->rank();  // rank order: data flows from one to the next
  });
  list->insert(place, comm);
  comms_ = std::move(list);
  generation_.fetch_add(1, std::memory_order_acq_rel);
  addWorkers();
}

void Engine::remove(const Comm& comm) {
  const std::lock_guard lock(roster_);
  auto list = std::make_shared<CommList>(*comms_);
  std::erase_if(*list, [&](const auto& other) { return other.get() == &comm; });
  comms_ = std::move(list);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

std::shared_ptr<const CommList> Engine::comms() const {
  const std::lock_guard lock(roster_);
  return comms_;
}

void Engine::competing(uint32_t ranks) {
  uint32_t known = competing_.load(std::memory_order_relaxed);
  while (ranks > known &&
         !competing_.compare_exchange_weak(known, ranks, std::memory_order_relaxed)) {
  }
}

uint64_t Engine::tileBytes(uint32_t buffers) const {
  constexpr uint64_t kLeast = 64 << 10;
  return std::max(kLeast, limits_.l2Bytes / 2 / buffers / kLeast * kLeast);
}

uint32_t Engine::workers() const {
  const std::lock_guard lock(roster_);
  return static_cast<uint32_t>(workers_.size());
}

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
    worker.thread = std::thread([this, &worker, index] { workerLoop(worker, index); });
  }
}

void Engine::activate(Op& op) {
  op.comm->current.store(&op, std::memory_order_release);
  op.comm->phase.store(Phase::kStarting, std::memory_order_seq_cst);
}

// ---- one look at everything
// ----------------------------------------------------------------------

void Engine::refresh(Context& context) {
  if (context.generation == generation()) return;
  const std::lock_guard lock(roster_);
  context.comms = comms_;
  context.generation = generation();
}

bool Engine::work(Context& context) {
  refresh(context);
  context.again = false;
  const uint64_t before = context.moves;
  for (const auto& comm : *context.comms)
    visit(context, *comm);
  watch(context);
  return context.moves != before || context.again;
}

void Engine::visit(Context& context, Comm& comm) {
  if (!isLive(comm)) return;
  // A launching thread may hold locks of the host's.
  const bool launching = context.budgetBytes != UINT64_MAX;
  if (!launching && network(comm)) context.moves++;
  settle(context, comm);
  if (comm.phase.load(std::memory_order_seq_cst) != Phase::kRunning) return;
  const uint32_t n = comm.nQueues.load(std::memory_order_relaxed);
  for (uint32_t queue = 0; queue < n; queue++) {
    if (comm.runs[queue].runnable()) runQueue(context, comm, queue);
    drain(context);
  }
}

/// Starts and ends what can be started and ended.
void Engine::settle(Context& context, Comm& comm) {
  for (;;) {
    if (startable(comm)) {
      if (!tryStart(context, comm)) return;
    } else if (endable(comm)) {
      if (!tryFinish(comm)) return;
    } else {
      return;
    }
    context.moves++;
    context.again = true;  // this operation's queues, or what comes next in its stream
  }
}

void Engine::runQueue(Context& context, Comm& comm, uint32_t queue) {
  do {
    if (!tryLock(comm, queue)) return;
    Executor(*this, context, comm, queue).run();
    unlock(comm, queue);
    if (endable(comm)) settle(context, comm);
    // Whoever made it runnable while we held the lock counts on us.
  } while (!context.exhausted && comm.phase.load(std::memory_order_seq_cst) == Phase::kRunning &&
           !comm.failed() && comm.runs[queue].runnable());
}

void Engine::drain(Context& context) {
  while (const auto hint = context.pop()) {
    Comm& comm = *hint->comm;
    if (comm.phase.load(std::memory_order_seq_cst) != Phase::kRunning) continue;
    if (comm.runs[hint->queue].runnable()) runQueue(context, comm, hint->queue);
  }
}

bool Engine::network(Comm& comm) {
  if (!polled(comm)) return false;
  // acquire and release: the host's call-back is in one thread at a time
  if (comm.networkBusy.exchange(true, std::memory_order_acquire)) return false;
  const nccomHostCalls_v1& host = comm.config().host;
  const bool moved = host.netProgress(host.arg) != 0;
  comm.networkBusy.store(false, std::memory_order_release);
  return moved;
}

bool Engine::runnable(const Comm& comm) {
  const Phase phase = comm.phase.load(std::memory_order_seq_cst);
  if (phase == Phase::kIdle || phase == Phase::kFinishing) return false;
  if (comm.control.load(std::memory_order_seq_cst)) return false;  // its holder looks again
  if (startable(comm) || endable(comm)) return true;
  if (phase != Phase::kRunning) return false;
  const uint32_t n = comm.nQueues.load(std::memory_order_relaxed);
  for (uint32_t queue = 0; queue < n; queue++) {
    // A queue that is locked is its holder's, who looks again.
    if (comm.runs[queue].runnable() && !isLocked(comm, queue)) return true;
  }
  return false;
}

bool Engine::anyRunnable(const Context& context) {
  return std::any_of(context.comms->begin(), context.comms->end(),
                     [](const auto& comm) { return runnable(*comm); });
}

void Engine::watch(Context& context) {
  const Clock::time_point now = Clock::now();
  const int64_t nowNs = now.time_since_epoch().count();
  int64_t due = watchAtNs_.load(std::memory_order_relaxed);
  if (nowNs < due) return;
  // relaxed: only one of us shall look
  if (!watchAtNs_.compare_exchange_strong(due, nowNs + kWatchEvery.count(),
                                          std::memory_order_relaxed)) {
    return;
  }
  for (const auto& comm : *context.comms)
    watchComm(*comm, now);
}

/// How long to sleep before looking again although nobody rang.
nanoseconds Engine::sleepTime(const Context& context) {
  nanoseconds time = milliseconds(500);
  for (const auto& comm : *context.comms) {
    if (!isLive(*comm)) continue;
    time = std::min<nanoseconds>(time, milliseconds(50));  // deaths, deadlines, the host's aborts
    if (comm->phase.load(std::memory_order_relaxed) == Phase::kFinishing) {
      time = std::min<nanoseconds>(time, milliseconds(1));  // peers on their way out
    }
    if (polled(*comm)) time = std::min<nanoseconds>(time, std::chrono::microseconds(100));
  }
  return time;
}

void Engine::launched(Comm& comm, uint64_t volume) {
  bool more = true;
  if (volume <= kInlineBytes) {
    Lease lease(*this);
    Context& context = *lease.context;
    context.budgetBytes = kInlineBytes;
    context.exhausted = false;
    visit(context, comm);
    if (context.again) visit(context, comm);
    more = context.exhausted || runnable(comm) || anyRunnable(context);
    context.exhausted = false;
  }
  if (more) doorbell_.ring();
}

void Engine::lookOnce() {
  if (limits_.threads != 0) return;
  Lease lease(*this);
  work(*lease.context);
}

// ---- helpers ------------------------------------------------------------------------------------

void Engine::help(Schedule& schedule, Waiter& waiter) {
  schedule.add(waiter);
  if (!waiter.done.load(std::memory_order_acquire)) {
    Lease lease(*this);
    Idle idle(*this);
    bool placed = join(waiter);
    while (!waiter.done.load(std::memory_order_acquire)) {  // pairs with W1
      if (!placed) {
        placed = waitForPlace(waiter);
      } else if (work(*lease.context)) {
        idle.reset();
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
  const uint32_t left = doorbell_.helpers.fetch_sub(1, std::memory_order_seq_cst) - 1;  // D1
  if (left > 0) {
    if (listener_.load(std::memory_order_seq_cst) == nullptr && !seated_.empty()) {
      seated_.back()->bench.notify();
    }
    if (anyRunnable(context)) doorbell_.helperBell.notify();
    return;
  }
  if (std::none_of(context.comms->begin(), context.comms->end(),
                   [](const auto& comm) { return isLive(*comm); })) {
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

bool Engine::waitForPlace(Waiter& waiter) {
  const EventCount::Key key = waiter.bench.prepareWait();
  if (waiter.done.load(std::memory_order_seq_cst) ||
      waiter.promoted.load(std::memory_order_seq_cst)) {
    waiter.bench.cancelWait();
  } else {
    waiter.bench.commitWait(key, kBenchTime);
  }
  return waiter.promoted.load(std::memory_order_seq_cst);
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
    if (waiter.done.load(std::memory_order_seq_cst) || anyRunnable(context)) {
      doorbell_.helperBell.cancelWait();
    } else {
      const nanoseconds time = sleepTime(context);
      lease.forget();
      doorbell_.helperBell.commitWait(key, time);
    }
    listener_.store(nullptr, std::memory_order_seq_cst);
  } else {
    lease.forget();
    sit(waiter);
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
        idle.reset();
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

void Engine::restWorker(Lease& lease, Worker& self, uint32_t index) {
  Context& context = *lease.context;
  awake_.fetch_sub(1, std::memory_order_relaxed);
  if (!workerListens_.exchange(true, std::memory_order_seq_cst)) {
    const EventCount::Key key = doorbell_.workerBell.prepareWait();
    refresh(context);
    if (stop_.load(std::memory_order_seq_cst) || (allowed(index) && anyRunnable(context))) {
      doorbell_.workerBell.cancelWait();
    } else {
      const nanoseconds time = sleepTime(context);
      lease.forget();
      doorbell_.workerBell.commitWait(key, allowed(index) ? time : kBenchTime);
    }
    workerListens_.store(false, std::memory_order_seq_cst);
  } else {
    lease.forget();
    sitWorker(self);
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
