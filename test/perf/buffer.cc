#include "test/perf/buffer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nccom::perf {
namespace {

// Calls use(offset, tileOffset, bytes) for each stretch of a buffer that lies in one tile.
template <class Use>
void forEachStretch(size_t bytes, const Tile& tile, size_t phase, Use use) {
  const size_t period = tile.bytes.size();
  if (period == 0) return;
  size_t inTile = phase % tile.elements() * tile.typeBytes;
  for (size_t done = 0; done < bytes;) {
    const size_t stretch = std::min(bytes - done, period - inTile);
    use(done, inTile, stretch);
    done += stretch;
    inTile = 0;
  }
}

uint64_t loadBits(const std::byte* from, size_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, bytes);
  return bits;
}

bool sameNumber(const Expectation& want, uint64_t gotBits, uint64_t wantBits) {
  if (gotBits == wantBits) return true;
  if (want.format == nullptr) return false;
  const double gotValue = decodeFloat(*want.format, gotBits);
  const double wantValue = decodeFloat(*want.format, wantBits);
  // False for a NaN.
  return std::fabs(gotValue - wantValue) <= want.tolerance * spacingAt(*want.format, wantValue);
}

void note(Difference& difference, size_t index) {
  if (difference.wrong++ == 0) difference.first = index;
}

}  // namespace

void fillSequence(std::span<std::byte> to, const Tile& tile, size_t phase) {
  forEachStretch(to.size(), tile, phase, [&](size_t at, size_t inTile, size_t bytes) {
    std::memcpy(to.data() + at, tile.bytes.data() + inTile, bytes);
  });
}

Difference compareSequence(std::span<const std::byte> got, const Expectation& want) {
  Difference difference;
  const size_t width = want.tile->typeBytes;
  forEachStretch(got.size(), *want.tile, want.phase, [&](size_t at, size_t inTile, size_t bytes) {
    const std::byte* const gotAt = got.data() + at;
    const std::byte* const wantAt = want.tile->bytes.data() + inTile;
    if (std::memcmp(gotAt, wantAt, bytes) == 0) return;
    for (size_t element = 0; element < bytes; element += width) {
      if (!sameNumber(want, loadBits(gotAt + element, width), loadBits(wantAt + element, width))) {
        note(difference, (at + element) / width);
      }
    }
  });
  return difference;
}

Difference compareFiller(std::span<const std::byte> got, std::byte filler, size_t typeBytes) {
  Difference difference;
  const auto isFiller = [&](std::byte byte) { return byte == filler; };
  // The buffer is the filler throughout if its first byte is and each byte equals the next.
  if (got.empty() ||
      (isFiller(got[0]) && std::memcmp(got.data(), got.data() + 1, got.size() - 1) == 0)) {
    return difference;
  }
  for (size_t at = 0; at < got.size(); at += typeBytes) {
    const auto element = got.subspan(at, typeBytes);
    if (!std::all_of(element.begin(), element.end(), isFiller)) note(difference, at / typeBytes);
  }
  return difference;
}

}  // namespace nccom::perf
