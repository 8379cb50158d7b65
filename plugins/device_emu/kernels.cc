#include "plugins/device_emu/kernels.h"

#include <hwy/base.h>
#include <hwy/cache_control.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "plugins/device_emu/kernels_job.h"

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

namespace nccom::emu {
namespace {

constexpr size_t kLineBytes = 64;

/// From here on streaming stores pay for the fence that must follow them. Measured.
constexpr size_t kStreamBytes = 64 << 10;

/// From here on it pays to make the stores aligned. Measured.
constexpr size_t kAlignBytes = 4 << 10;

/// What a division goes over again: half of a small L1 cache.
constexpr size_t kTileBytes = 16 << 10;

bool isInteger(ncclDataType_t type) {
  return type <= ncclUint64;
}

/// A synchronising thread is the application's and may flush denormals or round otherwise (programs
/// linked with -ffast-math do); the arithmetic promises one result. Restores the mode at the end.
class DefaultFloatMode {
 public:
#if HWY_ARCH_X86
  DefaultFloatMode() : mode_(_mm_getcsr()) {
    if ((mode_ & kControlBits) != kDefault) _mm_setcsr(kDefault);
  }
  ~DefaultFloatMode() {
    if ((mode_ & kControlBits) != kDefault) _mm_setcsr(mode_);
  }

 private:
  static constexpr unsigned kControlBits = 0xffc0;  // all but the sticky flags
  static constexpr unsigned kDefault = 0x1f80;      // exceptions masked, to nearest, no flushing
  unsigned mode_;
#else
  DefaultFloatMode() {}
  ~DefaultFloatMode() {}

 public:
#endif
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;
};

// ---- the scale, in the type of the accumulator -------------------------------------------------

/// A float of 1 sign bit, expBits and mantBits. With hasInf the highest exponent is infinity or
/// NaN, without it only the highest code is NaN.
float widen(uint32_t code, int expBits, int mantBits, bool hasInf) {
  const uint32_t magnitude = code & ((1u << (expBits + mantBits)) - 1);
  const uint32_t maxExp = (1u << expBits) - 1;
  const uint32_t exponent = magnitude >> mantBits;
  const uint32_t mantissa = magnitude & ((1u << mantBits) - 1);
  float value = 0;
  if (hasInf ? exponent == maxExp && mantissa != 0
             : magnitude == (1u << (expBits + mantBits)) - 1) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (hasInf && exponent == maxExp) {
    value = std::numeric_limits<float>::infinity();
  } else {
    const uint32_t whole = exponent == 0 ? mantissa : mantissa | 1u << mantBits;
    const int power =
        static_cast<int>(std::max(exponent, 1u)) - (1 << (expBits - 1)) + 1 - mantBits;
    value = std::ldexp(static_cast<float>(whole), power);
  }
  return (code >> (expBits + mantBits) & 1) != 0 ? -value : value;
}

uint64_t accumulatorScale(const ReduceArgs& args) {
  const uint32_t bits = static_cast<uint32_t>(args.scale);
  const auto floatBits = [](float value) { return uint64_t{std::bit_cast<uint32_t>(value)}; };
  if (args.scaleIsFloat) return bits;
  if (args.type == ncclBfloat16) return bits << 16;
  if (args.type == ncclFloat16) return floatBits(widen(bits, 5, 10, true));
  if (args.type == ncclFloat8e4m3) return floatBits(widen(bits, 4, 3, false));
  if (args.type == ncclFloat8e5m2) return floatBits(widen(bits, 5, 2, true));
  return args.scale;  // folded in its own type
}

// ---- one pass -----------------------------------------------------------------------------------

/// Chooses where vectors begin and which destinations are streamed. Of an in-place destination the
/// lines are in the cache already: there is no read of them to save.
void place(FoldJob& job, bool streaming) {
  job.headBytes = 0;
  job.streamed = 0;
  if (job.bytes < kAlignBytes) return;
  const auto pastLine = [](const uint8_t* p) {
    return reinterpret_cast<uintptr_t>(p) % kLineBytes;
  };
  job.headBytes = (kLineBytes - pastLine(job.destination(0))) % kLineBytes;
  if (!streaming || job.bytes < kStreamBytes) return;
  const void* const* const end = job.sources + job.nSources;
  for (uint32_t j = 0; j < job.nDestinations; j++) {
    const uint8_t* const to = job.destination(j);
    const bool inPlace = std::find(job.sources, end, to) != end;
    if (!inPlace && pastLine(to + job.headBytes) == 0) job.streamed |= uint64_t{1} << j;
  }
}

void run(FoldJob& job, bool streaming, void (*loop)(const FoldJob&)) {
  place(job, streaming);
  loop(job);
  if (job.streamed != 0) hwy::FlushStream();
}

auto loopOf(ncclDataType_t type) -> void (*)(const FoldJob&) {
  if (isInteger(type)) return foldInteger;
  if (type == ncclFloat32 || type == ncclFloat64) return foldNative;
  if (type == ncclFloat16 || type == ncclBfloat16) return foldHalf;
  return foldFloat8;
}

void copyToAll(FoldJob& job, bool streaming) {
  std::array<void*, kMaxDestinations> others;
  const auto end = std::copy_if(job.destinations, job.destinations + job.nDestinations,
                                others.begin(), [&](void* to) { return to != job.sources[0]; });
  job.destinations = others.data();
  job.nDestinations = static_cast<uint32_t>(end - others.begin());
  if (job.nDestinations == 0) return;
  const bool alone = job.nDestinations == 1 && !(streaming && job.bytes >= kStreamBytes);
  if (alone || job.bytes < kLineBytes) {
    std::for_each(others.begin(), end, [&](void* to) { memcpy(to, job.sources[0], job.bytes); });
    return;
  }
  run(job, streaming, foldCopy);
}

/// By tiles that stay in L1: fold into the first destination, divide there, copy to the others.
void foldAndDivide(const FoldJob& job, const ReduceArgs& args) {
  const size_t elementSize = elementBytes(args.type);
  std::array<const void*, kMaxSources> sources;
  for (size_t at = 0; at < job.bytes; at += kTileBytes) {
    for (uint32_t k = 0; k < job.nSources; k++) {
      sources[k] = job.source(k) + at;
    }
    void* const first = job.destination(0) + at;
    FoldJob tile = job;
    tile.bytes = std::min(kTileBytes, job.bytes - at);
    tile.sources = sources.data();
    tile.destinations = &first;
    tile.nDestinations = 1;
    run(tile, false, foldInteger);
    divideInPlace(first, tile.bytes / elementSize, args.type, args.divisor);
    for (uint32_t j = 1; j < job.nDestinations; j++) {
      memcpy(job.destination(j) + at, first, tile.bytes);
    }
  }
}

constexpr size_t kTinyCount = 16;

/// dst[i] = sum of src[k][i], in the order of k, as the vector loops add; integers wrap, and there
/// is one NaN.
template <class T>
void addTiny(const ReduceArgs& args) {
  for (size_t at = 0; at < args.count * sizeof(T); at += sizeof(T)) {
    T sum, next;
    memcpy(&sum, static_cast<const uint8_t*>(args.sources[0]) + at, sizeof sum);
    for (int k = 1; k < args.nSources; k++) {
      memcpy(&next, static_cast<const uint8_t*>(args.sources[k]) + at, sizeof next);
      sum += next;
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(sum)) sum = std::numeric_limits<T>::quiet_NaN();
    }
    memcpy(static_cast<uint8_t*>(args.destinations[0]) + at, &sum, sizeof sum);
  }
}

/// Plain sums of a few elements, which vectors only make longer.
/// @return  whether it was one
bool foldTiny(const ReduceArgs& args) {
  const bool isPlain = args.op == ncclSum && args.scaledSources == 0 && args.divisor == 1;
  if (!isPlain || args.nSources < 2 || args.nDestinations != 1 || args.count > kTinyCount) {
    return false;
  }
  const DefaultFloatMode mode;
  switch (args.type) {
    case ncclInt32:
    case ncclUint32:
      addTiny<uint32_t>(args);
      return true;
    case ncclInt64:
    case ncclUint64:
      addTiny<uint64_t>(args);
      return true;
    case ncclFloat32:
      addTiny<float>(args);
      return true;
    case ncclFloat64:
      addTiny<double>(args);
      return true;
    default:
      return false;
  }
}

}  // namespace

void padSources(const FoldJob& job, size_t at, size_t bytes, size_t paddedBytes, uint8_t* padded,
                const void** sources) {
  memset(padded, 0, job.nSources * paddedBytes);
  for (uint32_t k = 0; k < job.nSources; k++) {
    uint8_t* const copy = padded + k * paddedBytes;
    memcpy(copy, job.source(k) + at, bytes);
    sources[k] = copy;
  }
}

size_t elementBytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    case ncclNumTypes:
      break;
  }
  HWY_ABORT("elementBytes: there is no data type %d", static_cast<int>(type));
}

void reduceCopy(const ReduceArgs& args) {
  HWY_ASSERT(args.nSources >= 1 && args.nSources <= kMaxSources);
  HWY_ASSERT(args.nDestinations >= 1 && args.nDestinations <= kMaxDestinations);
  HWY_ASSERT(args.divisor == 1 || (args.divisor > 1 && isInteger(args.type)));
  if (foldTiny(args)) return;
  FoldJob job = {
      .sources = args.sources,
      .destinations = args.destinations,
      .nSources = static_cast<uint32_t>(args.nSources),
      .nDestinations = static_cast<uint32_t>(args.nDestinations),
      .headBytes = 0,
      .bytes = args.count * elementBytes(args.type),
      .scaledSources = args.scaledSources,
      .scale = 0,
      .streamed = 0,
      .type = args.type,
      .op = args.op,
  };
  if (job.bytes == 0) return;
  const bool unscaled = (args.scaledSources << (kMaxSources - args.nSources)) == 0;
  if (args.nSources == 1 && unscaled && args.divisor == 1) return copyToAll(job, args.streaming);
  HWY_ASSERT(unscaled || args.op == ncclSum || args.op == ncclProd);
  HWY_ASSERT(!args.scaleIsFloat || loopOf(args.type) == foldHalf ||
             loopOf(args.type) == foldFloat8);
  HWY_ASSERT(args.op >= ncclSum && args.op <= ncclMin);
  if (!unscaled) job.scale = accumulatorScale(args);
  if (args.nSources == 1) job.op = ncclSum;
  if (args.divisor != 1) return foldAndDivide(job, args);
  const DefaultFloatMode mode;
  run(job, args.streaming, loopOf(args.type));
}

void copyBytes(void* to, const void* from, size_t bytes, bool streaming) {
  if (bytes == 0 || to == from) return;
  if (!streaming || bytes < kStreamBytes) {
    memcpy(to, from, bytes);
    return;
  }
  const void* const sources[] = {from};
  void* const destinations[] = {to};
  reduceCopy({.sources = sources,
              .destinations = destinations,
              .count = bytes,
              .type = ncclUint8,
              .streaming = true});
}

}  // namespace nccom::emu
