#include "plugins/device_emu/fold.h"

#include "plugins/device_emu/kernels.h"

namespace nccom::emu {
namespace {

/// A reduction's scalar is a float for types that are folded as float.
bool isNarrowFloat(ncclDataType_t type) {
  return type == ncclFloat16 || type == ncclBfloat16 || type == ncclFloat8e4m3 ||
         type == ncclFloat8e5m2;
}

}  // namespace

void foldTransfer(const Op& op, const nccomDesc_v1& desc, const void* const* sources,
                  void* const* destinations, uint64_t bytes, bool streaming) {
  if (desc.nDestinations == 1 && !computes(desc)) {
    copyBytes(destinations[0], sources[0], bytes, streaming);
    return;
  }
  ReduceArgs args;
  args.sources = sources;
  args.nSources = desc.nSources;
  args.destinations = destinations;
  args.nDestinations = desc.nDestinations;
  args.type = ncclUint8;
  args.count = bytes;
  if (computes(desc)) {
    args.type = static_cast<ncclDataType_t>(op.program->head().dataType);
    args.count = bytes / op.program->elementBytes();
    args.op = static_cast<ncclRedOp_t>(op.program->head().redOp);
    args.scaledSources = desc.scaledSources;
    args.scale = op.scale;
    args.scaleIsFloat = isNarrowFloat(args.type);
    if ((desc.flags & NCCOM_TRANSFER_DIVIDE) != 0) args.divisor = op.divisor;
  }
  args.streaming = streaming;
  reduceCopy(args);
}

}  // namespace nccom::emu
