#include "plugins/device_emu/exchange.h"

#include <array>

#include "plugins/device_emu/fold.h"
#include "plugins/device_emu/kernels.h"
#include "plugins/device_emu/lines.h"
#include "plugins/device_emu/mail.h"
#include "plugins/device_emu/slots.h"

namespace nccom::emu {
namespace {

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

/// Calls `visit` for each descriptor of a type.
template <class Visit>
bool forAll(const Op& op, nccomDescType_t type, const Visit& visit) {
  for (const nccomDesc_v1* const desc : op.program->exchanged(type)) {
    if (!visit(*desc)) return false;
  }
  return true;
}

/// Where `bytes` of the value that another rank has published are; null: it has called something
/// else.
const std::byte* publishedAt(Comm& comm, const Op& op, const nccomAddress_v1& address,
                             uint64_t bytes) {
  OpSlot& slot = slotOf(*comm.peer(address.rank), op);
  const uint64_t end = static_cast<uint64_t>(address.offset) + bytes;
  const bool same = comm.config().checkCalls == 0 || slot.check == op.check;
  const std::byte* const given = slot.given();
  return same && given != nullptr && end <= slot.input.bytes ? given + address.offset : nullptr;
}

/// The same of a message; null: it has another size.
const std::byte* postedAt(Comm& comm, const Op& op, const nccomAddress_v1& address) {
  const Mail mail = incoming(comm, address.rank, address.index);
  const size_t use = op.program->postedAt(address.rank, address.index);
  const std::byte* const value = mail.value();
  const bool same = value != nullptr && mail.entry->buffer.bytes == op.program->posted()[use].bytes;
  return same ? value + address.offset : nullptr;
}

const std::byte* valueAt(Comm& comm, const Op& op, const nccomAddress_v1& address, uint64_t bytes) {
  if (address.buffer == nccomBufferPosted) return postedAt(comm, op, address);
  if (address.rank != comm.rank()) return publishedAt(comm, op, address, bytes);
  return op.inputs[address.index].base + address.offset;
}

bool transfer(Comm& comm, const Op& op, const nccomDesc_v1& desc) {
  std::array<const void*, kMaxSources> sources;
  const bool found = forSources(op, desc, [&](size_t k, const nccomAddress_v1& address) {
    return (sources[k] = valueAt(comm, op, address, desc.bytes)) != nullptr;
  });
  if (!found || desc.bytes == 0) return found;
  std::array<void*, kMaxDestinations> destinations;
  const auto addresses =
      op.program->addresses().subspan(desc.firstAddress + desc.nSources, desc.nDestinations);
  for (size_t k = 0; k < addresses.size(); k++)
    destinations[k] = op.outputs[addresses[k].index].base + addresses[k].offset;
  foldTransfer(op, desc, sources.data(), destinations.data(), desc.bytes, false);
  return true;
}

bool hasRoomForAll(Comm& comm, const Op& op) {
  if (op.program->posts().empty()) return true;
  return forAll(op, nccomDescPost, [&](const nccomDesc_v1& desc) {
    Peer& peer = *comm.peer(desc.rank);
    return hasMailboxes(peer) && hasRoom(peer, outgoing(comm, peer, desc), desc);
  });
}

/// Receivers of this process that sleep are found by who launches: see Schedule::append().
void postAll(Comm& comm, Op& op) {
  if (op.program->posts().empty()) return;
  forAll(op, nccomDescPost, [&](const nccomDesc_v1& desc) {
    const Peer& peer = *comm.peer(desc.rank);
    const Mail mail = outgoing(comm, peer, desc);
    if (postMail(comm, op, mail, desc)) peer.doorbell->ring();
    prepareNextMail(mail, desc);
    return true;
  });
  op.posted = true;
}

void takeAll(Comm& comm, const Op& op) {
  for (const PostedUse& use : op.program->posted()) {
    if (takeMail(incoming(comm, use.rank, use.index))) comm.peer(use.rank)->doorbell->ring();
  }
}

/// Fetches the lines that the next call will use, while the caller goes on: those that it writes;
/// and where others do not wait for us, those that it reads, as they may be there already.
void prepareNext(Comm& comm, const Op& op) {
  if (!op.program->hearsOfAll()) {
    forAll(op, nccomDescTransfer, [&](const nccomDesc_v1& desc) {
      return forSources(op, desc, [&](size_t, const nccomAddress_v1& address) {
        if (address.rank != comm.rank()) {
          fetchToRead(&comm.peer(address.rank)->page->slots[(op.collective + 1) % kSlots]);
        }
        return true;
      });
    });
  }
  OpSlot& slot = comm.page().slots[(op.collective + 1) % kSlots];
  fetchToWrite(&slot);
  if (!op.program->givesValue()) return;
  const uint64_t bytes = op.inputs[0].bytes;
  for (uint64_t at = 0; bytes > sizeof slot.output && at < bytes; at += 64)
    fetchToWrite(slot.value + at);
}

/// Whether the call's slot is free. Waits as long as somebody who is only a little behind needs.
bool awaitSlot(Comm& comm, uint64_t collective) {
  constexpr int kLooks = 64;
  for (int look = 0; slotUser(comm, collective) != nullptr; look++) {
    if (look == kLooks) return false;
    relax();
  }
  return true;
}

}  // namespace

Started startExchange(Comm& comm, Op& op) {
  if (!op.program->exchanges() || !comm.connected() || comm.failed()) return Started::kNo;
  const bool isCollective = op.collective != 0;
  if (isCollective && !awaitSlot(comm, op.collective)) return Started::kNo;
  if (!hasRoomForAll(comm, op)) return Started::kNo;
  if (!op.bound) op.bindAsIs();
  if (isCollective) publishCall(comm, op);
  postAll(comm, op);
  comm.showStarted(op);
  // Before the fence, which takes as long as others take to let go of our lines.
  const bool done = missingOf(comm, op).cell == nullptr && finishExchange(comm, op);
  if (isCollective) {
    (void)publishedCall(comm);
    if (differingNeighbour(comm, op) != nullptr) return Started::kNo;
  }
  return done ? Started::kDone : Started::kWaits;
}

MissingValue missingOf(Comm& comm, const Op& op) {
  MissingValue missing;
  forAll(op, nccomDescTransfer, [&](const nccomDesc_v1& desc) {
    return forSources(op, desc, [&](size_t, const nccomAddress_v1& address) {
      MissingValue value;
      if (address.buffer == nccomBufferPosted) {
        const Mail mail = incoming(comm, address.rank, address.index);
        value = {&mail.entry->posted, mail.number};
      } else if (address.rank != comm.rank()) {
        value = {&slotOf(*comm.peer(address.rank), op).sequence, op.collective};
      }
      // acquire, pairs with publishCall() and postMail()
      const bool isThere =
          value.cell == nullptr || value.cell->load(std::memory_order_acquire) == value.number;
      if (!isThere) missing = value;
      return isThere;
    });
  });
  return missing;
}

bool finishExchange(Comm& comm, Op& op) {
  const bool done = forAll(op, nccomDescTransfer,
                           [&](const nccomDesc_v1& desc) { return transfer(comm, op, desc); });
  if (!done) return false;
  takeAll(comm, op);
  countMail(comm, *op.program);
  comm.page().board.ended.store(op.opCount, std::memory_order_relaxed);  // for reports
  if (op.collective == 0) return true;
  // All have started this one: what slotUser() would ask them, at the price of their lines.
  if (op.program->hearsOfAll()) comm.freeUntil = op.collective + kSlots - 1;
  prepareNext(comm, op);
  return true;
}

}  // namespace nccom::emu
