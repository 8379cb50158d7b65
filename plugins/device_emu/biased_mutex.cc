#include "plugins/device_emu/biased_mutex.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nccom::emu {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr bool kMayBias = false;
#else
constexpr bool kMayBias = true;
#endif

bool membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

/// Whether processBarrier() works; the kernel wants to be told of its use once, a process.
bool isRegistered() {
  static const bool done = kMayBias && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return done;
}

}  // namespace

bool processBarrier() {
  return isRegistered() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void BiasedMutex::lockSlowly(const void* self) {
  mutex_.lock();
  // relaxed: written with mutex_ held
  if (Grant* const grant = grant_.load(std::memory_order_relaxed)) {
    grant_.store(nullptr, std::memory_order_release);
    (void)processBarrier();  // it has worked when this was granted: it works always
    // acquire, pairs with unlock(): what the owner did while it held the mutex
    while (grant->held.load(std::memory_order_acquire))
      sched_yield();
    inRow_ = 0;
  }
  by_ = nullptr;
  inRow_ = last_ == self ? inRow_ + 1 : 1;
  last_ = self;
}

void BiasedMutex::unlockSlowly() {
  if (inRow_ >= wanted_ && nGrants_ < kGrants && processBarrier()) {
    Grant& grant = grants_[nGrants_++];
    grant.owner = last_;
    wanted_ *= 2;
    grant_.store(&grant, std::memory_order_release);
  }
  mutex_.unlock();
}

}  // namespace nccom::emu
