#pragma once
// For which instruction sets the kernels are compiled; before any header of Highway.

#include <hwy/detect_compiler_arch.h>

#include "plugins/device_emu/kernels_job.h"

// SSSE3 alone is rarer than the time to compile for it is worth. The others have vectors whose size
// the compiler does not know and which therefore cannot be in an array, as accumulators are.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif

// The kernels include these by way of a system header, foreach_target.h, whose includes the
// compiler leaves out of dependency files. Here they are empty, and are noticed.
#define NCCOM_KERNELS_DEPENDENCIES
#include "plugins/device_emu/kernels-inl.h"
#include "plugins/device_emu/kernels_narrow-inl.h"
#undef NCCOM_KERNELS_DEPENDENCIES
