// What the engine's two halves (engine.cc: the work, engine_threads.cc: who does it) share.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "plugins/device_emu/engine.h"
#include "plugins/device_emu/lines.h"

namespace nccom::emu {

/// A context for the calling thread.
struct Engine::Lease {
  explicit Lease(Engine& owner) : engine(owner) {
    // acquire, pairs with ~Lease()
    context.reset(engine.spare_.exchange(nullptr, std::memory_order_acquire));
    if (context != nullptr && context->generation == engine.generation()) return;
    const std::lock_guard lock(engine.roster_);
    if (context == nullptr && engine.contexts_.empty()) {
      context = std::make_unique<Context>();
    } else if (context == nullptr) {
      context = std::move(engine.contexts_.back());
      engine.contexts_.pop_back();
    }
    context->comms = engine.comms_;
    context->generation = engine.generation();
  }
  ~Lease() {
    context->budgetBytes = UINT64_MAX;
    context->nHints = 0;
    context->again = false;
    if (context->comms == nullptr) {
      engine.giveBack(std::move(context));
      return;
    }
    const uint64_t generation = context->generation;
    // release: what we did with it. Whoever changes the list raises its number and then takes the
    // spare away: if that was before, acquire brings us the new number.
    context.reset(engine.spare_.exchange(context.release(), std::memory_order_acq_rel));
    if (context != nullptr) engine.giveBack(std::move(context));
    if (generation != engine.generation()) engine.dropSpare();
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

/// How long to keep looking before going to sleep, and how: to be woken takes longer than most
/// waits.
///
/// Where the ranks of the host have a core each, a thread spins. Who spins on the core that its
/// partner needs waits in vain, so the time is halved with every vain wait and doubled with every
/// other; but never below what it takes to wake a sleeper: two that have once slept would else
/// never find back to spinning. Where ranks outnumber cores, it yields to them; but if a yield
/// takes as long as a slice of some other program, then it sleeps for a while instead: on a busy
/// machine to yield is to queue up behind every other program, while a sleeper that is woken goes
/// before them.
class Engine::Idle {
 public:
  explicit Idle(Engine& engine) : engine_(engine) {}

  /// There was something to do.
  void found() {
    if (looks_ > 0 && !isCrowded()) adapt(std::min(kMost, limit_ * 2));
    if (looks_ > 0 && isCrowded() && limit_ > nanoseconds(0)) tookNotLong();
    looks_ = 0;
  }

  // relaxed, here and below: measures, shared by the threads of the engine
  bool isCrowded() const {
    return engine_.competing_.load(std::memory_order_relaxed) > engine_.limits_.cores;
  }

  /// @return false: time to sleep
  bool spin() {
    const bool crowded = isCrowded();
    if (looks_++ == 0) {
      since_ = Clock::now();
      limit_ = crowded ? yieldTime() : nanoseconds(engine_.spinNs_.load(std::memory_order_relaxed));
    }
    const Clock::time_point now = Clock::now();
    if (now - since_ < limit_) {
      if (crowded) {
        yield(now);
      } else {
        pause();
      }
      return true;
    }
    if (!crowded) adapt(std::max(kLeast, limit_ / 2));
    looks_ = 0;
    return false;
  }

 private:
  using nanoseconds = std::chrono::nanoseconds;
  static constexpr nanoseconds kMost = std::chrono::microseconds(400);
  static constexpr nanoseconds kLeast = std::chrono::microseconds(100);  // to wake a sleeper
  static constexpr nanoseconds kYield = std::chrono::milliseconds(1);
  static constexpr nanoseconds kSlice = std::chrono::microseconds(700);  // of another program
  static constexpr uint32_t kLeastRounds = 32, kMostRounds = 1 << 14;

  void adapt(nanoseconds limit) { engine_.spinNs_.store(limit.count(), std::memory_order_relaxed); }

  nanoseconds yieldTime() {
    const uint32_t rounds = engine_.busyRounds_.load(std::memory_order_relaxed);
    if (rounds == 0) return kYield;
    engine_.busyRounds_.store(rounds - 1, std::memory_order_relaxed);
    return nanoseconds(0);
  }

  void yield(Clock::time_point before) {
    std::this_thread::yield();
    if (Clock::now() - before < kSlice) return;
    tookLong();
    limit_ = nanoseconds(0);
  }

  // Waits without a yield after the next one that takes long: twice as many each time, and a
  // sixteenth less for each that does not.
  void tookLong() {
    const uint32_t rounds = engine_.backOff_.load(std::memory_order_relaxed);
    engine_.busyRounds_.store(rounds, std::memory_order_relaxed);
    engine_.backOff_.store(std::min(kMostRounds, rounds * 2), std::memory_order_relaxed);
  }
  void tookNotLong() {
    const uint32_t rounds = engine_.backOff_.load(std::memory_order_relaxed);
    const uint32_t fewer = std::max(kLeastRounds, rounds - rounds / 16);
    if (fewer != rounds) engine_.backOff_.store(fewer, std::memory_order_relaxed);
  }

  static void pause() {
    for (int i = 0; i < 8; i++)
      relax();
  }

  Engine& engine_;
  uint32_t looks_ = 0;
  nanoseconds limit_{0};
  Clock::time_point since_;
};

}  // namespace nccom::emu
