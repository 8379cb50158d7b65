#include "plugins/device_emu/report.h"

#include <map>
#include <vector>

#include "plugins/device_emu/runtime.h"
#include "plugins/device_emu/stopped.h"

namespace nccom::emu {
namespace {

using std::to_string;

/// Who raises a semaphore: nccomDesc_v1::rank.
std::string raiser(int32_t rank) {
  if (rank >= 0) return "rank " + to_string(rank);
  return rank == -1 ? "the network" : "the network (rank " + to_string(-2 - rank) + ")";
}

bool alive(const Page& page) {
  return page.state.load(std::memory_order_acquire) == static_cast<uint32_t>(RankState::kAlive);
}

std::string quoted(const std::string& name) {
  return name.empty() ? "?" : name;
}

/// "semaphore 5 >= 12 (found 10)", relative to the start of the operation.
std::string semaphoreText(uint32_t semaphore, int64_t awaited, int64_t found) {
  return "semaphore " + to_string(semaphore) + " >= " + to_string(awaited) + " (found " +
         to_string(found) + ")";
}

std::string waitText(const Comm& comm, const QueueRun& run) {
  switch (run.kind.load(std::memory_order_relaxed)) {
    case WaitKind::kNone:
      return "is not waiting";
    case WaitKind::kSemaphore: {
      const uint32_t semaphore = run.semaphore.load(std::memory_order_relaxed);
      const uint64_t base = comm.base[semaphore];
      const uint64_t found = comm.semaphores()[semaphore].value.load(std::memory_order_relaxed);
      return "waits for " +
             semaphoreText(semaphore,
                           static_cast<int64_t>(run.target.load(std::memory_order_relaxed) - base),
                           static_cast<int64_t>(found - base));
    }
    case WaitKind::kCollective:
      return "waits for its call";
    case WaitKind::kMailFull:
      return "waits for it to take earlier messages";
    case WaitKind::kMailboxes:
      return "waits for it to connect";
    case WaitKind::kMessage:
      return "waits for message " + to_string(run.target.load(std::memory_order_relaxed)) +
             " of rank " + to_string(run.rank.load(std::memory_order_relaxed));
  }
  return "";
}

std::string queueText(const Comm& comm, const Op& op, uint32_t queue) {
  const QueueRun& run = comm.runs[queue];
  const uint32_t channel = op.program->queues()[queue].channel;
  return "channel " + to_string(channel) + " queue " + to_string(queue) + " step " +
         op.program->stepName(run.step.load(std::memory_order_relaxed)) + " " + waitText(comm, run);
}

std::string lastOperation(const Board& board) {
  const uint64_t launched = board.launched.load(std::memory_order_relaxed);
  const uint64_t started = board.started.load(std::memory_order_relaxed);
  const uint64_t ended = board.ended.load(std::memory_order_relaxed);
  if (launched == 0) return "it has launched nothing yet";
  if (started > ended) {
    return "it is in operation " + to_string(started) + " (" + quoted(board.startedName.load()) +
           ")";
  }
  return "its last operation is " + to_string(launched) + " (" + quoted(board.launchedName.load()) +
         "), " + (ended == launched ? "ended" : "not started");
}

/// What another rank's queues wait for, as its board tells.
std::string boardWaits(const Board& board) {
  std::string text;
  for (uint32_t i = 0; i < NCCOM_MAX_QUEUES; i++) {
    const QueueBoard& queue = board.queues[i];
    const auto kind = static_cast<WaitKind>(queue.kind.load(std::memory_order_relaxed));
    if (kind == WaitKind::kNone) continue;
    const int32_t rank = queue.rank.load(std::memory_order_relaxed);
    text += text.empty() ? ", " : "; ";
    text += "queue " + to_string(i) + " step " + queue.step.load() + " waits for ";
    if (kind == WaitKind::kSemaphore) {
      text += semaphoreText(queue.semaphore.load(std::memory_order_relaxed),
                            static_cast<int64_t>(queue.awaited.load(std::memory_order_relaxed)),
                            static_cast<int64_t>(queue.found.load(std::memory_order_relaxed))) +
              " from ";
    }
    text += raiser(rank);
  }
  return text;
}

bool hasStarted(const Page& page, const Op& op) {
  return page.collective.load(std::memory_order_acquire) >= op.collective;
}

std::string inRelationTo(const Page& page, const Op& op) {
  const Board& board = page.board;
  const uint64_t launched = board.collective.load(std::memory_order_relaxed);
  if (launched < op.collective) return "has not called it: " + lastOperation(board);
  if (!hasStarted(page, op)) return "has called it but not started it: " + lastOperation(board);
  const uint64_t running = board.started.load(std::memory_order_relaxed);
  const uint64_t ended = board.ended.load(std::memory_order_relaxed);
  const bool inLater = page.collective.load(std::memory_order_acquire) > op.collective;
  if (!inLater && running > ended) return "is in it, too" + boardWaits(board);
  return "has ended it: " + lastOperation(board);
}

/// The ranks of this host, `told` left out, that have not come to a collective: behind every wait
/// for one that has there may be one of them.
std::string missingRanks(const Comm& comm, const Op& op, int32_t told) {
  constexpr int kMost = 4;
  std::string text;
  int missing = 0;
  for (const Peer& peer : comm.peers()) {
    if (op.collective == 0 || peer.rank == told || hasStarted(*peer.page, op)) continue;
    if (missing++ < kMost) text += "; " + describeRank(comm, peer.rank, &op);
  }
  if (missing > kMost) text += "; and " + to_string(missing - kMost) + " more ranks are missing";
  return text;
}

}  // namespace

std::string describe(const Op& op) {
  return std::string(op.name.data()) + " (operation " + to_string(op.opCount) + ")";
}

std::string describeRank(const Comm& comm, int32_t rank, const Op* op) {
  if (rank < -1) {
    return raiser(rank) +
           " has not completed it: that rank may not have called it, or something else";
  }
  if (rank < 0) return "the network has not completed it";
  const std::string name = "rank " + to_string(rank) + " ";
  if (rank == comm.rank()) return name + "is this rank";
  const Peer* const peer = comm.peer(rank);
  if (peer == nullptr) return name + "is on another host";
  if (!alive(*peer->page)) return name + "has left the communicator";
  if (peer->process->state() == PeerState::Died) {
    return name + "(pid " + to_string(peer->page->pid) + ") died";
  }
  if (op != nullptr && op->collective != 0) return name + inRelationTo(*peer->page, *op);
  return name + "(" + lastOperation(peer->page->board) + boardWaits(peer->page->board) + ")";
}

std::string describeStall(const Comm& comm) {
  const Op& op = *comm.current.load(std::memory_order_acquire);
  if (comm.phase.load(std::memory_order_relaxed) == Phase::kStarting) {
    const int32_t rank = comm.startRank.load(std::memory_order_relaxed);
    if (rank < 0) return "it waits for all ranks of this host to connect";
    return "it waits for earlier collectives of rank " + to_string(rank) + ", which " +
           describeRank(comm, rank, &op).substr(("rank " + to_string(rank) + " ").size()) +
           stoppedProcesses(comm);
  }
  std::map<int32_t, std::vector<uint32_t>> waiting;  // by the rank that is waited for
  for (uint32_t i = 0; i < op.program->head().nQueues; i++) {
    const QueueRun& run = comm.runs[i];
    if (run.finished.load(std::memory_order_acquire)) continue;
    waiting[run.rank.load(std::memory_order_relaxed)].push_back(i);
  }
  std::string text;
  int32_t told = -1;
  for (const auto& [rank, queues] : waiting) {
    told = rank;
    if (!text.empty()) text += "; ";
    text += queueText(comm, op, queues.front());
    if (queues.size() > 1) text += " (and " + to_string(queues.size() - 1) + " more)";
    text += ", raised by " + raiser(rank) + "; " + describeRank(comm, rank, &op);
  }
  return text + missingRanks(comm, op, waiting.size() == 1 ? told : -1) + stoppedProcesses(comm);
}

std::string describeComm(Comm& comm) {
  const Board& board = comm.page().board;
  std::string text = "rank " + to_string(comm.rank()) + " of " + to_string(comm.nRanks()) + ": " +
                     lastOperation(board);
  if (comm.failed()) text += "; failed: " + comm.cause().message;
  if (!comm.control.exchange(true, std::memory_order_seq_cst)) {
    const Phase phase = comm.phase.load(std::memory_order_seq_cst);
    if (phase == Phase::kStarting || phase == Phase::kRunning) text += "; " + describeStall(comm);
    comm.control.store(false, std::memory_order_seq_cst);
    comm.runtime().doorbell().ring();  // for a thread that found `control` taken
  }
  text += "\n";
  if (!comm.connected()) return text;
  for (const Peer& peer : comm.peers()) {
    if (peer.rank != comm.rank()) text += describeRank(comm, peer.rank, nullptr) + "\n";
  }
  return text;
}

}  // namespace nccom::emu
