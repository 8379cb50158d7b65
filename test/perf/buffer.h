// Filling buffers with a sequence, and counting where one differs from it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "test/perf/pattern.h"

namespace nccom::perf {

/// Writes elements phase, phase + 1, ... of the tile's sequence.
/// @param to  a whole number of elements
void fillSequence(std::span<std::byte> to, const Tile& tile, size_t phase);

/// What a buffer is compared with, and how strictly.
struct Expectation {
  const Tile* tile;
  size_t phase = 0;
  const FloatFormat* format = nullptr;  // of a type that may be compared by value
  double tolerance = 0;                 // in spacings of *format at the expected number
};

/// Elements that differ, and the first of them.
struct Difference {
  size_t wrong = 0;
  size_t first = 0;  // its index; valid if wrong > 0
};

/// Bits are compared first; where they differ, and a format is given, the numbers are: so that
/// -0 is 0, and rounding is tolerated.
Difference compareSequence(std::span<const std::byte> got, const Expectation& want);

/// Elements of `got` that are not filled with the byte `filler`.
Difference compareFiller(std::span<const std::byte> got, std::byte filler, size_t typeBytes);

}  // namespace nccom::perf
