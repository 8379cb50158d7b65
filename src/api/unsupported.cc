// Functions of nccl.h that this release does not do. Each says so; none pretends.
#include "api/guard.h"

namespace {

ncclResult_t unsupported(const char* function) {
  return nccom::guard(function, []() -> nccom::Status {
    return nccom::fail(ncclInvalidUsage, "this release of libnccom does not support it");
  });
}

}  // namespace

ncclResult_t ncclCommInitRankScalable(ncclComm_t* /*newcomm*/, int /*nranks*/, int /*myrank*/,
                                      int /*nId*/, ncclUniqueId* /*commIds*/,
                                      ncclConfig_t* /*config*/) {
  return unsupported("ncclCommInitRankScalable");
}
NCCL_TWIN(ncclCommInitRankScalable);

ncclResult_t ncclCommSplit(ncclComm_t /*comm*/, int /*color*/, int /*key*/, ncclComm_t* /*newcomm*/,
                           ncclConfig_t* /*config*/) {
  return unsupported("ncclCommSplit");
}
NCCL_TWIN(ncclCommSplit);

ncclResult_t ncclCommShrink(ncclComm_t /*comm*/, int* /*excludeRanksList*/,
                            int /*excludeRanksCount*/, ncclComm_t* /*newcomm*/,
                            ncclConfig_t* /*config*/, int /*shrinkFlags*/) {
  return unsupported("ncclCommShrink");
}
NCCL_TWIN(ncclCommShrink);

ncclResult_t ncclCommGetUniqueId(ncclComm_t /*comm*/, ncclUniqueId* /*uniqueId*/) {
  return unsupported("ncclCommGetUniqueId");
}
NCCL_TWIN(ncclCommGetUniqueId);

ncclResult_t ncclCommGrow(ncclComm_t /*comm*/, int /*nRanks*/, const ncclUniqueId* /*uniqueId*/,
                          int /*rank*/, ncclComm_t* /*newcomm*/, ncclConfig_t* /*config*/) {
  return unsupported("ncclCommGrow");
}
NCCL_TWIN(ncclCommGrow);

ncclResult_t ncclCommRevoke(ncclComm_t /*comm*/, int /*revokeFlags*/) {
  return unsupported("ncclCommRevoke");
}
NCCL_TWIN(ncclCommRevoke);

ncclResult_t ncclCommSuspend(ncclComm_t /*comm*/, int /*flags*/) {
  return unsupported("ncclCommSuspend");
}
NCCL_TWIN(ncclCommSuspend);

ncclResult_t ncclCommResume(ncclComm_t /*comm*/) {
  return unsupported("ncclCommResume");
}
NCCL_TWIN(ncclCommResume);

ncclResult_t ncclCommMemStats(ncclComm_t /*comm*/, ncclCommMemStat_t /*stat*/,
                              uint64_t* /*value*/) {
  return unsupported("ncclCommMemStats");
}
NCCL_TWIN(ncclCommMemStats);

ncclResult_t ncclCommWindowRegister(ncclComm_t /*comm*/, void* /*buff*/, size_t /*size*/,
                                    ncclWindow_t* /*win*/, int /*winFlags*/) {
  return unsupported("ncclCommWindowRegister");
}
NCCL_TWIN(ncclCommWindowRegister);

ncclResult_t ncclCommWindowDeregister(ncclComm_t /*comm*/, ncclWindow_t /*win*/) {
  return unsupported("ncclCommWindowDeregister");
}
NCCL_TWIN(ncclCommWindowDeregister);

ncclResult_t ncclWinGetUserPtr(ncclComm_t /*comm*/, ncclWindow_t /*win*/, void** /*outUserPtr*/) {
  return unsupported("ncclWinGetUserPtr");
}
NCCL_TWIN(ncclWinGetUserPtr);

// NOLINTNEXTLINE(readability-function-size): the API has so many parameters
ncclResult_t ncclPutSignal(const void* /*localbuff*/, size_t /*count*/, ncclDataType_t /*datatype*/,
                           int /*peer*/, ncclWindow_t /*peerWin*/, size_t /*peerWinOffset*/,
                           int /*sigIdx*/, int /*ctx*/, unsigned int /*flags*/, ncclComm_t /*comm*/,
                           ncclStream_t /*stream*/) {
  return unsupported("ncclPutSignal");
}
NCCL_TWIN(ncclPutSignal);

ncclResult_t ncclSignal(int /*peer*/, int /*sigIdx*/, int /*ctx*/, unsigned int /*flags*/,
                        ncclComm_t /*comm*/, ncclStream_t /*stream*/) {
  return unsupported("ncclSignal");
}
NCCL_TWIN(ncclSignal);

ncclResult_t ncclWaitSignal(int /*nDesc*/, ncclWaitSignalDesc_t* /*signalDescs*/,
                            ncclComm_t /*comm*/, ncclStream_t /*stream*/) {
  return unsupported("ncclWaitSignal");
}
NCCL_TWIN(ncclWaitSignal);

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* /*simInfo*/) {
  // The group must still end, or the thread's later calls would be collected for ever.
  nccom::groupDiscard();
  (void)nccom::guard("ncclGroupSimulateEnd", [] { return nccom::groupEnd(); });
  return unsupported("ncclGroupSimulateEnd");
}
NCCL_TWIN(ncclGroupSimulateEnd);
