// encTask: what the caller asked, as a value.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "include/nccl.h"

namespace nccom {

enum class encOp : uint8_t {
  AllGather,
  AllReduce,
  Broadcast,
  Reduce,
  ReduceScatter,
  AlltoAll,
  Gather,
  Scatter,
  SendRecv,       // a group of sends and receives
  Permute,        // each source gives to its target
  PermuteReduce,  // each rank folds what the one before it in the ring has with its own
};

/// "AllReduce", ... as in the names of NCCL's functions.
const char* encOpName(encOp op);

/// One ncclSend or ncclRecv of a group. `index` counts the group's sends (receives) of this rank:
/// it is the index of the launch's input (output) buffer.
struct encMessage {
  int peer = -1;
  uint64_t bytes = 0;
  uint16_t index = 0;
  bool operator==(const encMessage&) const = default;
};

struct encPair {
  uint32_t source = 0, target = 0;                   // ranks; they may be equal
  auto operator<=>(const encPair&) const = default;  // NOLINT: there is no nullptr
};
using encPairSet = std::vector<encPair>;

/// What decides the shape of a program: equal tasks on equal communicators give equal programs.
struct encTask {
  encOp op = encOp::AllReduce;
  uint64_t count = 0;  // elements, as in the NCCL call: a rank's part for AllGather, ReduceScatter,
                       // AlltoAll, Gather, Scatter; the whole for the others
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t redOp = ncclSum;  // ncclSum .. ncclAvg, or kRedOpPreMulSum
  int root = 0;
  std::vector<encMessage> sends, recvs;  // SendRecv only, in the order of the calls
  encPairSet pairs;  // Permute only; empty: from each rank to the next of the first ring
  bool operator==(const encTask&) const = default;
};

/// The operator of every handle that ncclRedOpCreatePreMulSum made.
inline constexpr ncclRedOp_t kRedOpPreMulSum = static_cast<ncclRedOp_t>(ncclNumOps);

}  // namespace nccom
