// Messages between ranks of a host: what one has posted to another, and when that has taken it.
//
// A mailbox lies at the receiver. Its entries are used in turn; the sender waits until the receiver
// has taken what was there. Short messages come with their values, for which there is less room.
// Receivers take messages in the order of their numbers (LoadedProgram sees to that), so what was
// taken says the same of all before.
#pragma once

#include <cstddef>
#include <cstdint>

#include "include/plugin/nccom_device.h"
#include "plugins/device_emu/comm.h"

namespace nccom::emu {

/// A message's entry, and its number on the way between the two ranks, from 1.
struct Mail {
  Mailbox* box;
  MailEntry* entry;
  uint64_t number;

  /// Where its value is; null: it has come by reference.
  std::byte* value() const {
    if (entry->buffer.hbmOffset == Place::kShortValue) return entry->value;
    return entry->buffer.hbmOffset == Place::kValue ? box->values[(number - 1) % kMailValues]
                                                    : nullptr;
  }
};

/// The message from `rank` that the current operation calls `index`.
Mail incoming(Comm& comm, int32_t rank, uint16_t index);

/// The message that a post makes. The peer has its mailboxes.
Mail outgoing(const Comm& comm, const Peer& peer, const nccomDesc_v1& desc);
/// Whether `peer` has mailboxes yet.
bool hasMailboxes(const Peer& peer);

/// What a post waits for: Mailbox::taken becomes so much. 0: for nothing.
uint64_t takenBefore(const Mail& mail, const nccomDesc_v1& desc);
/// Whether that is so. Looks at the receiver's line only where it has to.
bool hasRoom(Peer& peer, const Mail& mail, const nccomDesc_v1& desc);

/// Writes the message, for which there is room.
/// @return whether threads of the receiver's process sleep until a message comes
bool postMail(const Comm& comm, const Op& op, const Mail& mail, const nccomDesc_v1& desc);

/// Fetches the lines of the message that may follow, while the caller goes on.
void prepareNextMail(const Mail& mail, const nccomDesc_v1& desc);

/// The receiver is through with the message.
/// @return whether the sender waits for that
bool takeMail(const Mail& mail);

/// The operation's messages are posted and taken: later ones have larger numbers.
void countMail(Comm& comm, const LoadedProgram& program);

}  // namespace nccom::emu
