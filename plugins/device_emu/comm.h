// A rank of a communicator, as its process sees it: its page, its peers, its operations.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "include/plugin/nccom_device.h"
#include "plugins/device_emu/op.h"
#include "plugins/device_emu/page.h"
#include "plugins/device_emu/peers.h"
#include "plugins/device_emu/program.h"
#include "plugins/device_emu/stream.h"

namespace nccom::emu {

class Runtime;

/// What a rank tells the others of its host: the content of a nccomDeviceHandle_v1.
struct CommHandle {
  uint64_t magic;
  ProcessExport process;
  uint64_t pageOffset;
  uint64_t nonce;
  int32_t rank;
  int32_t reserved;
};
static_assert(sizeof(CommHandle) <= NCCOM_DEVICE_HANDLE_BYTES);
inline constexpr uint64_t kHandleMagic = 0x444e414855454e43ULL;  // "CNEUHAND"

/// A rank of this host, this rank itself included. Constant once connected, but for the counts of
/// messages.
struct Peer {
  int32_t rank = -1;
  uint32_t localRank = 0;  // position among the ranks of this host
  bool cma = false;        // we may read and write its process's memory
  std::shared_ptr<PeerProcess> process;
  std::shared_ptr<Comm> local;  // another rank of this process
  Page* page = nullptr;
  std::byte* scratch = nullptr;
  SemaphoreCell* semaphores = nullptr;
  Doorbell* doorbell = nullptr;
  // Messages posted to it, received from it, by earlier operations; and posted ones that it is
  // known to have taken.
  uint64_t posted = 0, received = 0, taken = 0;

  bool sameProcess() const { return process == nullptr || process->own(); }
};

struct alignas(128) HostIndex {
  nccomHostIndex_v1 index;
};

// Life: create, connect, operations, destroy. Threads: `pending` and `freeOps` belong to the
// schedule's mutex, an operation's start and end to `control`, a queue to its lock in the page;
// what is constant after connect() is read without a lock.
class Comm {
 public:
  static Result<std::shared_ptr<Comm>> create(Runtime& runtime,
                                              const nccomDeviceCommConfig_v1& config);
  Comm(Runtime& runtime, const nccomDeviceCommConfig_v1& config);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  /// Leaves its memory to the runtime, which keeps it until the last peer has left.
  ~Comm();

  nccomDeviceHandle_v1 handle() const;
  Status connect(const nccomDeviceHandle_v1* handles, const int32_t* sameHost,
                 Clock::time_point deadline);
  /// Leaves the peers. No operation is running, and none will.
  void leave();

  /// A program's handle.
  /// @param staged  null: none; see LoadedProgram::staged()
  Result<void*> load(const nccomProgram_v1& program, const nccomProgram_v1* staged);
  /// Forgets the handle; operations that use the program keep it.
  Status unload(void* handle);
  /// An operation ready to be appended, checked against its program.
  Result<Op*> prepare(void* handle, const nccomLaunch_v1& launch);
  /// One of the last operations that ended, if it is the same but for its numbers; null: none is.
  /// With the schedule's mutex held.
  Op* repeat(const void* handle, const nccomLaunch_v1& launch);
  /// For reports of any rank of the host. With the schedule's mutex held.
  void showLaunched(const Op& op);
  /// The same, when it starts.
  void showStarted(const Op& op);

  int32_t rank() const { return config_.rank; }
  int32_t nRanks() const { return config_.nRanks; }
  const nccomDeviceCommConfig_v1& config() const { return config_; }
  Runtime& runtime() const { return runtime_; }
  Page& page() const { return *page_; }
  std::byte* scratch() const { return scratch_; }
  SemaphoreCell* semaphores() const { return semaphores_; }
  nccomHostIndex_v1& hostIndex(uint32_t connection) { return hostIndices_[connection].index; }
  Mailbox& mailboxFrom(const Peer& peer) const { return mailboxes_[peer.localRank]; }
  bool connected() const { return connected_.load(std::memory_order_acquire); }
  /// Ranks of this host in rank order, this one included; empty before connect().
  std::vector<Peer>& peers() { return peers_; }
  const std::vector<Peer>& peers() const { return peers_; }
  /// The rank's entry in peers(); null: not of this host.
  Peer* peer(int32_t rank) {
    return peerOf_.empty() ? nullptr : peerOf_[static_cast<size_t>(rank)];
  }
  const Peer* peer(int32_t rank) const {
    return peerOf_.empty() ? nullptr : peerOf_[static_cast<size_t>(rank)];
  }
  uint32_t localRank() const { return localRank_; }
  /// Whether ranks of this host are in several processes.
  bool spansProcesses() const;
  /// Whether a peer needs our buffers in the HBM. All peers have attached.
  bool stagesForeign() const;

  // ---- failure: the first cause is kept, and every rank of the host hears of it ----
  /// E seq_cst: taken before memory of others is touched, after the queue's lock; pairs with
  /// raise(): either the queue sees the failure, or the failing rank sees the queue's lock.
  bool failed() const { return page_->error.state.load(std::memory_order_seq_cst) != 0; }
  /// The communicator has failed here by itself: fails its ranks on this host, tells the host once.
  void raise(const Error& error);
  /// It fails by order of the host: the other ranks of this host hear that this one was aborted.
  void abort(const Error& error);
  /// The cause; to be called when failed().
  Error cause() const;
  /// The cause, for an operation that ends with it. The host hears of it before: else a user could
  /// see the failure and end the process, and the other hosts would hear of nothing but that.
  Error toldCause();
  /// Text of cause() that lives as long as this.
  const char* causeText() const;
  /// Makes sure that every peer has heard, and says whether all have stopped touching memory.
  bool peersQuiet();
  /// Fails if a process of a peer has died.
  void checkPeers();
  /// Lets the threads of every process of this communicator look again.
  void ringPeers();

  // ---- the current operation: see lifecycle.h and executor.h ----
  std::atomic<Phase> phase{Phase::kIdle};
  /// Whether an operation was activated and has not ended. seq_cst: see Engine::leave().
  bool live() const { return phase.load(std::memory_order_seq_cst) != Phase::kIdle; }
  std::atomic<Op*> current{nullptr};   // set before phase becomes kStarting
  std::atomic<uint32_t> remaining{0};  // queues that are not finished
  std::atomic<bool> control{false};    // held by the thread that starts or ends the operation
  // What the start waits for; as QueueRun::cell.
  std::atomic<const std::atomic<uint64_t>*> startCell{nullptr};
  std::atomic<uint64_t> startTarget{0};
  std::atomic<int32_t> startRank{-1};
  std::atomic<uint32_t> nQueues{0};  // of the current operation
  QueueRun runs[NCCOM_MAX_QUEUES];
  std::vector<uint64_t> base;  // of own semaphores: what earlier operations have counted
  // Queue + 1 that waits for a semaphore: who raises it inside this process goes on there.
  std::vector<std::atomic<uint32_t>> parked;
  /// Device memory of at least so many bytes, that was touched before if there is such: the first
  /// touch of a page costs far more than a copy of it. Guarded by control, as giveBack() is.
  Result<Bound> room(uint64_t bytes);
  void giveBack(const Bound& block);
  uint64_t freeUntil = 0;  // collectives up to here may overwrite their slot; guarded by control

  // Op::content of what the page shows; of the slots and of what has started, guarded as the start
  // of operations is: by `control`, or by the schedule's mutex while none is pending.
  std::array<uint64_t, kSlots> slotContent{};

  // ---- guarded by the schedule's mutex ----
  std::deque<Op*> pending;
  std::vector<Op*> freeOps;              // in the order of their ends
  static constexpr size_t kKeptOps = 4;  // of them, for calls that take turns
  bool closing = false;
  // The operation that is an exchange, and not ended: then none is pending. Written with the mutex
  // held; relaxed: a looker that sees it changed looks again with the mutex
  std::atomic<Op*> exchange{nullptr};
  // Threads that wait for values without the mutex. Written with it held; release when one goes,
  // pairs with Schedule::awaitLookers()
  std::atomic<uint32_t> lookers{0};

  // ---- guarded by `watch` ----
  std::mutex watch;
  uint64_t seenProgress = 0;
  Clock::time_point progressAt{}, seenAt{};
  Clock::duration nextStall{};         // without progress, after which the host is told
  std::atomic<int64_t> failedAtNs{0};  // when this rank noticed its failure; 0: not yet
  // A thread is in the host's netProgress, or the host must not be called any more.
  std::atomic<bool> networkBusy{false};

 private:
  Status openPage();
  Result<Peer> open(const nccomDeviceHandle_v1& handle, int32_t rank, Clock::time_point deadline);
  Status attachTo(Peer& peer);
  Status openMailboxes();
  Result<std::shared_ptr<const LoadedProgram>> checked(void* handle, const nccomLaunch_v1& launch);
  Status checkLaunch(const LoadedProgram& program, const nccomLaunch_v1& launch) const;
  Status checkCall(const LoadedProgram& program, const nccomLaunch_v1& launch) const;
  Status checkBuffers(const char* what, const std::vector<uint64_t>& touched,
                      const nccomBufferBinding_v1* buffers, uint32_t n, bool computes,
                      uint64_t elementBytes) const;
  Op& freeOp();
  void spread(const Error& error);
  void tellHost(const Error& error);

  Runtime& runtime_;
  nccomDeviceCommConfig_v1 config_;
  uint64_t nonce_ = 0;
  Page* page_ = nullptr;
  std::byte* scratch_ = nullptr;
  SemaphoreCell* semaphores_ = nullptr;
  Mailbox* mailboxes_ = nullptr;
  std::vector<HostIndex> hostIndices_;
  std::vector<Peer> peers_;
  std::vector<Peer*> peerOf_;
  uint32_t localRank_ = 0;
  std::atomic<bool> connected_{false};

  // Guards left_. Held for what is done to peers and host outside of operations, so that it does
  // not happen after leave().
  std::mutex outside_;
  bool left_ = false;
  bool told_ = false;  // the host knows of the failure; guarded by outside_

  std::vector<Bound> rooms_;  // not in use, the smallest first

  std::mutex opsMutex_;  // guards ops_ and programs_
  std::vector<std::unique_ptr<Op>> ops_;
  std::map<void*, std::shared_ptr<const LoadedProgram>> programs_;
  /// A launch that was checked before: what it uses is still there.
  struct Checked {
    void* handle = nullptr;  // null: none
    std::shared_ptr<const LoadedProgram> program;
    nccomBufferBinding_v1 input{}, output{};
    uint64_t memory = 0;  // Hbm::epoch()
  };
  std::array<Checked, 4> checked_;  // the last few; guarded by opsMutex_
  size_t nextChecked_ = 0;
  std::atomic<uint64_t> contents_{0};  // relaxed: only has to differ

  mutable std::mutex causeMutex_;  // guards cause_
  mutable std::unique_ptr<const std::string> cause_;
};

}  // namespace nccom::emu
