// Networks in the symbolic run: wires join two ranks, one way; their ends read and write scratch.
#include <algorithm>

#include "enc/verify_run.h"

namespace nccom {
namespace {

uint64_t keyOf(int from, int to, int channel) {
  return static_cast<uint64_t>(from) << 42 | static_cast<uint64_t>(to) << 21 |
         static_cast<uint64_t>(channel - kP2pChannel);
}

}  // namespace

void encVerifyRun::layWires() {
  encIndex numbers;
  for (const encOperation& operation : world_.operations) {
    for (const encProgram& program : operation) {
      wireOf_.emplace_back();
      for (const encConnection& connection : program.connections) {
        const int from = connection.send ? program.rank : connection.peer;
        const int to = connection.send ? connection.peer : program.rank;
        const uint32_t number =
            numbers.add(keyOf(from, to, connection.channel), static_cast<uint32_t>(wires_.size()));
        if (number == wires_.size()) {
          Wire& added = wires_.emplace_back();
          added.from.rank = from;
          added.to.rank = to;
          added.from.state.knowledge.agent = order_.addWire();
          added.to.state.knowledge.agent = added.from.state.knowledge.agent + 1;
        }
        wireOf_.back().push_back(number);
        NetEnd& own = connection.send ? wires_[number].from : wires_[number].to;
        if (!own.used) ranks_[program.rank].wires.push_back(number);
        own.used = true;
      }
    }
  }
}

/// The rank knows that the network is done with all that it posted.
Status encVerifyRun::checkNetworkDone(int rank) const {
  const Rank& r = ranks_[rank];
  for (const size_t number : r.wires) {
    const Wire& w = wires_[number];
    const bool sends = w.from.rank == rank;
    const NetEnd& own = sends ? w.from : w.to;
    const encKnowledge& end = own.state.knowledge;
    if (own.entries.empty() && order_.knows(r.state.knowledge, end.agent, end.time)) continue;
    return fail(ncclInternalError,
                "operation %d: rank %d ends without knowing that the network is done %s rank %d",
                r.operation, rank, sends ? "sending to" : "receiving from",
                sends ? w.to.rank : w.from.rank);
  }
  return Ok{};
}

Status encVerifyRun::netPost(encQueueRef ref, uint32_t site, const encDesc& desc,
                             uint64_t skipped) {
  const Rank& r = ranks_[ref.rank];
  const Queue& queue = r.queues[ref.queue];
  const size_t program =
      static_cast<size_t>(r.operation) * ranks_.size() + static_cast<size_t>(ref.rank);
  Wire& w = wires_[wireOf_[program][desc.connection]];
  NetEntry entry;
  entry.count = skipped > 0 ? skipped : 1;
  entry.bytes = desc.bytes;
  entry.jump = skipped > 0;
  entry.offset = desc.net.offset + static_cast<int64_t>(queue.at.iteration) * desc.net.stride;
  entry.release = queue.state;
  entry.site = site;
  entry.iteration = queue.at.iteration;
  (desc.type == encDescType::NetSend ? w.from : w.to).entries.push_back(std::move(entry));
  return netProgress(w);
}

/// The network carries what has been posted at both ends, in order.
Status encVerifyRun::netProgress(Wire& w) {
  while (!w.from.entries.empty() && !w.to.entries.empty()) {
    const NetEntry send = std::move(w.from.entries.front());
    const NetEntry receive = std::move(w.to.entries.front());
    w.from.entries.pop_front();
    w.to.entries.pop_front();
    if (send.bytes != receive.bytes || send.count != receive.count || send.jump != receive.jump) {
      return world_.bad(send.site,
                        "meets a receive of another size or number: " + world_.text(receive.site));
    }
    TRY(netMove(w, send, receive));
    TRY(raise(send.site, send.count, w.from.state));
    TRY(raise(receive.site, receive.count, w.to.state));
  }
  return Ok{};
}

encMemory& encVerifyRun::netMemory(int rank, int64_t offset) {
  Rank& r = ranks_[rank];
  return world_.layout.isWork(offset) ? r.work : r.scratch;
}

Status encVerifyRun::netMove(Wire& w, const NetEntry& send, const NetEntry& receive) {
  encRelease &from = w.from.state, &to = w.to.state;
  order_.learn(from.knowledge, send.release.knowledge);
  order_.learn(to.knowledge, receive.release.knowledge);
  order_.learn(to.knowledge, from.knowledge);  // the data came from there
  from.knowledge.time++;
  to.knowledge.time++;
  // One message; those of skipped iterations are in what the queues' chains have grown by.
  from.chain = to.chain =
      std::max({from.chain, to.chain, send.release.chain, receive.release.chain}) + 1;
  if (send.jump) return Ok{};
  const encAccess reads{from.knowledge.agent, from.knowledge.time, send.site, send.iteration};
  const encAccess writes{to.knowledge.agent, to.knowledge.time, receive.site, receive.iteration};
  Pieces pieces;
  const int64_t end = send.offset + static_cast<int64_t>(send.bytes);
  const auto missing = netMemory(w.from.rank, send.offset)
                           .read(send.offset, end, reads, observer(from.knowledge), pieces);
  if (missing) return world_.bad(send.site, text(*missing));
  const int64_t moved = receive.offset - send.offset;
  for (encMemory::Piece& piece : pieces) {
    piece.begin += moved;
    piece.end += moved;
    piece.value.shift -= moved;
  }
  const int party =
      world_.layout.isWork(receive.offset) ? -1 : world_.info.rank_n + to.knowledge.agent;
  const auto conflict =
      netMemory(w.to.rank, receive.offset).write(pieces, writes, observer(to.knowledge), party);
  if (conflict) return world_.bad(receive.site, text(*conflict));
  return Ok{};
}

Status encVerifyRun::leftovers() const {
  for (const Wire& w : wires_) {
    for (const NetEnd* own : {&w.from, &w.to}) {
      if (own->entries.empty()) continue;
      return world_.bad(own->entries.front().site, "has no counterpart at the other end");
    }
  }
  return Ok{};
}

}  // namespace nccom
