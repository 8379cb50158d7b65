// What the engine's two halves (engine.cc: the work, engine_threads.cc: who does it) share.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "plugins/device_emu/engine.h"

namespace nccom::emu {

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
/// its cores. Elsewhere as long as it helps: who spins on the core that its partner needs waits in
/// vain, so the time is halved with every vain wait and doubled with every other; now and then it
/// is tried again. Nobody yields: on a busy machine that is to queue up behind every other program,
/// while a sleeper that is woken goes before them.
class Engine::Idle {
 public:
  explicit Idle(Engine& engine) : engine_(engine) {}

  /// There was something to do.
  void found() {
    if (looks_ > 0) adapt(std::min(kMost, std::max(limit_ * 2, kLeast)));
    looks_ = 0;
  }

  /// @return false: time to sleep
  bool spin() {
    if (engine_.competing_.load(std::memory_order_relaxed) > engine_.limits_.cores) return false;
    if (looks_++ == 0) {
      since_ = Clock::now();
      limit_ = nanoseconds(engine_.spinNs_.load(std::memory_order_relaxed));
      const uint32_t round = engine_.idleRounds_.fetch_add(1, std::memory_order_relaxed);
      if (round % kRetry == 0) limit_ = kMost;
    }
    if (Clock::now() - since_ < limit_) {
      pause();
      return true;
    }
    adapt(limit_ / 2 < kLeast ? nanoseconds(0) : limit_ / 2);
    looks_ = 0;
    return false;
  }

 private:
  using nanoseconds = std::chrono::nanoseconds;
  static constexpr nanoseconds kMost = std::chrono::microseconds(40);  // several context switches
  static constexpr nanoseconds kLeast = std::chrono::microseconds(1);
  static constexpr uint32_t kRetry = 64;

  // relaxed: a measure, shared by the threads of the engine
  void adapt(nanoseconds limit) { engine_.spinNs_.store(limit.count(), std::memory_order_relaxed); }

  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    for (int i = 0; i < 8; i++)
      __builtin_ia32_pause();
#endif
  }

  Engine& engine_;
  uint32_t looks_ = 0;
  nanoseconds limit_{0};
  Clock::time_point since_;
};

}  // namespace nccom::emu
