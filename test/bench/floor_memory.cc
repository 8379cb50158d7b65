#include "test/bench/floor_memory.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace nccom::bench {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Vector = hn::ScalableTag<float>;

constexpr size_t kHuge = 2 << 20;
constexpr size_t kLineBytes = 64;

size_t roundUp(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

size_t misaligned(const float* data) {
  return reinterpret_cast<uintptr_t>(data) % kLineBytes;
}

float sumOf(std::span<const float* const> sources, size_t i) {
  float sum = sources[0][i];
  for (size_t k = 1; k < sources.size(); ++k)
    sum += sources[k][i];
  return sum;
}

void sumScalars(std::span<float* const> targets, std::span<const float* const> sources,
                size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const float sum = sumOf(sources, i);
    for (float* target : targets)
      target[i] = sum;
  }
}

template <bool kStreaming>
size_t sumVectors(std::span<float* const> targets, std::span<const float* const> sources,
                  size_t begin, size_t end) {
  const Vector d;
  const size_t lanes = hn::Lanes(d);
  size_t i = begin;
  for (; i + 2 * lanes <= end; i += 2 * lanes) {
    auto first = hn::LoadU(d, sources[0] + i);
    auto second = hn::LoadU(d, sources[0] + i + lanes);
    for (size_t k = 1; k < sources.size(); ++k) {
      first = hn::Add(first, hn::LoadU(d, sources[k] + i));
      second = hn::Add(second, hn::LoadU(d, sources[k] + i + lanes));
    }
    for (float* target : targets) {
      if constexpr (kStreaming) {
        hn::Stream(first, d, target + i);
        hn::Stream(second, d, target + i + lanes);
      } else {
        hn::StoreU(first, d, target + i);
        hn::StoreU(second, d, target + i + lanes);
      }
    }
  }
  return i;
}

/// How many leading elements there are before all targets are aligned; `count` if never at once.
size_t untilAligned(std::span<float* const> targets, size_t count) {
  const size_t off = misaligned(targets[0]);
  for (const float* target : targets) {
    if (misaligned(target) != off) return count;
  }
  return std::min(count, off == 0 ? 0 : (kLineBytes - off) / sizeof(float));
}

}  // namespace

FloorMemory& FloorMemory::make(const Options& options) {
  auto* memory = new (sharedMemory(sizeof(FloorMemory))) FloorMemory;
  const auto nRanks = static_cast<size_t>(options.nRanks);
  memory->slots_ = static_cast<Slot*>(sharedMemory(nRanks * kDeep * sizeof(Slot)));
  size_t most = 64 * nRanks;
  for (const size_t size : options.sizes)
    most = std::max(most, size);
  memory->bytesOfRank_ = 2 * roundUp(most, kHuge);
  const size_t all = memory->bytesOfRank_ * nRanks;
  const auto start = reinterpret_cast<uintptr_t>(sharedMemory(all + kHuge));
  memory->buffers_ = reinterpret_cast<char*>(roundUp(start, kHuge));
  madvise(memory->buffers_, all, MADV_HUGEPAGE);  // or do without
  return *memory;
}

float* FloorMemory::allocate(int rank, size_t bytes) {
  char* memory = buffers_ + rank * bytesOfRank_ + taken_[rank];
  taken_[rank] += roundUp(bytes, kHuge);
  memset(memory, 0, bytes);
  return reinterpret_cast<float*>(memory);
}

void sumToAll(std::span<float* const> targets, std::span<const float* const> sources, size_t count,
              bool streaming) {
  const size_t begin = streaming ? untilAligned(targets, count) : count;
  if (begin == count) {
    sumScalars(targets, sources, sumVectors<false>(targets, sources, 0, count), count);
    return;
  }
  sumScalars(targets, sources, 0, begin);
  sumScalars(targets, sources, sumVectors<true>(targets, sources, begin, count), count);
  hwy::FlushStream();
}

void copyFloats(float* target, const float* source, size_t count, bool streaming) {
  if (target == source) return;
  if (!streaming) {
    memcpy(target, source, count * sizeof(float));
    return;
  }
  sumToAll({&target, 1}, {&source, 1}, count, true);
}

}  // namespace nccom::bench
