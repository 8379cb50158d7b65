#include "plugins/device_emu/watch.h"

#include "plugins/device_emu/report.h"

namespace nccom::emu {
namespace {

constexpr std::chrono::milliseconds kFirstStall{1000};
constexpr std::chrono::milliseconds kPause{500};  // between looks: nobody was there to look

/// Grows with everything that moves.
uint64_t progressOf(const Comm& comm) {
  uint64_t sum = comm.page().board.ended.load(std::memory_order_relaxed) +
                 comm.page().board.started.load(std::memory_order_relaxed);
  for (const QueueRun& run : comm.runs)
    sum += run.steps.load(std::memory_order_relaxed);
  return sum;
}

/// Shows what the queues wait for. The caller holds `control`, so that the operation stays.
void fillBoard(Comm& comm) {
  const Op& op = *comm.current.load(std::memory_order_acquire);
  const uint32_t n = op.program->head().nQueues;
  for (uint32_t i = 0; i < NCCOM_MAX_QUEUES; i++) {
    QueueBoard& board = comm.page().board.queues[i];
    const QueueRun& run = comm.runs[i];
    // relaxed: for reports
    WaitKind kind = WaitKind::kNone;
    if (i < n && !run.finished.load(std::memory_order_acquire)) {
      kind = run.kind.load(std::memory_order_relaxed);
    }
    board.kind.store(static_cast<uint32_t>(kind), std::memory_order_relaxed);
    if (kind == WaitKind::kNone) continue;
    board.rank.store(run.rank.load(std::memory_order_relaxed), std::memory_order_relaxed);
    board.step.store(op.program->stepName(run.step.load(std::memory_order_relaxed)));
    if (kind != WaitKind::kSemaphore) continue;
    const uint32_t semaphore = run.semaphore.load(std::memory_order_relaxed);
    const uint64_t base = comm.base[semaphore];
    board.semaphore.store(semaphore, std::memory_order_relaxed);
    board.awaited.store(run.target.load(std::memory_order_relaxed) - base,
                        std::memory_order_relaxed);
    board.found.store(comm.semaphores()[semaphore].value.load(std::memory_order_relaxed) - base,
                      std::memory_order_relaxed);
  }
}

bool hasLeft(const Comm& comm, int32_t rank) {
  const Peer* const peer = rank >= 0 && rank != comm.rank() ? comm.peer(rank) : nullptr;
  // acquire, pairs with leave(): what it raised before comes first
  return peer != nullptr && peer->page->state.load(std::memory_order_acquire) ==
                                static_cast<uint32_t>(RankState::kLeft);
}

/// The rank that the operation waits for although it has left; -1: none.
int32_t missedRank(const Comm& comm, Phase phase) {
  if (phase == Phase::kStarting) {
    const int32_t rank = comm.startRank.load(std::memory_order_relaxed);
    const auto* const cell = comm.startCell.load(std::memory_order_acquire);
    const bool gone =
        cell != nullptr && hasLeft(comm, rank) &&
        cell->load(std::memory_order_acquire) < comm.startTarget.load(std::memory_order_relaxed);
    return gone ? rank : -1;
  }
  for (const QueueRun& run : comm.runs) {
    if (run.finished.load(std::memory_order_acquire)) continue;
    const int32_t rank = run.rank.load(std::memory_order_relaxed);
    if (run.kind.load(std::memory_order_relaxed) == WaitKind::kNone) continue;
    if (hasLeft(comm, rank) && !run.runnable()) return rank;
  }
  return -1;
}

/// The caller holds `control`.
void tellStall(Comm& comm, const Op& op, Clock::duration idle) {
  const nccomHostCalls_v1& host = comm.config().host;
  if (host.stalled == nullptr || op.collective == 0 || idle < comm.nextStall) return;
  comm.nextStall *= 2;
  host.stalled(host.arg, op.collective, op.name.data());
}

/// The caller holds `control`.
void look(Comm& comm, Clock::time_point now) {
  const Phase phase = comm.phase.load(std::memory_order_seq_cst);
  if (phase != Phase::kStarting && phase != Phase::kRunning) return;
  if (phase == Phase::kRunning) fillBoard(comm);
  const Op& op = *comm.current.load(std::memory_order_acquire);
  if (const int32_t rank = missedRank(comm, phase); rank >= 0) {
    comm.raise(fail(ncclRemoteError,
                    "rank %d has left the communicator, but %s of rank %d needs it", rank,
                    describe(op).c_str(), comm.rank()));
    return;
  }
  tellStall(comm, op, now - comm.progressAt);
  const int64_t limit = comm.config().timeoutMs;
  if (limit == 0 || now - comm.progressAt < std::chrono::milliseconds(limit)) return;
  comm.raise(fail(ncclTimeout, "rank %d: %s has made no progress for %lld ms (NCCOM_TIMEOUT): %s",
                  comm.rank(), describe(op).c_str(), static_cast<long long>(limit),
                  describeStall(comm).c_str()));
}

}  // namespace

void watchComm(Comm& comm, Clock::time_point now) {
  const std::unique_lock lock(comm.watch, std::try_to_lock);
  if (!lock.owns_lock()) return;
  comm.checkPeers();
  const uint64_t progress = progressOf(comm);
  const bool busy = comm.phase.load(std::memory_order_seq_cst) != Phase::kIdle;
  if (!busy || progress != comm.seenProgress) {
    comm.progressAt = now;
    comm.nextStall = kFirstStall;
  }
  comm.seenProgress = progress;
  if (now - comm.seenAt > kPause) comm.progressAt += now - comm.seenAt;
  comm.seenAt = now;
  if (comm.progressAt > now) comm.progressAt = now;
  if (!busy || comm.failed()) return;
  if (comm.control.exchange(true, std::memory_order_seq_cst)) return;
  look(comm, now);
  comm.control.store(false, std::memory_order_seq_cst);
}

}  // namespace nccom::emu
