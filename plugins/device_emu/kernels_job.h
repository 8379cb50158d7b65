#pragma once
// Between the front (kernels.cc) and the vector loops (the other kernels_*.cc): a checked transfer.

#include <stddef.h>
#include <stdint.h>

#include "include/nccl.h"

namespace nccom::emu {

struct FoldJob {
  const void* const* sources;  // [nSources]
  void* const* destinations;   // [nDestinations]
  uint32_t nSources;
  uint32_t nDestinations;
  size_t headBytes;        // elements done one by one, so that the vectors after them are aligned
  size_t bytes;            // all of it, head included
  uint64_t scaledSources;  // bit k: source k is multiplied
  uint64_t scale;          // the bits of the factor, in the type of the accumulator
  uint64_t streamed;  // bit j: destination j is a multiple of 64 after the head, and is streamed
  ncclDataType_t type;
  ncclRedOp_t op;

  const uint8_t* source(uint32_t k) const { return static_cast<const uint8_t*>(sources[k]); }
  uint8_t* destination(uint32_t j) const { return static_cast<uint8_t*>(destinations[j]); }
};

void foldInteger(const FoldJob& job);
void foldNative(const FoldJob& job);  // float and double
void foldHalf(const FoldJob& job);    // float16 and bfloat16
void foldFloat8(const FoldJob& job);

/// Copies source 0 to every destination.
void foldCopy(const FoldJob& job);

/// Copies `bytes` bytes of every source from byte `at` on to padded [nSources][paddedBytes], zeros
/// after them, and points `sources` [nSources] there.
void padSources(const FoldJob& job, size_t at, size_t bytes, size_t paddedBytes, uint8_t* padded,
                const void** sources);

/// Divides `count` integers of `type` in place by `divisor` (>= 2), towards zero.
void divideInPlace(void* values, size_t count, ncclDataType_t type, int64_t divisor);

}  // namespace nccom::emu
