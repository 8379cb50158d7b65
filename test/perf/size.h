// Message sizes: how they are written on the command line, and which of them a run visits.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "misc/result.h"

namespace nccom::perf {

/// Parses a number of bytes: decimal digits, perhaps with a fraction, then perhaps a unit
/// K, M, G or T (powers of 1024; any case; "i", "B" or "iB" may follow, blanks may precede).
/// @error ncclInvalidArgument  any other text, a number that is not a whole number of bytes, or
///                             one that is not below 2^63
Result<size_t> parseSize(std::string_view text);

/// The sizes of a run, in bytes.
struct SizeRange {
  size_t minBytes;
  size_t maxBytes;
  size_t stepBytes;  // added, if factor is 1
  size_t factor;     // multiplied, if above 1
};

/// minBytes and all that follow up to maxBytes. After 0 a factor goes on from one element.
/// @param range      stepBytes above 0 or factor above 1 or minBytes == maxBytes
/// @param typeBytes  size of an element
std::vector<size_t> sizesOf(const SizeRange& range, size_t typeBytes);

}  // namespace nccom::perf
