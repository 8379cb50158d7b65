// What a thread needs to execute queues.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plugins/device_emu/kernels.h"

namespace nccom::emu {

class Comm;
using CommList = std::vector<std::shared_ptr<Comm>>;

/// Memory that a transfer touches: mapped here, or only reachable by cross-memory attach.
struct Spot {
  std::byte* direct = nullptr;
  uint64_t remote = 0;  // address in process `pid`, if direct is null
  pid_t pid = 0;

  bool foreign() const { return direct == nullptr; }
};

// One thread's at a time; kept by the engine and reused.
struct Context {
  struct Hint {
    Comm* comm;
    uint32_t queue;
  };
  static constexpr uint32_t kHints = 128;

  // The communicators of the process, as of `generation`; keeps them alive.
  std::shared_ptr<const CommList> comms;
  uint64_t generation = 0;

  // Queues that something this thread did has made runnable: first in, first out, so that data
  // flows on. What does not fit is found by looking at all: `again`.
  std::array<Hint, kHints> hints;
  uint32_t firstHint = 0, nHints = 0;
  bool again = false;

  uint64_t moves = 0;                 // descriptors done
  uint64_t budgetBytes = UINT64_MAX;  // that this thread may still move
  bool exhausted = false;             // a transfer was over budget: somebody else's now

  std::vector<std::byte> bounce;  // for foreign memory
  std::array<Spot, kMaxSources> sources;
  std::array<Spot, kMaxDestinations> destinations;

  void push(Hint hint) {
    if (nHints == kHints) {
      again = true;
      return;
    }
    hints[(firstHint + nHints++) % kHints] = hint;
  }
  std::optional<Hint> pop() {
    if (nHints == 0) return std::nullopt;
    const Hint hint = hints[firstHint];
    firstHint = (firstHint + 1) % kHints;
    nHints--;
    return hint;
  }
};

}  // namespace nccom::emu
