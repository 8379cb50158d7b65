#include "plugins/device_emu/exchange.h"

#include <array>

#include "plugins/device_emu/addresses.h"
#include "plugins/device_emu/fold.h"
#include "plugins/device_emu/kernels.h"
#include "plugins/device_emu/slots.h"

namespace nccom::emu {
namespace {

void bind(Op& op) {
  if (op.bound) return;
  const auto asIs = [](const auto& user, std::vector<Bound>& bound) {
    bound.clear();
    for (const nccomBufferBinding_v1& buffer : user)
      bound.push_back({static_cast<std::byte*>(buffer.address), buffer.bytes});
  };
  asIs(op.userInputs, op.inputs);
  asIs(op.userOutputs, op.outputs);
  op.bound = true;
}

OpSlot& slotOf(const Peer& peer, const Op& op) {
  return peer.page->slots[op.collective % kSlots];
}

/// Calls `visit` for each source of a transfer.
template <class Visit>
bool forSources(const Op& op, const nccomDesc_v1& desc, const Visit& visit) {
  const auto addresses = op.program->addresses().subspan(desc.firstAddress, desc.nSources);
  for (size_t k = 0; k < addresses.size(); k++) {
    if (!visit(k, addresses[k])) return false;
  }
  return true;
}

/// Calls `visit` for each transfer; exchanges have no others, and no block is repeated.
template <class Visit>
bool forTransfers(const Op& op, const Visit& visit) {
  for (const nccomQueue_v1& queue : op.program->queues()) {
    for (const nccomBlock_v1& block :
         op.program->blocks().subspan(queue.firstBlock, queue.nBlocks)) {
      for (const nccomDesc_v1& desc : op.program->descs().subspan(block.firstDesc, block.nDescs)) {
        if (!visit(desc)) return false;
      }
    }
  }
  return true;
}

/// Where `bytes` at an address of an input are; null: the rank has called something else.
const std::byte* valueAt(Comm& comm, const Op& op, const nccomAddress_v1& address, uint64_t bytes) {
  if (address.rank == comm.rank()) return op.inputs[0].base + address.offset;
  OpSlot& slot = slotOf(*comm.peer(address.rank), op);
  const uint64_t end = static_cast<uint64_t>(address.offset) + bytes;
  const bool same = comm.config().checkCalls == 0 || slot.check == op.check;
  const std::byte* const given = slot.given();
  return same && given != nullptr && end <= slot.input.bytes ? given + address.offset : nullptr;
}

bool transfer(Comm& comm, const Op& op, const nccomDesc_v1& desc) {
  std::array<const void*, kMaxSources> sources;
  const bool found = forSources(op, desc, [&](size_t k, const nccomAddress_v1& address) {
    return (sources[k] = valueAt(comm, op, address, desc.bytes)) != nullptr;
  });
  if (!found) return false;
  std::array<void*, kMaxDestinations> destinations;
  const auto addresses =
      op.program->addresses().subspan(desc.firstAddress + desc.nSources, desc.nDestinations);
  for (size_t k = 0; k < addresses.size(); k++)
    destinations[k] = op.outputs[0].base + addresses[k].offset;
  foldTransfer(op, desc, sources.data(), destinations.data(), desc.bytes, false);
  return true;
}

/// Fetches the lines that the next call will write, from those who have read them, while the
/// caller goes on.
void prepareNext(Comm& comm, const Op& op) {
  OpSlot& slot = comm.page().slots[(op.collective + 1) % kSlots];
  __builtin_prefetch(&slot, 1);
  if (!op.program->givesValue()) return;
  const uint64_t bytes = op.inputs[0].bytes;
  for (uint64_t at = 0; bytes > sizeof slot.output && at < bytes; at += 64)
    __builtin_prefetch(slot.value + at, 1);
}

}  // namespace

Started startExchange(Comm& comm, Op& op) {
  const bool suits =
      op.program->exchanges() && op.collective != 0 && comm.connected() && !comm.failed();
  if (!suits || slotUser(comm, op.collective) != nullptr) return Started::kNo;
  bind(op);
  publishCall(comm, op);
  comm.showStarted(op);
  // Before the fence, which takes as long as others take to let go of our lines.
  const bool done = missingOf(comm, op).cell == nullptr && finishExchange(comm, op);
  (void)publishedCall(comm);
  if (differingNeighbour(comm, op) != nullptr) return Started::kNo;
  return done ? Started::kDone : Started::kWaits;
}

MissingValue missingOf(Comm& comm, const Op& op) {
  MissingValue missing;
  forTransfers(op, [&](const nccomDesc_v1& desc) {
    return forSources(op, desc, [&](size_t, const nccomAddress_v1& address) {
      if (address.rank == comm.rank()) return true;
      const std::atomic<uint64_t>& cell = slotOf(*comm.peer(address.rank), op).sequence;
      // acquire, pairs with publishCall()
      if (cell.load(std::memory_order_acquire) == op.collective) return true;
      missing = {&cell, op.collective};
      return false;
    });
  });
  return missing;
}

bool finishExchange(Comm& comm, Op& op) {
  const bool done =
      forTransfers(op, [&](const nccomDesc_v1& desc) { return transfer(comm, op, desc); });
  if (!done) return false;
  comm.page().board.ended.store(op.opCount, std::memory_order_relaxed);  // for reports
  // All have started this one: what slotUser() would ask them, at the price of their lines.
  if (op.program->hearsOfAll()) comm.freeUntil = op.collective + kSlots - 1;
  prepareNext(comm, op);
  return true;
}

}  // namespace nccom::emu
