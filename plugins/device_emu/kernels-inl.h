// The vector loop that all kernels share, and what it needs. Compiled once for each instruction set
// (foreach_target), hence Highway's guard, which toggles, in the place of `#pragma once`.
#ifndef NCCOM_KERNELS_DEPENDENCIES
#if defined(NCCOM_DEVICE_EMU_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NCCOM_DEVICE_EMU_KERNELS_INL_H_
#undef NCCOM_DEVICE_EMU_KERNELS_INL_H_
#else
#define NCCOM_DEVICE_EMU_KERNELS_INL_H_
#endif

#include <hwy/highway.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <limits>

#include "plugins/device_emu/kernels.h"
#include "plugins/device_emu/kernels_job.h"

HWY_BEFORE_NAMESPACE();
namespace nccom::emu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// ---- bytes to vectors: no alignment and no type is assumed of memory ---------------------------

template <class D>
HWY_INLINE hn::VFromD<D> loadBytes(D d, const uint8_t* from) {
#if HWY_TARGET == HWY_SCALAR
  hn::TFromD<D> lane;
  memcpy(&lane, from, sizeof(lane));
  return hn::Set(d, lane);
#else
  return hn::BitCast(d, hn::LoadU(hn::Repartition<uint8_t, D>(), from));
#endif
}

template <class D>
HWY_INLINE void storeBytes([[maybe_unused]] D d, hn::VFromD<D> v, uint8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  const hn::TFromD<D> lane = hn::GetLane(v);
  memcpy(to, &lane, sizeof(lane));
#else
  const hn::Repartition<uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, v), bytes, to);
#endif
}

template <class D>
HWY_INLINE void streamBytes([[maybe_unused]] D d, hn::VFromD<D> v, uint8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  storeBytes(d, v, to);
#else
  const hn::Repartition<uint8_t, D> bytes;
  hn::Stream(hn::BitCast(bytes, v), bytes, to);
#endif
}

template <class D>
HWY_INLINE hn::VFromD<D> broadcastBits(D d, uint64_t bits) {
  hn::TFromD<D> lane;
  memcpy(&lane, &bits, sizeof(lane));
  return hn::Set(d, lane);
}

// ---- formats: what a vector of memory is in registers ------------------------------------------
// A format has D (the tag of a vector of memory), DAcc (of an accumulator), kAcc accumulators to a
// vector of memory, load, encode and, where products are asked of it, multiply. Lane order inside
// is its own affair.

template <class DAcc, size_t kAcc>
struct Wide {
  hn::VFromD<DAcc> v[kAcc];
};

template <class D>
HWY_INLINE hn::VFromD<D> oneNaN(D d, hn::VFromD<D> v) {
  const auto quiet = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
  return hn::IfThenElse(hn::IsNaN(v), quiet, v);
}

/// Elements that the machine can fold as they are.
template <class T>
struct Plain {
  using D = hn::ScalableTag<T>;
  using DAcc = D;
  using V = hn::VFromD<D>;
  static constexpr size_t kAcc = 1;

  static HWY_INLINE Wide<DAcc, kAcc> load(const uint8_t* from) { return {loadBytes(D(), from)}; }

  static HWY_INLINE V encode(const Wide<DAcc, kAcc>& wide) {
    if constexpr (hwy::IsFloat<T>()) {
      return oneNaN(D(), wide.v[0]);
    } else {
      return wide.v[0];
    }
  }

  static HWY_INLINE V multiply(V a, V b) {
    if constexpr (sizeof(T) == 1) {
      return multiplyBytes(a, b);
    } else {
      return hn::Mul(a, b);
    }
  }

 private:
  // The low byte of a 16-bit product needs only the low bytes of its factors.
  static HWY_INLINE V multiplyBytes(V a, V b) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(D(), static_cast<T>(hn::GetLane(a) * hn::GetLane(b)));
#else
    const hn::Repartition<uint16_t, D> d16;
    const auto a16 = hn::BitCast(d16, a);
    const auto b16 = hn::BitCast(d16, b);
    const auto even = hn::And(hn::Mul(a16, b16), hn::Set(d16, uint16_t{0x00ff}));
    const auto odd = hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16));
    return hn::BitCast(D(), hn::Or(even, hn::ShiftLeft<8>(odd)));
#endif
  }
};

// ---- operators: kScales says whether sources may be scaled --------------------------------------

struct FoldSum {
  static constexpr bool kScales = true;

  template <class D, class V>
  static HWY_INLINE V apply(D, V acc, V x) {
    return hn::Add(acc, x);
  }
};

/// Max when kMax, else Min. Highway's own leave NaN and the order of zeros to the machine.
template <bool kMax>
struct FoldExtreme {
  static constexpr bool kScales = false;

  template <class D, class V>
  static HWY_INLINE V apply(D, V acc, V x) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      const auto better = kMax ? hn::Gt(x, acc) : hn::Lt(x, acc);
      // Equal values have equal bits, but for zeros: + wins (the sign is and-ed) or - (or-ed).
      const auto same = kMax ? hn::And(acc, x) : hn::Or(acc, x);
      const auto best = hn::IfThenElse(hn::Eq(acc, x), same, hn::IfThenElse(better, x, acc));
      return hn::IfThenElse(hn::IsNaN(x), x, best);  // a NaN in acc is never bettered and stays
    } else {
      return kMax ? hn::Max(acc, x) : hn::Min(acc, x);
    }
  }
};

/// The format's product, under the name that the loop calls.
template <class F>
struct FoldProd {
  static constexpr bool kScales = true;

  template <class D, class V>
  static HWY_INLINE V apply(D, V acc, V x) {
    return F::multiply(acc, x);
  }
};

// ---- the loop -----------------------------------------------------------------------------------

template <class F>
inline constexpr size_t kVectorBytes = hn::MaxLanes(typename F::D()) *
                                       sizeof(hn::TFromD<typename F::D>);

template <class F>
using WideOf = Wide<typename F::DAcc, F::kAcc>;

/// Vectors of memory in one turn of the loop: four accumulators hide the latency of the arithmetic.
template <class F>
inline constexpr size_t kTurn = 4 / F::kAcc;

/// Elements of source k from byte `at` on, scaled if that source is.
template <class F, class Op, size_t kVectors>
HWY_INLINE void loadSource(const FoldJob& job, uint32_t k, size_t at,
                           hn::VFromD<typename F::DAcc> scale, WideOf<F> (&x)[kVectors]) {
  const uint8_t* const from = job.source(k) + at;
  HWY_UNROLL(4)
  for (size_t s = 0; s < kVectors; s++)
    x[s] = F::load(from + s * kVectorBytes<F>);
  if constexpr (Op::kScales) {
    if ((job.scaledSources >> k & 1) == 0) return;
    HWY_UNROLL(4)
    for (size_t s = 0; s < kVectors; s++) {
      HWY_UNROLL(4)
      for (size_t a = 0; a < F::kAcc; a++)
        x[s].v[a] = F::multiply(x[s].v[a], scale);
    }
  }
}

template <class F, class Op, size_t kVectors>
HWY_INLINE void foldVectors(const FoldJob& job, hn::VFromD<typename F::DAcc> scale, size_t at) {
  const typename F::DAcc dAcc;
  WideOf<F> acc[kVectors];
  loadSource<F, Op>(job, 0, at, scale, acc);
  for (uint32_t k = 1; k < job.nSources; k++) {
    WideOf<F> x[kVectors];
    loadSource<F, Op>(job, k, at, scale, x);
    HWY_UNROLL(4)
    for (size_t s = 0; s < kVectors; s++) {
      HWY_UNROLL(4)
      for (size_t a = 0; a < F::kAcc; a++) {
        acc[s].v[a] = Op::apply(dAcc, acc[s].v[a], x[s].v[a]);
      }
    }
  }
  const typename F::D d;
  hn::VFromD<typename F::D> result[kVectors];
  HWY_UNROLL(4)
  for (size_t s = 0; s < kVectors; s++)
    result[s] = F::encode(acc[s]);
  for (uint32_t j = 0; j < job.nDestinations; j++) {
    uint8_t* const to = job.destination(j) + at;
    const bool streamed = (job.streamed >> j & 1) != 0;
    HWY_UNROLL(4)
    for (size_t s = 0; s < kVectors; s++) {
      if (streamed) {
        streamBytes(d, result[s], to + s * kVectorBytes<F>);
      } else {
        storeBytes(d, result[s], to + s * kVectorBytes<F>);
      }
    }
  }
}

/// Less than a vector: the same instructions on copies padded with zeros, so that a value does not
/// depend on its place.
template <class F, class Op>
HWY_NOINLINE void foldPart(const FoldJob& job, hn::VFromD<typename F::DAcc> scale, size_t at,
                           size_t bytes) {
  constexpr size_t kBytes = kVectorBytes<F>;
  HWY_ALIGN uint8_t padded[kMaxSources * kBytes];
  HWY_ALIGN uint8_t result[kBytes];
  const void* sources[kMaxSources];
  void* destination = result;
  padSources(job, at, bytes, kBytes, padded, sources);
  FoldJob part = job;
  part.sources = sources;
  part.destinations = &destination;
  part.nDestinations = 1;
  part.streamed = 0;
  foldVectors<F, Op, 1>(part, scale, 0);
  for (uint32_t j = 0; j < job.nDestinations; j++)
    memcpy(job.destination(j) + at, result, bytes);
}

template <class F, class Op>
HWY_NOINLINE void fold(const FoldJob& job) {
  constexpr size_t kBytes = kVectorBytes<F>;
  const auto scale = broadcastBits(typename F::DAcc(), job.scale);
  size_t at = 0;
  while (at < job.headBytes) {
    const size_t part = HWY_MIN(kBytes, job.headBytes - at);
    foldPart<F, Op>(job, scale, at, part);
    at += part;
  }
  for (; job.bytes - at >= kTurn<F> * kBytes; at += kTurn<F> * kBytes) {
    foldVectors<F, Op, kTurn<F>>(job, scale, at);
  }
  for (; job.bytes - at >= kBytes; at += kBytes)
    foldVectors<F, Op, 1>(job, scale, at);
  if (at < job.bytes) foldPart<F, Op>(job, scale, at, job.bytes - at);
}

template <class F>
HWY_INLINE void foldArithmetic(const FoldJob& job) {
  job.op == ncclProd ? fold<F, FoldProd<F>>(job) : fold<F, FoldSum>(job);
}

template <class F>
HWY_INLINE void foldAnyOp(const FoldJob& job) {
  if (job.op == ncclMax) return fold<F, FoldExtreme<true>>(job);
  if (job.op == ncclMin) return fold<F, FoldExtreme<false>>(job);
  foldArithmetic<F>(job);
}

}  // namespace nccom::emu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
