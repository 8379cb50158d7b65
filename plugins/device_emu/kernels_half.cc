// float16 and bfloat16.

// A product must be rounded before it is added on machines that could fuse the two as well.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#endif

#include "plugins/device_emu/kernels_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/device_emu/kernels_half.cc"
#include <hwy/foreach_target.h>

#include "plugins/device_emu/kernels_narrow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nccom::emu::HWY_NAMESPACE {

struct Bfloat16 : AsFloat {
  using D = DBits;
  static constexpr size_t kAcc = 2;

  static HWY_INLINE Wide<DAcc, kAcc> load(const uint8_t* from) {
    const auto pair = loadBytes(D(), from);
    return {floatOf(hn::ShiftLeft<16>(pair)), floatOf(hn::And(pair, allBits(0xffff0000u)))};
  }

  static HWY_INLINE VBits encode(const Wide<DAcc, kAcc>& wide) {
    return hn::Or(hn::ShiftRight<16>(round(wide.v[0])),
                  hn::And(round(wide.v[1]), allBits(0xffff0000u)));
  }

 private:
  /// To nearest even, in the upper half of the lane.
  static HWY_INLINE VBits round(VFloat value) {
    const auto bits = bitsOf(oneNaN(DFloat(), value));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), allBits(1));
    return hn::Add(bits, hn::Add(odd, allBits(0x7fff)));
  }
};

#if NCCOM_CONVERTS_HALF
struct Float16 : AsFloat {
  using D = hn::Repartition<uint16_t, DFloat>;
  using DHalf = hn::Rebind<uint16_t, DFloat>;
  using DHalfFloat = hn::Rebind<hwy::float16_t, DFloat>;
  static constexpr size_t kAcc = 2;

  static HWY_INLINE Wide<DAcc, kAcc> load(const uint8_t* from) {
    return {promote(from), promote(from + kHalfBytes)};
  }

  static HWY_INLINE hn::VFromD<D> encode(const Wide<DAcc, kAcc>& wide) {
    return hn::Combine(D(), demote(wide.v[1]), demote(wide.v[0]));
  }

 private:
  static constexpr size_t kHalfBytes = hn::MaxLanes(DHalf()) * sizeof(uint16_t);

  static HWY_INLINE VFloat promote(const uint8_t* from) {
    return hn::PromoteTo(DFloat(), hn::BitCast(DHalfFloat(), loadBytes(DHalf(), from)));
  }

  static HWY_INLINE hn::VFromD<DHalf> demote(VFloat value) {
    return hn::BitCast(DHalf(), hn::DemoteTo(DHalfFloat(), oneNaN(DFloat(), value)));
  }
};
#else
struct Float16 : AsFloat {
  using D = DBits;
  using Format = Narrow<5, 10, true>;
  static constexpr size_t kAcc = 2;

  static HWY_INLINE Wide<DAcc, kAcc> load(const uint8_t* from) {
    const auto pair = loadBytes(D(), from);
    return {Format::decode(hn::ShiftLeft<16>(pair)),
            Format::decode(hn::And(pair, allBits(0xffff0000u)))};
  }

  static HWY_INLINE VBits encode(const Wide<DAcc, kAcc>& wide) {
    return hn::Or(Format::encode<Format::kInf>(wide.v[0]),
                  hn::ShiftLeft<16>(Format::encode<Format::kInf>(wide.v[1])));
  }
};
#endif

void foldHalf(const FoldJob& job) {
  job.type == ncclBfloat16 ? foldNarrow<Bfloat16, int16_t, Narrow<8, 7, true>>(job)
                           : foldNarrow<Float16, int16_t, Narrow<5, 10, true>>(job);
}

}  // namespace nccom::emu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nccom::emu {
HWY_EXPORT(foldHalf);
void foldHalf(const FoldJob& job) {
  HWY_DYNAMIC_DISPATCH(foldHalf)(job);
}
}  // namespace nccom::emu
#endif
