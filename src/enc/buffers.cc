#include "enc/buffers.h"

#include <vector>

#include "misc/datatype.h"

namespace nccom {
namespace {

uint64_t messageBytes(const std::vector<encMessage>& messages, uint16_t index) {
  for (const encMessage& message : messages) {
    if (message.index == index) return message.bytes;
  }
  return 0;
}

struct Sizes {
  uint64_t input = 0, output = 0;
};

Sizes sizesOf(const encTask& task, int rank, int nRanks) {
  const uint64_t part = task.count * ncclTypeSize(task.type);
  const uint64_t all = part * static_cast<uint64_t>(nRanks);
  const bool isRoot = rank == task.root;
  switch (task.op) {
    case encOp::AllGather:
      return {part, all};
    case encOp::AllReduce:
    case encOp::Permute:
    case encOp::PermuteReduce:
      return {part, part};
    case encOp::Broadcast:
      return {isRoot ? part : 0, part};
    case encOp::Reduce:
      return {part, isRoot ? part : 0};
    case encOp::ReduceScatter:
      return {all, part};
    case encOp::AlltoAll:
      return {all, all};
    case encOp::Gather:
      return {part, isRoot ? all : 0};
    case encOp::Scatter:
      return {isRoot ? all : 0, part};
    case encOp::SendRecv:
      break;
  }
  return {};
}

}  // namespace

uint64_t encBufferBytes(const encTask& task, int rank, int nRanks, encBuffer buffer,
                        uint16_t index) {
  if (buffer != encBuffer::Input && buffer != encBuffer::Output) return 0;
  const bool input = buffer == encBuffer::Input;
  if (task.op == encOp::SendRecv) return messageBytes(input ? task.sends : task.recvs, index);
  if (index != 0) return 0;
  const Sizes sizes = sizesOf(task, rank, nRanks);
  return input ? sizes.input : sizes.output;
}

bool encInPlace(const encTask& task, int rank, int64_t* outputInInput) {
  const auto mine =
      static_cast<int64_t>(static_cast<uint64_t>(rank) * task.count * ncclTypeSize(task.type));
  *outputInInput = 0;
  switch (task.op) {
    case encOp::AllGather:
    case encOp::Gather:
      *outputInInput = -mine;
      return true;
    case encOp::ReduceScatter:
    case encOp::Scatter:
      *outputInInput = mine;
      return true;
    case encOp::AllReduce:
    case encOp::Broadcast:
    case encOp::Reduce:
      return true;
    case encOp::AlltoAll:
    case encOp::SendRecv:
    case encOp::Permute:
    case encOp::PermuteReduce:
      break;
  }
  return false;
}

}  // namespace nccom
