// Groups: calls between ncclGroupStart and the outermost ncclGroupEnd are collected, then launched
// together. A lone call is a group of one. State is per thread, as in NCCL.
#pragma once

#include <functional>

#include "comm/call.h"
#include "misc/result.h"

namespace nccom {

class Communicator;

Status groupStart();

/// Ends a level; the outermost runs what was collected: communicators are created first, side by
/// side; then collectives in the order of the calls; then sends and receives, all of a communicator
/// as one operation. Returns the first failure of any of them, or of a call inside the group.
///
/// @error  ncclInvalidUsage  no group was started
Status groupEnd();

/// Whether this thread is inside a group.
bool groupActive();

/// Remembers a call's failure inside a group, so that groupEnd returns it too.
void groupFailed(const Error& error);

/// Adds a call; outside a group it runs at once.
/// @param comm  call.comm's
Status groupAdd(Communicator& comm, const CollectiveCall& call);
Status groupAdd(Communicator& comm, const MessageCall& call);

/// Adds the creation of a communicator: `create` blocks until all ranks have come. Inside a group
/// it runs in a thread of its own, so that one thread can join several ranks.
Status groupAddInit(std::function<Status()> create);

/// Forgets what was collected, unlaunched: what ncclGroupSimulateEnd and a failed group do.
void groupDiscard();

}  // namespace nccom
