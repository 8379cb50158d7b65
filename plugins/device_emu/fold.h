// The arithmetic that a transfer of a program asks for.
#pragma once

#include <cstdint>

#include "include/plugin/nccom_device.h"
#include "plugins/device_emu/op.h"

namespace nccom::emu {

/// Whether elements are interpreted; else bytes are copied.
inline bool computes(const nccomDesc_v1& desc) {
  return desc.nSources > 1 || desc.scaledSources != 0 || (desc.flags & NCCOM_TRANSFER_DIVIDE) != 0;
}

/// Folds `bytes` of the transfer's sources into its destinations.
/// @param streaming  past the caches: see ReduceArgs
void foldTransfer(const Op& op, const nccomDesc_v1& desc, const void* const* sources,
                  void* const* destinations, uint64_t bytes, bool streaming);

}  // namespace nccom::emu
