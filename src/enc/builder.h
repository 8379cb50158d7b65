// encBuilder: what every composer appends to. Keeps blocks, connections and the totals of
// semaphores.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "enc/layout.h"
#include "enc/program.h"
#include "misc/result.h"

namespace nccom {

encDesc encWait(encStep step, int raisedBy, uint32_t semaphore, int64_t value);
encDesc encInc(encStep step, int rank, uint32_t semaphore, int64_t value = 1);
encDesc encTransfer(encStep step, encAddress source, encAddress destination, uint64_t bytes);

inline constexpr int kProxy = -1;  // who raises a semaphore, when no rank does

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
  /// Descriptors that follow in `queue` are repeated together.
  void beginBlock(size_t queue, uint64_t repeat);
  /// Appends to the queue's current block; without one, to a new block that runs once.
  void append(size_t queue, encDesc desc);
  encBlock& block(size_t queue);

  /// The program's index of a connection; made when first named. The proxy raises `semaphore`.
  uint32_t connection(int peer, int channel, bool send, uint32_t semaphore);

  /// Our `semaphore` is raised `count` times in all in this launch, by whomever. Composers derive
  /// it by symmetry: what a peer raises follows from what we do with that peer.
  void expect(uint32_t semaphore, uint64_t count);

  void peersReadInputs() { program_.peerInputs = true; }

  encProgram finish() &&;

 private:
  const enc_comm_info& info_;
  const encLayout layout_;
  encProgram program_;
  std::map<uint32_t, uint64_t> totals_;
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
