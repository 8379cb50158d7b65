// The collectives: each checks its arguments and hands a value to the group.
#include <string>

#include "api/guard.h"
#include "comm/comm.h"
#include "comm/process.h"
#include "misc/datatype.h"

namespace nccom {
namespace {

bool reduces(encOp op) {
  return op == encOp::AllReduce || op == encOp::Reduce || op == encOp::ReduceScatter;
}

bool rooted(encOp op) {
  return op == encOp::Reduce || op == encOp::Broadcast || op == encOp::Gather ||
         op == encOp::Scatter;
}

/// Blocks of `count` elements in the send and the receive buffer of `rank`; 0: not used there.
struct Blocks {
  size_t send;
  size_t recv;
};

Blocks blocksOf(const CollectiveCall& call, int rank, size_t nRanks) {
  const bool isRoot = rank == call.root;
  switch (call.op) {
    case encOp::AllReduce:
      return {1, 1};
    case encOp::AllGather:
      return {1, nRanks};
    case encOp::ReduceScatter:
      return {nRanks, 1};
    case encOp::AlltoAll:
      return {nRanks, nRanks};
    case encOp::Broadcast:
      return {isRoot ? 1U : 0U, 1};
    case encOp::Reduce:
      return {1, isRoot ? 1U : 0U};
    case encOp::Gather:
      return {1, isRoot ? nRanks : 0U};
    case encOp::Scatter:
      return {isRoot ? nRanks : 0U, 1};
    case encOp::SendRecv:
    case encOp::Permute:
    case encOp::PermuteReduce:
      break;
  }
  return {0, 0};
}

/// The overlap of the two buffers must be the one that the call's documentation names.
Status checkOverlap(const CollectiveCall& call, const Blocks& blocks, int rank) {
  if (blocks.send == 0 || blocks.recv == 0 || call.count == 0) return Ok{};
  const size_t block = call.count * ncclTypeSize(call.type);
  const auto send = reinterpret_cast<uintptr_t>(call.send);
  const auto recv = reinterpret_cast<uintptr_t>(call.recv);
  if (send + blocks.send * block <= recv || recv + blocks.recv * block <= send) return Ok{};
  const size_t mine = static_cast<size_t>(rank) * block;
  bool inPlace = false;
  if (blocks.send == blocks.recv) inPlace = send == recv;
  if (blocks.send == 1 && blocks.recv > 1) inPlace = send == recv + mine;
  if (blocks.recv == 1 && blocks.send > 1) inPlace = recv == send + mine;
  if (inPlace) return Ok{};
  return fail(ncclInvalidArgument,
              "rank %d: sendbuff %p and recvbuff %p overlap, and not as the in-place form does",
              rank, call.send, call.recv);
}

Status neededBy(int rank, const void* buffer, const char* name) {
  if (buffer != nullptr) return Ok{};
  return fail(ncclInvalidArgument, "rank %d: %s is NULL and the count is not 0", rank, name);
}

Status checkBuffers(const CollectiveCall& call, int rank, size_t nRanks) {
  const Blocks blocks = blocksOf(call, rank, nRanks);
  size_t bytes = 0;
  if (__builtin_mul_overflow(call.count, ncclTypeSize(call.type) * nRanks, &bytes) ||
      bytes > static_cast<size_t>(INT64_MAX)) {
    return fail(ncclInvalidArgument,
                "rank %d: count %zu of %s on %zu ranks is more bytes than an address space has",
                rank, call.count, ncclTypeName(call.type), nRanks);
  }
  if (call.count == 0) return Ok{};
  if (blocks.send > 0) TRY(neededBy(rank, call.send, "sendbuff"));
  if (blocks.recv > 0) TRY(neededBy(rank, call.recv, "recvbuff"));
  return checkOverlap(call, blocks, rank);
}

Status checkType(int rank, ncclDataType_t type) {
  if (ncclTypeSize(type) != 0) return Ok{};
  return fail(ncclInvalidArgument, "rank %d: datatype is %d: expected 0 to %d", rank,
              static_cast<int>(type), ncclNumTypes - 1);
}

/// The call with its stream: NULL is the default stream of the communicator's device.
template <class Call>
Result<Call> bound(const Communicator& comm, Call call) {
  if (call.stream != nullptr) return call;
  Process& process = *TRY(Process::get());
  call.stream = TRY(nullStreamOf(process, comm.device()));
  return call;
}

Status submit(const CollectiveCall& call) {
  if (call.stream != nullptr && !groupActive()) {
    if (auto done = repeatOn(call.comm, call)) return std::move(*done);
  }
  const auto comm = TRY(commOf(call.comm));
  TRY(checkType(comm->rank(), call.type));
  if (reduces(call.op)) TRY(comm->checkRedOp(call.redOp, call.type));
  if (rooted(call.op) && (call.root < 0 || call.root >= comm->nRanks())) {
    return fail(ncclInvalidArgument, "rank %d: root is %d: expected 0 to %d", comm->rank(),
                call.root, comm->nRanks() - 1);
  }
  TRY(checkBuffers(call, comm->rank(), static_cast<size_t>(comm->nRanks())));
  return groupAdd(*comm, TRY(bound(*comm, call)));
}

Status submit(const MessageCall& call) {
  if (call.stream != nullptr && !groupActive()) {
    if (auto done = repeatOn(call.comm, std::span(&call, 1))) return std::move(*done);
  }
  const auto comm = TRY(commOf(call.comm));
  TRY(checkType(comm->rank(), call.type));
  if (call.peer < 0 || call.peer >= comm->nRanks()) {
    return fail(ncclInvalidArgument, "rank %d: peer is %d: expected 0 to %d", comm->rank(),
                call.peer, comm->nRanks() - 1);
  }
  size_t bytes = 0;
  if (__builtin_mul_overflow(call.count, ncclTypeSize(call.type), &bytes) ||
      bytes > static_cast<size_t>(INT64_MAX)) {
    return fail(ncclInvalidArgument,
                "rank %d: count %zu of %s is more bytes than an address space has", comm->rank(),
                call.count, ncclTypeName(call.type));
  }
  if (bytes > 0) TRY(neededBy(comm->rank(), call.buffer, call.send ? "sendbuff" : "recvbuff"));
  return groupAdd(*comm, TRY(bound(*comm, call)));
}

void* handleOf(ncclStream_t stream) {
  return reinterpret_cast<void*>(stream);
}

}  // namespace
}  // namespace nccom

using nccom::CollectiveCall;
using nccom::encOp;
using nccom::guard;
using nccom::handleOf;
using nccom::MessageCall;
using nccom::submit;

// NOLINTBEGIN(readability-function-size): the API has so many parameters
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           ncclStream_t stream) {
  return guard("ncclAllReduce", [&] {
    return submit(CollectiveCall{"ncclAllReduce", encOp::AllReduce, sendbuff, recvbuff, count,
                                 datatype, op, 0, comm, handleOf(stream)});
  });
}
NCCL_TWIN(ncclAllReduce);

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, ncclStream_t stream) {
  return guard("ncclReduce", [&] {
    return submit(CollectiveCall{"ncclReduce", encOp::Reduce, sendbuff, recvbuff, count, datatype,
                                 op, root, comm, handleOf(stream)});
  });
}
NCCL_TWIN(ncclReduce);

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               ncclStream_t stream) {
  return guard("ncclReduceScatter", [&] {
    return submit(CollectiveCall{"ncclReduceScatter", encOp::ReduceScatter, sendbuff, recvbuff,
                                 recvcount, datatype, op, 0, comm, handleOf(stream)});
  });
}
NCCL_TWIN(ncclReduceScatter);

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, ncclStream_t stream) {
  return guard("ncclAllGather", [&] {
    return submit(CollectiveCall{"ncclAllGather", encOp::AllGather, sendbuff, recvbuff, sendcount,
                                 datatype, ncclSum, 0, comm, handleOf(stream)});
  });
}
NCCL_TWIN(ncclAllGather);

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           ncclStream_t stream) {
  return guard("ncclBroadcast", [&] {
    return submit(CollectiveCall{"ncclBroadcast", encOp::Broadcast, sendbuff, recvbuff, count,
                                 datatype, ncclSum, root, comm, handleOf(stream)});
  });
}
NCCL_TWIN(ncclBroadcast);

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       ncclStream_t stream) {
  return guard("ncclBcast", [&] {
    return submit(CollectiveCall{"ncclBcast", encOp::Broadcast, buff, buff, count, datatype,
                                 ncclSum, root, comm, handleOf(stream)});
  });
}
NCCL_TWIN(ncclBcast);

ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, ncclStream_t stream) {
  return guard("ncclAlltoAll", [&] {
    return submit(CollectiveCall{"ncclAlltoAll", encOp::AlltoAll, sendbuff, recvbuff, count,
                                 datatype, ncclSum, 0, comm, handleOf(stream)});
  });
}
NCCL_TWIN(ncclAlltoAll);

ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, ncclStream_t stream) {
  return guard("ncclGather", [&] {
    return submit(CollectiveCall{"ncclGather", encOp::Gather, sendbuff, recvbuff, count, datatype,
                                 ncclSum, root, comm, handleOf(stream)});
  });
}
NCCL_TWIN(ncclGather);

ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, ncclStream_t stream) {
  return guard("ncclScatter", [&] {
    return submit(CollectiveCall{"ncclScatter", encOp::Scatter, sendbuff, recvbuff, count, datatype,
                                 ncclSum, root, comm, handleOf(stream)});
  });
}
NCCL_TWIN(ncclScatter);

// NOLINTEND(readability-function-size)

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, ncclStream_t stream) {
  return guard("ncclSend", [&] {
    return submit(MessageCall{true, const_cast<void*>(sendbuff), count, datatype, peer, comm,
                              handleOf(stream)});
  });
}
NCCL_TWIN(ncclSend);

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, ncclStream_t stream) {
  return guard("ncclRecv", [&] {
    return submit(MessageCall{false, recvbuff, count, datatype, peer, comm, handleOf(stream)});
  });
}
NCCL_TWIN(ncclRecv);

ncclResult_t ncclGroupStart() {
  return guard("ncclGroupStart", [] { return nccom::groupStart(); });
}
NCCL_TWIN(ncclGroupStart);

ncclResult_t ncclGroupEnd() {
  return guard("ncclGroupEnd", [] { return nccom::groupEnd(); });
}
NCCL_TWIN(ncclGroupEnd);
