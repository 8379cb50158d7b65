#include "plugins/device_emu/ranges.h"

#include <iterator>

namespace nccom::emu {
namespace {

constexpr int kFirstTries =
    16;  // best fits looked at before settling for a range that is surely enough

uint64_t roundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

bool fits(const std::pair<uint64_t, uint64_t>& range, uint64_t bytes, uint64_t alignment) {
  const auto [size, offset] = range;
  return size >= bytes && roundUp(offset, alignment) - offset <= size - bytes;
}

}  // namespace

Ranges::Ranges(Range space) {
  if (space.bytes > 0) insertFree(space);
}

void Ranges::insertFree(Range range) {
  freeByOffset_.emplace(range.offset, range.bytes);
  freeBySize_.emplace(range.bytes, range.offset);
  freeBytes_ += range.bytes;
}

void Ranges::eraseFree(Range range) {
  freeByOffset_.erase(range.offset);
  freeBySize_.erase({range.bytes, range.offset});
  freeBytes_ -= range.bytes;
}

std::optional<uint64_t> Ranges::take(uint64_t bytes, uint64_t alignment) {
  const auto smallest = freeBySize_.lower_bound({bytes, 0});
  auto it = smallest;
  for (int i = 0; i < kFirstTries && it != freeBySize_.end(); i++, ++it) {
    if (fits(*it, bytes, alignment)) break;
  }
  if (it == freeBySize_.end() || !fits(*it, bytes, alignment)) {
    it = freeBySize_.lower_bound({bytes + alignment - 1, 0});
  }
  if (it == freeBySize_.end()) {
    for (it = smallest; it != freeBySize_.end() && !fits(*it, bytes, alignment);)
      ++it;
  }
  if (it == freeBySize_.end()) return std::nullopt;

  const Range whole = {it->second, it->first};
  const uint64_t start = roundUp(whole.offset, alignment);
  const uint64_t end = whole.offset + whole.bytes;
  eraseFree(whole);
  if (start > whole.offset) insertFree({whole.offset, start - whole.offset});
  if (end > start + bytes) insertFree({start + bytes, end - start - bytes});
  taken_.emplace(start, bytes);
  takenBytes_ += bytes;
  return start;
}

std::optional<Range> Ranges::release(uint64_t offset) {
  const auto it = taken_.find(offset);
  if (it == taken_.end()) return std::nullopt;
  const Range range = {it->first, it->second};
  taken_.erase(it);
  takenBytes_ -= range.bytes;
  return range;
}

void Ranges::reuse(Range range) {
  const auto next = freeByOffset_.lower_bound(range.offset);
  std::optional<Range> before;
  std::optional<Range> after;
  if (next != freeByOffset_.end() && next->first == range.offset + range.bytes) {
    after = Range{next->first, next->second};
  }
  if (next != freeByOffset_.begin()) {
    const auto last = std::prev(next);
    if (last->first + last->second == range.offset) before = Range{last->first, last->second};
  }
  if (before) {
    eraseFree(*before);
    range = {before->offset, before->bytes + range.bytes};
  }
  if (after) {
    eraseFree(*after);
    range.bytes += after->bytes;
  }
  insertFree(range);
}

std::optional<Range> Ranges::find(uint64_t offset) const {
  auto it = taken_.upper_bound(offset);
  if (it == taken_.begin()) return std::nullopt;
  --it;
  if (offset - it->first >= it->second) return std::nullopt;
  return Range{it->first, it->second};
}

}  // namespace nccom::emu
