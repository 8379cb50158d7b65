#include "enc/permute.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "enc/builder.h"
#include "enc/flat.h"
#include "enc/pipe.h"
#include "enc/src_target_pairs.h"

namespace nccom {
namespace {

constexpr uint32_t kSendQueue = 0, kReceiveQueue = 1, kLocalQueue = 2;
constexpr uint64_t kAhead = kRingSlots - 1;  // receives posted beyond the one that is awaited

/// A message in pieces of a slot. The first `repeat` rounds of kRingSlots pieces are a loop.
struct Pieces {
  Pieces(uint64_t messageBytes, uint64_t slot, uint64_t ahead)
      : bytes(messageBytes), slotBytes(slot), count((bytes + slot - 1) / slot) {
    const uint64_t full = bytes / slot;
    repeat = full < ahead ? 0 : (full - ahead) / kRingSlots;
    if (repeat < 2) repeat = 0;
  }
  uint64_t size(uint64_t piece) const { return std::min(slotBytes, bytes - piece * slotBytes); }

  uint64_t bytes = 0, slotBytes = 0, count = 0, repeat = 0;
};

class Permuter {
 public:
  Permuter(encBuilder& builder, const encTask& task)
      : builder_(builder),
        stage_(encFlatStage(builder.info(), task)),
        folds_(task.op == encOp::PermuteReduce) {}

  void send(int target);
  void receive(int source);
  void pull(int source);
  void awaitPull(int target);

 private:
  void moveIn(size_t queue, encStep step, encAddress received, uint64_t offset, uint64_t bytes);
  void setStride(uint64_t bytes) {
    stage_.input.stride = stage_.output.stride = static_cast<int64_t>(bytes);
  }
  template <class F>
  void eachPiece(const Pieces& pieces, const F& issue);

  encBuilder& builder_;
  encStage stage_;
  const bool folds_;
};

/// Calls for each piece, but in a loop of the program for one round only.
template <class F>
void Permuter::eachPiece(const Pieces& pieces, const F& issue) {
  if (pieces.repeat > 0) {
    setStride(kRingSlots * pieces.slotBytes);
    builder_.beginLoop(pieces.repeat);
    for (uint64_t piece = 0; piece < kRingSlots; piece++)
      issue(piece);
    builder_.endLoop();
    setStride(0);
  }
  for (uint64_t piece = pieces.repeat * kRingSlots; piece < pieces.count; piece++)
    issue(piece);
}

/// To another host.
void Permuter::send(int target) {
  const size_t queue = builder_.mainQueue(kSendQueue);
  encPipe pipe(builder_, builder_.layout().peerPipe(target), -1, target, queue,
               encReceives::InOrder);
  const Pieces pieces(stage_.messageBytes, pipe.slotBytes(), 0);
  pipe.begin();
  eachPiece(pieces, [&](uint64_t piece) {
    pipe.awaitRoom(encStep::Send);
    builder_.transfer(queue, {.step = encStep::Send,
                              .sources = {stage_.in(stage_.self, piece * pieces.slotBytes)},
                              .destinations = {pipe.room()},
                              .bytes = pieces.size(piece)});
    pipe.sent(encStep::Send, pieces.size(piece));
  });
  pipe.finish();
}

/// From another host.
void Permuter::receive(int source) {
  const size_t queue = builder_.mainQueue(kReceiveQueue);
  const encStep step = folds_ ? encStep::RecvReduceCopy : encStep::RecvCopy;
  encPipe pipe(builder_, builder_.layout().peerPipe(source), source, -1, queue,
               encReceives::InOrder);
  const Pieces pieces(stage_.messageBytes, pipe.slotBytes(), kAhead);
  const auto post = [&](uint64_t piece) {
    if (piece < pieces.count) pipe.expectData(encStep::PostRecv, pieces.size(piece));
  };
  for (uint64_t piece = 0; piece < kAhead; piece++)
    post(piece);
  eachPiece(pieces, [&](uint64_t piece) {
    post(piece + kAhead);
    pipe.awaitData(step, pieces.size(piece));
    moveIn(queue, step, pipe.data(), piece * pieces.slotBytes, pieces.size(piece));
    pipe.taken(step);
  });
}

/// What the source gave, alone or with our own, to our OUTPUT.
void Permuter::moveIn(size_t queue, encStep step, encAddress received, uint64_t offset,
                      uint64_t bytes) {
  encMove move{.step = step,
               .sources = {received},
               .destinations = {stage_.out(stage_.self, offset)},
               .bytes = bytes,
               .scaleAll = stage_.scaleInputs};
  if (folds_) move.sources.push_back(stage_.in(stage_.self, offset));
  builder_.transfer(queue, move);
}

/// From a rank of our host, or ourselves.
void Permuter::pull(int source) {
  const size_t queue = builder_.mainQueue(kLocalQueue);
  moveIn(queue, encStep::Pull, stage_.in(source, 0).at(0), 0, stage_.messageBytes);
  if (source == stage_.self) return;
  builder_.append(
      queue, encInc(encStep::Pull, source,
                    builder_.layout().semaphore(encPeerSemaphore::CollectiveDone, stage_.self)));
}

void Permuter::awaitPull(int target) {
  if (target == stage_.self) return;
  const uint32_t done = builder_.layout().semaphore(encPeerSemaphore::CollectiveDone, target);
  builder_.expect(done);
  builder_.wait(builder_.mainQueue(kLocalQueue), encStep::Sync, target, done);
  builder_.peersReadInputs();
}

bool isPermute(const encTask& task) {
  return task.op == encOp::Permute || task.op == encOp::PermuteReduce;
}

}  // namespace

encPermuteEnds encPermuteEndsOf(const enc_comm_info& info, const encTask& task, int rank) {
  encPermuteEnds ends;
  for (const encPair& pair : task.pairs) {
    if (pair.target == static_cast<uint32_t>(rank)) ends.source = static_cast<int>(pair.source);
    if (pair.source == static_cast<uint32_t>(rank)) ends.target = static_cast<int>(pair.target);
  }
  if (!task.pairs.empty()) return ends;
  if (info.rank_n == 1) return {rank, rank};
  const std::vector<int>& ring = info.rings[0];
  const auto at = static_cast<size_t>(std::find(ring.begin(), ring.end(), rank) - ring.begin());
  return {ring[(at + ring.size() - 1) % ring.size()], ring[(at + 1) % ring.size()]};
}

Status encCheckPermute(const enc_comm_info& info, const encTask& task) {
  for (const encPair& pair : task.pairs) {
    const uint32_t highest = std::max(pair.source, pair.target);
    if (highest < static_cast<uint32_t>(info.rank_n)) continue;
    return fail(ncclInvalidArgument, "%s: pair [%u,%u] names rank %u: want 0 to %d",
                encOpName(task.op), pair.source, pair.target, highest, info.rank_n - 1);
  }
  if (task.op == encOp::Permute) {
    TRY(encPermuteRings(task.pairs, 0));
    return Ok{};
  }
  if (!task.pairs.empty()) {
    return fail(ncclInvalidArgument,
                "PermuteReduce: %zu pairs: it goes along the ring only, and takes none",
                task.pairs.size());
  }
  if (task.redOp == ncclAvg) {
    return fail(ncclInvalidArgument,
                "PermuteReduce: operator avg: two inputs of %d have no average over the ranks",
                info.rank_n);
  }
  if (task.redOp == kRedOpPreMulSum) {
    return fail(ncclInvalidArgument,
                "PermuteReduce: operator mulsum: a target folds the input of its source, whose "
                "scalar it does not know");
  }
  return Ok{};
}

Result<encProgram> encComposePermute(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  if (!isPermute(task)) {
    return fail(ncclInvalidArgument, "permute: %s: want Permute or PermuteReduce",
                encOpName(task.op));
  }
  encBuilder builder(info, task, "permute");
  const encPermuteEnds ends = encPermuteEndsOf(info, task, info.rank);
  if (task.count == 0 || !ends.source || !ends.target) return std::move(builder).finish();
  Permuter permuter(builder, task);
  const bool sends = !info.sameNode(info.rank, *ends.target);
  if (sends) permuter.send(*ends.target);
  if (info.sameNode(info.rank, *ends.source)) {
    permuter.pull(*ends.source);
  } else {
    permuter.receive(*ends.source);
  }
  if (!sends) permuter.awaitPull(*ends.target);
  return std::move(builder).finish();
}

}  // namespace nccom
