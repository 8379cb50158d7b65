// From a program's addresses to memory: whose buffer, where it is, whether it is known yet.
#pragma once

#include <cstdint>

#include "include/plugin/nccom_device.h"
#include "plugins/device_emu/comm.h"
#include "plugins/device_emu/context.h"

namespace nccom::emu {

enum class Found : uint8_t {
  kYes,
  kWait,    // the queue is parked until the buffer is published
  kFailed,  // the communicator has been failed
};

/// Parks `run` until `cell` >= `target`; the caller holds the queue's lock and then lets go of it.
/// @return false: it is there already, nothing is parked
bool park(QueueRun& run, WaitKind kind, int32_t rank, const std::atomic<uint64_t>& cell,
          uint64_t target);
/// The wait is over.
void unpark(QueueRun& run);

/// A queue of an operation; whoever uses it holds its lock.
struct RunningQueue {
  Comm& comm;
  const Op& op;
  QueueRun& run;
};

/// The place of `bytes` at `address` in iteration `iteration`.
Found findSpot(const RunningQueue& queue, const nccomAddress_v1& address, uint64_t iteration,
               uint64_t bytes, Spot& spot);

/// Whether the operation that `peer` has published as number `op.collective` is the same as ours;
/// fails the communicator if not.
bool sameCall(Comm& comm, const Op& op, const Peer& peer, const OpSlot& slot);

}  // namespace nccom::emu
