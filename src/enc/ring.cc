#include "enc/ring.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "enc/chunking.h"
#include "enc/flat.h"
#include "enc/hybrid.h"
#include "enc/ring_channel.h"
#include "misc/check.h"

namespace nccom {
namespace {

/// What a pass needs to know; `users[i]` is the member i hops downstream of this one.
struct Walk {
  const encStage& stage;
  std::vector<int> users;
  int channel = 0;
};

std::vector<int> usersOf(const std::vector<int>& ring, int self) {
  std::vector<int> users = ring;
  std::rotate(users.begin(), std::find(users.begin(), users.end(), self), users.end());
  return users;
}

/// A step of a walk: which chunk, and whether our INPUT and OUTPUT take part.
struct Placed {
  encStep step = encStep::Send;
  bool receive = false, send = false;
  int user = 0;  // whose chunk, hops downstream
  bool input = false, output = false;
  bool received = false, sent = false;  // finished data comes, goes
  bool divide = false;
};

/// Issues the step for both halves of its chunk.
void both(encRingChannel& channel, const Walk& walk, const encPass& pass, const Placed& placed) {
  const encStage& stage = walk.stage;
  const int member = walk.users[placed.user];
  const bool parts = stage.op == encOp::AllGather || stage.op == encOp::ReduceScatter;
  for (int half = 0; half < 2; half++) {
    encPiece piece = pass.piece(walk.channel, stage.op == encOp::AllReduce ? member : 0, half);
    encRingStep step{.step = placed.step,
                     .receive = placed.receive,
                     .send = placed.send,
                     .received = placed.received,
                     .sent = placed.sent,
                     .divide = placed.divide};
    uint64_t begin = 0;
    if (parts) {
      const encPart part = stage.part(member);
      begin = part.begin;
      piece.bytes = std::min(piece.bytes, part.bytes - std::min(part.bytes, piece.offset));
    }
    // Where INPUT or OUTPUT is one part, it is our own.
    if (placed.input) step.input = piece.offset + (stage.op == encOp::AllGather ? 0 : begin);
    if (placed.output) step.output = piece.offset + (stage.op == encOp::ReduceScatter ? 0 : begin);
    step.bytes = piece.bytes;
    channel.step(step);
  }
}

// Chunks walk downstream, so that member u[0] handles them in the order u[n-1], u[n-2], .. u[0]: a
// partial sum of chunk u[n-1] = prev's starts here, and our own chunk comes here last and complete.
void reduceSteps(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  const int n = walk.stage.n();
  both(channel, walk, pass, {.step = encStep::Send, .send = true, .user = n - 1, .input = true});
  for (int i = n - 2; i >= 1; i--) {
    both(
        channel, walk, pass,
        {.step = encStep::RecvReduceSend, .receive = true, .send = true, .user = i, .input = true});
  }
}

void gatherSteps(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  for (int i = walk.stage.n() - 1; i >= 2; i--) {
    both(channel, walk, pass,
         {.step = encStep::RecvCopySend,
          .receive = true,
          .send = true,
          .user = i,
          .output = true,
          .received = true,
          .sent = true});
  }
  both(channel, walk, pass,
       {.step = encStep::RecvCopy, .receive = true, .user = 1, .output = true, .received = true});
}

void allReducePass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  reduceSteps(channel, walk, pass);
  both(channel, walk, pass,
       {.step = encStep::RecvReduceCopySend,
        .receive = true,
        .send = true,
        .input = true,
        .output = true,
        .sent = true,
        .divide = walk.stage.divide});
  gatherSteps(channel, walk, pass);
}

void reduceScatterPass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  reduceSteps(channel, walk, pass);
  both(channel, walk, pass,
       {.step = encStep::RecvReduceCopy,
        .receive = true,
        .input = true,
        .output = true,
        .divide = walk.stage.divide});
}

void allGatherPass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  both(channel, walk, pass,
       {.step = encStep::Send, .send = true, .input = true, .output = true, .sent = true});
  gatherSteps(channel, walk, pass);
}

/// Place of a rank in a chain along the ring: who has a prev, who a next.
struct ChainEnds {
  bool receives = true, sends = true;
};

bool isChain(encOp op) {
  return op == encOp::Broadcast || op == encOp::Reduce;
}

/// Broadcast runs root, next(root), .. prev(root); Reduce runs next(root), .. prev(root), root.
ChainEnds chainEnds(const Walk& walk) {
  if (!isChain(walk.stage.op)) return {};
  const bool isRoot = walk.users[0] == walk.stage.root;
  if (walk.stage.op == encOp::Broadcast) return {!isRoot, walk.users[1] != walk.stage.root};
  return {walk.users.back() != walk.stage.root, !isRoot};
}

void broadcastPass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  const ChainEnds ends = chainEnds(walk);
  Placed step{.step = encStep::RecvCopySend,
              .receive = true,
              .send = ends.sends,
              .output = true,
              .received = true,
              .sent = true};
  if (!ends.sends) step.step = encStep::RecvCopy;
  if (!ends.receives) {
    step = {.step = encStep::Send, .send = true, .input = true, .output = true, .sent = true};
  }
  both(channel, walk, pass, step);
}

void reducePass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  const ChainEnds ends = chainEnds(walk);
  Placed step{.step = encStep::RecvReduceSend, .receive = true, .send = true, .input = true};
  if (!ends.receives) step = {.step = encStep::Send, .send = true, .input = true};
  if (!ends.sends) {
    step = {.step = encStep::RecvReduceCopy,
            .receive = true,
            .input = true,
            .output = true,
            .divide = walk.stage.divide};
  }
  both(channel, walk, pass, step);
}

void onePass(encRingChannel& channel, const Walk& walk, const encPass& pass) {
  switch (walk.stage.op) {
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
    case encOp::Permute:
    case encOp::PermuteReduce:
      break;
  }
  NCCL_CHECK(false && "an operation that the ring composes");
}

encChunking chunkingOf(const encStage& stage, size_t rings, uint64_t slotBytes) {
  const auto others = static_cast<uint64_t>(stage.n() - 1);
  const bool parts = stage.op == encOp::AllGather || stage.op == encOp::ReduceScatter;
  encChunkingInput input;
  input.bytes = parts ? stage.partBytes : stage.messageBytes;
  input.lanes = stage.op == encOp::AllReduce ? stage.n() : 1;
  input.maxChannels = std::min(stage.maxChannels, static_cast<int>(rings));
  input.slotBytes = slotBytes;
  input.chain = isChain(stage.op);
  // AllReduce uses as many slots again where it cannot write directly.
  input.usesPerHalf = input.chain ? 1 : others;
  return encChunk(input);
}

/// Passes over a stage may be repeated if all of their chunks are full, and lie at equal distances.
bool mayRepeat(const encStage& stage) {
  const bool parts = stage.op == encOp::AllGather || stage.op == encOp::ReduceScatter;
  const bool full =
      !parts || stage.messageBytes == stage.partBytes * static_cast<uint64_t>(stage.n());
  return stage.mayLoop && full && stage.input.places.empty() && stage.output.places.empty();
}

encRingGateways gatewaysOf(const encRingOrder& ring, int self) {
  if (ring.gateways.empty()) return {};
  const auto at = static_cast<size_t>(std::find(ring.members.begin(), ring.members.end(), self) -
                                      ring.members.begin());
  return {ring.gateways[(at + ring.members.size() - 1) % ring.members.size()], ring.gateways[at]};
}

/// The steps of one channel.
void composePasses(encBuilder& builder, const encStage& stage, const encRingOrder& ring, int id,
                   const encChunking& chunking) {
  const Walk walk{stage, usersOf(ring.members, stage.self), id};
  const ChainEnds ends = chainEnds(walk);
  const size_t queue = builder.mainQueue(stage.channel + static_cast<uint32_t>(id));
  const int prev = ends.receives ? stage.ranks[walk.users.back()] : -1;
  const int next = ends.sends ? stage.ranks[walk.users[1]] : -1;
  encRingChannel channel(builder, stage,
                         encPipe(builder, ring.pipe, prev, next, queue, ring.receives), queue,
                         walk.users[1], gatewaysOf(ring, stage.self));
  const bool allDirect = stage.op == encOp::AllGather || stage.op == encOp::Broadcast;
  if (!allDirect || channel.sendsStaged()) channel.begin();
  const uint64_t iterations = mayRepeat(stage) ? chunking.fullPasses / chunking.unroll : 0;
  uint64_t done = 0;
  if (iterations > 1) {
    // The steps of a loop see a stage whose addresses move.
    channel.setStride(static_cast<int64_t>(chunking.unroll * chunking.passBytes()));
    builder.beginLoop(iterations);
    for (uint64_t i = 0; i < chunking.unroll; i++)
      onePass(channel, walk, chunking.fullPass(i));
    builder.endLoop();
    channel.setStride(0);
    done = iterations * chunking.unroll;
  }
  for (; done < chunking.fullPasses; done++)
    onePass(channel, walk, chunking.fullPass(done));
  if (chunking.tailBytes > 0) onePass(channel, walk, chunking.tail());
  channel.finish();
}

}  // namespace

void encStageRing(encBuilder& builder, const encStage& stage,
                  const std::vector<encRingOrder>& rings) {
  if (stage.messageBytes == 0) return;
  NCCL_CHECK(stage.n() > 1 && !rings.empty());
  const encChunking chunking = chunkingOf(stage, rings.size(), rings[0].pipe.slotBytes);
  for (int id = 0; id < chunking.channels; id++)
    composePasses(builder, stage, rings[id], id, chunking);
}

Result<encProgram> encComposeRing(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  if (info.rank_n < 2) return fail(ncclInvalidArgument, "a ring of one rank: want at least two");
  encBuilder builder(info, task, "ring");
  std::vector<encRingOrder> rings;
  if (info.options.hybridRing && info.situation.isHybridRing()) {
    rings = TRY(encHybridRings(info, builder.layout()));
    encStageRing(builder, encFlatStage(info, task), rings);
    return std::move(builder).finish();
  }
  for (int id = 0; id < static_cast<int>(info.rings.size()); id++) {
    rings.push_back(
        {info.rings[id], builder.layout().pipe(encPipeKind::Ring, id), encReceives::Ahead});
  }
  encStageRing(builder, encFlatStage(info, task), rings);
  return std::move(builder).finish();
}

}  // namespace nccom
