#include "plugins/device_emu/slots.h"

#include <algorithm>
#include <cstring>

#include "plugins/device_emu/runtime.h"

namespace nccom::emu {
namespace {

Place firstOf(const Comm& comm, const std::vector<Bound>& buffers) {
  if (buffers.empty()) return Place{};
  return comm.runtime().placeOf(buffers[0].base, buffers[0].bytes);
}

bool wakeStartWaiters(Comm& comm) {
  std::atomic<uint64_t>& waiters = comm.page().startWaiters;
  if (waiters.load(std::memory_order_seq_cst) == 0) return false;
  const uint64_t who = waiters.exchange(0, std::memory_order_seq_cst);
  bool own = false;
  for (const Peer& peer : comm.peers()) {
    if ((who >> (peer.localRank % 64) & 1) == 0) continue;
    if (peer.sameProcess()) {
      own = true;
    } else {
      peer.doorbell->ring();
    }
  }
  return own;
}

}  // namespace

const Peer* slotUser(Comm& comm, uint64_t collective) {
  if (collective <= kSlots || collective <= comm.freeUntil) return nullptr;
  uint64_t least = UINT64_MAX;
  for (const Peer& peer : comm.peers()) {
    if (peer.rank == comm.rank()) continue;
    // acquire, pairs with publishCall()
    const uint64_t value = peer.page->collective.load(std::memory_order_acquire);
    if (value < firstAfter(collective)) return &peer;
    least = std::min(least, value);
  }
  comm.freeUntil = least == UINT64_MAX ? UINT64_MAX : least + kSlots - 1;
  return nullptr;
}

const Peer* differingNeighbour(Comm& comm, const Op& op) {
  if (comm.config().checkCalls == 0) return nullptr;
  const size_t n = comm.peers().size();
  for (const size_t distance : {size_t{1}, n - 1}) {
    const Peer& peer = comm.peers()[(comm.localRank() + distance) % n];
    if (peer.rank == comm.rank()) continue;
    const OpSlot& other = peer.page->slots[op.collective % kSlots];
    if (other.sequence.load(std::memory_order_seq_cst) != op.collective) continue;
    if (other.check != op.check) return &peer;
  }
  return nullptr;
}

void publishCall(Comm& comm, Op& op) {
  Page& page = comm.page();
  OpSlot& slot = page.slots[op.collective % kSlots];
  slot.opCount = op.opCount;
  uint64_t& shown = comm.slotContent[op.collective % kSlots];
  if (shown != op.content || !op.staged.empty()) {
    slot.check = op.check;
    slot.signature = op.signature;
    slot.input = firstOf(comm, op.inputs);
    slot.output = firstOf(comm, op.outputs);
    memcpy(slot.name, op.name.data(), kNameBytes);
    if (op.program->givesValue()) {
      const bool isShort =
          op.inputs[0].bytes <= sizeof slot.output && op.program->head().peerOutputs == 0;
      slot.input.hbmOffset = isShort ? Place::kShortValue : Place::kValue;
    }
    shown = op.staged.empty() ? op.content : 0;
  }
  if (op.program->givesValue()) memcpy(slot.given(), op.inputs[0].base, op.inputs[0].bytes);
  op.published = true;
  // release: the slot; pairs with the acquire of who looks for it
  slot.sequence.store(op.collective, std::memory_order_release);
  page.collective.store(op.collective, std::memory_order_release);
}

bool publishedCall(Comm& comm) {
  // seq_cst: whoever publishes and then looks at a neighbour's slot sees it, or is seen; whoever
  // announces that he sleeps and then looks sees the slot, or we see him
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return wakeStartWaiters(comm);
}

}  // namespace nccom::emu
