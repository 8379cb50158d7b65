#include "enc/verify_run.h"

#include <algorithm>

#include "enc/buffers.h"

namespace nccom {

encVerifyRun::encVerifyRun(const encVerifyWorld& world, bool jump) : world_(world), jump_(jump) {
  for (size_t i = 0; i < world.operations.size(); i++) {
    auto plan = jump ? encPlanJumps(world, static_cast<int>(i)) : std::nullopt;
    mayJump_.push_back(plan.has_value());
    trusted_.push_back(plan ? std::move(*plan) : std::vector<encTrustedBytes>{});
  }
  ranks_.resize(world.info.rank_n);
  semaphores_.resize(world.raisers.size());
  for (size_t id = 0; id < world.raisers.size(); id++)
    semaphores_[id].setRaisers(world.raisers[id]);
  numberAgents();
}

/// An agent for each queue of each rank (whatever the operation), and for both ends of each wire.
void encVerifyRun::numberAgents() {
  for (size_t rank = 0; rank < ranks_.size(); rank++) {
    size_t queues = 0;
    for (const encOperation& operation : world_.operations) {
      queues = std::max(queues, operation[rank].queues.size());
    }
    ranks_[rank].firstAgent = static_cast<int>(agents_);
    agents_ += queues;
  }
  for (const encOperation& operation : world_.operations) {
    for (const encProgram& program : operation) {
      for (size_t i = 0; i < program.connections.size(); i++) {
        const encConnection& connection = program.connections[i];
        Wire& w = wire(program.rank, connection);
        NetEnd& own = connection.send ? w.from : w.to;
        if (own.agent < 0) own.agent = static_cast<int>(agents_++);
        own.rank = program.rank;
        own.semaphore = connection.semaphore;
      }
    }
  }
  for (Rank& rank : ranks_)
    rank.clock.assign(agents_, 0);
  for (auto& [key, w] : wires_) {
    w.from.clock.assign(agents_, 0);
    w.to.clock.assign(agents_, 0);
  }
}

encVerifyRun::Wire& encVerifyRun::wire(int rank, const encConnection& connection) {
  return wires_[{connection.send ? rank : connection.peer, connection.send ? connection.peer : rank,
                 connection.channel}];
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
  return leftovers();
}

/// Starts a rank's next operation; those without queues end at once.
Status encVerifyRun::launch(int rank) {
  Rank& r = ranks_[rank];
  while (++r.operation < static_cast<int>(world_.operations.size())) {
    const encProgram& program = world_.program(r.operation, rank);
    prepareBuffers(rank);
    r.running = true;
    r.queuesLeft = program.queues.size();
    r.queues.assign(program.queues.size(), {});
    for (size_t i = 0; i < r.queues.size(); i++) {
      Queue& queue = r.queues[i];
      queue.agent = r.firstAgent + static_cast<int>(i);
      queue.clock = r.clock;
      queue.clock[queue.agent]++;
      runnable_.push_back({rank, i});
    }
    if (!r.queues.empty()) r.launchTime = r.queues[0].clock[r.firstAgent];
    wake(r.waiting);
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
  r.inputs.clear();
  r.outputs.clear();
  r.work = {};
  for (size_t i = 0; i < count(task.recvs); i++)
    r.outputs[static_cast<uint16_t>(i)];
  for (size_t n = 0; n < count(task.sends); n++) {
    const auto i = static_cast<uint16_t>(n);
    const uint64_t bytes = encBufferBytes(task, rank, world_.info.rank_n, encBuffer::Input, i);
    r.inputs[i].preset(0, static_cast<int64_t>(bytes),
                       {contents_.of({rank}, r.operation, i, 0, 0), 0});
  }
  for (const encTrustedBytes& trusted : trusted_[r.operation]) {
    if (trusted.rank != rank) continue;
    auto& memories = trusted.buffer == encBuffer::Input ? r.inputs : r.outputs;
    memories[trusted.index].trust(trusted.begin, trusted.end);
  }
}

/// All queues have ended: outputs count, and from now on the buffers are the caller's.
Status encVerifyRun::end(int rank) {
  Rank& r = ranks_[rank];
  for (const Queue& queue : r.queues)
    encJoin(r.clock, queue.clock);
  for (const auto& [index, memory] : r.inputs)
    TRY(checkDone(rank, memory, "INPUT"));
  for (const auto& [index, memory] : r.outputs)
    TRY(checkDone(rank, memory, "OUTPUT"));
  TRY(checkDone(rank, r.work, "work area"));
  TRY(checkOutputs(rank));
  TRY(checkNetworkDone(rank));
  const encProgram& program = world_.program(r.operation, rank);
  for (const auto& [number, total] : program.totals) {
    semaphore(rank, number).base += static_cast<int64_t>(total);
  }
  for (const encMessage& send : program.task.sends)
    r.posted[send.peer]++;
  r.running = false;
  return Ok{};
}

/// The rank knows of all accesses to its memory.
Status encVerifyRun::checkDone(int rank, const encMemory& memory, const char* what) const {
  const Rank& r = ranks_[rank];
  const auto conflict = memory.unordered(r.clock);
  if (!conflict) return Ok{};
  return fail(ncclInternalError,
              "operation %d: rank %d ends, but bytes %lld to %lld of its %s are not known to be "
              "done with: %s",
              r.operation, rank, static_cast<long long>(conflict->begin),
              static_cast<long long>(conflict->end), what, text(*conflict).c_str());
}

/// The rank knows that the network is done with all that it posted.
Status encVerifyRun::checkNetworkDone(int rank) const {
  const Rank& r = ranks_[rank];
  for (const auto& [key, w] : wires_) {
    for (const NetEnd* own : {&w.from, &w.to}) {
      const bool done = own->rank != rank || own->agent < 0 ||
                        (own->entries.empty() && r.clock[own->agent] >= own->clock[own->agent]);
      if (done) continue;
      return fail(ncclInternalError,
                  "operation %d: rank %d ends without knowing that the network is done %s rank %d",
                  r.operation, rank, own == &w.from ? "sending to" : "receiving from",
                  own == &w.from ? std::get<1>(key) : std::get<0>(key));
    }
  }
  return Ok{};
}

Status encVerifyRun::runQueue(encQueueRef ref) {
  for (;;) {
    Rank& r = ranks_[ref.rank];
    Queue& queue = r.queues[ref.queue];
    const encProgram& program = world_.program(r.operation, ref.rank);
    const encBlock& block = program.queues[ref.queue].blocks[queue.at.block];
    const encSite site{r.operation, ref.rank, ref.queue, queue.at.block, queue.at.desc};
    const Step step = TRY(execute(ref, site, block.descs[queue.at.desc]));
    if (step == Step::Blocked) return Ok{};
    if (++queue.at.desc < block.descs.size()) continue;
    TRY(advance(ref, block));
    if (queue.at.block < program.queues[ref.queue].blocks.size()) continue;
    if (--r.queuesLeft > 0) return Ok{};
    TRY(end(ref.rank));
    return launch(ref.rank);
  }
}

/// The queue has come to the end of an iteration.
Status encVerifyRun::advance(encQueueRef ref, const encBlock& block) {
  Rank& r = ranks_[ref.rank];
  Cursor& at = r.queues[ref.queue].at;
  at.desc = 0;
  at.iteration++;
  if (at.iteration == kHeadIterations && mayJump_[r.operation] && encJumps(block)) {
    TRY(jump(ref, block));
    at.iteration = block.repeat - kTailIterations;
  }
  if (at.iteration < block.repeat) return Ok{};
  at.iteration = 0;
  at.block++;
  return Ok{};
}

/// Makes the increments and the network entries of the iterations between head and tail.
Status encVerifyRun::jump(encQueueRef ref, const encBlock& block) {
  jumped_ = true;
  Rank& r = ranks_[ref.rank];
  Queue& queue = r.queues[ref.queue];
  const uint64_t skipped = block.repeat - kHeadIterations - kTailIterations;
  for (size_t i = 0; i < block.descs.size(); i++) {
    const encDesc& desc = block.descs[i];
    const encSite site{r.operation, ref.rank, ref.queue, queue.at.block, i};
    if (desc.type == encDescType::Inc) {
      const encRaiser raiser{ref.rank, r.operation, ref.queue,
                             static_cast<uint64_t>(desc.value) * skipped};
      raise(desc.rank, desc.semaphore, raiser, snapshot(queue));
    } else if (desc.type == encDescType::NetSend || desc.type == encDescType::NetRecv) {
      TRY(netPost(ref, site, desc, skipped));
    }
  }
  return Ok{};
}

Result<encVerifyRun::Step> encVerifyRun::execute(encQueueRef ref, const encSite& site,
                                                 const encDesc& desc) {
  Queue& queue = ranks_[ref.rank].queues[ref.queue];
  switch (desc.type) {
    case encDescType::Transfer:
      return transfer(ref, site, desc);
    case encDescType::Wait: {
      encOrderedSemaphore& s = semaphore(ref.rank, desc.semaphore);
      const int64_t value =
          s.base + desc.value + static_cast<int64_t>(queue.at.iteration) * desc.stride;
      if (!s.reached(value)) {
        s.waiting.push_back(ref);
        return Step::Blocked;
      }
      s.acquire(value, queue.agent, queue.clock);
      queue.snapshot.reset();
      return Step::Done;
    }
    case encDescType::Inc: {
      const encRaiser raiser{ref.rank, site.operation, ref.queue,
                             static_cast<uint64_t>(desc.value)};
      raise(desc.rank, desc.semaphore, raiser, snapshot(queue));
      return Step::Done;
    }
    case encDescType::Post:
      TRY(post(ref, site, desc));
      return Step::Done;
    case encDescType::NetSend:
    case encDescType::NetRecv:
      TRY(netPost(ref, site, desc, 0));
      return Step::Done;
  }
  return Step::Done;
}

encSnapshot encVerifyRun::snapshot(Queue& queue) {
  if (!queue.snapshot) queue.snapshot = std::make_shared<const encClock>(queue.clock);
  return queue.snapshot;
}

void encVerifyRun::raise(int rank, uint32_t number, const encRaiser& raiser, encSnapshot clock) {
  encOrderedSemaphore& s = semaphore(rank, number);
  s.raise(raiser.party, raiser.operation, raiser.queue, raiser.total, std::move(clock));
  wake(s.waiting);
}

void encVerifyRun::wake(std::vector<encQueueRef>& waiting) {
  runnable_.insert(runnable_.end(), waiting.begin(), waiting.end());
  waiting.clear();
}

Status encVerifyRun::post(encQueueRef ref, const encSite& site, const encDesc& desc) {
  Rank& r = ranks_[ref.rank];
  Queue& queue = r.queues[ref.queue];
  std::map<uint64_t, Posted>& posts = posts_[{ref.rank, desc.rank}];
  const uint64_t number = r.posted[desc.rank] + static_cast<uint64_t>(desc.value);
  const auto earlier = number >= kMaxPosted ? posts.find(number - kMaxPosted) : posts.end();
  if (number >= kMaxPosted && (earlier == posts.end() || !earlier->second.wasRead ||
                               !earlier->second.read.before(queue.clock))) {
    return world_.bad(site, "message " + std::to_string(number - kMaxPosted) +
                                " is not known to be pulled: at most " +
                                std::to_string(kMaxPosted) + " may be outstanding");
  }
  queue.clock[queue.agent]++;
  queue.snapshot.reset();
  const encAccess access{queue.agent, queue.clock[queue.agent], world_.siteId(site), 0};
  if (!posts.try_emplace(number, Posted{site.operation, desc.index, desc.bytes, access, {}, false})
           .second) {
    return world_.bad(site, "message " + std::to_string(number) + " is posted twice");
  }
  raise(desc.rank, desc.semaphore, {ref.rank, site.operation, ref.queue, 1}, snapshot(queue));
  return Ok{};
}

Status encVerifyRun::netPost(encQueueRef ref, const encSite& site, const encDesc& desc,
                             uint64_t skipped) {
  Queue& queue = ranks_[ref.rank].queues[ref.queue];
  const encConnection& connection =
      world_.program(site.operation, ref.rank).connections[desc.connection];
  Wire& w = wire(ref.rank, connection);
  NetEnd& own = connection.send ? w.from : w.to;
  own.connection = desc.connection;
  NetEntry entry;
  entry.count = skipped > 0 ? skipped : 1;
  entry.bytes = desc.bytes;
  entry.jump = skipped > 0;
  entry.offset = desc.net.offset + static_cast<int64_t>(queue.at.iteration) * desc.net.stride;
  entry.clock = snapshot(queue);
  entry.site = world_.siteId(site);
  entry.iteration = queue.at.iteration;
  own.entries.push_back(std::move(entry));
  return netProgress(w);
}

/// The network carries what has been posted at both ends, in order.
Status encVerifyRun::netProgress(Wire& w) {
  while (!w.from.entries.empty() && !w.to.entries.empty()) {
    const NetEntry send = std::move(w.from.entries.front());
    const NetEntry receive = std::move(w.to.entries.front());
    w.from.entries.pop_front();
    w.to.entries.pop_front();
    if (send.bytes != receive.bytes || send.count != receive.count || send.jump != receive.jump) {
      return world_.bad(world_.sites[send.site], "meets a receive of another size or number: " +
                                                     world_.text(world_.sites[receive.site]));
    }
    TRY(netMove(w, send, receive));
    const auto finish = [&](NetEnd& own, const NetEntry& entry) {
      raise(own.rank, own.semaphore,
            {encRaiser::kProxyParty, world_.sites[entry.site].operation,
             world_.desc(world_.sites[entry.site]).connection, entry.count},
            std::make_shared<const encClock>(own.clock));
    };
    finish(w.from, send);
    finish(w.to, receive);
  }
  return Ok{};
}

Status encVerifyRun::netMove(Wire& w, const NetEntry& send, const NetEntry& receive) {
  encJoin(w.from.clock, *send.clock);
  w.from.clock[w.from.agent]++;
  encJoin(w.to.clock, *receive.clock);
  encJoin(w.to.clock, w.from.clock);  // the data came from there
  w.to.clock[w.to.agent]++;
  if (send.jump) return Ok{};
  const encAccess reads{w.from.agent, w.from.clock[w.from.agent], send.site, send.iteration};
  const encAccess writes{w.to.agent, w.to.clock[w.to.agent], receive.site, receive.iteration};
  std::vector<encMemory::Piece> pieces;
  const int64_t end = send.offset + static_cast<int64_t>(send.bytes);
  const auto missing =
      ranks_[w.from.rank].scratch.read(send.offset, end, reads, w.from.clock, pieces);
  if (missing) return world_.bad(world_.sites[send.site], text(*missing));
  const int64_t moved = receive.offset - send.offset;
  for (encMemory::Piece& piece : pieces) {
    piece.begin += moved;
    piece.end += moved;
    piece.value.shift -= moved;
  }
  const int party = world_.info.rank_n + w.to.agent;
  const auto conflict = ranks_[w.to.rank].scratch.write(pieces, writes, w.to.clock, party);
  if (conflict) return world_.bad(world_.sites[receive.site], text(*conflict));
  return Ok{};
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
      const encSite site{r.operation, static_cast<int>(rank), i, at.block, at.desc};
      const encDesc& desc = world_.desc(site);
      text += "\n  " + world_.text(site) + ", iteration " + std::to_string(at.iteration);
      if (desc.type == encDescType::Wait) {
        const auto& s = semaphores_[world_.semaphoreId(site.rank, desc.semaphore)];
        text += ": " + world_.layouts[0].semaphoreName(desc.semaphore) + " is at " +
                std::to_string(s.value() - s.base);
      }
      named++;
    }
  }
  return Error{ncclInternalError, std::move(text)};
}

Status encVerifyRun::leftovers() const {
  for (const auto& [key, w] : wires_) {
    for (const NetEnd* own : {&w.from, &w.to}) {
      if (own->entries.empty()) continue;
      return world_.bad(world_.sites[own->entries.front().site],
                        "has no counterpart at the other end");
    }
  }
  return Ok{};
}

}  // namespace nccom
