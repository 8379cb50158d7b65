#include "plugins/device_emu/mail.h"

#include <cstring>

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

MailRoom roomFor(const Mail& mail, const nccomDesc_v1& desc) {
  const uint64_t ahead = (desc.flags & NCCOM_POST_VALUE) != 0 ? kMailValues : kMailEntries;
  if (mail.number <= ahead) return {nullptr, 0};
  const Mail before = mailAt(*mail.box, mail.number - ahead);
  return {before.entry, before.number};
}

bool postMail(const Comm& comm, const Op& op, const Mail& mail, const nccomDesc_v1& desc) {
  mail.entry->index = static_cast<uint32_t>(desc.value);
  std::byte* const from = desc.bytes == 0 ? nullptr : op.inputs[desc.index].base;
  if ((desc.flags & NCCOM_POST_VALUE) == 0) {
    mail.entry->buffer = comm.runtime().placeOf(from, desc.bytes);
  } else {
    mail.entry->buffer = {0, desc.bytes, Place::kValue};
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

bool takeMail(const Mail& mail) {
  // seq_cst, pairs with the post that waits: either we see that, or it sees the message taken
  mail.entry->taken.store(mail.number, std::memory_order_seq_cst);
  if (mail.entry->sender.load(std::memory_order_seq_cst) == 0) return false;
  mail.entry->sender.store(0, std::memory_order_relaxed);
  return true;
}

}  // namespace nccom::emu
