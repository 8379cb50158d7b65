// How far an all-reduce is from what memory allows, both measured in one run.
//
// The floor is the traffic that no all-reduce over shared memory can avoid: every rank's input read
// once, every rank's output written once. It is measured as plain copies of each rank's input to
// its output, spread over as many threads as the process has cores. Floor and all-reduce alternate,
// so that both see the same machine; the table has the medians, and the ratio of each round.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "include/nccl.h"
#include "include/nccom.h"

namespace {

constexpr int kRounds = 9;

void must(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", call, ncclGetErrorString(result), ncclGetLastError(nullptr));
  exit(1);
}
#define MUST(call) must((call), #call)

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// All ranks of one process.
class World {
 public:
  World(int nRanks, size_t maxBytes) : comms_(nRanks), streams_(nRanks), in_(nRanks), out_(nRanks) {
    MUST(ncclCommInitAll(comms_.data(), nRanks, nullptr));
    for (int rank = 0; rank < nRanks; ++rank) {
      MUST(nccomSetDevice(rank));
      MUST(nccomStreamCreate(&streams_[rank]));
      MUST(ncclMemAlloc(&in_[rank], maxBytes));
      MUST(ncclMemAlloc(&out_[rank], maxBytes));
      memset(in_[rank], 1, maxBytes);
      memset(out_[rank], 1, maxBytes);
    }
  }
  ~World() {
    for (size_t rank = 0; rank < comms_.size(); ++rank) {
      MUST(ncclMemFree(in_[rank]));
      MUST(ncclMemFree(out_[rank]));
      MUST(nccomStreamDestroy(streams_[rank]));
      MUST(ncclCommDestroy(comms_[rank]));
    }
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void allReduce(size_t bytes) {
    MUST(ncclGroupStart());
    for (size_t rank = 0; rank < comms_.size(); ++rank) {
      MUST(ncclAllReduce(in_[rank], out_[rank], bytes / sizeof(float), ncclFloat, ncclSum,
                         comms_[rank], streams_[rank]));
    }
    MUST(ncclGroupEnd());
    for (ncclStream_t stream : streams_)
      MUST(nccomStreamSynchronize(stream));
  }

  /// `times` copies of every rank's input to its output, on `nThreads` threads.
  void copy(size_t bytes, int times, int nThreads) {
    std::vector<std::thread> threads;
    for (int t = 0; t < nThreads; ++t) {
      threads.emplace_back([this, bytes, times, t, nThreads] {
        for (int i = 0; i < times; ++i) {
          for (size_t rank = t; rank < in_.size(); rank += nThreads)
            memcpy(out_[rank], in_[rank], bytes);
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }

 private:
  std::vector<ncclComm_t> comms_;
  std::vector<ncclStream_t> streams_;
  std::vector<void*> in_, out_;
};

void measure(World& world, int nRanks, size_t bytes) {
  const int times = static_cast<int>(std::clamp<size_t>((16 << 20) / bytes, 2, 200));
  std::vector<double> floors, calls, ratios;
  world.allReduce(bytes);
  for (int round = 0; round < kRounds; ++round) {
    const double floor = seconds([&] { world.copy(bytes, times, cores()); }) / times;
    const double call = seconds([&] {
                          for (int i = 0; i < times; ++i)
                            world.allReduce(bytes);
                        }) /
                        times;
    floors.push_back(floor);
    calls.push_back(call);
    ratios.push_back(call / floor);
  }
  const double busFactor = 2.0 * (nRanks - 1) / nRanks;
  const auto gigabytes = static_cast<double>(bytes) / 1e9;
  std::sort(ratios.begin(), ratios.end());
  printf("%6d %12zu %12.1f %12.1f %10.2f %10.2f %8.2f %8.2f %8.2f\n", nRanks, bytes,
         1e6 * median(floors), 1e6 * median(calls), gigabytes * busFactor / median(floors),
         gigabytes * busFactor / median(calls), ratios.front(), ratios[ratios.size() / 2],
         ratios.back());
  fflush(stdout);
}

}  // namespace

int main() {
  printf(
      "# all-reduce of float sums, one process, against copies of the same buffers on %d cores\n",
      cores());
  printf("#%5s %12s %12s %12s %10s %10s %8s %8s %8s\n", "ranks", "bytes", "floor us", "time us",
         "floor GB/s", "busbw GB/s", "min", "ratio", "max");
  constexpr size_t kMaxBytes = 64 << 20;
  for (const int nRanks : {2, 8}) {
    World world(nRanks, kMaxBytes);
    for (size_t bytes = 1 << 10; bytes <= kMaxBytes; bytes *= 8)
      measure(world, nRanks, bytes);
  }
  return 0;
}
