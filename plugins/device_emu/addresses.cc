#include "plugins/device_emu/addresses.h"

#include <cstring>

#include "plugins/device_emu/mail.h"
#include "plugins/device_emu/report.h"

namespace nccom::emu {
namespace {

unsigned long long number(uint64_t value) {
  return value;
}

/// A published place as this process reaches it.
Found spotOf(Comm& comm, const Op& op, const Peer& peer, const Place& place, uint64_t offset,
             Spot& spot) {
  if (peer.sameProcess()) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): numbers are what ranks publish
    spot = {reinterpret_cast<std::byte*>(place.address) + offset, 0, 0};
    return Found::kYes;
  }
  if (place.hbmOffset != Place::kForeign) {
    const auto mapped = peer.process->at(place.hbmOffset, place.bytes);
    if (!mapped.ok()) {
      comm.raise(fail(ncclRemoteError, "rank %d: %s: buffer of rank %d: %s", comm.rank(),
                      describe(op).c_str(), peer.rank, mapped.error().message.c_str()));
      return Found::kFailed;
    }
    spot = {static_cast<std::byte*>(mapped.value()) + offset, 0, 0};
    return Found::kYes;
  }
  if (!peer.cma) {
    comm.raise(fail(ncclInternalError,
                    "rank %d: %s: rank %d published memory outside its device, which this rank "
                    "cannot reach",
                    comm.rank(), describe(op).c_str(), peer.rank));
    return Found::kFailed;
  }
  spot = {nullptr, place.address + offset, peer.process->pid()};
  return Found::kYes;
}

Found findOwn(const Op& op, const nccomAddress_v1& address, uint64_t offset, std::byte* scratch,
              Spot& spot) {
  std::byte* base = scratch;
  if (address.buffer == nccomBufferInput) base = op.inputs[address.index].base;
  if (address.buffer == nccomBufferOutput) base = op.outputs[address.index].base;
  spot = {base + offset, 0, 0};
  return Found::kYes;
}

/// Bytes from an offset on.
struct Stretch {
  uint64_t offset, bytes;
};

Found findPublished(const RunningQueue& queue, const Peer& peer, const nccomAddress_v1& address,
                    Stretch wanted, Spot& spot) {
  const auto& [comm, op, run] = queue;
  const auto [offset, bytes] = wanted;
  OpSlot& slot = peer.page->slots[op.collective % kSlots];
  // acquire, pairs with the release of the owner's publish()
  if (slot.sequence.load(std::memory_order_acquire) != op.collective &&
      park(run, WaitKind::kCollective, peer.rank, slot.sequence, op.collective)) {
    return Found::kWait;
  }
  if (!sameCall(comm, op, peer, slot)) return Found::kFailed;
  const bool input = address.buffer == nccomBufferInput;
  const Place& place = input ? slot.input : slot.output;
  if (offset + bytes > place.bytes) {
    comm.raise(fail(ncclInvalidUsage, "rank %d: %s uses %llu bytes of rank %d's %s, which has %llu",
                    comm.rank(), describe(op).c_str(), number(offset + bytes), peer.rank,
                    input ? "input" : "output", number(place.bytes)));
    return Found::kFailed;
  }
  if (std::byte* const given = input ? slot.given() : nullptr) {
    spot = {given + offset, 0, 0};
    return Found::kYes;
  }
  return spotOf(comm, op, peer, place, offset, spot);
}

Found findPosted(const RunningQueue& queue, const Peer& peer, const nccomAddress_v1& address,
                 uint64_t offset, Spot& spot) {
  const auto& [comm, op, run] = queue;
  const Mail mail = incoming(comm, peer.rank, address.index);
  // acquire, pairs with postMail()
  if (mail.entry->posted.load(std::memory_order_acquire) < mail.number &&
      park(run, WaitKind::kMessage, peer.rank, mail.entry->posted, mail.number)) {
    return Found::kWait;
  }
  const uint64_t wanted =
      op.program->posted()[op.program->postedAt(peer.rank, address.index)].bytes;
  const Place& place = mail.entry->buffer;
  if (place.bytes != wanted) {
    comm.raise(fail(ncclInvalidUsage,
                    "rank %d receives %llu bytes from rank %d, which sends %llu (%s, message %u)",
                    comm.rank(), number(wanted), peer.rank, number(place.bytes),
                    describe(op).c_str(), address.index));
    return Found::kFailed;
  }
  if (std::byte* const value = mail.value()) {
    spot = {value + offset, 0, 0};
    return Found::kYes;
  }
  return spotOf(comm, op, peer, place, offset, spot);
}

std::string signatureText(const nccomSignature_v1& s) {
  return " (operation kind " + std::to_string(s.kind) + ", count " + std::to_string(s.count) +
         ", type " + std::to_string(s.dataType) + ", operator " + std::to_string(s.redOp) +
         ", root " + std::to_string(s.root) + ", algorithm " + std::to_string(s.algorithm) + ")";
}

}  // namespace

bool park(QueueRun& run, WaitKind kind, int32_t rank, const std::atomic<uint64_t>& cell,
          uint64_t target) {
  // relaxed but for the last: Q1 publishes them; others take them as hints
  run.kind.store(kind, std::memory_order_relaxed);
  run.rank.store(rank, std::memory_order_relaxed);
  run.target.store(target, std::memory_order_relaxed);
  run.cell.store(&cell, std::memory_order_seq_cst);  // Q1
  if (cell.load(std::memory_order_seq_cst) < target) return true;
  unpark(run);
  return false;
}

void unpark(QueueRun& run) {
  // relaxed: only makes others try a queue whose lock we hold
  if (run.cell.load(std::memory_order_relaxed) == nullptr) return;
  run.cell.store(nullptr, std::memory_order_relaxed);
  run.kind.store(WaitKind::kNone, std::memory_order_relaxed);
}

Found findSpot(const RunningQueue& queue, const nccomAddress_v1& address, uint64_t iteration,
               uint64_t bytes, Spot& spot) {
  Comm& comm = queue.comm;
  const auto offset =
      static_cast<uint64_t>(address.offset + address.stride * static_cast<int64_t>(iteration));
  const Peer& peer = *comm.peer(address.rank);
  if (address.buffer == nccomBufferPosted) {
    return findPosted(queue, peer, address, offset, spot);
  }
  if (address.rank == comm.rank()) return findOwn(queue.op, address, offset, comm.scratch(), spot);
  if (address.buffer == nccomBufferScratch) {
    spot = {peer.scratch + offset, 0, 0};
    return Found::kYes;
  }
  return findPublished(queue, peer, address, {offset, bytes}, spot);
}

bool sameCall(Comm& comm, const Op& op, const Peer& peer, const OpSlot& slot) {
  if (comm.config().checkCalls == 0 || slot.check == op.check) return true;
  std::string own = op.name.data(), other(slot.name, strnlen(slot.name, kNameBytes));
  if (own == other) {
    own += signatureText(op.signature);
    other += signatureText(slot.signature);
  }
  const bool first = comm.rank() < peer.rank;
  comm.raise(fail(ncclInvalidUsage, "rank %d called %s, rank %d called %s (collective %llu)",
                  first ? comm.rank() : peer.rank, (first ? own : other).c_str(),
                  first ? peer.rank : comm.rank(), (first ? other : own).c_str(),
                  number(op.collective)));
  return false;
}

}  // namespace nccom::emu
