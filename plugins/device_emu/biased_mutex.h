// A mutex for what one thread uses almost always: that thread takes it with plain loads and stores.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace nccom::emu {

/// Makes every other thread of this process pass a full memory barrier before it returns
/// (membarrier(2)): a plain store and load of theirs, in this order with nothing but the compiler
/// held to it, cannot both have been overtaken.
/// @return false: the system does not do that; then it never does
bool processBarrier();

/// As std::mutex, but not recursive even by mistake: it then hangs. A thread that has taken it
/// often enough in a row owns it from then on; the first of the others that wants it pays for a
/// processBarrier(), and all of them take the slow way until one has earned it again. That is not
/// for ever: after kGrants of them it stays slow.
///
/// Where there is no processBarrier(), and under ThreadSanitizer, which does not know of it, the
/// mutex is a std::mutex.
class BiasedMutex {
 public:
  BiasedMutex() = default;
  BiasedMutex(const BiasedMutex&) = delete;
  BiasedMutex& operator=(const BiasedMutex&) = delete;

  void lock() {
    const void* const self = __builtin_thread_pointer();
    // acquire, pairs with unlockSlowly(): the grant's owner
    Grant* const grant = grant_.load(std::memory_order_acquire);
    if (grant != nullptr && grant->owner == self) {
      grant->held.store(true, std::memory_order_relaxed);
      // Order of the store and the load: see processBarrier(). Either we see that the grant is
      // over, or who has ended it sees that we hold the mutex.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (grant_.load(std::memory_order_acquire) == grant) {
        by_ = grant;
        return;
      }
      grant->held.store(false, std::memory_order_release);
    }
    lockSlowly(self);
  }

  void unlock() {
    if (by_ != nullptr) {
      by_->held.store(false, std::memory_order_release);  // pairs with lockSlowly()
    } else {
      unlockSlowly();
    }
  }

  static constexpr size_t kGrants = 16;

 private:
  /// Each is used once: a thread that comes late finds its own, and disturbs nobody.
  struct Grant {
    const void* owner = nullptr;  // its thread pointer
    std::atomic<bool> held{false};
  };

  void lockSlowly(const void* self);
  void unlockSlowly();

  std::atomic<Grant*> grant_{nullptr};  // the current one; null: none
  std::mutex mutex_;                    // held by all but its owner
  // Guarded by the whole:
  Grant* by_ = nullptr;  // by which it is held; null: with mutex_
  const void* last_ = nullptr;
  uint32_t inRow_ = 0;        // times that `last_` took it slowly
  uint32_t wanted_ = kFirst;  // such times until it gets a grant; doubles with each
  size_t nGrants_ = 0;
  std::array<Grant, kGrants> grants_;

  static constexpr uint32_t kFirst = 64;
};

}  // namespace nccom::emu
