// The shared memory of the floor, and the loops over it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "test/bench/driver.h"
#include "test/bench/world.h"

namespace nccom::bench {

constexpr size_t kSlotBytes = 64 << 10;  ///< the most that goes through slots
constexpr size_t kDeepBytes = 1 << 10;   ///< up to here there are kDeep slots, beyond it 2
constexpr uint64_t kDeep = 8;

/// Where a rank has come to, and its buffers of the operation, which others read after that.
struct alignas(128) Flag {
  std::atomic<uint64_t> done = 0;
  const float* in = nullptr;
  float* out = nullptr;
};

/// Data behind the number of the operation it belongs to: up to 56 bytes share its line.
struct alignas(128) Slot {
  std::atomic<uint64_t> turn;
  float data[kSlotBytes / sizeof(float)];
};

class FloorMemory {
 public:
  static FloorMemory& make(const Options& options);

  Flag flags[kMaxRanks];

  Slot& slot(int rank, uint64_t turn) { return slots_[rank * kDeep + turn]; }

  /// Zeroed memory that all ranks can address.
  float* allocate(int rank, size_t bytes);

 private:
  Slot* slots_ = nullptr;
  char* buffers_ = nullptr;
  size_t bytesOfRank_ = 0;
  size_t taken_[kMaxRanks] = {};
};

/// Each target[i] = the sum of all source[i], for i < count. Streaming needs all targets aligned
/// alike to 64 bytes, and is ignored otherwise.
void sumToAll(std::span<float* const> targets, std::span<const float* const> sources, size_t count,
              bool streaming);

/// Does nothing if both are the same.
void copyFloats(float* target, const float* source, size_t count, bool streaming);

}  // namespace nccom::bench
