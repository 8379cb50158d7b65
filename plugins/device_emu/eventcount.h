// A place to sleep until something may have changed, for threads of any process that maps it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace nccom::emu {

// An eventcount: sleepers wait for conditions that live elsewhere in memory (semaphores, flags),
// and whoever changes a condition pays for a system call only if somebody sleeps.
//
//   sleeper                                    changer
//     key = prepareWait()                        change the condition     C1
//     if (condition) cancelWait()                notify()                 C2, C3
//     else commitWait(key, timeout)
//     look again
//
// No wake-up is lost. prepareWait() raises `waiters` (S1), reads `epoch` (S2) and fences; the
// sleeper then reads the condition (S3) and sleeps while `epoch` has the value of S2 (S4). notify()
// fences, reads `waiters` (C2) and, if there are any, raises `epoch` and wakes (C3). The two fences
// are sequentially consistent, so one of them is first:
//   * the changer's is first: S3 sees the change of C1, and the sleeper does not sleep;
//   * the sleeper's is first: C2 sees S1, so C3 takes place. If S2 read the value of before C3, the
//     kernel compares `epoch` and queues the sleeper in one step with respect to the wake-up of C3:
//     either it finds the new epoch and does not sleep, or it is queued in time and woken. If S2
//     read C3's value or a later one, C3 (release) happens before S2 (acquire), and S3 sees C1.
// `epoch` may wrap: a sleeper misses only if exactly 2^32 wake-ups fall between its S2 and S4.
//
// An ABI between processes: fixed width, no pointers, a cache line a field; it may be mapped at
// different addresses. Zeroed memory is a valid EventCount. A process killed in its sleep leaves
// `waiters` raised: later changers make needless system calls, nothing worse.
struct EventCount {
  alignas(64) std::atomic<uint32_t> epoch{0};
  alignas(64) std::atomic<uint32_t> waiters{0};

  using Key = uint32_t;

  /// Announces a sleeper. To be followed by exactly one cancelWait() or commitWait().
  [[nodiscard]] Key prepareWait();
  void cancelWait();

  /// Sleeps until a notify() that came after prepareWait(), for `timeout` at most, or until a
  /// signal.
  ///
  /// @param timeout  not negative; no more than a day is waited
  /// @return false: the time is up. True says nothing of the condition: look again.
  bool commitWait(Key key, std::chrono::nanoseconds timeout);

  /// Wakes all sleepers. To be called after the change that they wait for; a fence and a load when
  /// nobody sleeps.
  void notify();
};

static_assert(std::is_standard_layout_v<EventCount>);
static_assert(sizeof(EventCount) == 128 && offsetof(EventCount, waiters) == 64);
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4,
              "the kernel looks at epoch as a plain 32-bit word");

}  // namespace nccom::emu
