#include "enc/verify_expect.h"

#include <numeric>
#include <optional>

#include "enc/builder.h"
#include "enc/permute.h"
#include "misc/datatype.h"

namespace nccom {

encExpectations::encExpectations(const encVerifyWorld& world, encContents& contents)
    : world_(world), contents_(contents), operations_(world.operations.size()) {
  for (size_t i = 0; i < world.operations.size(); i++) {
    for (const encProgram& program : world.operations[i]) {
      if (program.task.op != encOp::SendRecv) continue;
      const int number = static_cast<int>(i);
      for (const encMessage& send : program.task.sends)
        messages_[{send.peer, program.rank}].sends.push_back({number, send});
      for (const encMessage& recv : program.task.recvs)
        messages_[{program.rank, recv.peer}].recvs.push_back({number, recv});
    }
  }
}

encContents::Id encExpectations::input(int operation, int rank) {
  std::vector<encContents::Id>& inputs = operations_[operation].inputs;
  inputs.resize(world_.info.rank_n, -1);
  if (inputs[rank] < 0) inputs[rank] = contents_.of({rank}, operation, 0, 0, 0);
  return inputs[rank];
}

encContents::Id encExpectations::sum(int operation) {
  encContents::Id& sum = operations_[operation].sum;
  if (sum >= 0) return sum;
  const int n = world_.info.rank_n;
  const encReduction reduction = encReductionOf(world_.program(operation, 0).task, n);
  std::vector<int> ranks(n);
  std::iota(ranks.begin(), ranks.end(), 0);
  return sum = contents_.of(ranks, operation, 0, reduction.scaleInputs ? 1 : 0,
                            reduction.divideSum ? 1 : 0);
}

/// One expectation a peer: its part of `bytes`, from `source` of its INPUT.
std::vector<encExpectation> encExpectations::parts(int operation, int64_t bytes, int64_t source) {
  std::vector<encExpectation> result;
  result.reserve(world_.info.rank_n);
  for (int peer = 0; peer < world_.info.rank_n; peer++)
    result.push_back({0, peer * bytes, (peer + 1) * bytes, input(operation, peer), source});
  return result;
}

std::vector<encExpectation> encExpectations::messages(int operation, int rank) {
  std::vector<encExpectation> result;
  for (auto at = messages_.lower_bound({rank, 0}); at != messages_.end(); ++at) {
    if (at->first.first != rank) break;
    const auto& [sends, recvs] = at->second;
    for (size_t k = 0; k < recvs.size(); k++) {
      const encMessage& recv = recvs[k].message;
      if (recvs[k].operation != operation || recv.bytes == 0) continue;
      // Without a counterpart nothing is right: the content of no rank.
      const encContents::Id content =
          k < sends.size()
              ? contents_.of({at->first.second}, sends[k].operation, sends[k].message.index, 0, 0)
              : contents_.of({}, operation, 0, 0, 0);
      result.push_back({recv.index, 0, static_cast<int64_t>(recv.bytes), content, 0});
    }
  }
  return result;
}

std::vector<encExpectation> encExpectations::permuted(int operation, int rank, int64_t bytes) {
  const encTask& task = world_.program(operation, rank).task;
  const std::optional<int> source = encPermuteEndsOf(world_.info, task, rank).source;
  if (!source) return {};
  if (task.op == encOp::Permute) return {{0, 0, bytes, input(operation, *source), 0}};
  const int scaled = encReductionOf(task, world_.info.rank_n).scaleInputs ? 1 : 0;
  return {{0, 0, bytes, contents_.of({*source, rank}, operation, 0, scaled, 0), 0}};
}

std::vector<encExpectation> encExpectations::of(int operation, int rank) {
  const encTask& task = world_.program(operation, rank).task;
  const auto part = static_cast<int64_t>(task.count * ncclTypeSize(task.type));
  if (part == 0 && task.op != encOp::SendRecv) return {};
  switch (task.op) {
    case encOp::AllReduce:
      return {{0, 0, part, sum(operation), 0}};
    case encOp::ReduceScatter:
      return {{0, 0, part, sum(operation), rank * part}};
    case encOp::Broadcast:
      return {{0, 0, part, input(operation, task.root), 0}};
    case encOp::Scatter:
      return {{0, 0, part, input(operation, task.root), rank * part}};
    case encOp::AllGather:
      return parts(operation, part, 0);
    case encOp::AlltoAll:
      return parts(operation, part, rank * part);
    case encOp::Reduce:
      if (rank != task.root) return {};
      return {{0, 0, part, sum(operation), 0}};
    case encOp::Gather:
      if (rank != task.root) return {};
      return parts(operation, part, 0);
    case encOp::Permute:
    case encOp::PermuteReduce:
      return permuted(operation, rank, part);
    case encOp::SendRecv:
      return messages(operation, rank);
  }
  return {};
}

}  // namespace nccom
