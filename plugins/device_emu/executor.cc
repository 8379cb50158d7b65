#include "plugins/device_emu/executor.h"

#include <algorithm>

#include "plugins/device_emu/addresses.h"
#include "plugins/device_emu/engine.h"
#include "plugins/device_emu/fold.h"
#include "plugins/device_emu/foreign.h"
#include "plugins/device_emu/mail.h"
#include "plugins/device_emu/report.h"
#include "plugins/device_emu/runtime.h"

namespace nccom::emu {

void raiseSemaphore(Context& context, Comm& comm, Peer& peer, uint32_t semaphore, uint64_t value) {
  if (!peer.semaphores[semaphore].raise(value)) return;
  if (!peer.sameProcess()) {
    peer.doorbell->ring();
    return;
  }
  Comm& target = peer.rank == comm.rank() ? comm : *peer.local;
  const uint32_t waiting = target.parked[semaphore].load(std::memory_order_seq_cst);
  if (waiting == 0) return;
  // A communicator newer than our list may go away while we hold the hint.
  if (context.generation == comm.runtime().engine().generation()) {
    context.push({&target, waiting - 1});
  } else {
    context.again = true;
  }
}

Executor::Executor(Engine& engine, Context& context, Comm& comm, uint32_t queue)
    : engine_(engine), context_(context), comm_(comm), run_(comm.runs[queue]), queue_(queue) {}

void Executor::run() {
  // acquire, pairs with the release that starts the operation; the lock keeps it from ending
  if (comm_.phase.load(std::memory_order_seq_cst) != Phase::kRunning) return;
  if (run_.finished.load(std::memory_order_relaxed)) return;  // written with the lock held
  op_ = comm_.current.load(std::memory_order_acquire);
  const LoadedProgram& program = *op_->program;
  const nccomQueue_v1& queue = program.queues()[queue_];
  while (run_.block < queue.nBlocks) {
    const nccomBlock_v1& block = program.blocks()[queue.firstBlock + run_.block];
    repeat_ = block.repeat;
    while (run_.desc < block.nDescs) {
      if (comm_.failed()) return;
      const nccomDesc_v1& desc = program.descs()[block.firstDesc + run_.desc];
      run_.step.store(desc.step, std::memory_order_relaxed);
      if (!step(desc)) return;
      run_.desc++;
      context_.moves++;
      run_.steps.store(run_.steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    run_.desc = 0;
    if (++run_.iteration == block.repeat) {
      run_.iteration = 0;
      run_.block++;
    }
  }
  run_.finished.store(true, std::memory_order_release);
  comm_.remaining.fetch_sub(1, std::memory_order_seq_cst);
}

/// @return false: not done; the queue stays at this descriptor
bool Executor::step(const nccomDesc_v1& desc) {
  switch (desc.type) {
    case nccomDescWait:
      return wait(desc);
    case nccomDescTransfer:
      return transfer(desc);
    case nccomDescPost:
      return post(desc);
    case nccomDescInc:
      raiseSemaphore(context_, comm_, *comm_.peer(desc.rank), desc.semaphore,
                     static_cast<uint64_t>(desc.value));
      return true;
    default:
      net(desc);
      return true;  // the program was checked: NetSend or NetRecv
  }
}

bool Executor::wait(const nccomDesc_v1& desc) {
  const int64_t value = desc.value + desc.stride * static_cast<int64_t>(run_.iteration) +
                        static_cast<int64_t>(comm_.base[desc.semaphore]);
  const auto target = static_cast<uint64_t>(std::max<int64_t>(value, 0));
  SemaphoreCell& cell = comm_.semaphores()[desc.semaphore];
  // acquire, pairs with S
  if (cell.value.load(std::memory_order_acquire) < target) {
    // seq_cst, pairs with SemaphoreCell::raise(): either it sees us, or park() sees its increment
    comm_.parked[desc.semaphore].store(queue_ + 1, std::memory_order_seq_cst);
    cell.awaited.store(target, std::memory_order_seq_cst);
    run_.semaphore.store(desc.semaphore, std::memory_order_relaxed);
    if (park(run_, WaitKind::kSemaphore, desc.rank, cell.value, target)) return false;
  }
  // relaxed: a raise that still sees it wakes us in vain
  if (cell.awaited.load(std::memory_order_relaxed) != 0) {
    cell.awaited.store(0, std::memory_order_relaxed);
  }
  unpark(run_);
  return true;
}

void Executor::net(const nccomDesc_v1& desc) {
  std::atomic_ref<uint64_t> posted(comm_.hostIndex(desc.connection).posted);
  posted.fetch_add(1, std::memory_order_release);  // pairs with the proxy's acquire
  const nccomHostCalls_v1& host = comm_.config().host;
  if (host.netPosted != nullptr) host.netPosted(host.arg);
}

bool Executor::post(const nccomDesc_v1& desc) {
  if (op_->posted) return true;  // as an exchange
  Peer& peer = *comm_.peer(desc.rank);
  if (!hasMailboxes(peer) && park(run_, WaitKind::kMailboxes, peer.rank, peer.page->mailboxes, 1)) {
    return false;
  }
  const Mail mail = outgoing(comm_, peer, desc);
  if (!hasRoom(peer, mail, desc)) {
    // seq_cst, pairs with takeMail(): either it sees that we wait, or park() sees it taken
    mail.box->sender.store(1, std::memory_order_seq_cst);
    if (park(run_, WaitKind::kMailFull, peer.rank, mail.box->taken, takenBefore(mail, desc))) {
      return false;
    }
  }
  unpark(run_);
  const bool sleeps = postMail(comm_, *op_, mail, desc);
  if (peer.sameProcess()) {
    goOnWith(mail.entry->posted, peer);
  } else if (sleeps) {
    peer.doorbell->ring();
  }
  return true;
}

/// Hints at the queue of a rank of this process that is parked on a cell that has changed.
void Executor::goOnWith(const std::atomic<uint64_t>& cell, const Peer& peer) {
  Comm& other = peer.rank == comm_.rank() ? comm_ : *peer.local;
  const uint32_t n = other.nQueues.load(std::memory_order_relaxed);
  for (uint32_t queue = 0; queue < n; queue++) {
    // seq_cst, pairs with Q1: either we see it parked, or it sees the cell
    if (other.runs[queue].cell.load(std::memory_order_seq_cst) != &cell) continue;
    // A communicator newer than our list may go away while we hold the hint.
    if (context_.generation == comm_.runtime().engine().generation()) {
      context_.push({&other, queue});
    } else {
      context_.again = true;
    }
  }
}

bool Executor::transfer(const nccomDesc_v1& desc) {
  if (desc.bytes > context_.budgetBytes) {
    context_.exhausted = true;
    return false;
  }
  bool foreign = false;
  if (!locate(desc, foreign)) return false;
  unpark(run_);
  if (desc.bytes >= Engine::kWorthSharing) engine_.share(context_);
  if (!move(desc, foreign)) return false;
  context_.budgetBytes -= context_.budgetBytes == UINT64_MAX ? 0 : desc.bytes;
  take(desc);
  return true;
}

bool Executor::locate(const nccomDesc_v1& desc, bool& foreign) {
  const auto addresses = op_->program->addresses().subspan(
      desc.firstAddress, size_t{desc.nSources} + desc.nDestinations);
  for (uint32_t k = 0; k < addresses.size(); k++) {
    Spot& spot = k < desc.nSources ? context_.sources[k] : context_.destinations[k - desc.nSources];
    if (findSpot({comm_, *op_, run_}, addresses[k], run_.iteration, desc.bytes, spot) !=
        Found::kYes) {
      return false;
    }
    foreign = foreign || spot.foreign();
  }
  return true;
}

/// In tiles, so that a failure is noticed soon.
bool Executor::move(const nccomDesc_v1& desc, bool foreign) {
  const uint64_t tile = foreign ? Engine::kForeignTile
                                : engine_.tileBytes(uint32_t{desc.nSources} + desc.nDestinations);
  for (uint64_t at = 0; at < desc.bytes; at += tile) {
    if (at > 0) {
      if (comm_.failed()) return false;
      run_.steps.store(run_.steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    const uint64_t bytes = std::min(tile, desc.bytes - at);
    if (!(foreign ? moveForeign(desc, at, bytes) : moveDirect(desc, at, bytes))) return false;
  }
  return true;
}

bool Executor::moveDirect(const nccomDesc_v1& desc, uint64_t at, uint64_t bytes) {
  std::array<const void*, kMaxSources> sources;
  std::array<void*, kMaxDestinations> destinations;
  for (uint32_t k = 0; k < desc.nSources; k++)
    sources[k] = context_.sources[k].direct + at;
  for (uint32_t k = 0; k < desc.nDestinations; k++) {
    destinations[k] = context_.destinations[k].direct + at;
  }
  compute(desc, sources.data(), destinations.data(), bytes);
  return true;
}

/// Foreign sources are read into, foreign destinations written from this thread's bounce memory; a
/// plain copy with one foreign side needs none.
bool Executor::moveForeign(const nccomDesc_v1& desc, uint64_t at, uint64_t bytes) {
  const Spot& source = context_.sources[0];
  const Spot& destination = context_.destinations[0];
  if (!computes(desc) && desc.nDestinations == 1 && source.foreign() != destination.foreign()) {
    return check(
        source.foreign()
            ? cmaRead(source.pid, source.remote + at, destination.direct + at, bytes)
            : cmaWrite(destination.pid, destination.remote + at, source.direct + at, bytes));
  }
  const size_t n = size_t{desc.nSources} + desc.nDestinations;
  if (context_.bounce.size() < n * Engine::kForeignTile) {
    context_.bounce.resize(n * Engine::kForeignTile);
  }
  std::byte* room = context_.bounce.data();
  std::array<const void*, kMaxSources> sources;
  std::array<void*, kMaxDestinations> destinations;
  for (uint32_t k = 0; k < desc.nSources; k++, room += Engine::kForeignTile) {
    const Spot& spot = context_.sources[k];
    sources[k] = spot.foreign() ? room : spot.direct + at;
    if (spot.foreign() && !check(cmaRead(spot.pid, spot.remote + at, room, bytes))) return false;
  }
  for (uint32_t k = 0; k < desc.nDestinations; k++, room += Engine::kForeignTile) {
    const Spot& spot = context_.destinations[k];
    destinations[k] = spot.foreign() ? room : spot.direct + at;
  }
  compute(desc, sources.data(), destinations.data(), bytes);
  for (uint32_t k = 0; k < desc.nDestinations; k++) {
    const Spot& spot = context_.destinations[k];
    if (spot.foreign() && !check(cmaWrite(spot.pid, spot.remote + at, destinations[k], bytes))) {
      return false;
    }
  }
  return true;
}

bool Executor::check(const Status& status) {
  if (status.ok()) return true;
  comm_.raise(fail(status.error().code, "rank %d: %s: %s", comm_.rank(), describe(*op_).c_str(),
                   status.error().message.c_str()));
  return false;
}

void Executor::compute(const nccomDesc_v1& desc, const void* const* sources,
                       void* const* destinations, uint64_t bytes) {
  foldTransfer(*op_, desc, sources, destinations, bytes, engine_.streams(writtenBy(desc)));
}

/// Bytes that are written before the first of them is likely to be read: where a block goes through
/// our OUTPUT, and that is all it writes with this, those of all its iterations.
uint64_t Executor::writtenBy(const nccomDesc_v1& desc) const {
  const uint64_t bytes = desc.bytes * desc.nDestinations;
  if (repeat_ == 1 || desc.nDestinations != 1) return bytes;
  const nccomAddress_v1& to = op_->program->addresses()[desc.firstAddress + desc.nSources];
  const bool ours = to.rank == comm_.rank() && to.buffer == nccomBufferOutput;
  return ours && to.stride != 0 ? bytes * repeat_ : bytes;
}

void Executor::take(const nccomDesc_v1& desc) {
  if (op_->program->posted().empty()) return;
  for (const nccomAddress_v1& address :
       op_->program->addresses().subspan(desc.firstAddress, desc.nSources)) {
    if (address.buffer == nccomBufferPosted) takeOne(address);
  }
}

/// One use of a message less; after the last its entry is free for the sender.
void Executor::takeOne(const nccomAddress_v1& address) {
  const size_t use = op_->program->postedAt(address.rank, address.index);
  // relaxed would not do: the last user frees what the others have read
  std::atomic_ref<uint64_t> left(op_->postedLeft[use]);
  if (left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const Mail mail = incoming(comm_, address.rank, address.index);
  if (!takeMail(mail)) return;
  const Peer& peer = *comm_.peer(address.rank);
  if (peer.sameProcess()) {
    goOnWith(mail.box->taken, peer);
  } else {
    peer.doorbell->ring();
  }
}

}  // namespace nccom::emu
