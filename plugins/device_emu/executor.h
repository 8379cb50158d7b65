// Executes the queues of operations: one descriptor after the other until a wait is not satisfied.
#pragma once

#include <cstdint>

#include "plugins/device_emu/comm.h"
#include "plugins/device_emu/context.h"

namespace nccom::emu {

class Engine;

/// Raises a semaphore of `peer` and sees to it that whoever waits for it goes on: in this process
/// through the context's hints, in another by its doorbell.
void raiseSemaphore(Context& context, Comm& comm, Peer& peer, uint32_t semaphore, uint64_t value);

// Bound to a queue whose lock the caller holds.
class Executor {
 public:
  Executor(Engine& engine, Context& context, Comm& comm, uint32_t queue);

  /// Runs until the queue is finished, must wait, is over budget, or the communicator has failed.
  void run();

 private:
  bool step(const nccomDesc_v1& desc);
  bool wait(const nccomDesc_v1& desc);
  bool post(const nccomDesc_v1& desc);
  void goOnWith(const std::atomic<uint64_t>& cell, const Peer& peer);
  bool transfer(const nccomDesc_v1& desc);
  bool locate(const nccomDesc_v1& desc, bool& foreign);
  bool move(const nccomDesc_v1& desc, bool foreign);
  bool moveForeign(const nccomDesc_v1& desc, uint64_t at, uint64_t bytes);
  bool moveDirect(const nccomDesc_v1& desc, uint64_t at, uint64_t bytes);
  bool check(const Status& status);
  void compute(const nccomDesc_v1& desc, const void* const* sources, void* const* destinations,
               uint64_t bytes);
  uint64_t writtenBy(const nccomDesc_v1& desc) const;
  void take(const nccomDesc_v1& desc);
  void takeOne(const nccomAddress_v1& address);
  void net(const nccomDesc_v1& desc);

  Engine& engine_;
  Context& context_;
  Comm& comm_;
  QueueRun& run_;
  const uint32_t queue_;
  Op* op_ = nullptr;
  uint64_t repeat_ = 1;  // of the current block
};

}  // namespace nccom::emu
