// float and double.

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")  // see kernels_half.cc
#endif

#include "plugins/device_emu/kernels_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "plugins/device_emu/kernels_native.cc"
#include <hwy/foreach_target.h>

#include "plugins/device_emu/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nccom::emu::HWY_NAMESPACE {

void foldNative(const FoldJob& job) {
  job.type == ncclFloat64 ? foldAnyOp<Plain<double>>(job) : foldAnyOp<Plain<float>>(job);
}

}  // namespace nccom::emu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nccom::emu {
HWY_EXPORT(foldNative);
void foldNative(const FoldJob& job) {
  HWY_DYNAMIC_DISPATCH(foldNative)(job);
}
}  // namespace nccom::emu
#endif
