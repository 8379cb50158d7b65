#include "plugins/device_emu/engine.h"

#include <algorithm>

#include "plugins/device_emu/engine_lease.h"
#include "plugins/device_emu/executor.h"
#include "plugins/device_emu/lifecycle.h"
#include "plugins/device_emu/watch.h"

namespace nccom::emu {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kWatchEvery = milliseconds(10);

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

bool polled(const Comm& comm) {
  return comm.config().host.netProgress != nullptr && comm.config().nConnections > 0;
}

}  // namespace

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
  dropSpare();
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
  {
    const std::lock_guard lock(roster_);
    auto list = std::make_shared<CommList>(*comms_);
    std::erase_if(*list, [&](const auto& other) { return other.get() == &comm; });
    comms_ = std::move(list);
    generation_.fetch_add(1, std::memory_order_acq_rel);
  }
  dropSpare();
}

/// To those that know no communicators.
void Engine::giveBack(std::unique_ptr<Context> context) {
  context->comms.reset();
  context->generation = 0;
  const std::lock_guard lock(roster_);
  contexts_.push_back(std::move(context));
}

void Engine::dropSpare() {
  // acq_rel, pairs with ~Lease()
  std::unique_ptr<Context> spare(spare_.exchange(nullptr, std::memory_order_acq_rel));
  if (spare != nullptr) giveBack(std::move(spare));
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
  if (!comm.live()) return;
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

/// Lets ranks of the host know that ours sleeps until they start a collective, or post a message.
/// To be called before looking at everything for the last time (seq_cst: either we see that they
/// have done so, or they see that we sleep).
void Engine::announce(Comm& comm) {
  const auto tell = [&](int32_t rank) {
    const Peer* const peer = rank < 0 ? nullptr : comm.peer(rank);
    if (peer == nullptr || peer->sameProcess()) return;
    peer->page->startWaiters.fetch_or(uint64_t{1} << (comm.localRank() % 64),
                                      std::memory_order_seq_cst);
  };
  const auto expectMail = [&](int32_t rank) {
    const Peer* const peer = rank < 0 ? nullptr : comm.peer(rank);
    if (peer == nullptr || peer->sameProcess()) return;
    comm.mailboxFrom(*peer).receiver.store(1, std::memory_order_seq_cst);
  };
  const Phase phase = comm.phase.load(std::memory_order_seq_cst);
  if (phase == Phase::kStarting && comm.startCell.load(std::memory_order_seq_cst) != nullptr) {
    tell(comm.startRank.load(std::memory_order_relaxed));
  }
  if (phase != Phase::kRunning) return;
  const uint32_t n = comm.nQueues.load(std::memory_order_relaxed);
  for (uint32_t queue = 0; queue < n; queue++) {
    const QueueRun& run = comm.runs[queue];
    if (run.cell.load(std::memory_order_seq_cst) == nullptr) continue;
    const WaitKind kind = run.kind.load(std::memory_order_relaxed);
    if (kind == WaitKind::kCollective) tell(run.rank.load(std::memory_order_relaxed));
    if (kind == WaitKind::kMessage) expectMail(run.rank.load(std::memory_order_relaxed));
  }
}

void Engine::announce(const Context& context) {
  for (const auto& comm : *context.comms)
    announce(*comm);
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
    if (!comm->live()) continue;
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
    // If a place is reserved, somebody looks within a nap: seq_cst, so that he sees what we parked.
    if (!reserved_.load(std::memory_order_seq_cst)) announce(comm);
    more = context.exhausted || runnable(comm) || anyRunnable(context);
    context.exhausted = false;
  }
  if (!more) return;
  // Long enough to be worth waking a worker, whoever comes next.
  if (volume > kWorthWaking) giveUpReserved();
  doorbell_.ring();
}

void Engine::lookOnce() {
  if (limits_.threads != 0) return;
  Lease lease(*this);
  work(*lease.context);
}

}  // namespace nccom::emu
