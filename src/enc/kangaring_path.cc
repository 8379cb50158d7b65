#include "enc/kangaring_path.h"

#include <algorithm>
#include <utility>

#include "enc/layout.h"

namespace nccom {

using Semaphore = encPipeSemaphore;

encKangaringCycle::encKangaringCycle(const KangaringPath& path, int self) {
  for (const KangaringRole& role : path.roles) {
    if (role.isPrimary || dies.empty()) dies.emplace_back();
    if (role.rank == self) {
      own = dies.size() - 1;
      place = dies.back().size();
    }
    dies.back().push_back(role.rank);
  }
}

encKangaringPath::encKangaringPath(encBuilder& builder, encStage stage, const KangaringPath& path,
                                   int id, size_t queue)
    : builder_(builder),
      stage_(std::move(stage)),
      cycle_(path, stage_.self),
      id_(id),
      queue_(queue),
      map_(builder.layout().pipe(encPipeKind::Kangaring, id)),
      pipe_(builder, map_, isPrimary() ? stage_.ranks[prevMember()] : -1,
            isPrimary() ? stage_.ranks[nextMember()] : -1, queue, encReceives::Ahead) {}

/// Naming buffers of the launch is order enough for those that nobody has used before.
bool encKangaringPath::handshakes() const {
  return !stage_.first || stage_.input.buffer != encBuffer::Input || !stage_.writesOthers();
}

void encKangaringPath::expose(const encPages& pages, uint64_t bytes) {
  if (pages.buffer == encBuffer::Input) builder_.peersReadInputs();
  if (pages.buffer == encBuffer::Output) builder_.peersWriteOutputs();
  for (uint64_t at = 0; pages.buffer == encBuffer::Scratch && at < bytes;) {
    const uint64_t run = pages.run(at, bytes - at);
    const auto begin = static_cast<uint64_t>(pages.at(stage_.rank(), at).offset);
    builder_.peersUseScratch(begin + run);
    at += run;
  }
}

void encKangaringPath::open() {
  if (isPrimary()) {
    if (gathers()) expose(stage_.output, stage_.messageBytes);
    if (stage_.op != encOp::AllGather) pipe_.begin();
  } else {
    const uint64_t part = stage_.part(stage_.self).bytes, all = stage_.messageBytes;
    expose(stage_.input, stage_.op == encOp::AllGather ? part : all);
    expose(stage_.output, stage_.op == encOp::ReduceScatter ? part : all);
  }
  if (!handshakes()) return;
  if (isPrimary() && gathers()) {
    builder_.append(queue_, encInc(encStep::PostRecv, stage_.ranks[prevMember()],
                                   semaphore(Semaphore::Credit)));
  }
  if (cycle_.place + 1 < cycle_.die().size()) {
    builder_.expect(semaphore(Semaphore::Ready));
    builder_.wait(queue_, encStep::PostSend, stage_.ranks[cycle_.die()[cycle_.place + 1]],
                  semaphore(Semaphore::Ready));
  }
  if (!isPrimary()) {
    builder_.append(queue_, encInc(encStep::PostRecv, stage_.ranks[cycle_.die()[cycle_.place - 1]],
                                   semaphore(Semaphore::Ready)));
  } else if (gathers()) {
    builder_.expect(semaphore(Semaphore::Credit));
    builder_.wait(queue_, encStep::PostSend, stage_.ranks[nextMember()],
                  semaphore(Semaphore::Credit));
  }
}

void encKangaringPath::close() {
  if (isPrimary()) {
    for (size_t place = 1; place < cycle_.die().size(); place++) {
      builder_.append(queue_, encInc(encStep::Sync, stage_.ranks[cycle_.die()[place]],
                                     semaphore(Semaphore::Done)));
    }
    return;
  }
  builder_.expect(semaphore(Semaphore::Done));
  builder_.wait(queue_, encStep::Sync, stage_.ranks[cycle_.die()[0]], semaphore(Semaphore::Done));
}

void encKangaringPath::eachPiece(const Round& round, size_t hops,
                                 const std::function<void(const Piece&)>& issue) {
  const size_t die = cycle_.upstream(hops);
  const bool whole = stage_.op == encOp::AllReduce;
  for (int half = 0; half < 2; half++) {
    const encPiece at = round.pass.piece(id_, whole ? static_cast<int>(die) : 0, half);
    Piece piece{-1, at.offset, at.offset, at.bytes};
    if (!whole) {
      piece.owner = cycle_.dies[die][round.place];
      const encPart part = stage_.part(piece.owner);
      piece.bytes = std::min(at.bytes, part.bytes - std::min(part.bytes, at.offset));
      (stage_.op == encOp::AllGather ? piece.output : piece.input) += part.begin;
    }
    if (piece.bytes > 0) issue(piece);
  }
}

/// Sources: what has been received, then the INPUTs of the die.
encMove encKangaringPath::fold(encStep step, const Piece& piece, bool receives) {
  encMove move{.step = step, .bytes = piece.bytes};
  if (receives) {
    pipe_.awaitData(step, piece.bytes);
    move.sources.emplace_back(pipe_.data());
  }
  for (const int member : cycle_.die()) {
    if (stage_.scaleInputs) move.scaledSources |= uint64_t{1} << move.sources.size();
    move.sources.push_back(stage_.in(member, piece.input));
  }
  return move;
}

/// A partial sum of the chunk of the die `hops` upstream; it starts one hop behind its owner.
void encKangaringPath::reduce(const Round& round, size_t hops) {
  const bool receives = hops > 1;
  const encStep step = receives ? encStep::RecvReduceSend : encStep::Send;
  eachPiece(round, hops, [&](const Piece& piece) {
    encMove move = fold(step, piece, receives);
    pipe_.awaitRoom(step);
    move.destinations.emplace_back(pipe_.room());
    builder_.transfer(queue_, move);
    pipe_.sent(step, piece.bytes);
    if (receives) pipe_.taken(step);
  });
}

/// Our own chunk is complete: it belongs to its owner, or to all of the die and to the next.
void encKangaringPath::finishSum(const Round& round) {
  const bool sends = stage_.op == encOp::AllReduce;
  const encStep step = sends ? encStep::RecvReduceCopySend : encStep::RecvReduceCopy;
  eachPiece(round, 0, [&](const Piece& piece) {
    encMove move = fold(step, piece, true);
    move.divide = stage_.divide;
    if (sends) {
      toDie(piece, true, move);
      toNext(move, piece);
    } else {
      move.destinations.push_back(stage_.out(piece.owner, piece.output));
      builder_.transfer(queue_, move);
    }
    pipe_.taken(step);
  });
}

void encKangaringPath::gatherOwn(const Round& round) {
  eachPiece(round, 0, [&](const Piece& piece) {
    encMove move{.step = encStep::Send, .bytes = piece.bytes};
    move.sources.push_back(stage_.in(piece.owner, piece.input));
    toDie(piece, true, move);
    toNext(move, piece);
  });
}

/// A finished chunk, which prev has put into our OUTPUT.
void encKangaringPath::gather(const Round& round, size_t hops) {
  const bool sends = hops + 1 < cycle_.dies.size();
  const encStep step = sends ? encStep::RecvCopySend : encStep::RecvCopy;
  eachPiece(round, hops, [&](const Piece& piece) {
    pipe_.awaitSignal(step);
    encMove move{.step = step, .bytes = piece.bytes};
    move.sources.push_back(stage_.out(stage_.self, piece.output));
    toDie(piece, false, move);
    if (sends) {
      toNext(move, piece);
    } else {
      builder_.transfer(queue_, move);
    }
  });
}

void encKangaringPath::toDie(const Piece& piece, bool self, encMove& move) const {
  for (const int member : cycle_.die()) {
    if (self || member != stage_.self) {
      move.destinations.push_back(stage_.out(member, piece.output));
    }
  }
}

void encKangaringPath::toNext(const encMove& move, const Piece& piece) {
  encMove more = move;
  more.destinations.push_back(stage_.out(nextMember(), piece.output));
  builder_.transfer(queue_, more);
  pipe_.signal(move.step);
}

void encKangaringPath::walk(const Round& round) {
  const size_t dies = cycle_.dies.size();
  if (stage_.op == encOp::AllGather) {
    gatherOwn(round);
  } else {
    for (size_t hops = 1; hops < dies; hops++)
      reduce(round, hops);
    finishSum(round);
  }
  for (size_t hops = 1; gathers() && hops < dies; hops++)
    gather(round, hops);
}

// AllReduce has a chunk for each die. The others have one for each rank; those of a die travel one
// after the other, as together they would fill all slots of the cycle, and nobody could go on.
void encKangaringPath::pass(const encPass& pass) {
  const size_t rounds = stage_.op == encOp::AllReduce ? 1 : cycle_.die().size();
  for (size_t place = 0; place < rounds; place++)
    walk({pass, place});
}

}  // namespace nccom
