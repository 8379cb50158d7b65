// Exchanges: operations whose ranks give each other values, and need nothing else of each other.
//
// They come with the calls of collectives, or as short messages.
//
// Once its call is published, and its messages are posted, nobody waits for this rank any more: the
// others have its value. So an exchange that comes to an idle stream and communicator does not
// become the engine's business. It stays with the schedule until somebody asks for its stream's
// state, and is finished by him if all values are there. If they do not come soon, or if anything
// else comes to its stream or its communicator, it becomes an ordinary operation, which has already
// been published and posted.
//
// All functions are called with the schedule's mutex held, but for the wait for a cell.
#pragma once

#include <atomic>
#include <cstdint>

#include "plugins/device_emu/comm.h"

namespace nccom::emu {

enum class Started : uint8_t {
  kNo,  // it is the engine's, published and posted or neither: it does not suit, or a neighbour's
        // call differs
  kWaits,
  kDone,
};

/// Publishes and posts an operation that nothing is before, if it is an exchange and need not wait
/// for that.
Started startExchange(Comm& comm, Op& op);

/// A value that has not come: `cell` becomes `number`, or more if it has been and gone.
struct MissingValue {
  const std::atomic<uint64_t>* cell = nullptr;  // null: all have come
  uint64_t number = 0;
};
MissingValue missingOf(Comm& comm, const Op& op);

/// Makes the outputs.
/// @return false: the calls of the ranks differ; the executor finds out how
bool finishExchange(Comm& comm, Op& op);

}  // namespace nccom::emu
