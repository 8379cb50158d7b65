// Integers, copies (bytes that nobody looks at) and the division of integer averages.

#include <type_traits>

#include "plugins/device_emu/kernels_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/device_emu/kernels_integer.cc"
#include <hwy/foreach_target.h>

#include "plugins/device_emu/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nccom::emu::HWY_NAMESPACE {

void foldCopy(const FoldJob& job) {
  fold<Plain<uint8_t>, FoldSum>(job);
}

/// Sums and products modulo 2^n are those of the unsigned type.
template <class T>
void foldSigned(const FoldJob& job) {
  if (job.op == ncclMax) return fold<Plain<T>, FoldExtreme<true>>(job);
  if (job.op == ncclMin) return fold<Plain<T>, FoldExtreme<false>>(job);
  foldArithmetic<Plain<hwy::MakeUnsigned<T>>>(job);
}

void foldInteger(const FoldJob& job) {
  if (job.type == ncclInt8) return foldSigned<int8_t>(job);
  if (job.type == ncclInt32) return foldSigned<int32_t>(job);
  if (job.type == ncclInt64) return foldSigned<int64_t>(job);
  if (job.type == ncclUint8) return foldAnyOp<Plain<uint8_t>>(job);
  if (job.type == ncclUint32) return foldAnyOp<Plain<uint32_t>>(job);
  foldAnyOp<Plain<uint64_t>>(job);
}

// The quotient of two integers that a float type holds exactly, rounded to it, does not reach the
// next integer while dividend + divisor fit in its mantissa: truncating it truncates the quotient.
// A divisor greater than every dividend may lose bits, the quotient is then below 1 all the same.

template <class T>
HWY_INLINE void divideBytes(T* values, float divisor) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<T, decltype(df)> d;
  const auto quotient =
      hn::Div(hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(d, values))), hn::Set(df, divisor));
  hn::StoreU(hn::DemoteTo(d, hn::ConvertTo(di, quotient)), d, values);
}

HWY_INLINE void divideWords(int32_t* values, double divisor) {
  const hn::ScalableTag<double> df;
  const hn::Rebind<int32_t, decltype(df)> d;
  const auto quotient = hn::Div(hn::PromoteTo(df, hn::LoadU(d, values)), hn::Set(df, divisor));
  hn::StoreU(hn::DemoteTo(d, quotient), d, values);
}

HWY_INLINE void divideWords(uint32_t* values, double divisor) {
  const hn::ScalableTag<double> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::Rebind<uint32_t, decltype(df)> d;
  const hn::Rebind<int32_t, decltype(df)> di;
  // The integer as the low mantissa bits of 2^52 + integer. Half of 2^32 fits a signed quotient.
  const auto biased =
      hn::Or(hn::PromoteTo(du, hn::LoadU(d, values)), hn::Set(du, uint64_t{0x4330000000000000}));
  const auto value = hn::Sub(hn::BitCast(df, biased), hn::Set(df, 0x1p52));
  const auto quotient = hn::DemoteTo(di, hn::Div(value, hn::Set(df, divisor)));
  hn::StoreU(hn::BitCast(d, quotient), d, values);
}

template <class T>
void divideAll(T* values, size_t count, int64_t divisor) {
  size_t i = 0;
  if constexpr (sizeof(T) == 1) {
    constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<float>());
    for (; count - i >= kLanes; i += kLanes)
      divideBytes(values + i, static_cast<float>(divisor));
  } else if constexpr (sizeof(T) == 4) {
    constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<double>());
    for (; count - i >= kLanes; i += kLanes)
      divideWords(values + i, static_cast<double>(divisor));
  }
  // What is left, and all of 64 bits: in the widest integers of the type's signedness.
  using Widest = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  for (; i < count; i++) {
    values[i] = static_cast<T>(static_cast<Widest>(values[i]) / static_cast<Widest>(divisor));
  }
}

void divideAnyType(void* values, size_t count, ncclDataType_t type, int64_t divisor) {
  if (type == ncclInt8) return divideAll(static_cast<int8_t*>(values), count, divisor);
  if (type == ncclInt32) return divideAll(static_cast<int32_t*>(values), count, divisor);
  if (type == ncclInt64) return divideAll(static_cast<int64_t*>(values), count, divisor);
  if (type == ncclUint8) return divideAll(static_cast<uint8_t*>(values), count, divisor);
  if (type == ncclUint32) return divideAll(static_cast<uint32_t*>(values), count, divisor);
  divideAll(static_cast<uint64_t*>(values), count, divisor);
}

}  // namespace nccom::emu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nccom::emu {

HWY_EXPORT(foldCopy);
HWY_EXPORT(foldInteger);
HWY_EXPORT(divideAnyType);

void foldCopy(const FoldJob& job) {
  HWY_DYNAMIC_DISPATCH(foldCopy)(job);
}

void foldInteger(const FoldJob& job) {
  HWY_DYNAMIC_DISPATCH(foldInteger)(job);
}

void divideInPlace(void* values, size_t count, ncclDataType_t type, int64_t divisor) {
  HWY_DYNAMIC_DISPATCH(divideAnyType)(values, count, type, divisor);
}

}  // namespace nccom::emu
#endif
