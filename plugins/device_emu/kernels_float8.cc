// The two 8-bit floats.

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")  // see kernels_half.cc
#endif

#include "plugins/device_emu/kernels_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/device_emu/kernels_float8.cc"
#include <hwy/foreach_target.h>

#include "plugins/device_emu/kernels_narrow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nccom::emu::HWY_NAMESPACE {

#if NCCOM_CONVERTS_HALF
/// By way of float16, of which f8e5m2 is the upper byte and f8e4m3 nearly so. Accumulators: the
/// even elements of the vector's lower and upper half, then the odd ones.
template <class Format>
struct Float8 : AsFloat {
  using D = hn::Repartition<uint16_t, DFloat>;
  using DHalf = hn::Rebind<uint16_t, DFloat>;
  using DHalfFloat = hn::Rebind<hwy::float16_t, DFloat>;
  using V = hn::VFromD<D>;
  static constexpr size_t kAcc = 4;
  static constexpr bool kE4m3 = Format::kMaxExp == 15;

  static HWY_INLINE Wide<DAcc, kAcc> load(const uint8_t* from) {
    const auto pair = loadBytes(D(), from);
    const auto even = halfOf(hn::ShiftLeft<8>(pair));
    const auto odd = halfOf(hn::And(pair, hn::Set(D(), uint16_t{0xff00})));
    return {promote(hn::LowerHalf(DHalf(), even)), promote(hn::UpperHalf(DHalf(), even)),
            promote(hn::LowerHalf(DHalf(), odd)), promote(hn::UpperHalf(DHalf(), odd))};
  }

  static HWY_INLINE V encode(const Wide<DAcc, kAcc>& wide) {
    VBits magnitude[kAcc];
    HWY_UNROLL(4)
    for (size_t a = 0; a < kAcc; a++) {
      magnitude[a] = hn::And(bitsOf(wide.v[a]), allBits(0x7fffffffu));
    }
    if (HWY_UNLIKELY(!areFinite(magnitude))) {
      return encodeSpecial(wide.v[0], wide.v[1], wide.v[2], wide.v[3]);
    }
    const auto even =
        pack(signedCode(wide.v[0], magnitude[0]), signedCode(wide.v[1], magnitude[1]));
    const auto odd = pack(signedCode(wide.v[2], magnitude[2]), signedCode(wide.v[3], magnitude[3]));
    // Codes are in the low bytes, their signs still in the highest bits.
    const auto low = hn::And(hn::Or(even, hn::ShiftRight<8>(even)), hn::Set(D(), uint16_t{0x00ff}));
    const auto sign = hn::And(odd, hn::Set(D(), uint16_t{0x8000}));
    return inOrder(hn::Or(hn::Or(hn::ShiftLeft<8>(odd), sign), low));
  }

 private:
  using DShort = hn::RebindToSigned<D>;

  /// f8e4m3 becomes a 256th of its value: float16 has one exponent bit more, of 8 times the bias.
  static HWY_INLINE V halfOf(V top) {
    if constexpr (kE4m3) {
      const auto set = [](uint16_t bits) HWY_ATTR { return hn::Set(D(), bits); };
      const auto nan = hn::Eq(hn::And(top, set(0x7f00)), set(0x7f00));
      const auto moved = hn::BitCast(D(), hn::ShiftRight<1>(hn::BitCast(DShort(), top)));
      return hn::IfThenElse(nan, set(0x7e00), hn::And(moved, set(0xbf80)));
    } else {
      return top;
    }
  }

  static HWY_INLINE VFloat promote(hn::VFromD<DHalf> half) {
    const auto value = hn::PromoteTo(DFloat(), hn::BitCast(DHalfFloat(), half));
    return kE4m3 ? hn::Mul(value, hn::Set(DFloat(), 256.0f)) : value;
  }

  static HWY_INLINE bool areFinite(const VBits (&magnitude)[kAcc]) {
    const DSigned di;
    const auto pair = [&](size_t a) HWY_ATTR {
      return hn::Max(hn::BitCast(di, magnitude[a]), hn::BitCast(di, magnitude[a + 1]));
    };
    return hn::AllTrue(di, hn::Lt(hn::Max(pair(0), pair(2)), hn::Set(di, 0x7f800000)));
  }

  /// Bit 15 and all above it the sign, below it the code of the magnitude plus kExcess.
  static HWY_INLINE hn::VFromD<DSigned> signedCode(VFloat value, VBits magnitude) {
    const DSigned di;
    const auto code = hn::BitCast(di, Format::template roundMagnitude<Format::kLargest>(magnitude));
    const auto sign = hn::ShiftRight<16>(hn::BitCast(di, value));
    return hn::OrAnd(hn::And(sign, hn::Set(di, ~0x7fff)), code, hn::Set(di, 0x7fff));
  }

  /// 16-bit lanes, in the order of inOrder's argument, without kExcess.
  static HWY_INLINE V pack(hn::VFromD<DSigned> first, hn::VFromD<DSigned> second) {
    const auto packed = hn::BitCast(D(), hn::ReorderDemote2To(DShort(), first, second));
    return hn::Sub(packed, hn::Set(D(), static_cast<uint16_t>(Format::kExcess)));
  }

  /// Packing alternates the arguments every 64 bits; the first one's belong before the second
  /// one's.
  static HWY_INLINE V inOrder(V packed) {
    constexpr size_t kLanes = hn::MaxLanes(DBits());
    HWY_ALIGN static constexpr uint32_t kOrder[2][16] = {
        {0, 1, 4, 5, 2, 3, 6, 7}, {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15}};
    const auto order = hn::SetTableIndices(DBits(), kOrder[kLanes == 16]);
    return hn::BitCast(D(), hn::TableLookupLanes(hn::BitCast(DBits(), packed), order));
  }

  /// Any values, infinities and NaN too. The arguments come in registers.
  static HWY_NOINLINE V encodeSpecial(VFloat even0, VFloat even1, VFloat odd0, VFloat odd1) {
    const auto even = hn::Combine(D(), demote(even1), demote(even0));
    const auto odd = hn::Combine(D(), demote(odd1), demote(odd0));
    return hn::Or(even, hn::ShiftLeft<8>(odd));
  }

  static HWY_INLINE hn::VFromD<DHalf> demote(VFloat value) {
    const auto code = Format::template encode<Format::kLargest>(value);
    return hn::DemoteTo(DHalf(), hn::BitCast(DSigned(), code));
  }
};
#else
template <class Format>
struct Float8 : AsFloat {
  using D = DBits;
  static constexpr size_t kAcc = 4;

  static HWY_INLINE Wide<DAcc, kAcc> load(const uint8_t* from) {
    const auto four = loadBytes(D(), from);
    const auto top = allBits(0xff000000u);
    return {Format::decode(hn::ShiftLeft<24>(four)),
            Format::decode(hn::And(hn::ShiftLeft<16>(four), top)),
            Format::decode(hn::And(hn::ShiftLeft<8>(four), top)),
            Format::decode(hn::And(four, top))};
  }

  static HWY_INLINE VBits encode(const Wide<DAcc, kAcc>& wide) {
    const auto low = hn::Or(code(wide.v[0]), hn::ShiftLeft<8>(code(wide.v[1])));
    const auto high = hn::Or(code(wide.v[2]), hn::ShiftLeft<8>(code(wide.v[3])));
    return hn::Or(low, hn::ShiftLeft<16>(high));
  }

 private:
  static HWY_INLINE VBits code(VFloat value) {
    return Format::template encode<Format::kLargest>(value);
  }
};
#endif

void foldFloat8(const FoldJob& job) {
  using E4m3 = Narrow<4, 3, false>;
  using E5m2 = Narrow<5, 2, true>;
  job.type == ncclFloat8e4m3 ? foldNarrow<Float8<E4m3>, int8_t, E4m3>(job)
                             : foldNarrow<Float8<E5m2>, int8_t, E5m2>(job);
}

}  // namespace nccom::emu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nccom::emu {
HWY_EXPORT(foldFloat8);
void foldFloat8(const FoldJob& job) {
  HWY_DYNAMIC_DISPATCH(foldFloat8)(job);
}
}  // namespace nccom::emu
#endif
