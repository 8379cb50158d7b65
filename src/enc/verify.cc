#include "enc/verify.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "enc/builder.h"
#include "enc/verify_run.h"
#include "misc/datatype.h"

namespace nccom {
namespace {

/// A run of all iterations may have this many descriptors, after a run with jumps has failed.
constexpr uint64_t kMaxDescriptors = 20'000'000;

std::vector<int> allRanks(int nRanks) {
  std::vector<int> ranks(nRanks);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// One expectation a peer: its part of `bytes`, from `source` of its INPUT.
std::vector<encExpectation> parts(encContents& contents, int operation, int nRanks, int64_t bytes,
                                  int64_t source) {
  std::vector<encExpectation> result;
  result.reserve(nRanks);
  for (int peer = 0; peer < nRanks; peer++) {
    result.push_back(
        {0, peer * bytes, (peer + 1) * bytes, contents.of({peer}, operation, 0, 0, 0), source});
  }
  return result;
}

struct Numbered {
  int operation = 0;
  encMessage message;
};

/// Messages from one rank to another in all operations, in order; on the sender's side or the
/// other.
std::vector<Numbered> messages(const encVerifyWorld& world, int from, int to, bool sends) {
  std::vector<Numbered> result;
  for (size_t i = 0; i < world.operations.size(); i++) {
    const encTask& task = world.operations[i][sends ? from : to].task;
    if (task.op != encOp::SendRecv) continue;
    for (const encMessage& message : sends ? task.sends : task.recvs) {
      if (message.peer == (sends ? to : from)) result.push_back({static_cast<int>(i), message});
    }
  }
  return result;
}

std::vector<encExpectation> expectMessages(const encVerifyWorld& world, encContents& contents,
                                           int operation, int rank) {
  std::vector<encExpectation> result;
  for (int from = 0; from < world.info.rank_n; from++) {
    const std::vector<Numbered> recvs = messages(world, from, rank, false);
    const std::vector<Numbered> sends = messages(world, from, rank, true);
    for (size_t k = 0; k < recvs.size(); k++) {
      if (recvs[k].operation != operation || recvs[k].message.bytes == 0) continue;
      // Without a counterpart nothing is right: the content of no rank.
      const encContents::Id content =
          k < sends.size() ? contents.of({from}, sends[k].operation, sends[k].message.index, 0, 0)
                           : contents.of({}, operation, 0, 0, 0);
      result.push_back(
          {recvs[k].message.index, 0, static_cast<int64_t>(recvs[k].message.bytes), content, 0});
    }
  }
  return result;
}

/// Descriptors of all iterations; kMaxDescriptors + 1 stands for all that is more.
uint64_t descriptors(const encProgram& program) {
  uint64_t count = 0;
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks) {
      count += std::min(block.repeat, kMaxDescriptors + 1) * block.descs.size();
    }
  }
  return std::min(count, kMaxDescriptors + 1);
}

uint64_t descriptors(std::span<const encOperation> operations) {
  uint64_t count = 0;
  for (const encOperation& operation : operations) {
    for (const encProgram& program : operation)
      count += descriptors(program);
  }
  return count;
}

}  // namespace

std::vector<encExpectation> encExpect(const encVerifyWorld& world, encContents& contents,
                                      int operation, int rank) {
  const encTask& task = world.program(operation, rank).task;
  const int n = world.info.rank_n;
  const auto part = static_cast<int64_t>(task.count * ncclTypeSize(task.type));
  const encReduction reduction = encReductionOf(task, n);
  const auto sum = [&] {
    return contents.of(allRanks(n), operation, 0, reduction.scaleInputs ? 1 : 0,
                       reduction.divideSum ? 1 : 0);
  };
  const auto root = [&] { return contents.of({task.root}, operation, 0, 0, 0); };
  if (part == 0 && task.op != encOp::SendRecv) return {};
  switch (task.op) {
    case encOp::AllReduce:
      return {{0, 0, part, sum(), 0}};
    case encOp::ReduceScatter:
      return {{0, 0, part, sum(), rank * part}};
    case encOp::Broadcast:
      return {{0, 0, part, root(), 0}};
    case encOp::Scatter:
      return {{0, 0, part, root(), rank * part}};
    case encOp::AllGather:
      return parts(contents, operation, n, part, 0);
    case encOp::AlltoAll:
      return parts(contents, operation, n, part, rank * part);
    case encOp::Reduce:
      if (rank != task.root) return {};
      return {{0, 0, part, sum(), 0}};
    case encOp::Gather:
      if (rank != task.root) return {};
      return parts(contents, operation, n, part, 0);
    case encOp::SendRecv:
      return expectMessages(world, contents, operation, rank);
  }
  return {};
}

Status encVerify(const enc_comm_info& info, std::span<const encOperation> operations,
                 const encVerifyOptions& options) {
  const encVerifyWorld world = TRY(encInspect(info, operations, options));
  encVerifyRun run(world, options.jump);
  Status status = run.run();
  if (status.ok() || !run.jumped() || descriptors(operations) > kMaxDescriptors) return status;
  return encVerifyRun(world, false).run();
}

}  // namespace nccom
