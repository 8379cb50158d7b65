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
    const auto even = hn::Combine(D(), demote(wide.v[1]), demote(wide.v[0]));
    const auto odd = hn::Combine(D(), demote(wide.v[3]), demote(wide.v[2]));
    return hn::Or(even, hn::ShiftLeft<8>(odd));
  }

 private:
  /// f8e4m3 becomes a 256th of its value: float16 has one exponent bit more, of 8 times the bias.
  static HWY_INLINE V halfOf(V top) {
    if constexpr (kE4m3) {
      const hn::RebindToSigned<D> di;
      const auto magnitude = hn::And(top, hn::Set(D(), uint16_t{0x7f00}));
      const auto nan = hn::VecFromMask(D(), hn::Eq(magnitude, hn::Set(D(), uint16_t{0x7f00})));
      const auto moved = hn::BitCast(D(), hn::ShiftRight<1>(hn::BitCast(di, top)));
      return hn::Or(hn::And(moved, hn::Set(D(), uint16_t{0xbf80})), nan);
    } else {
      return top;
    }
  }

  static HWY_INLINE VFloat promote(hn::VFromD<DHalf> half) {
    const auto value = hn::PromoteTo(DFloat(), hn::BitCast(DHalfFloat(), half));
    return kE4m3 ? hn::Mul(value, hn::Set(DFloat(), 256.0f)) : value;
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
  job.type == ncclFloat8e4m3 ? foldAnyOp<Float8<Narrow<4, 3, false>>>(job)
                             : foldAnyOp<Float8<Narrow<5, 2, true>>>(job);
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
