// An allocator of ranges of numbers: which parts of an address space are taken. It touches no
// memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace nccom::emu {

struct Range {
  uint64_t offset;
  uint64_t bytes;
  bool operator==(const Range&) const = default;
};

// Best fit over the free ranges, neighbours joined when they become free. Operations are
// logarithmic in the number of ranges; only the last resort of take(), when alignment spoils every
// obvious fit, looks at all free ranges. Not thread-safe.
class Ranges {
 public:
  /// All of `space` is free.
  explicit Ranges(Range space);

  /// Takes `bytes` (at least 1) at a multiple of `alignment` (a power of two).
  /// @return the offset; nothing if no free range can hold it
  std::optional<uint64_t> take(uint64_t bytes, uint64_t alignment);

  /// First half of freeing: `offset` is no longer taken, and not yet free either, so that its pages
  /// can be given back while nobody else can get it.
  /// @return the range; nothing if `offset` is not the start of a taken range
  std::optional<Range> release(uint64_t offset);
  /// Second half: a released range becomes free.
  void reuse(Range range);

  /// The taken range that contains `offset`.
  std::optional<Range> find(uint64_t offset) const;

  uint64_t takenBytes() const { return takenBytes_; }
  uint64_t takenCount() const { return taken_.size(); }
  uint64_t freeBytes() const { return freeBytes_; }
  uint64_t freeCount() const { return freeByOffset_.size(); }
  uint64_t largestFree() const { return freeBySize_.empty() ? 0 : freeBySize_.rbegin()->first; }

 private:
  void insertFree(Range range);
  void eraseFree(Range range);

  std::map<uint64_t, uint64_t> freeByOffset_;           // offset -> bytes
  std::set<std::pair<uint64_t, uint64_t>> freeBySize_;  // (bytes, offset) of the same ranges
  std::map<uint64_t, uint64_t> taken_;                  // offset -> bytes
  uint64_t takenBytes_ = 0;
  uint64_t freeBytes_ = 0;
};

}  // namespace nccom::emu
