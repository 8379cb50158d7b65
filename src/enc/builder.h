// encBuilder: what every composer appends to. Keeps blocks, connections and the totals of
// semaphores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "enc/layout.h"
#include "enc/program.h"
#include "enc/stage.h"
#include "misc/result.h"

namespace nccom {

/// Of one transfer of the device.
inline constexpr int kMaxSources = 64, kMaxDestinations = 64;

encDesc encWait(encStep step, int raisedBy, uint32_t semaphore, int64_t value);
encDesc encInc(encStep step, int rank, uint32_t semaphore, int64_t value = 1);
encDesc encTransfer(encStep step, encAddress source, encAddress destination, uint64_t bytes);

inline constexpr int kProxy = -1;  // who raises a semaphore, when no rank does

/// A transfer in the words of a stage: spans may be scattered, and sources as many as there are.
struct encMove {
  encStep step = encStep::Copy;
  std::vector<encSpan> sources = {};
  std::vector<encSpan> destinations = {};  // with over 64 of either, the first is read
  uint64_t bytes = 0;
  uint64_t scaledSources = 0;  // bit k: source k is multiplied by the launch's scale
  bool scaleAll = false;       // every source is
  bool divide = false;         // the result is divided by the launch's divisor
};

/// How often a pipe has been used so far in an operation: slots go on from stage to stage.
struct encPipeUses {
  // In loops an iteration's uses are a multiple of kRingSlots, so slots repeat.
  uint64_t sent = 0, posted = 0, taken = 0;
  bool begun = false;
  std::optional<size_t> postQueue;  // of receives that are posted ahead
};

/// Composes one rank's program. Queues and blocks that stay empty are left out of it.
class encBuilder {
 public:
  /// `info` must outlive the builder and pass encCheckComm.
  encBuilder(const enc_comm_info& info, const encTask& task, std::string algorithm);

  const enc_comm_info& info() const { return info_; }
  const encLayout& layout() const { return layout_; }
  int self() const { return info_.rank; }

  /// A new queue; its index stays valid until finish().
  size_t addQueue(uint32_t channel);
  /// The queue of a channel's steps, made when first named.
  size_t mainQueue(uint32_t channel);
  /// Descriptors that follow in `queue` are repeated together.
  void beginBlock(size_t queue, uint64_t repeat);
  /// Appends to the queue's current block; without one, to a new block that runs once.
  void append(size_t queue, encDesc desc);

  /// What follows, in whatever queue, runs `repeat` times. Waits made by wait() go on with every
  /// iteration; INPUT and OUTPUT addresses move by what the caller gives them as stride.
  void beginLoop(uint64_t repeat);
  void endLoop();
  bool inLoop() const { return repeat_ > 1; }

  /// As many Transfers as the spans' places and the number of sources ask for. What would copy
  /// bytes onto themselves is left out.
  void transfer(size_t queue, const encMove& move);

  /// The program's index of a connection; made when first named. The proxy raises `semaphore`.
  uint32_t connection(int peer, int channel, bool send, uint32_t semaphore);

  /// Our `semaphore` is raised `count` times more in this launch, by whomever (in each iteration of
  /// a loop). Composers derive it by symmetry: what a peer raises follows from what we do with it.
  /// @return  what it has been raised by then, in the loop's first iteration
  int64_t expect(uint32_t semaphore, uint64_t count = 1);
  /// Waits for all that is expected of `semaphore` so far but the last `slack` increments.
  void wait(size_t queue, encStep step, int raisedBy, uint32_t semaphore, int64_t slack = 0);

  /// @param pipe  number of its first semaphore
  encPipeUses& pipeUses(uint32_t pipe) { return pipeUses_[pipe]; }

  void peersReadInputs() { program_.peerInputs = true; }
  /// A copy of it: of at most kMaxValueBytes.
  void peersReadInputByValue() { program_.peerInputs = program_.inputByValue = true; }
  void peersWriteOutputs() { program_.peerOutputs = true; }
  /// Others use our scratch up to `end`, whatever we use of it ourselves.
  void peersUseScratch(uint64_t end) {
    program_.scratchBytes = std::max(program_.scratchBytes, end);
  }

  /// @error ncclInvalidArgument  PreMulSum by an algorithm that reads inputs of other ranks: their
  ///                             scalars are not known here
  Result<encProgram> finish() &&;

 private:
  struct Expected {
    uint64_t before = 0, inIteration = 0;  // of the current loop
  };
  void moveRun(size_t queue, const encMove& move, uint64_t from, uint64_t bytes);
  Status checkScalars() const;

  const enc_comm_info& info_;
  const encLayout layout_;
  encProgram program_;
  std::map<uint32_t, Expected> expected_;
  std::map<uint32_t, size_t> mainQueues_;
  std::map<uint32_t, encPipeUses> pipeUses_;
  uint64_t repeat_ = 1;             // of the current loop
  uint32_t section_ = 0;            // number of the loop, or of the part between two
  std::vector<uint32_t> sections_;  // [queue] that its last block belongs to
};

/// Checks what composers rely on: ranks, hosts, and rings that are permutations of all ranks.
Status encCheckComm(const enc_comm_info& info);

/// Checks a task by itself and against the communicator: type, operator, root, peers, sizes.
Status encCheckTask(const enc_comm_info& info, const encTask& task);

/// Where scaling and division enter, for a task's operator.
struct encReduction {
  bool scaleInputs = false;  // each INPUT is multiplied by the launch's scale where it enters
  bool divideSum = false;    // the complete sum is divided by the launch's divisor
};
encReduction encReductionOf(const encTask& task, int nRanks);

}  // namespace nccom
