#pragma once
// The arithmetic of the emulated device: n sources are folded into m destinations in one pass.

#include <stddef.h>
#include <stdint.h>

#include "include/nccl.h"

namespace nccom::emu {

inline constexpr int kMaxSources = 64;
inline constexpr int kMaxDestinations = 64;

/**
 * One transfer: destination[j][i] = post(pre(source[0][i]) op pre(source[1][i]) op ...) for every
 * j.
 *
 * `pre` multiplies the sources named by `scaledSources` by `scale`; `post` divides integers by
 * `divisor` and rounds narrow floats. The fold goes from source 0 upwards. The value of an element
 * depends on its operands only, bit for bit: not on its index, on `count`, on alignment, on the
 * calling thread's floating-point mode, nor on the instruction set that the machine offers.
 *
 * - Integers wrap modulo 2^n.
 * - 16-bit and 8-bit floats are folded as float and rounded once, to nearest even. float and double
 *   are folded as they are; a product is rounded before it is added.
 * - Max and Min: a NaN operand gives NaN; -0 is less than +0.
 * - Every NaN result is the one positive quiet NaN of its type (f8e4m3: 0x7f, f8e5m2: 0x7e).
 * - A finite result too large for an 8-bit float becomes the largest finite value (f8e4m3: 448,
 *   f8e5m2: 57344); an infinite one is infinity in f8e5m2 and, there being none, 448 in f8e4m3.
 *   float16 and bfloat16 overflow to infinity.
 * - One source that is neither scaled nor divided is copied, bits unchanged.
 *
 * Pointers are aligned to the element. A destination is exactly a source, or overlaps none; no two
 * destinations overlap.
 */
struct ReduceArgs {
  const void* const* sources = nullptr;  // [nSources]
  int nSources = 1;                      // 1..kMaxSources
  void* const* destinations = nullptr;   // [nDestinations]
  int nDestinations = 1;                 // 1..kMaxDestinations
  size_t count = 0;                      // elements, of each source and destination
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;  // ncclSum, ncclProd, ncclMax or ncclMin; of no effect with one source
  uint64_t scaledSources = 0;  // bit k: source k is multiplied by `scale` first; Sum, Prod only
  uint64_t scale = 0;          // the bits of the factor, an element of `type`, in the lowest bytes
  bool scaleIsFloat = false;   // 16-bit and 8-bit floats: `scale` has the bits of a float instead
  int64_t divisor = 1;         // integers: the result is divided by it (>= 1), towards zero
  bool streaming = false;      // the result will not be read from this core's cache soon
};

/// Runs one transfer. Arguments outside the ranges above are a bug and stop the program. All
/// stores, streaming ones too, are ordered before what the calling thread stores next.
void reduceCopy(const ReduceArgs& args);

/// Copies `bytes` bytes; the ranges are equal or do not overlap. With `streaming`, a large copy
/// goes past the cache. Ordering as with reduceCopy.
void copyBytes(void* to, const void* from, size_t bytes, bool streaming);

/// The size of an element, in bytes.
size_t elementBytes(ncclDataType_t type);

}  // namespace nccom::emu
