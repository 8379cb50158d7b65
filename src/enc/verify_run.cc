#include "enc/verify_run.h"

#include <algorithm>

#include "enc/buffers.h"

namespace nccom {
namespace {

size_t mostQueues(const encVerifyWorld& world) {
  size_t most = 0;
  for (const encOperation& operation : world.operations) {
    for (const encProgram& program : operation)
      most = std::max(most, program.queues.size());
  }
  return most;
}

constexpr const char* kUnknownPass =
    "another pass may have raised it before all increments of that one were made";

}  // namespace

encVerifyRun::encVerifyRun(const encVerifyWorld& world, bool jump)
    : world_(world),
      jump_(jump),
      order_(static_cast<int>(mostQueues(world)) * world.info.rank_n),
      ranks_(world.info.rank_n),
      semaphores_(world.semaphores.size()),
      sums_(world.operations.size()),
      expectations_(world, contents_) {
  for (size_t i = 0; i < world.operations.size(); i++) {
    const auto plan = jump ? encPlanJumps(world, static_cast<int>(i)) : std::nullopt;
    mayJump_.push_back(plan.has_value());
    trusted_.emplace_back(world.info.rank_n);
    if (!plan) continue;
    for (const encTrustedBytes& trusted : *plan)
      trusted_[i][trusted.rank].push_back(trusted);
  }
  for (size_t id = 0; id < world.semaphores.size(); id++)
    semaphores_[id].setRaisers(world.semaphores[id].raisers);
  layWires();
}

Status encVerifyRun::run() {
  for (size_t rank = 0; rank < ranks_.size(); rank++)
    TRY(launch(static_cast<int>(rank)));
  while (!runnable_.empty()) {
    const encQueueRef ref = runnable_.front();
    runnable_.pop_front();
    TRY(runQueue(ref));
  }
  for (const Rank& rank : ranks_) {
    if (rank.running) return deadlock();
  }
  TRY(unread());
  return leftovers();
}

/// Starts a rank's next operation; those without queues end at once.
Status encVerifyRun::launch(int rank) {
  Rank& r = ranks_[rank];
  while (++r.operation < static_cast<int>(world_.operations.size())) {
    const encProgram& program = world_.program(r.operation, rank);
    prepareBuffers(rank);
    r.running = true;
    r.found.clear();
    r.queuesLeft = program.queues.size();
    r.queues.assign(program.queues.size(), {});
    r.times.resize(std::max(r.times.size(), r.queues.size()), 0);
    for (size_t i = 0; i < r.queues.size(); i++) {
      Queue& queue = r.queues[i];
      queue.launchTime = r.times[i] + 1;
      queue.state = r.state;
      queue.state.knowledge.agent = agentOf(rank, i);
      queue.state.knowledge.time = queue.launchTime;
      queue.chain = r.state.chain;
      queue.at.site = world_.blockSite(r.operation, rank, i, 0);
      runnable_.push_back({rank, i});
    }
    runnable_.insert(runnable_.end(), r.waiting.begin(), r.waiting.end());
    r.waiting.clear();
    if (r.queuesLeft > 0) return Ok{};
    TRY(end(rank));
  }
  return Ok{};
}

void encVerifyRun::prepareBuffers(int rank) {
  Rank& r = ranks_[rank];
  const encTask& task = world_.program(r.operation, rank).task;
  const auto count = [&](const std::vector<encMessage>& messages) {
    return task.op == encOp::SendRecv ? messages.size() : 1;
  };
  r.inputs.assign(count(task.sends), {});
  r.outputs.assign(count(task.recvs), {});
  r.work = {};
  for (size_t n = 0; n < r.inputs.size(); n++) {
    const auto i = static_cast<uint16_t>(n);
    const uint64_t bytes = encBufferBytes(task, rank, world_.info.rank_n, encBuffer::Input, i);
    r.inputs[n].preset(0, static_cast<int64_t>(bytes), contents_.input(rank, r.operation, i));
  }
  for (const encTrustedBytes& trusted : trusted_[r.operation][rank]) {
    auto& memories = trusted.buffer == encBuffer::Input ? r.inputs : r.outputs;
    memories[trusted.index].trust(trusted.begin, trusted.end);
  }
}

/// All queues have ended: outputs count, and from now on the buffers are the caller's.
Status encVerifyRun::end(int rank) {
  Rank& r = ranks_[rank];
  for (size_t i = 0; i < r.queues.size(); i++) {
    const encRelease& state = r.queues[i].state;
    r.times[i] = state.knowledge.time;
    order_.learn(r.state.knowledge, state.knowledge);
    r.state.chain = std::max(r.state.chain, state.chain);
  }
  steps_ = std::max(steps_, r.state.chain);
  for (const encMemory& memory : r.inputs)
    TRY(checkDone(rank, memory, "INPUT"));
  for (const encMemory& memory : r.outputs)
    TRY(checkDone(rank, memory, "OUTPUT"));
  TRY(checkDone(rank, r.work, "work area"));
  TRY(checkOutputs(rank));
  TRY(checkOrder(rank));
  TRY(checkNetworkDone(rank));
  const encProgram& program = world_.program(r.operation, rank);
  for (const auto& [number, total] : program.totals) {
    semaphores_[*world_.findSemaphore(rank, number)].base += static_cast<int64_t>(total);
  }
  for (const encMessage& send : program.task.sends)
    r.posted[send.peer]++;
  for (const encMessage& recv : program.task.recvs)
    r.received[recv.peer]++;
  r.running = false;
  return Ok{};
}

/// The rank knows of all accesses to its memory.
Status encVerifyRun::checkDone(int rank, const encMemory& memory, const char* what) const {
  const Rank& r = ranks_[rank];
  const auto conflict = memory.unordered(observer(r.state.knowledge));
  if (!conflict) return Ok{};
  return fail(ncclInternalError,
              "operation %d: rank %d ends, but bytes %lld to %lld of its %s are not known to be "
              "done with: %s",
              r.operation, rank, static_cast<long long>(conflict->begin),
              static_cast<long long>(conflict->end), what, text(*conflict).c_str());
}

Status encVerifyRun::runQueue(encQueueRef ref) {
  Rank& r = ranks_[ref.rank];
  Queue& queue = r.queues[ref.queue];
  const encQueue& program = world_.program(r.operation, ref.rank).queues[ref.queue];
  for (;;) {
    const encBlock& block = program.blocks[queue.at.block];
    const uint32_t site = queue.at.site + static_cast<uint32_t>(queue.at.desc);
    const Step step = TRY(execute(ref, site, block.descs[queue.at.desc]));
    if (step == Step::Blocked) return Ok{};
    if (++queue.at.desc < block.descs.size()) continue;
    TRY(advance(ref, block));
    if (queue.at.block < program.blocks.size()) continue;
    if (--r.queuesLeft > 0) return Ok{};
    TRY(end(ref.rank));
    return launch(ref.rank);
  }
}

/// The queue has come to the end of an iteration.
Status encVerifyRun::advance(encQueueRef ref, const encBlock& block) {
  Queue& queue = queueOf(ref);
  Cursor& at = queue.at;
  at.desc = 0;
  at.iteration++;
  if (at.iteration == kHeadIterations && mayJump_[ranks_[ref.rank].operation] && encJumps(block)) {
    TRY(jump(ref, block));
    at.iteration = block.repeat - kTailIterations;
  }
  queue.chain = queue.state.chain;
  if (at.iteration < block.repeat) return Ok{};
  at.iteration = 0;
  at.block++;
  at.site += static_cast<uint32_t>(block.descs.size());
  return Ok{};
}

/// Makes the increments and the network entries of the iterations between head and tail. Chains
/// grow with each of them as with the last one before.
Status encVerifyRun::jump(encQueueRef ref, const encBlock& block) {
  jumped_ = true;
  Queue& queue = queueOf(ref);
  const uint64_t skipped = block.repeat - kHeadIterations - kTailIterations;
  queue.state.chain += skipped * (queue.state.chain - queue.chain);
  for (size_t i = 0; i < block.descs.size(); i++) {
    const encDesc& desc = block.descs[i];
    const uint32_t site = queue.at.site + static_cast<uint32_t>(i);
    if (desc.type == encDescType::Inc) {
      TRY(raiseBy(ref, site, static_cast<uint64_t>(desc.value) * skipped));
    } else if (desc.type == encDescType::NetSend || desc.type == encDescType::NetRecv) {
      TRY(netPost(ref, site, desc, skipped));
    }
  }
  return Ok{};
}

Result<encVerifyRun::Step> encVerifyRun::execute(encQueueRef ref, uint32_t site,
                                                 const encDesc& desc) {
  Queue& queue = queueOf(ref);
  switch (desc.type) {
    case encDescType::Transfer:
      return transfer(ref, site, desc);
    case encDescType::Wait: {
      encOrderedSemaphore& s = semaphores_[world_.targets[site].semaphore];
      const int64_t value =
          s.base + desc.value + static_cast<int64_t>(queue.at.iteration) * desc.stride;
      if (!s.reached(value)) {
        s.waiting.push_back({ref, value});
        return Step::Blocked;
      }
      if (s.acquire(value, order_, queue.state)) return Step::Done;
      return world_.bad(site, std::string("is satisfied, but ") + kUnknownPass);
    }
    case encDescType::Inc:
      TRY(raiseBy(ref, site, static_cast<uint64_t>(desc.value)));
      return Step::Done;
    case encDescType::Post:
      return post(ref, site, desc);
    case encDescType::NetSend:
    case encDescType::NetRecv:
      TRY(netPost(ref, site, desc, 0));
      return Step::Done;
  }
  return Step::Done;
}

Status encVerifyRun::raiseBy(encQueueRef ref, uint32_t site, uint64_t count) {
  event(ref, site);
  return raise(site, count, queueOf(ref).state);
}

/// What the descriptor raises, with what its raiser knows; and those who wait for that.
Status encVerifyRun::raise(uint32_t site, uint64_t count, const encRelease& release) {
  const encTarget& target = world_.targets[site];
  encOrderedSemaphore& s = semaphores_[target.semaphore];
  const bool known = s.raise(target.raiser, count, release, order_);
  std::erase_if(s.waiting, [&](const encWaiter& waiter) {
    if (!s.reached(waiter.value)) return false;
    runnable_.push_back(waiter.queue);
    return true;
  });
  if (known) return Ok{};
  const encUsedSemaphore& semaphore = world_.semaphores[target.semaphore];
  return world_.bad(site, "raises semaphore " + std::to_string(semaphore.number) + " (" +
                              world_.layout.semaphoreName(semaphore.number) + ") of rank " +
                              std::to_string(semaphore.rank) + ", but " + kUnknownPass);
}

encAccess encVerifyRun::event(encQueueRef ref, uint32_t site) {
  Queue& queue = queueOf(ref);
  encKnowledge& knowledge = queue.state.knowledge;
  knowledge.time++;
  return {knowledge.agent, knowledge.time, site, queue.at.iteration};
}

Error encVerifyRun::deadlock() const {
  std::string text = "deadlock:";
  int named = 0;
  for (size_t rank = 0; rank < ranks_.size() && named < 8; rank++) {
    const Rank& r = ranks_[rank];
    for (size_t i = 0; i < r.queues.size() && r.running && named < 8; i++) {
      const Cursor& at = r.queues[i].at;
      const encQueue& queue = world_.program(r.operation, static_cast<int>(rank)).queues[i];
      if (at.block >= queue.blocks.size()) continue;
      const uint32_t site = at.site + static_cast<uint32_t>(at.desc);
      const encDesc& desc = world_.desc(world_.site(site));
      text += "\n  " + world_.text(site) + ", iteration " + std::to_string(at.iteration);
      if (desc.type == encDescType::Wait) {
        const encOrderedSemaphore& s = semaphores_[world_.targets[site].semaphore];
        text += ": " + world_.layout.semaphoreName(desc.semaphore) + " is at " +
                std::to_string(s.value() - s.base);
      }
      named++;
    }
  }
  return Error{ncclInternalError, std::move(text)};
}

}  // namespace nccom
