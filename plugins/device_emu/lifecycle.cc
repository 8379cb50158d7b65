#include "plugins/device_emu/lifecycle.h"

#include <algorithm>
#include <cstring>

#include "plugins/device_emu/addresses.h"
#include "plugins/device_emu/mail.h"
#include "plugins/device_emu/report.h"
#include "plugins/device_emu/runtime.h"
#include "plugins/device_emu/slots.h"

namespace nccom::emu {
namespace {

constexpr uint64_t kCopyTile = 1 << 20;  // between looks for a failure
// Bytes of INPUTs outside device memory that peers read sooner from a copy of ours than by
// cross-memory attach. By measurement it is so for all sizes; copies take room.
constexpr uint64_t kWorthCopying = 64 << 20;
constexpr std::chrono::nanoseconds kQuietLimit = std::chrono::seconds(2);

bool takeControl(Comm& comm) {
  // seq_cst, pairs with letGo(): who fails to take it is seen by who lets go of it
  return !comm.control.exchange(true, std::memory_order_seq_cst);
}
void letGo(Comm& comm) {
  comm.control.store(false, std::memory_order_seq_cst);
}

/// @return false: the communicator failed in between
bool copyTiled(const Comm& comm, std::byte* to, const std::byte* from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kCopyTile) {
    if (comm.failed()) return false;
    copyBytes(to + at, from + at, std::min(kCopyTile, bytes - at), false);
  }
  return true;
}

class Start {
 public:
  Start(Context& context, Comm& comm)
      : context_(context), comm_(comm), op_(*comm.current.load(std::memory_order_acquire)) {}

  /// @return whether the operation is running, or the communicator failed
  bool run() {
    if (comm_.failed()) return true;
    if (!op_.ready && !prepare()) return comm_.failed();
    if (mayBeStaged()) {
      if (!allCalled()) return false;
      if (anyForeign()) {
        op_.program = op_.program->staged();
        if (!queuesReady()) return false;
      }
    }
    begin();
    return true;
  }

 private:
  /// All but the last step, so that little is left to do when the others have called.
  bool prepare() {
    const nccomProgram_v1& head = op_.program->head();
    if (head.peerInputs != 0 || head.peerOutputs != 0) {
      if (waits(comm_.page().attached, comm_.peers().size() - 1, -1)) return false;
    }
    if (!slotFree() || !queuesReady() || !bind()) return false;
    if (op_.collective != 0 && !publish()) return false;
    op_.ready = true;
    return true;
  }

  bool mayBeStaged() const { return op_.program->staged() != nullptr && comm_.spansProcesses(); }

  /// Whether the start has to wait for a cell of ours or of `rank`.
  bool waits(const std::atomic<uint64_t>& cell, uint64_t target, int32_t rank) {
    comm_.startRank.store(rank, std::memory_order_relaxed);
    comm_.startTarget.store(target, std::memory_order_relaxed);
    comm_.startCell.store(&cell, std::memory_order_seq_cst);
    if (cell.load(std::memory_order_seq_cst) < target) return true;
    comm_.startCell.store(nullptr, std::memory_order_relaxed);
    return false;
  }

  bool slotFree() {
    if (op_.published) return true;
    for (;;) {
      const Peer* const late = slotUser(comm_, op_.collective);
      if (late == nullptr) return true;
      if (waits(late->page->collective, firstAfter(op_.collective), late->rank)) return false;
    }
  }

  const OpSlot& slotOf(const Peer& peer) const { return peer.page->slots[op_.collective % kSlots]; }

  /// Whether every rank of the host has published this call.
  bool allCalled() {
    return std::none_of(comm_.peers().begin(), comm_.peers().end(), [this](const Peer& peer) {
      return waits(slotOf(peer).sequence, op_.collective, peer.rank);
    });
  }

  /// Whether a rank gives buffers outside device memory. All ranks see the same, once all have
  /// called: the slots stay as they are until all have started this.
  bool anyForeign() const {
    const auto isForeign = [](const Place& place) {
      return place.bytes > 0 && place.hbmOffset == Place::kForeign;
    };
    return std::any_of(comm_.peers().begin(), comm_.peers().end(), [&](const Peer& peer) {
      return isForeign(slotOf(peer).input) || isForeign(slotOf(peer).output);
    });
  }

  /// Resets the queues. A thread that still holds a lock from before has found its queue finished
  /// and is on its way out.
  bool queuesReady() {
    const uint32_t n = op_.program->head().nQueues;
    for (uint32_t i = 0; i < n; i++) {
      std::atomic<uint32_t>& held = comm_.page().locks[i].held;
      if (held.exchange(1, std::memory_order_seq_cst) != 0) return false;
      QueueRun& run = comm_.runs[i];
      run.block = run.desc = 0;
      run.iteration = 0;
      run.cell.store(nullptr, std::memory_order_relaxed);
      run.kind.store(WaitKind::kNone, std::memory_order_relaxed);
      held.store(0, std::memory_order_seq_cst);
    }
    return true;
  }

  bool bind() {
    op_.bindAsIs();
    op_.postedLeft.clear();
    for (const PostedUse& use : op_.program->posted())
      op_.postedLeft.push_back(use.uses);
    const nccomProgram_v1& head = op_.program->head();
    if ((head.peerInputs == 0 && head.peerOutputs == 0) || mayBeStaged()) return true;
    if (!comm_.stagesForeign() && !isWorthCopying()) return true;
    op_.bound = false;
    return stage(head.peerInputs == 1, head.peerOutputs != 0);
  }

  /// Whether peers should read copies of our INPUTs, although they could reach them.
  bool isWorthCopying() const {
    if (op_.program->head().peerOutputs != 0 || !comm_.spansProcesses()) return false;
    uint64_t bytes = 0;
    for (const Bound& input : op_.inputs)
      bytes += input.bytes;
    return bytes <= kWorthCopying;
  }

  /// Copies of the buffers outside device memory that peers touch. Buffers that overlap (a call in
  /// place) get one copy, so that they overlap there too.
  bool stage(bool inputs, bool outputs) {
    struct Candidate {
      Bound* bound;
      bool touched;
    };
    std::vector<Candidate> all;
    for (Bound& bound : op_.inputs)
      all.push_back({&bound, inputs});
    for (Bound& bound : op_.outputs)
      all.push_back({&bound, outputs});
    std::erase_if(all, [this](const Candidate& one) {
      return one.bound->bytes == 0 ||
             comm_.runtime().hbm().contains(one.bound->base, one.bound->bytes);
    });
    std::sort(all.begin(), all.end(),
              [](const Candidate& a, const Candidate& b) { return a.bound->base < b.bound->base; });
    for (size_t first = 0, last = 0; first < all.size(); first = last) {
      std::byte* const start = all[first].bound->base;
      std::byte* end = start;
      bool touched = false;
      for (; last < all.size() && (last == first || all[last].bound->base < end); last++) {
        end = std::max(end, all[last].bound->base + all[last].bound->bytes);
        touched = touched || all[last].touched;
      }
      if (!touched) continue;
      std::byte* const copy = stageRange(start, static_cast<uint64_t>(end - start));
      if (copy == nullptr) return false;
      for (size_t i = first; i < last; i++) {
        all[i].bound->base = copy + (all[i].bound->base - start);
      }
    }
    return true;
  }

  std::byte* stageRange(std::byte* user, uint64_t bytes) {
    const auto block = comm_.room(bytes);
    if (!block.ok()) {
      comm_.raise(fail(block.error().code,
                       "rank %d: %s: no room for a copy of %llu bytes that other processes can "
                       "reach: %s",
                       comm_.rank(), describe(op_).c_str(), static_cast<unsigned long long>(bytes),
                       block.error().message.c_str()));
      return nullptr;
    }
    std::byte* const copy = block.value().base;
    op_.staged.push_back({user, bytes, block.value()});
    return copyTiled(comm_, copy, user, bytes) ? copy : nullptr;
  }

  /// Shows the call to the ranks of the host, and compares it with those of the neighbours.
  bool publish() {
    if (!op_.published) {
      publishCall(comm_, op_);
      if (publishedCall(comm_)) context_.again = true;
    }
    const Peer* const other = differingNeighbour(comm_, op_);
    return other == nullptr ||
           sameCall(comm_, op_, *other, other->page->slots[op_.collective % kSlots]);
  }

  void begin() {
    const uint32_t n = op_.program->head().nQueues;
    comm_.remaining.store(n, std::memory_order_relaxed);
    comm_.nQueues.store(n, std::memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++) {
      comm_.runs[i].finished.store(false, std::memory_order_release);
    }
    comm_.showStarted(op_);
    comm_.phase.store(Phase::kRunning, std::memory_order_seq_cst);  // release: to Executor::run()
  }

  Context& context_;
  Comm& comm_;
  Op& op_;
};

/// The end of an operation whose queues nobody is in.
class Finish {
 public:
  explicit Finish(Comm& comm) : comm_(comm), op_(*comm.current.load(std::memory_order_acquire)) {}

  bool run() {
    const bool finished = comm_.remaining.load(std::memory_order_seq_cst) == 0;
    if (finished) {
      copyBack();
      count();
    } else if (!quiet()) {
      return false;
    }
    end(finished ? Status(Ok{}) : Status(comm_.toldCause()));
    return true;
  }

 private:
  bool quiet() {
    const int64_t now = Clock::now().time_since_epoch().count();
    int64_t since = comm_.failedAtNs.load(std::memory_order_relaxed);
    if (since == 0) comm_.failedAtNs.store(since = now, std::memory_order_relaxed);
    return comm_.peersQuiet() || now - since > kQuietLimit.count();
  }

  void copyBack() {
    for (const Staged& staged : op_.staged) {
      // Only outputs have changed; an input's copy is written back over itself only if it shares
      // its memory with an output.
      for (const nccomBufferBinding_v1& output : op_.userOutputs) {
        auto* const user = static_cast<std::byte*>(output.address);
        if (output.bytes == 0 || user < staged.user || user >= staged.user + staged.bytes) continue;
        copyBytes(user, staged.copy.base + (user - staged.user), output.bytes, false);
      }
    }
  }

  void count() {
    for (const nccomSemaphoreTotal_v1& total : op_.program->totals()) {
      comm_.base[total.semaphore] += total.total;
    }
    countMail(comm_, *op_.program);
  }

  void end(const Status& status) {
    Runtime& runtime = comm_.runtime();
    for (const Staged& staged : op_.staged)
      comm_.giveBack(staged.copy);
    op_.staged.clear();
    const uint32_t n = comm_.nQueues.load(std::memory_order_relaxed);  // ours, or of the one before
    for (uint32_t i = 0; i < n; i++)
      comm_.runs[i].finished.store(true, std::memory_order_release);
    comm_.startCell.store(nullptr, std::memory_order_relaxed);
    comm_.page().board.ended.store(op_.opCount, std::memory_order_relaxed);
    runtime.schedule().ended(op_, status);
  }

  Comm& comm_;
  Op& op_;
};

/// Whoever holds the lock of another queue than the operation's has come late: it finds that queue
/// finished, and touches nothing.
bool queueHeld(const Comm& comm) {
  const uint32_t n = comm.nQueues.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < n; i++) {
    if (comm.page().locks[i].held.load(std::memory_order_seq_cst) != 0) return true;
  }
  return false;
}

}  // namespace

bool startable(const Comm& comm) {
  if (comm.phase.load(std::memory_order_seq_cst) != Phase::kStarting) return false;
  if (comm.failed()) return true;
  const std::atomic<uint64_t>* const cell = comm.startCell.load(std::memory_order_seq_cst);
  return cell == nullptr ||
         cell->load(std::memory_order_seq_cst) >= comm.startTarget.load(std::memory_order_relaxed);
}

bool tryStart(Context& context, Comm& comm) {
  bool done = false;
  // The loop is for a thread that found `control` taken and went: it counts on us.
  while (!done && startable(comm) && takeControl(comm)) {
    if (comm.phase.load(std::memory_order_seq_cst) == Phase::kStarting) {
      done = Start(context, comm).run();
      if (done && comm.phase.load(std::memory_order_relaxed) == Phase::kStarting) {
        // Failed before it ran; `remaining` is not 0, so that it ends with the cause.
        comm.remaining.store(1, std::memory_order_relaxed);
        comm.phase.store(Phase::kFinishing, std::memory_order_seq_cst);
      }
    }
    letGo(comm);
  }
  return done;
}

bool endable(const Comm& comm) {
  const Phase phase = comm.phase.load(std::memory_order_seq_cst);
  if (phase == Phase::kFinishing) return true;
  return phase == Phase::kRunning &&
         (comm.remaining.load(std::memory_order_seq_cst) == 0 || comm.failed());
}

bool tryFinish(Comm& comm) {
  // The loop is for a thread that left a queue, found `control` taken and went: it counts on us.
  while (endable(comm) && takeControl(comm)) {
    bool ended = false;
    bool held = false;
    if (endable(comm)) {
      // seq_cst, pairs with Executor::run(): either it sees the phase, or we see its lock
      comm.phase.store(Phase::kFinishing, std::memory_order_seq_cst);
      held = queueHeld(comm);
      if (!held) ended = Finish(comm).run();
    }
    letGo(comm);
    if (ended) return true;
    if (!held || queueHeld(comm)) return false;
  }
  return false;
}

}  // namespace nccom::emu
