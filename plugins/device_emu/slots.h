// How a rank shows its calls to the others of its host.
#pragma once

#include <cstdint>

#include "plugins/device_emu/comm.h"

namespace nccom::emu {

/// The collective that a rank has to have started before the slot of `collective` is overwritten.
constexpr uint64_t firstAfter(uint64_t collective) {
  return collective - kSlots + 1;
}

/// Somebody who may still look at what the slot of `collective` holds now; null: it is free. To be
/// called by who starts operations: with `control`, or the schedule's mutex while none is pending.
const Peer* slotUser(Comm& comm, uint64_t collective);

/// Fills the slot of the operation, whose buffers are bound and whose slot is free. To be followed
/// by publishedCall().
void publishCall(Comm& comm, Op& op);

/// Wakes threads of other processes that wait for what was published. Looks at neighbours come
/// after it.
/// @return whether other ranks of this process may wait for it
bool publishedCall(Comm& comm);

/// One of the two neighbours, if it has published another call than ours; null: none has yet. If
/// any two of the host's ranks differ, so do two neighbours; and each publishes and then looks (the
/// fence in publishedCall()), so the later of the two sees it.
const Peer* differingNeighbour(Comm& comm, const Op& op);

}  // namespace nccom::emu
