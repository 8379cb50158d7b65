// Who knows of which events. An agent is a queue of a rank; its events are numbered, and it knows
// its own. Of others it knows what came with the semaphores that it has waited for.
//
// Clocks are shared: what many agents know alike exists once, and what comes from one place is
// compared by its address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace nccom {

/// A pointer to a value that may have several owners, of one thread.
template <class T>
class encShared {
 public:
  encShared() = default;
  explicit encShared(T value) : held_(new Held{1, std::move(value)}) {}
  encShared(const encShared& other) : held_(other.held_) {
    if (held_ != nullptr) held_->owners++;
  }
  encShared(encShared&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  encShared& operator=(encShared other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~encShared() {
    // The analyzer does not count: NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete)
    if (held_ != nullptr && --held_->owners == 0) delete held_;
  }
  explicit operator bool() const { return held_ != nullptr; }
  bool operator==(const encShared& other) const { return held_ == other.held_; }
  const T& operator*() const { return held_->value; }
  const T* operator->() const { return &held_->value; }
  /// The value for ourselves alone.
  T& own() {
    if (held_ == nullptr) {
      *this = encShared(T{});
    } else if (held_->owners > 1) {
      *this = encShared(held_->value);
    }
    return held_->value;
  }

 private:
  struct Held {
    uint32_t owners;
    T value;
  };
  Held* held_ = nullptr;
};

/// Of each agent, the number of its last event that is known.
class encClock {
 public:
  int32_t of(int agent) const {
    const size_t block = static_cast<size_t>(agent) / kBlock;
    if (!blocks_ || block >= blocks_->size() || !(*blocks_)[block]) return 0;
    return (*(*blocks_)[block])[static_cast<size_t>(agent) % kBlock];
  }
  void know(int agent, int32_t time);
  void join(const encClock& other);

 private:
  static constexpr size_t kBlock = 64;
  using Block = std::array<int32_t, kBlock>;
  static encShared<Block> later(const encShared<Block>& mine, const encShared<Block>& theirs);

  encShared<std::vector<encShared<Block>>> blocks_;
};

/// What an agent knew at its event `time`: its own events up to that, and those of the clock. It
/// may learn only at a new event: whoever knows of an event knows all that its agent knew then.
struct encKnowledge {
  int agent = -1;  // -1: of none
  int32_t time = 0;
  encClock clock;
};

/// An access: event number `time` of `agent`, made by descriptor `site` in `iteration`.
struct encAccess {
  int agent = -1;  // -1: the owner, before its program started
  int32_t time = 0;
  uint32_t site = 0;
  uint64_t iteration = 0;
};

/// The order of events. The two ends of a wire, which read sent bytes and write received ones, have
/// events too. There are many wires, but of its ends' events nobody learns except by the waits of
/// the two ranks at them. So clocks leave them out: known is what a known wait has learned.
class encOrder {
 public:
  explicit encOrder(int agents = 0) : agents_(agents) {}

  /// Agents of a new wire's ends: the sender's; the receiver's is the next number.
  int addWire();
  bool knows(const encKnowledge& who, int agent, int32_t time) const {
    if (agent < 0) return true;
    if (agent == who.agent) return time <= who.time;
    if (agent < agents_) return who.clock.of(agent) >= time;
    return knowsEnd(who, agent, time);
  }
  bool knows(const encKnowledge& who, const encAccess& access) const {
    return knows(who, access.agent, access.time);
  }
  /// `who`, a queue, learns what `released` says, at a new event.
  void acquire(encKnowledge& who, const encKnowledge& released);
  /// The end of a wire learns it; the caller numbers its events.
  void learn(encKnowledge& who, const encKnowledge& released) const;

 private:
  /// At its event `time`, the agent learned of an end's events up to `upTo`.
  struct Lesson {
    int32_t upTo = 0, time = 0;
  };
  struct Pupil {
    int agent = 0;
    std::vector<Lesson> lessons;  // both numbers grow
  };
  bool isReceiver(int agent) const { return agent >= agents_ && (agent - agents_) % 2 == 1; }
  bool knowsEnd(const encKnowledge& who, int agent, int32_t time) const;
  void note(int end, const encKnowledge& who, int32_t upTo);

  int agents_;
  std::vector<std::vector<Pupil>> ends_;
};

}  // namespace nccom
