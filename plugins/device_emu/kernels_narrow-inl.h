// Formats of floats narrower than float. Compiled once for each instruction set, see kernels-inl.h.
#ifndef NCCOM_KERNELS_DEPENDENCIES
#if defined(NCCOM_DEVICE_EMU_KERNELS_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NCCOM_DEVICE_EMU_KERNELS_NARROW_INL_H_
#undef NCCOM_DEVICE_EMU_KERNELS_NARROW_INL_H_
#else
#define NCCOM_DEVICE_EMU_KERNELS_NARROW_INL_H_
#endif

#include "plugins/device_emu/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nccom::emu::HWY_NAMESPACE {

using DFloat = hn::ScalableTag<float>;
using DBits = hn::RebindToUnsigned<DFloat>;
using DSigned = hn::RebindToSigned<DFloat>;
using VFloat = hn::VFromD<DFloat>;
using VBits = hn::VFromD<DBits>;

// Without shuffles, a 32-bit lane of memory holds two or four neighbours: accumulator a has every
// second or fourth element. With a conversion instruction, accumulators are runs of neighbours.
#undef NCCOM_CONVERTS_HALF
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define NCCOM_CONVERTS_HALF 1
#else
#define NCCOM_CONVERTS_HALF 0
#endif

/// Formats that are folded as float.
struct AsFloat {
  using DAcc = DFloat;
  static HWY_INLINE VFloat multiply(VFloat a, VFloat b) { return hn::Mul(a, b); }
};

HWY_INLINE VFloat floatOf(VBits bits) {
  return hn::BitCast(DFloat(), bits);
}
HWY_INLINE VBits bitsOf(VFloat value) {
  return hn::BitCast(DBits(), value);
}
HWY_INLINE VBits allBits(uint32_t bits) {
  return hn::Set(DBits(), bits);
}

/// All ones where a < b. Both are less than 2^31: signed comparison is what every machine has.
HWY_INLINE VBits lessBits(VBits a, uint32_t b) {
  const DSigned di;
  const auto less = hn::Lt(hn::BitCast(di, a), hn::Set(di, static_cast<int32_t>(b)));
  return hn::BitCast(DBits(), hn::VecFromMask(di, less));
}

/// A float of 1 sign bit, kExp exponent bits and kMant mantissa bits. With kHasInf the highest
/// exponent holds infinity and NaN; without, NaN is the highest code alone.
template <int kExp, int kMant, bool kHasInf>
struct Narrow {
  static constexpr uint32_t kBias = (1u << (kExp - 1)) - 1;
  static constexpr uint32_t kMaxExp = (1u << kExp) - 1;
  static constexpr uint32_t kInf = kMaxExp << kMant;
  static constexpr uint32_t kNaN = kInf | (kHasInf ? 1u << (kMant - 1) : (1u << kMant) - 1);
  static constexpr uint32_t kLastNumber = kHasInf ? kInf : kNaN - 1;  // codes above it are NaN
  static constexpr uint32_t kLargest = kHasInf ? kInf - 1 : kNaN - 1;
  static constexpr int kShift = 23 - kMant;
  static constexpr uint32_t kRebias = (127 - kBias) << 23;
  static constexpr uint32_t kMinNormal = kRebias + (1u << 23);  // the bits of a float

  /// @param top  a code in the highest bits of each lane, zeros below
  static HWY_INLINE VFloat decode(VBits top) {
    const auto sign = hn::And(top, allBits(0x80000000u));
    const auto magnitude = hn::ShiftRight<8 - kExp>(hn::Xor(top, sign));
    // A denormal gets the least normal exponent; the one which that implies is then taken away.
    const auto denormal = lessBits(magnitude, 1u << 23);
    auto bits = hn::Add(magnitude, allBits(kRebias));
    bits = hn::Add(bits, hn::And(denormal, allBits(1u << 23)));
    if constexpr (kHasInf) {
      const auto finite = lessBits(magnitude, kMaxExp << 23);
      bits = hn::Add(bits, hn::AndNot(finite, allBits(((255 - kMaxExp) << 23) - kRebias)));
    }
    auto value = bitsOf(hn::Sub(floatOf(bits), floatOf(hn::And(denormal, allBits(kMinNormal)))));
    if constexpr (!kHasInf) {
      const auto number = lessBits(magnitude, kNaN << kShift);
      value = hn::Or(value, hn::AndNot(number, allBits(0x7fc00000u)));
    }
    return floatOf(hn::Or(value, sign));
  }

  /// How much a magnitude returned by roundMagnitude is above its code.
  static constexpr uint32_t kExcess = kMinNormal >> kShift;

  /// The code of the magnitude plus kExcess in the lower 23 bits, anything above. Rounds to nearest
  /// even; numbers beyond the range become `kOver` (kLargest or kInf).
  template <uint32_t kOver>
  static HWY_INLINE VBits roundMagnitude(VBits magnitude) {
    constexpr uint32_t kLimit = (kOver << kShift) + kRebias;  // kOver as a float
    const auto limited = hn::Min(floatOf(magnitude), floatOf(allBits(kLimit)));
    const auto power = hn::Max(floatOf(hn::And(bitsOf(limited), allBits(0x7f800000u))),
                               floatOf(allBits(kMinNormal)));
    // In the sum with `magic`, the last bit weighs as much as the last bit of the code: the machine
    // rounds, and the last bits are the mantissa with its leading one, or without when denormal.
    const auto magic = hn::Add(bitsOf(power), allBits(static_cast<uint32_t>(kShift) << 23));
    const auto rounded = bitsOf(hn::Add(limited, floatOf(magic)));
    return hn::Add(rounded, hn::ShiftRight<kShift>(bitsOf(power)));
  }

  /// @return a code in the lowest bits of each lane, zeros above
  template <uint32_t kOver>
  static HWY_INLINE VBits encode(VFloat value) {
    const auto bits = bitsOf(value);
    const auto magnitude = hn::And(bits, allBits(0x7fffffffu));
    auto code = hn::And(roundMagnitude<kOver>(magnitude), allBits((1u << 23) - 1));
    code = hn::Sub(code, allBits(kExcess));
    if constexpr (kHasInf && kOver != kInf) {
      code = hn::IfThenElse(hn::Eq(magnitude, allBits(0x7f800000u)), allBits(kInf), code);
    }
    const auto sign =
        hn::And(hn::ShiftRight<31 - kExp - kMant>(bits), allBits(1u << (kExp + kMant)));
    const auto nan = hn::RebindMask(DBits(), hn::IsNaN(value));
    return hn::IfThenElse(nan, allBits(kNaN), hn::Or(code, sign));
  }
};

/// Narrow floats for Max and Min: integers in the same order. NaN is beyond the end that wins.
template <class T, class Format, bool kMax>
struct Ordered {
  using D = hn::ScalableTag<T>;
  using DAcc = D;
  using V = hn::VFromD<D>;
  static constexpr size_t kAcc = 1;

  static HWY_INLINE Wide<DAcc, kAcc> load(const uint8_t* from) {
    const auto code = loadBytes(D(), from);
    const auto nan = hn::Gt(hn::And(code, set(kMagnitude)), set(Format::kLastNumber));
    return {hn::IfThenElse(nan, set(kNaNKey), mirror(code))};
  }

  static HWY_INLINE V encode(const Wide<DAcc, kAcc>& wide) {
    const auto nan = hn::Eq(wide.v[0], set(kNaNKey));
    return hn::IfThenElse(nan, set(Format::kNaN), mirror(wide.v[0]));
  }

 private:
  static constexpr uint32_t kMagnitude = (1u << (8 * sizeof(T) - 1)) - 1;
  static constexpr uint32_t kNaNKey = kMax ? kMagnitude : kMagnitude + 1;  // both codes are NaN's

  static HWY_INLINE V set(uint32_t bits) { return hn::Set(D(), static_cast<T>(bits)); }

  /// From sign and magnitude to two's complement, nearly (-0 becomes -1), and back.
  static HWY_INLINE V mirror(V code) {
    const auto negative = hn::VecFromMask(D(), hn::Lt(code, hn::Zero(D())));
    return hn::Xor(code, hn::And(negative, set(kMagnitude)));
  }
};

/// @tparam F  folds sums and products; its elements are integers T to Ordered
template <class F, class T, class Format>
HWY_INLINE void foldNarrow(const FoldJob& job) {
  if (job.op == ncclMax) return fold<Ordered<T, Format, true>, FoldExtreme<true>>(job);
  if (job.op == ncclMin) return fold<Ordered<T, Format, false>, FoldExtreme<false>>(job);
  foldArithmetic<F>(job);
}

}  // namespace nccom::emu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
