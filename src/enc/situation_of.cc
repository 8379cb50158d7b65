#include "enc/situation_of.h"

#include <algorithm>

#include "enc/buffers.h"

namespace nccom {

enc_op_type encOpTypeOf(encOp op) {
  switch (op) {
    case encOp::AllGather:
      return enc_op_type::AllGather;
    case encOp::AllReduce:
      return enc_op_type::AllReduce;
    case encOp::Broadcast:
      return enc_op_type::Broadcast;
    case encOp::Reduce:
      return enc_op_type::Reduce;
    case encOp::ReduceScatter:
      return enc_op_type::ReduceScatter;
    case encOp::AlltoAll:
      return enc_op_type::AlltoAll;
    case encOp::Permute:
      return enc_op_type::Permute;
    case encOp::PermuteReduce:
      return enc_op_type::PermuteReduceImplicit;
    default:
      return enc_op_type::Invalid;
  }
}

Result<encSituation> encSituationOf(const enc_comm_info& info, const encTask& task) {
  encSituation situation = info.situation;
  situation.op = encOpTypeOf(task.op);
  if (info.peers.empty()) {
    return fail(ncclInvalidArgument, "%s: the machine of the communicator is not known",
                encOpName(task.op));
  }
  if (situation.op == enc_op_type::Invalid) {
    return fail(ncclInvalidArgument, "%s: no operation of the runtime", encOpName(task.op));
  }
  const auto bytes = [&](encBuffer buffer) {
    return encBufferBytes(task, task.root, info.rank_n, buffer, 0);
  };
  situation.bytes = std::max(bytes(encBuffer::Input), bytes(encBuffer::Output));
  return situation;
}

}  // namespace nccom
