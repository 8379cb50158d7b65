#include "plugins/device_emu/mail.h"

#include <cstring>

#include "plugins/device_emu/lines.h"
#include "plugins/device_emu/runtime.h"

namespace nccom::emu {
namespace {

Mail mailAt(Mailbox& box, uint64_t number) {
  return {&box, &box.entries[(number - 1) % kMailEntries], number};
}

}  // namespace

Mail incoming(Comm& comm, int32_t rank, uint16_t index) {
  const Peer& peer = *comm.peer(rank);
  return mailAt(comm.mailboxFrom(peer), peer.received + index + 1);
}

bool hasMailboxes(const Peer& peer) {
  // acquire, pairs with M1
  return peer.page->mailboxes.load(std::memory_order_acquire) != 0;
}

Mail outgoing(const Comm& comm, const Peer& peer, const nccomDesc_v1& desc) {
  const uint64_t boxes = peer.page->mailboxes.load(std::memory_order_acquire);  // pairs with M1
  auto* const box = reinterpret_cast<Mailbox*>(peer.process->base() + boxes) + comm.localRank();
  return mailAt(*box, peer.posted + static_cast<uint64_t>(desc.value) + 1);
}

uint64_t takenBefore(const Mail& mail, const nccomDesc_v1& desc) {
  const uint64_t ahead = (desc.flags & NCCOM_POST_VALUE) != 0 ? kMailValues : kMailEntries;
  return mail.number <= ahead ? 0 : mail.number - ahead;
}

bool hasRoom(Peer& peer, const Mail& mail, const nccomDesc_v1& desc) {
  const uint64_t wanted = takenBefore(mail, desc);
  // acquire and release: of what another queue has seen
  std::atomic_ref<uint64_t> known(peer.taken);
  if (known.load(std::memory_order_acquire) >= wanted) return true;
  // acquire, pairs with takeMail(): the receiver is through with what it replaces
  const uint64_t taken = mail.box->taken.load(std::memory_order_acquire);
  known.store(taken, std::memory_order_release);
  return taken >= wanted;
}

bool postMail(const Comm& comm, const Op& op, const Mail& mail, const nccomDesc_v1& desc) {
  mail.entry->index = static_cast<uint64_t>(desc.value);
  std::byte* const from = desc.bytes == 0 ? nullptr : op.inputs[desc.index].base;
  if ((desc.flags & NCCOM_POST_VALUE) == 0) {
    mail.entry->buffer = comm.runtime().placeOf(from, desc.bytes);
  } else {
    const bool isShort = desc.bytes <= sizeof mail.entry->value;
    mail.entry->buffer = {0, desc.bytes, isShort ? Place::kShortValue : Place::kValue};
    if (desc.bytes > 0) memcpy(mail.value(), from, desc.bytes);
  }
  // seq_cst: releases the message, pairs with who looks at `posted`; and before the look at
  // `receiver`: either we see that it sleeps, or it sees the message when it looks again before
  mail.entry->posted.store(mail.number, std::memory_order_seq_cst);
  if (mail.box->receiver.load(std::memory_order_seq_cst) == 0) return false;
  // relaxed: it sets it again before it sleeps again
  mail.box->receiver.store(0, std::memory_order_relaxed);
  return true;
}

void countMail(Comm& comm, const LoadedProgram& program) {
  for (const auto& [rank, messages] : program.posts())
    comm.peer(rank)->posted += messages;
  for (const PostedUse& use : program.posted())
    comm.peer(use.rank)->received++;
}

void prepareNextMail(const Mail& mail, const nccomDesc_v1& desc) {
  const Mail next = mailAt(*mail.box, mail.number + 1);
  fetchToWrite(next.entry);
  if ((desc.flags & NCCOM_POST_VALUE) == 0 || desc.bytes <= sizeof next.entry->value) return;
  const std::byte* const value = mail.box->values[(next.number - 1) % kMailValues];
  for (uint64_t at = 0; at < desc.bytes; at += 64)
    fetchToWrite(value + at);
}

bool takeMail(const Mail& mail) {
  // seq_cst, pairs with the post that waits: either we see that, or it sees the message taken
  mail.box->taken.store(mail.number, std::memory_order_seq_cst);
  if (mail.box->sender.load(std::memory_order_seq_cst) == 0) return false;
  mail.box->sender.store(0, std::memory_order_relaxed);
  return true;
}

}  // namespace nccom::emu
