#include "test/bench/floor_probe.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "test/bench/driver.h"
#include "test/bench/world.h"

namespace nccom::bench {
namespace {

constexpr int kWindows = 20;
constexpr size_t kHanded = 64 << 10;

struct Shared {
  alignas(128) std::atomic<uint64_t> turns[2][16];  ///< of either side, a line each
  alignas(128) char data[kHanded];
  double exchangeNs, gigabytesPerSecond, yieldUs[2];
};

/// Both sides wait for the other's `turn`; on one core, or where others run, they yield for it.
void exchange(Shared& shared, int side, uint64_t turn, bool yielding) {
  shared.turns[side][0].store(turn, std::memory_order_release);
  int polls = 0;
  while (shared.turns[1 - side][0].load(std::memory_order_acquire) < turn) {
    if (yielding || ++polls > 20000) sched_yield();
  }
}

/// The least seconds of a window of `times` exchanges: the undisturbed one.
template <class Work>
double leastOf(Shared& shared, int side, uint64_t& turn, int times, bool yielding, Work&& work) {
  double least = 1;
  for (int window = 0; window < kWindows; ++window) {
    const double start = now();
    for (int i = 0; i < times; ++i) {
      exchange(shared, side, ++turn, yielding);
      work();
    }
    least = std::min(least, (now() - start) / times);
  }
  return least;
}

int probeCores(Shared& shared, int side) {
  uint64_t turn = 0;
  static char read[kHanded];
  const double exchanged = leastOf(shared, side, turn, 200, false, [] {});
  const double handed = leastOf(shared, side, turn, 4, false, [&] {
    if (side == 0) memset(shared.data, static_cast<int>(turn), kHanded);
    exchange(shared, side, ++turn, false);
    if (side == 1) memcpy(read, shared.data, kHanded);
  });
  if (side == 0) {
    shared.exchangeNs = 1e9 * exchanged;
    shared.gigabytesPerSecond = kHanded / (handed - exchanged) / 1e9;
  }
  return 0;
}

/// Both ranks on one core: whoever runs finishes an exchange and enters the next, so that each
/// takes one yield.
int probeYield(Shared& shared, int side, double& microseconds) {
  uint64_t turn = 0;
  const double exchanged = leastOf(shared, side, turn, 40, true, [] {});
  if (side == 0) microseconds = 1e6 * exchanged;
  return 0;
}

Shared& fresh() {
  return *static_cast<Shared*>(sharedMemory(sizeof(Shared)));
}

}  // namespace

int printProbe() {
  Shared& shared = fresh();
  if (nCores() >= 2) {
    const int status = runRanks(2, false, [&](int side) { return probeCores(shared, side); });
    if (status != 0) return status;
  }
  pin(0, 1);
  for (const bool asThreads : {true, false}) {
    Shared& own = fresh();
    double& found = shared.yieldUs[asThreads ? 0 : 1];
    const int status =
        runRanks(2, asThreads, [&](int side) { return probeYield(own, side, found); });
    if (status != 0) return status;
  }
  printf("%.1f %.2f %.2f %.2f\n", shared.exchangeNs, shared.gigabytesPerSecond, shared.yieldUs[0],
         shared.yieldUs[1]);
  return 0;
}

}  // namespace nccom::bench
