#include <algorithm>
#include <utility>

#include "enc/buffers.h"
#include "enc/verify_run.h"
#include "misc/datatype.h"

namespace nccom {

Result<encVerifyRun::Step> encVerifyRun::transfer(encQueueRef ref, uint32_t site,
                                                  const encDesc& desc) {
  sources_.clear();
  destinations_.clear();
  for (const auto* addresses : {&desc.sources, &desc.destinations}) {
    for (const encAddress& address : *addresses) {
      const Place place = TRY(locate(ref, site, address, desc.bytes));
      if (place.blocked) return Step::Blocked;
      (addresses == &desc.sources ? sources_ : destinations_).push_back(place);
    }
  }
  if (desc.bytes > 0) {
    TRY(overlaps(site, static_cast<int64_t>(desc.bytes)));
    const encAccess access = event(ref, site);
    TRY(read(ref, access, desc));
    TRY(gather(site, desc));
    TRY(write(ref, access, desc));
    queueOf(ref).state.chain++;
  }
  TRY(take(ref, site, desc));
  return Step::Done;
}

Status encVerifyRun::read(encQueueRef ref, const encAccess& access, const encDesc& desc) {
  const encObserver self = observer(queueOf(ref).state.knowledge);
  if (pieces_.size() < sources_.size()) pieces_.resize(sources_.size());
  for (size_t k = 0; k < sources_.size(); k++) {
    const int64_t begin = sources_[k].begin;
    pieces_[k].clear();
    const auto conflict = sources_[k].memory->read(begin, begin + static_cast<int64_t>(desc.bytes),
                                                   access, self, pieces_[k]);
    if (!conflict) continue;
    return world_.bad(access.site, "source " + std::to_string(k) + " " + text(*conflict));
  }
  return Ok{};
}

/// The fold of what was read.
Status encVerifyRun::gather(uint32_t site, const encDesc& desc) {
  const auto bytes = static_cast<int64_t>(desc.bytes);
  const bool computes = sources_.size() > 1 || desc.scaledSources != 0 || desc.divide;
  const encSite where = computes ? world_.site(site) : encSite{};
  const encTask& task = world_.program(where.operation, where.rank).task;
  const auto size = static_cast<int64_t>(computes ? ncclTypeSize(task.type) : 1);
  const uint64_t ownScalar = task.redOp == kRedOpPreMulSum ? desc.scaledSources : 0;
  next_.assign(sources_.size(), 0);
  result_.clear();
  for (int64_t at = 0; at < bytes;) {
    int64_t end = bytes;
    values_.clear();
    for (size_t k = 0; k < sources_.size(); k++) {
      const encMemory::Piece& piece = pieces_[k][next_[k]];
      end = std::min(end, piece.end - sources_[k].begin);
      values_.push_back(piece.value);
      values_.back().shift += sources_[k].begin;
      if ((values_.back().shift + at) % size != 0) {
        return world_.bad(site, "computes with parts of elements");
      }
      if ((ownScalar >> k & 1) == 0 || contents_.isOf(piece.value.id, where.rank)) continue;
      return world_.bad(site, "multiplies source " + std::to_string(k) + ", of " +
                                  contents_.text(piece.value.id) +
                                  ", by a scalar that is another rank's");
    }
    result_.push_back({at, end, contents_.fold(values_, desc.scaledSources, desc.divide)});
    at = end;
    for (size_t k = 0; k < sources_.size(); k++) {
      if (pieces_[k][next_[k]].end - sources_[k].begin == at) next_[k]++;
    }
  }
  return Ok{};
}

Status encVerifyRun::write(encQueueRef ref, const encAccess& access, const encDesc& desc) {
  const encObserver self = observer(queueOf(ref).state.knowledge);
  for (size_t k = 0; k < destinations_.size(); k++) {
    const int64_t begin = destinations_[k].begin;
    placed_ = result_;
    for (encMemory::Piece& piece : placed_) {
      piece.begin += begin;
      piece.end += begin;
      piece.value.shift -= begin;
    }
    const encAddress& to = desc.destinations[k];
    const bool oneWriter = to.buffer == encBuffer::Scratch && !isWork(to);
    const auto conflict =
        destinations_[k].memory->write(placed_, access, self, oneWriter ? ref.rank : -1);
    if (!conflict) continue;
    return world_.bad(access.site, "destination " + std::to_string(k) + " " + text(*conflict));
  }
  return Ok{};
}

/// A destination may be a source, byte for byte; it may not overlap one in another way.
Status encVerifyRun::overlaps(uint32_t site, int64_t bytes) const {
  const auto clash = [&](const Place& a, const Place& b) {
    return a.memory == b.memory && std::abs(a.begin - b.begin) < bytes;
  };
  for (size_t d = 0; d < destinations_.size(); d++) {
    for (const Place& source : sources_) {
      if (clash(source, destinations_[d]) && source.begin != destinations_[d].begin) {
        return world_.bad(site, "a destination overlaps a source");
      }
    }
    for (size_t e = 0; e < d; e++) {
      if (clash(destinations_[e], destinations_[d])) {
        return world_.bad(site, "two destinations overlap");
      }
    }
  }
  return Ok{};
}

/// A rank's own memory for a buffer of its current operation; in place, OUTPUT lies in INPUT.
encVerifyRun::Place encVerifyRun::buffer(int rank, encBuffer which, uint16_t index,
                                         int64_t offset) {
  Rank& r = ranks_[rank];
  if (which == encBuffer::Scratch) return {&r.scratch, offset, false};
  if (which == encBuffer::Input) return {&r.inputs[index], offset, false};
  int64_t shift = 0;
  const encTask& task = world_.program(r.operation, rank).task;
  if (world_.options.inPlace && encInPlace(task, rank, &shift)) {
    return {&r.inputs[index], offset + shift, false};
  }
  return {&r.outputs[index], offset, false};
}

Result<encVerifyRun::Place> encVerifyRun::locate(encQueueRef ref, uint32_t site,
                                                 const encAddress& address, uint64_t bytes) {
  const Queue& queue = queueOf(ref);
  const int64_t offset = address.offset + static_cast<int64_t>(queue.at.iteration) * address.stride;
  if (address.buffer == encBuffer::Posted) return locatePosted(ref, site, address, bytes);
  if (isWork(address)) return locateWork(ref, site, address.rank, offset);
  if (address.buffer == encBuffer::Scratch || address.rank == ref.rank) {
    return buffer(address.rank, address.buffer, address.index, offset);
  }
  const int operation = ranks_[ref.rank].operation;
  Rank& owner = ranks_[address.rank];
  if (owner.operation < operation) {  // naming a peer's buffer waits for its launch
    owner.waiting.push_back(ref);
    return Place{nullptr, 0, true};
  }
  if (address.buffer == encBuffer::Input && world_.program(operation, address.rank).inputByValue) {
    if (owner.operation == operation && owner.running) findLaunched(ref, address.rank);
    return Place{&valueOf(operation, address.rank), offset, false};
  }
  if (owner.operation > operation || !owner.running) {
    return world_.bad(site, "touches a buffer of rank " + std::to_string(address.rank) +
                                " after that rank's program ended");
  }
  findLaunched(ref, address.rank);
  return buffer(address.rank, address.buffer, address.index, offset);
}

/// The copy of INPUT that a rank gives the others.
encMemory& encVerifyRun::valueOf(int operation, int rank) {
  const auto [found, isNew] = copies_.try_emplace({operation, rank});
  if (isNew) {
    const encTask& task = world_.program(operation, rank).task;
    const uint64_t bytes = encBufferBytes(task, rank, world_.info.rank_n, encBuffer::Input, 0);
    found->second.preset(0, static_cast<int64_t>(bytes), contents_.input(rank, operation, 0));
  }
  return found->second;
}

/// Nothing makes a rank wait for the work area of another: it must know that this one has launched.
Result<encVerifyRun::Place> encVerifyRun::locateWork(encQueueRef ref, uint32_t site, int rank,
                                                     int64_t offset) {
  Rank& owner = ranks_[rank];
  const int operation = ranks_[ref.rank].operation;
  if (owner.operation > operation || !owner.running) {
    return world_.bad(site, "touches the work area of rank " + std::to_string(rank) +
                                " after that rank's program ended");
  }
  if (rank != ref.rank && !knowsLaunch(ref, rank)) {
    return world_.bad(site, "touches the work area of rank " + std::to_string(rank) +
                                " without knowing that it has launched");
  }
  return Place{&owner.work, offset, false};
}

/// Whether the queue knows that the rank has launched the queue's operation: it has heard from a
/// queue of that, or somebody it has heard of, maybe itself, had found it so.
bool encVerifyRun::knowsLaunch(encQueueRef ref, int rank) {
  Queue& queue = queueOf(ref);
  const Rank& owner = ranks_[rank];
  if (owner.operation != ranks_[ref.rank].operation) return false;
  queue.launched.resize(ranks_.size(), false);
  if (queue.launched[rank]) return true;
  const encObserver self = observer(queue.state.knowledge);
  bool known = std::any_of(owner.found.begin(), owner.found.end(),
                           [&](const encAccess& one) { return self.knows(one); });
  for (size_t i = 0; i < owner.queues.size() && !known; i++)
    known = order_.knows(self.who, agentOf(rank, i), owner.queues[i].launchTime);
  queue.launched[rank] = known;
  return known;
}

/// Whoever finds a buffer of a rank's operation knows that it has launched.
void encVerifyRun::findLaunched(encQueueRef ref, int rank) {
  Queue& queue = queueOf(ref);
  queue.launched.resize(ranks_.size(), false);
  if (queue.launched[rank]) return;
  queue.launched[rank] = true;
  ranks_[rank].found.push_back(event(ref, 0));
}

std::string encVerifyRun::text(const encConflict& conflict) const {
  using Kind = encConflict::Kind;
  std::string bytes =
      "bytes " + std::to_string(conflict.begin) + " to " + std::to_string(conflict.end);
  const std::string other = conflict.other.agent < 0
                                ? "the owner's launch"
                                : world_.text(conflict.other.site) + ", iteration " +
                                      std::to_string(conflict.other.iteration);
  switch (conflict.kind) {
    case Kind::ReadsUnwritten:
      return "reads " + bytes + ", which nobody has written";
    case Kind::ReadsUnorderedWrite:
      return "reads " + bytes + " without order with their writer: " + other;
    case Kind::WritesUnorderedWrite:
      return "writes " + bytes + " without order with their writer: " + other;
    case Kind::WritesUnorderedRead:
      return "writes " + bytes + " without order with their reader: " + other;
    case Kind::SecondWriter:
      return "writes scratch " + bytes + ", which has another writer: " + other;
    case Kind::WritesSkipped:
      return "writes " + bytes + ", which skipped iterations write";
  }
  return bytes;
}

Status encVerifyRun::checkOutputs(int rank) {
  Rank& r = ranks_[rank];
  for (const encExpectation& wanted : expectations_.of(r.operation, rank)) {
    const Place place = buffer(rank, encBuffer::Output, wanted.index, wanted.begin);
    const int64_t end = place.begin + wanted.end - wanted.begin;
    const encContents::Value value{wanted.content, 0, wanted.source - place.begin};
    const auto wrong = place.memory->mismatch(place.begin, end, value);
    if (!wrong) continue;
    const long long begin = wrong->begin + wanted.begin - place.begin;
    const long long source = wrong->begin + value.shift;
    std::string found = "nothing";
    if (wrong->found) {
      found = contents_.text(wrong->found->id) + " from byte " +
              std::to_string(wrong->begin + wrong->found->shift) + ", by " +
              (wrong->writer.agent < 0 ? "the owner" : world_.text(wrong->writer.site));
    }
    return fail(
        ncclInternalError,
        "operation %d: rank %d ends with bytes %lld to %lld of OUTPUT%u holding %s: want %s "
        "from byte %lld",
        r.operation, rank, begin, begin + (wrong->end - wrong->begin), unsigned{wanted.index},
        found.c_str(), contents_.text(wanted.content).c_str(), source);
  }
  return Ok{};
}

/// What all ranks have was added in the same order on all of them: it is equal bit by bit.
Status encVerifyRun::checkOrder(int rank) {
  const int operation = ranks_[rank].operation;
  const encProgram& program = world_.program(operation, rank);
  if (program.task.op != encOp::AllReduce) return Ok{};
  const Place place = buffer(rank, encBuffer::Output, 0, 0);
  const uint64_t bytes = encBufferBytes(program.task, rank, program.nRanks, encBuffer::Output, 0);
  Pieces pieces = place.memory->contents(place.begin, place.begin + static_cast<int64_t>(bytes));
  for (encMemory::Piece& piece : pieces) {
    piece.begin -= place.begin;
    piece.end -= place.begin;
  }
  Sum& sum = sums_[operation];
  if (sum.rank < 0) {
    sum = {rank, std::move(pieces)};
    return Ok{};
  }
  size_t k = 0;
  for (const encMemory::Piece& piece : pieces) {
    for (; k < sum.pieces.size() && sum.pieces[k].begin < piece.end; k++) {
      const encMemory::Piece& other = sum.pieces[k];
      if (other.end > piece.begin && other.value.order != piece.value.order) {
        return fail(ncclInternalError,
                    "operation %d: bytes %lld to %lld of OUTPUT0 were added in another order for "
                    "rank %d than for rank %d",
                    operation, static_cast<long long>(std::max(piece.begin, other.begin)),
                    static_cast<long long>(std::min(piece.end, other.end)), rank, sum.rank);
      }
      if (other.end > piece.end) break;
    }
  }
  return Ok{};
}

}  // namespace nccom
