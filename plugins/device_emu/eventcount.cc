#include "plugins/device_emu/eventcount.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

namespace nccom::emu {
namespace {

constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::hours(24);

// Without FUTEX_PRIVATE_FLAG: the sleepers may be in other processes.
long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr,
                 0);
}

}  // namespace

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer knows no fences. An addition of nothing in place of the changer's fence and load
// is stronger: it is either behind S1 in the order of `waiters` and sees it, or before it, and then
// S1 acquires what the addition released, C1 among it. Elsewhere it would pull the line of
// `waiters` from core to core with every notify().
static void sleeperFence() {}
static uint32_t fencedWaiters(std::atomic<uint32_t>& waiters) {
  return waiters.fetch_add(0, std::memory_order_seq_cst);
}
#else
// seq_cst, each the partner of the other: see the proof in the header.
static void sleeperFence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
static uint32_t fencedWaiters(std::atomic<uint32_t>& waiters) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return waiters.load(std::memory_order_relaxed);  // relaxed: ordered by the fence
}
#endif

EventCount::Key EventCount::prepareWait() {
  // S1 seq_cst, pairs with C2. The fence orders it before S3; the order here serves the TSan build.
  waiters.fetch_add(1, std::memory_order_seq_cst);
  // S2 acquire, pairs with C3: a new epoch brings the change that it announces.
  const Key key = epoch.load(std::memory_order_acquire);
  sleeperFence();
  return key;
}

void EventCount::cancelWait() {
  // relaxed: a changer that still sees us rings once too often, no more.
  waiters.fetch_sub(1, std::memory_order_relaxed);
}

bool EventCount::commitWait(Key key, std::chrono::nanoseconds timeout) {
  const auto sleep = std::clamp(timeout, std::chrono::nanoseconds(0), kLongestSleep);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(sleep);
  const timespec relative = {.tv_sec = static_cast<time_t>(seconds.count()),
                             .tv_nsec = static_cast<long>((sleep - seconds).count())};
  // S4. EAGAIN: the epoch has moved on. EINTR: a signal; the caller looks again, as after any
  // return.
  const bool timedOut = futex(epoch, FUTEX_WAIT, key, &relative) != 0 && errno == ETIMEDOUT;
  cancelWait();
  return !timedOut;
}

void EventCount::notify() {
  if (fencedWaiters(waiters) == 0) return;  // C2
  // C3 release, pairs with S2.
  epoch.fetch_add(1, std::memory_order_release);
  futex(epoch, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace nccom::emu
