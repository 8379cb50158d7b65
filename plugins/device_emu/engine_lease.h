// What the engine's two halves (engine.cc: the work, engine_threads.cc: who does it) share.
#pragma once

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
/// its cores. Nobody yields: on a busy machine that is to queue up behind every other program,
/// while a sleeper that is woken goes before them.
class Engine::Idle {
 public:
  explicit Idle(const Engine& engine) : engine_(engine) {}

  void reset() { looks_ = 0; }

  /// @return false: time to sleep
  bool spin() {
    if (engine_.competing_.load(std::memory_order_relaxed) <= engine_.limits_.cores) {
      if (looks_++ == 0) since_ = Clock::now();
      if (Clock::now() - since_ < kSpin) {
        pause();
        return true;
      }
    }
    reset();
    return false;
  }

 private:
  static constexpr std::chrono::nanoseconds kSpin =
      std::chrono::microseconds(40);  // about two context switches

  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    for (int i = 0; i < 8; i++)
      __builtin_ia32_pause();
#endif
  }

  const Engine& engine_;
  uint32_t looks_ = 0;
  Clock::time_point since_;
};

}  // namespace nccom::emu
