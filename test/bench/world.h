// Starts the ranks of a benchmark program on this machine, and lets them meet outside the library
// under test.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace nccom::bench {

constexpr int kMaxRanks = 256;

/// Zeroed memory that processes forked later share, at the same address.
void* sharedMemory(size_t bytes);

/// Where all ranks meet. Lives in shared memory.
class Meeting {
 public:
  static Meeting& make(int nRanks);

  int nRanks() const { return nRanks_; }

  /// Whether each rank can have a core of its own.
  bool coreEach() const { return coreEach_; }

  void meet();
  double sum(int rank, double value);

 private:
  int nRanks_ = 0;
  bool coreEach_ = false;
  alignas(128) std::atomic<int> arrived_ = 0;
  alignas(128) std::atomic<uint64_t> meetings_ = 0;
  alignas(128) double values_[kMaxRanks] = {};
};

/// Runs `rank` for each rank, in a process or a thread of its own, on a core of its own if there
/// are enough. It returns the program's exit status; the first process that fails ends all.
/// @return the exit status of the program
int runRanks(int nRanks, bool asThreads, const std::function<int(int rank)>& rank);

}  // namespace nccom::bench
