#include "enc/ring.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "enc/chunking.h"
#include "enc/ring_channel.h"
#include "misc/check.h"
#include "misc/datatype.h"

namespace nccom {
namespace {

/// What a pass needs to know; `userRanks[i]` is the rank i hops downstream of this one.
struct Walk {
  const encTask& task;
  encReduction reduction;
  std::vector<int> userRanks;
  int channel = 0;
  uint64_t partBytes = 0;  // of one rank, for AllGather and ReduceScatter
};

std::vector<int> userRanks(const std::vector<int>& ring, int rank) {
  std::vector<int> users = ring;
  std::rotate(users.begin(), std::find(users.begin(), users.end(), rank), users.end());
  return users;
}

/// A step of a walk: which chunk, and where that lies in our buffers (bytes before offset 0 of the
/// message; nullopt: the step does not touch the buffer).
struct Placed {
  encStep step = encStep::Send;
  bool receive = false, send = false;
  int lane = 0;
  std::optional<uint64_t> input = std::nullopt, output = std::nullopt;
  bool divide = false;
};

/// Issues the step for both halves of its chunk.
void both(encRingChannel& channel, const Walk& walk, const encPass& pass, const Placed& placed) {
  for (int half = 0; half < 2; half++) {
    const encPiece piece = pass.piece(walk.channel, placed.lane, half);
    encRingStep step{.step = placed.step, .receive = placed.receive, .send = placed.send};
    if (placed.input) step.input = static_cast<int64_t>(*placed.input + piece.offset);
    if (placed.output) step.output = static_cast<int64_t>(*placed.output + piece.offset);
    step.bytes = piece.bytes;
    step.scaleInput = placed.input && walk.reduction.scaleInputs;
    step.divide = placed.divide;
    channel.step(step);
  }
}

// Chunks walk downstream, so that rank u[0] handles them in the order u[n-1], u[n-2], .. u[0]: a
// partial sum of chunk u[n-1] = prev's starts here, and our own chunk comes here last and complete.
void allReducePass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  const std::vector<int>& u = walk.userRanks;
  const int n = static_cast<int>(u.size());
  const auto step = [&](const Placed& placed) { both(channel, walk, pass, placed); };
  step({.step = encStep::Send, .send = true, .lane = u[n - 1], .input = 0});
  for (int i = n - 2; i >= 1; i--) {
    step(
        {.step = encStep::RecvReduceSend, .receive = true, .send = true, .lane = u[i], .input = 0});
  }
  step({.step = encStep::RecvReduceCopySend,
        .receive = true,
        .send = true,
        .lane = u[0],
        .input = 0,
        .output = 0,
        .divide = walk.reduction.divideSum});
  for (int i = n - 1; i >= 2; i--) {
    step({.step = encStep::RecvCopySend, .receive = true, .send = true, .lane = u[i], .output = 0});
  }
  step({.step = encStep::RecvCopy, .receive = true, .lane = u[1], .output = 0});
}

void reduceScatterPass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  const std::vector<int>& u = walk.userRanks;
  const int n = static_cast<int>(u.size());
  const auto step = [&](const Placed& placed) { both(channel, walk, pass, placed); };
  const auto part = [&](int i) { return static_cast<uint64_t>(u[i]) * walk.partBytes; };
  step({.step = encStep::Send, .send = true, .input = part(n - 1)});
  for (int i = n - 2; i >= 1; i--) {
    step({.step = encStep::RecvReduceSend, .receive = true, .send = true, .input = part(i)});
  }
  step({.step = encStep::RecvReduceCopy,
        .receive = true,
        .input = part(0),
        .output = 0,
        .divide = walk.reduction.divideSum});
}

void allGatherPass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  const std::vector<int>& u = walk.userRanks;
  const int n = static_cast<int>(u.size());
  const auto step = [&](const Placed& placed) { both(channel, walk, pass, placed); };
  const auto part = [&](int i) { return static_cast<uint64_t>(u[i]) * walk.partBytes; };
  step({.step = encStep::Send, .send = true, .input = 0, .output = part(0)});
  for (int i = n - 1; i >= 2; i--) {
    step({.step = encStep::RecvCopySend, .receive = true, .send = true, .output = part(i)});
  }
  step({.step = encStep::RecvCopy, .receive = true, .output = part(1)});
}

/// Place of a rank in a chain along the ring: who has a prev, who a next.
struct ChainEnds {
  bool receives = true, sends = true;
};

/// Broadcast runs root, next(root), .. prev(root); Reduce runs next(root), .. prev(root), root.
ChainEnds chainEnds(const Walk& walk) {
  const bool isRoot = walk.userRanks[0] == walk.task.root;
  if (walk.task.op == encOp::Broadcast) return {!isRoot, walk.userRanks[1] != walk.task.root};
  return {walk.userRanks.back() != walk.task.root, !isRoot};
}

void broadcastPass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  const ChainEnds ends = chainEnds(walk);
  Placed step{.step = encStep::RecvCopySend, .receive = true, .send = ends.sends, .output = 0};
  if (!ends.sends) step.step = encStep::RecvCopy;
  if (!ends.receives) step = {.step = encStep::Send, .send = true, .input = 0, .output = 0};
  both(channel, walk, pass, step);
}

void reducePass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  const ChainEnds ends = chainEnds(walk);
  Placed step{.step = encStep::RecvReduceSend, .receive = true, .send = true, .input = 0};
  if (!ends.receives) step = {.step = encStep::Send, .send = true, .input = 0};
  if (!ends.sends) {
    step = {.step = encStep::RecvReduceCopy,
            .receive = true,
            .input = 0,
            .output = 0,
            .divide = walk.reduction.divideSum};
  }
  both(channel, walk, pass, step);
}

void onePass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  switch (walk.task.op) {
    case encOp::AllReduce:
      return allReducePass(channel, walk, pass);
    case encOp::ReduceScatter:
      return reduceScatterPass(channel, walk, pass);
    case encOp::AllGather:
      return allGatherPass(channel, walk, pass);
    case encOp::Broadcast:
      return broadcastPass(channel, walk, pass);
    case encOp::Reduce:
      return reducePass(channel, walk, pass);
    case encOp::AlltoAll:
    case encOp::Gather:
    case encOp::Scatter:
    case encOp::SendRecv:
      break;
  }
  NCCL_CHECK(false && "an operation that the ring composes");
}

bool isChain(encOp op) {
  return op == encOp::Broadcast || op == encOp::Reduce;
}

encChunking chunkingOf(const enc_comm_info& info, const encLayout& layout, const encTask& task) {
  const auto others = static_cast<uint64_t>(info.rank_n - 1);
  encChunkingInput input;
  input.bytes = task.count * ncclTypeSize(task.type);
  input.lanes = task.op == encOp::AllReduce ? info.rank_n : 1;
  input.maxChannels = layout.nChannels;
  input.slotBytes = layout.slotBytes;
  input.chain = isChain(task.op);
  input.usesPerHalf = input.chain ? 1 : task.op == encOp::AllReduce ? 2 * others : others;
  return encChunk(input);
}

/// The repeated block over most full passes, then what is left: full passes and the tail.
void composeChannel(encRingChannel& channel, const Walk& walk, const encChunking& chunking) {
  const uint64_t iterations = chunking.fullPasses / chunking.unroll;
  uint64_t done = 0;
  if (iterations > 1) {
    channel.beginBlock(iterations, static_cast<int64_t>(chunking.unroll * chunking.passBytes()));
    for (uint64_t i = 0; i < chunking.unroll; i++)
      onePass(channel, walk, chunking.fullPass(i));
    channel.endBlock();
    done = iterations * chunking.unroll;
  }
  channel.beginBlock(1, 0);
  for (; done < chunking.fullPasses; done++)
    onePass(channel, walk, chunking.fullPass(done));
  if (chunking.tailBytes > 0) onePass(channel, walk, chunking.tail());
  channel.endBlock();
  channel.finish();
}

}  // namespace

Result<encProgram> encComposeRing(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  if (info.rank_n < 2) return fail(ncclInvalidArgument, "a ring of one rank: want at least two");
  encBuilder builder(info, task, "ring");
  if (task.count == 0) return std::move(builder).finish();
  const encChunking chunking = chunkingOf(info, builder.layout(), task);
  for (int id = 0; id < chunking.channels; id++) {
    const Walk walk{task, encReductionOf(task, info.rank_n), userRanks(info.rings[id], info.rank),
                    id, task.count * ncclTypeSize(task.type)};
    const ChainEnds ends = isChain(task.op) ? chainEnds(walk) : ChainEnds{};
    encRingChannel channel(builder, id, ends.sends, ends.receives);
    composeChannel(channel, walk, chunking);
  }
  return std::move(builder).finish();
}

}  // namespace nccom
