// Formats of floats narrower than float. Compiled once for each instruction set, see kernels-inl.h.
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

  /// Rounds to nearest even. Finite values beyond the range become `kOver` (kLargest or kInf).
  /// @return a code in the lowest bits of each lane, zeros above
  template <uint32_t kOver>
  static HWY_INLINE VBits encode(VFloat value) {
    const auto bits = bitsOf(value);
    const auto magnitude = hn::And(bits, allBits(0x7fffffffu));
    // The value whose code is kOver, a next power of two for kInf.
    constexpr uint32_t kLimit = (kOver << kShift) + kRebias;
    const auto limited = hn::Min(floatOf(magnitude), floatOf(allBits(kLimit)));
    const auto power = hn::Max(floatOf(hn::And(bitsOf(limited), allBits(0x7f800000u))),
                               floatOf(allBits(kMinNormal)));
    // In the sum with `magic`, the last bit weighs as much as the last bit of the code: the machine
    // rounds, to nearest even, and what is above `magic` is the mantissa with its leading one.
    const auto magic = hn::Add(bitsOf(power), allBits(static_cast<uint32_t>(kShift) << 23));
    const auto rounded = hn::Sub(bitsOf(hn::Add(limited, floatOf(magic))), magic);
    const auto exponent =
        hn::Sub(hn::ShiftRight<kShift>(bitsOf(power)), allBits(kMinNormal >> kShift));
    auto code = hn::Add(exponent, rounded);
    if constexpr (kHasInf && kOver != kInf) {
      code = hn::IfThenElse(hn::Eq(magnitude, allBits(0x7f800000u)), allBits(kInf), code);
    }
    const auto sign =
        hn::And(hn::ShiftRight<31 - kExp - kMant>(bits), allBits(1u << (kExp + kMant)));
    const auto nan = hn::RebindMask(DBits(), hn::IsNaN(value));
    return hn::IfThenElse(nan, allBits(kNaN), hn::Or(code, sign));
  }
};

}  // namespace nccom::emu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
