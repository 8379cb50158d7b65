// An operation: one launch of a program, from its append to a stream until its end.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "include/plugin/nccom_device.h"
#include "plugins/device_emu/page.h"
#include "plugins/device_emu/program.h"
#include "plugins/device_emu/stream.h"

namespace nccom::emu {

/// A buffer of a launch as it is used: the user's, or its copy in device memory.
struct Bound {
  std::byte* base = nullptr;
  uint64_t bytes = 0;
};

/// Copy of user memory in the HBM, for ranks of other processes that cannot reach the original.
struct Staged {
  std::byte* user;
  uint64_t bytes;
  Bound copy;  // may have more
};

// Reused by its communicator: nothing is allocated once its vectors have grown.
struct Op {
  Comm* comm = nullptr;
  Stream* stream = nullptr;
  std::shared_ptr<const LoadedProgram> launched;
  const LoadedProgram* program = nullptr;  // that runs: it, or what is staged in its place
  uint64_t opCount = 0, collective = 0;
  // A number for all that is below, up to `name`, and the program: changes with it. 0: not yet
  // known. What was shown of it once need not be shown again.
  uint64_t content = 0;
  uint64_t memory = 0;  // Hbm::epoch() when the buffers were checked
  // relaxed: a program is not unloaded while it is launched
  std::atomic<bool> repeatable{false};
  std::vector<nccomBufferBinding_v1> userInputs, userOutputs;
  std::vector<Bound> inputs, outputs;
  bool bound = false;  // those are the user's buffers as they are
  std::vector<Staged> staged;
  uint64_t scale = 0;
  int64_t divisor = 1;
  nccomSignature_v1 signature{};
  uint64_t check = 0;      // checkOf(signature)
  bool ready = false;      // to begin, as far as it is up to us
  bool published = false;  // the others of the host see it in its slot
  bool posted = false;     // all its messages are posted: see exchange.h
  std::array<char, kNameBytes> name{};
  // Uses of each received message that are still to come: LoadedProgram::posted().
  std::vector<uint64_t> postedLeft;

  /// Sets inputs and outputs to the user's buffers.
  void bindAsIs();
  /// Whether it was the same launch of the same program before, but for its numbers.
  bool repeats(const void* handle, const nccomLaunch_v1& launch, uint64_t memoryNow) const;
};

enum class Phase : uint32_t { kIdle, kStarting, kRunning, kFinishing };

/// How far a queue of the current operation is. Written by the thread that holds the queue's lock;
/// the atomics are also read by others: a hint whether it is worth trying, and for reports.
struct alignas(64) QueueRun {
  uint32_t block = 0, desc = 0;  // in the queue; in the block
  uint64_t iteration = 0;
  std::atomic<bool> finished{true};
  std::atomic<uint64_t> steps{0};  // descriptors and tiles done; relaxed: only compared with itself
  // The wait that it is stopped at. Q1 `cell` is stored last with seq_cst, null means runnable;
  // pairs with whoever raises the cell and then looks for somebody waiting.
  std::atomic<const std::atomic<uint64_t>*> cell{nullptr};
  std::atomic<uint64_t> target{0};
  std::atomic<WaitKind> kind{WaitKind::kNone};
  std::atomic<int32_t> rank{-1};
  std::atomic<uint32_t> semaphore{0};
  std::atomic<uint16_t> step{0};

  bool runnable() const {
    if (finished.load(std::memory_order_acquire)) return false;
    const std::atomic<uint64_t>* at = cell.load(std::memory_order_seq_cst);
    return at == nullptr ||
           at->load(std::memory_order_seq_cst) >= target.load(std::memory_order_relaxed);
  }
};

}  // namespace nccom::emu
