// Communicators: made, asked, ended; the library's version and errors.
#include <memory>
#include <string>

#include "api/guard.h"
#include "comm/bootstrap.h"
#include "comm/comm.h"
#include "comm/joining.h"
#include "comm/process.h"

namespace nccom {
namespace {

/// Joins in this thread, or at the end of the group in one of its own. *out is set when it is done.
Status join(Process& process, const CommRequest& request, ncclComm_t* out) {
  *out = nullptr;
  const auto hold = std::make_shared<Joining::Hold>(process.joining(), request.id);
  return groupAddInit([&process, request, out, hold]() -> Status {
    logSetRank(request.rank);
    *out = makeHandle(TRY(Communicator::create(process, request)));
    return Ok{};
  });
}

Result<CommRequest> requestOf(Process& process, int nRanks, const ncclUniqueId& id, int rank,
                              const ncclConfig_t* config) {
  CommRequest request;
  request.nRanks = nRanks;
  request.rank = rank;
  request.device = currentDevice();
  request.id = id;
  request.config = TRY(commConfigOf(config, process.params()));
  if (nRanks < 1) return fail(ncclInvalidArgument, "nranks is %d: expected at least 1", nRanks);
  if (rank < 0 || rank >= nRanks) {
    return fail(ncclInvalidArgument, "rank is %d: expected 0 to %d", rank, nRanks - 1);
  }
  return request;
}

Status initRank(ncclComm_t* comm, int nRanks, const ncclUniqueId& id, int rank,
                const ncclConfig_t* config) {
  TRY(needed(comm, "comm"));
  Process& process = *TRY(Process::get());
  const CommRequest request = TRY(requestOf(process, nRanks, id, rank, config));
  return join(process, request, comm);
}

Result<ncclUniqueId> newId(Process& process) {
  return process.roots().getUniqueId(bootstrapConfigOf(process.params()));
}

Status initAll(ncclComm_t* comms, int nDevices, const int* devices) {
  TRY(needed(comms, "comm"));
  Process& process = *TRY(Process::get());
  if (nDevices < 1 || nDevices > process.deviceCount()) {
    return fail(ncclInvalidArgument, "ndev is %d: expected 1 to %d", nDevices,
                process.deviceCount());
  }
  const ncclUniqueId id = TRY(newId(process));
  TRY(groupStart());
  for (int rank = 0; rank < nDevices; ++rank) {
    auto request = requestOf(process, nDevices, id, rank, nullptr);
    if (request.ok()) {
      request.value().device = devices != nullptr ? devices[rank] : rank;
      TRY(join(process, request.value(), &comms[rank]));
    } else {
      groupFailed(request.error());
    }
  }
  return groupEnd();
}

}  // namespace
}  // namespace nccom

using nccom::commOf;
using nccom::guard;
using nccom::needed;
using nccom::Ok;
using nccom::Status;

ncclResult_t ncclGetVersion(int* version) {
  return guard("ncclGetVersion", [&]() -> Status {
    TRY(needed(version, "version"));
    *version = NCCL_VERSION_CODE;
    return Ok{};
  });
}
NCCL_TWIN(ncclGetVersion);

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled device error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "operation in progress";
    case ncclTimeout:
      return "operation timed out";
    case ncclNumResults:
      break;
  }
  return "unknown result code";
}
NCCL_TWIN(ncclGetErrorString);

const char* ncclGetLastError(ncclComm_t /*comm*/) {
  return nccom::lastError();
}
NCCL_TWIN(ncclGetLastError);

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  return guard("ncclGetUniqueId", [&]() -> Status {
    TRY(needed(uniqueId, "uniqueId"));
    nccom::Process& process = *TRY(nccom::Process::withoutDevice());
    *uniqueId = TRY(nccom::newId(process));
    return Ok{};
  });
}
NCCL_TWIN(ncclGetUniqueId);

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return guard("ncclCommInitRank",
               [&] { return nccom::initRank(comm, nranks, commId, rank, nullptr); });
}
NCCL_TWIN(ncclCommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config) {
  return guard("ncclCommInitRankConfig",
               [&] { return nccom::initRank(comm, nranks, commId, rank, config); });
}
NCCL_TWIN(ncclCommInitRankConfig);

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return guard("ncclCommInitAll", [&] { return nccom::initAll(comm, ndev, devlist); });
}
NCCL_TWIN(ncclCommInitAll);

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return guard("ncclCommFinalize", [&]() -> Status { return TRY(commOf(comm))->finalize(); });
}
NCCL_TWIN(ncclCommFinalize);

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return guard("ncclCommDestroy", [&]() -> Status {
    if (comm == nullptr) return Ok{};
    const auto body = TRY(nccom::takeHandle(comm));
    // A failure that the application has been told of is no failure of Destroy, which frees it.
    const bool failedBefore = !body->state().ok();
    Status finalized = body->finalize();
    body->end();
    if (failedBefore) return Ok{};
    return finalized;
  });
}
NCCL_TWIN(ncclCommDestroy);

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return guard("ncclCommAbort", [&]() -> Status {
    if (comm == nullptr) return Ok{};
    const auto body = TRY(nccom::takeHandle(comm));
    // If it has failed already, the others hear of that, not of what it made the application do.
    (void)body->state();
    body->failWith(nccom::fail(ncclInvalidUsage, "rank %d called ncclCommAbort", body->rank()));
    body->end();
    return Ok{};
  });
}
NCCL_TWIN(ncclCommAbort);

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return guard("ncclCommGetAsyncError", [&]() -> Status {
    TRY(needed(asyncError, "asyncError"));
    const Status state = TRY(commOf(comm))->state();
    if (!state.ok()) nccom::setLastError(state.error().message);
    *asyncError = state.ok() ? ncclSuccess : state.error().code;
    return Ok{};
  });
}
NCCL_TWIN(ncclCommGetAsyncError);

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return guard("ncclCommCount", [&]() -> Status {
    TRY(needed(count, "count"));
    *count = TRY(commOf(comm))->nRanks();
    return Ok{};
  });
}
NCCL_TWIN(ncclCommCount);

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return guard("ncclCommUserRank", [&]() -> Status {
    TRY(needed(rank, "rank"));
    *rank = TRY(commOf(comm))->rank();
    return Ok{};
  });
}
NCCL_TWIN(ncclCommUserRank);

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return guard("ncclCommCuDevice", [&]() -> Status {
    TRY(needed(device, "device"));
    *device = TRY(commOf(comm))->device();
    return Ok{};
  });
}
NCCL_TWIN(ncclCommCuDevice);

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  // Device memory is host-addressable, so both residences are read here, which the contract allows.
  return guard("ncclRedOpCreatePreMulSum", [&]() -> Status {
    TRY(needed(op, "op"));
    TRY(needed(scalar, "scalar"));
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate) {
      return nccom::fail(ncclInvalidArgument, "residence is %d: expected 0 or 1",
                         static_cast<int>(residence));
    }
    const auto body = TRY(commOf(comm));
    *op = TRY(body->addPreMulSum(scalar, datatype));
    return Ok{};
  });
}
NCCL_TWIN(ncclRedOpCreatePreMulSum);

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return guard("ncclRedOpDestroy", [&]() -> Status { return TRY(commOf(comm))->removeRedOp(op); });
}
NCCL_TWIN(ncclRedOpDestroy);
