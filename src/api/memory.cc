// Device memory, and buffers that a communicator is told of.
#include "api/guard.h"
#include "comm/comm.h"
#include "comm/process.h"

using nccom::commOf;
using nccom::guard;
using nccom::needed;
using nccom::Ok;
using nccom::Process;
using nccom::Status;

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  return guard("ncclMemAlloc", [&]() -> Status {
    TRY(needed(ptr, "ptr"));
    Process& process = *TRY(Process::get());
    *ptr = TRY(process.device().memAlloc(nccom::currentDevice(), size));
    return Ok{};
  });
}
NCCL_TWIN(ncclMemAlloc);

ncclResult_t ncclMemFree(void* ptr) {
  return guard("ncclMemFree", [&]() -> Status {
    if (ptr == nullptr) return Ok{};
    return TRY(Process::get())->device().memFree(ptr);
  });
}
NCCL_TWIN(ncclMemFree);

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return guard("ncclCommRegister", [&]() -> Status {
    TRY(needed(buff, "buff"));
    TRY(needed(handle, "handle"));
    const auto body = TRY(commOf(comm));
    *handle = TRY(body->registerBuffer(buff, size));
    return Ok{};
  });
}
NCCL_TWIN(ncclCommRegister);

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return guard("ncclCommDeregister",
               [&]() -> Status { return TRY(commOf(comm))->deregisterBuffer(handle); });
}
NCCL_TWIN(ncclCommDeregister);
