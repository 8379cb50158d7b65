// The start and the end of an operation.
#pragma once

#include "plugins/device_emu/comm.h"
#include "plugins/device_emu/context.h"

namespace nccom::emu {

/// Whether an operation was activated and nothing that is known keeps it from starting.
bool startable(const Comm& comm);

/// Starts the operation that was activated, if it may: copies buffers that peers cannot reach,
/// publishes the call, compares it with the neighbours', lets the queues run.
/// @return whether it started or failed; false: it has to wait, or another thread is at it
bool tryStart(Context& context, Comm& comm);

/// Whether the current operation has nothing left to run: all its queues are finished, or its
/// communicator has failed.
bool endable(const Comm& comm);

/// Ends the current operation if it is endable() and no thread is in its queues; after a failure,
/// only when no peer touches this rank's memory any more, or has not stopped for 2 s.
/// @return whether it was ended
bool tryFinish(Comm& comm);

}  // namespace nccom::emu
