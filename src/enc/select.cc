#include "enc/select.h"

#include <utility>

#include "enc/builder.h"
#include "enc/p2p.h"
#include "enc/ring.h"
#include "misc/datatype.h"

namespace nccom {
namespace {

/// One rank: its INPUT is its OUTPUT, but for the operator's scaling.
Result<encProgram> composeCopy(const enc_comm_info& info, const encTask& task) {
  encBuilder builder(info, task, "copy");
  const uint64_t bytes = task.count * ncclTypeSize(task.type);
  if (bytes > 0) {
    const encReduction reduction = encReductionOf(task, info.rank_n);
    encDesc copy = encTransfer(encStep::Copy, {info.rank, encBuffer::Input, 0, 0, 0},
                               {info.rank, encBuffer::Output, 0, 0, 0}, bytes);
    copy.scaledSources = reduction.scaleInputs ? 1 : 0;
    copy.divide = reduction.divideSum;
    builder.append(builder.addQueue(0), std::move(copy));
  }
  return std::move(builder).finish();
}

}  // namespace

const char* encAlgorithmName(encAlgorithm algorithm) {
  switch (algorithm) {
    case encAlgorithm::Ring:
      return "ring";
    case encAlgorithm::P2p:
      return "p2p";
    case encAlgorithm::Copy:
      return "copy";
  }
  return "?";
}

Result<encChoice> encSelect(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  const std::string name = encOpName(task.op);
  if (task.op == encOp::SendRecv) {
    return encChoice{encAlgorithm::P2p, name + ": messages go point to point"};
  }
  if (info.rank_n == 1) return encChoice{encAlgorithm::Copy, name + ": there is one rank"};
  switch (task.op) {
    case encOp::AlltoAll:
    case encOp::Gather:
    case encOp::Scatter:
      return encChoice{encAlgorithm::P2p,
                       name + ": every part has one reader, and goes there directly"};
    case encOp::AllGather:
    case encOp::AllReduce:
    case encOp::Broadcast:
    case encOp::Reduce:
    case encOp::ReduceScatter:
    case encOp::SendRecv:
      break;
  }
  return encChoice{encAlgorithm::Ring, name + ": the ring serves every size and number of ranks"};
}

Result<encProgram> encCompose(const enc_comm_info& info, const encTask& task) {
  const encChoice choice = TRY(encSelect(info, task));
  switch (choice.algorithm) {
    case encAlgorithm::Ring:
      return encComposeRing(info, task);
    case encAlgorithm::Copy:
      return composeCopy(info, task);
    case encAlgorithm::P2p:
      break;
  }
  return task.op == encOp::SendRecv ? encComposeSendRecv(info, task)
                                    : encComposeP2pCollective(info, task);
}

}  // namespace nccom
