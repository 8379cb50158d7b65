#include "enc/builder.h"

#include <algorithm>
#include <vector>

#include "enc/permute.h"
#include "misc/check.h"
#include "misc/datatype.h"

namespace nccom {

namespace {}  // namespace

encDesc encWait(encStep step, int raisedBy, uint32_t semaphore, int64_t value) {
  encDesc desc;
  desc.type = encDescType::Wait;
  desc.step = step;
  desc.rank = raisedBy;
  desc.semaphore = semaphore;
  desc.value = value;
  return desc;
}

encDesc encInc(encStep step, int rank, uint32_t semaphore, int64_t value) {
  encDesc desc;
  desc.type = encDescType::Inc;
  desc.step = step;
  desc.rank = rank;
  desc.semaphore = semaphore;
  desc.value = value;
  return desc;
}

encDesc encTransfer(encStep step, encAddress source, encAddress destination, uint64_t bytes) {
  encDesc desc;
  desc.type = encDescType::Transfer;
  desc.step = step;
  desc.sources = {source};
  desc.destinations = {destination};
  desc.bytes = bytes;
  return desc;
}

encBuilder::encBuilder(const enc_comm_info& info, const encTask& task, std::string algorithm)
    : info_(info), layout_(encLayout::of(info)) {
  program_.rank = info.rank;
  program_.nRanks = info.rank_n;
  program_.task = task;
  program_.algorithm = std::move(algorithm);
}

size_t encBuilder::addQueue(uint32_t channel) {
  program_.queues.push_back({channel, {}});
  sections_.push_back(section_);
  return program_.queues.size() - 1;
}

size_t encBuilder::mainQueue(uint32_t channel) {
  const auto found = mainQueues_.find(channel);
  if (found != mainQueues_.end()) return found->second;
  return mainQueues_[channel] = addQueue(channel);
}

void encBuilder::beginBlock(size_t queue, uint64_t repeat) {
  NCCL_CHECK(repeat > 0);
  program_.queues[queue].blocks.push_back({repeat, {}});
  sections_[queue] = section_;
}

void encBuilder::append(size_t queue, encDesc desc) {
  if (program_.queues[queue].blocks.empty() || sections_[queue] != section_) {
    beginBlock(queue, repeat_);
  }
  program_.queues[queue].blocks.back().descs.push_back(std::move(desc));
}

void encBuilder::beginLoop(uint64_t repeat) {
  NCCL_CHECK(repeat_ == 1 && repeat > 0);
  repeat_ = repeat;
  section_++;
}

void encBuilder::endLoop() {
  for (size_t queue = 0; queue < program_.queues.size(); queue++) {
    if (sections_[queue] != section_ || repeat_ == 1) continue;
    for (encDesc& desc : program_.queues[queue].blocks.back().descs) {
      if (desc.type != encDescType::Wait) continue;
      desc.stride = static_cast<int64_t>(expected_[desc.semaphore].inIteration);
    }
  }
  for (auto& [semaphore, expected] : expected_) {
    expected.before += expected.inIteration * repeat_;
    expected.inIteration = 0;
  }
  repeat_ = 1;
  section_++;
}

void encBuilder::transfer(size_t queue, const encMove& move) {
  for (uint64_t from = 0; from < move.bytes;) {
    uint64_t run = move.bytes - from;
    for (const auto* spans : {&move.sources, &move.destinations}) {
      for (const encSpan& span : *spans)
        run = span.run(from, run);
    }
    moveRun(queue, move, from, run);
    from += run;
  }
}

/// Contiguous bytes; sources beyond those that one transfer takes are added to the first
/// destination, from which destinations beyond those that one transfer has are copied.
void encBuilder::moveRun(size_t queue, const encMove& move, uint64_t from, uint64_t bytes) {
  const bool copies =
      move.sources.size() == 1 && move.scaledSources == 0 && !move.scaleAll && !move.divide;
  std::vector<encAddress> destinations;
  for (const encSpan& destination : move.destinations) {
    const encAddress address = destination.at(from);
    if (!copies || address != move.sources[0].at(from)) destinations.push_back(address);
  }
  if (destinations.empty()) return;
  const auto slice = [&](size_t begin) {
    const size_t end = std::min(destinations.size(), begin + kMaxDestinations);
    return std::vector<encAddress>(destinations.begin() + static_cast<long>(begin),
                                   destinations.begin() + static_cast<long>(end));
  };
  for (size_t next = 0; next < move.sources.size();) {
    encDesc desc;
    desc.step = move.step;
    desc.bytes = bytes;
    if (next > 0) desc.sources.push_back(destinations[0]);
    while (next < move.sources.size() && desc.sources.size() < kMaxSources) {
      const bool scaled = move.scaleAll || (next < 64 && (move.scaledSources >> next & 1) != 0);
      if (scaled) desc.scaledSources |= uint64_t{1} << desc.sources.size();
      desc.sources.push_back(move.sources[next++].at(from));
    }
    const bool last = next == move.sources.size();
    desc.divide = last && move.divide;
    desc.destinations = last ? slice(0) : std::vector<encAddress>{destinations[0]};
    append(queue, std::move(desc));
  }
  const encAddress complete = copies ? move.sources[0].at(from) : destinations[0];
  for (size_t next = kMaxDestinations; next < destinations.size(); next += kMaxDestinations) {
    encDesc desc = encTransfer(move.step, complete, destinations[next], bytes);
    desc.destinations = slice(next);
    append(queue, std::move(desc));
  }
}

uint32_t encBuilder::connection(int peer, int channel, bool send, uint32_t semaphore) {
  const encConnection wanted{peer, channel, send, semaphore};
  auto& connections = program_.connections;
  const auto found = std::find(connections.begin(), connections.end(), wanted);
  if (found != connections.end()) return static_cast<uint32_t>(found - connections.begin());
  connections.push_back(wanted);
  return static_cast<uint32_t>(connections.size() - 1);
}

int64_t encBuilder::expect(uint32_t semaphore, uint64_t count) {
  if (count == 0 && !expected_.contains(semaphore)) return 0;
  Expected& expected = expected_[semaphore];
  (inLoop() ? expected.inIteration : expected.before) += count;
  return static_cast<int64_t>(expected.before + expected.inIteration);
}

void encBuilder::wait(size_t queue, encStep step, int raisedBy, uint32_t semaphore, int64_t slack) {
  append(queue, encWait(step, raisedBy, semaphore, expect(semaphore, 0) - slack));
}

/// All ranks refuse alike: those that read inputs of others, and those whose input is read.
Status encBuilder::checkScalars() const {
  const encTask& task = program_.task;
  if (task.redOp != kRedOpPreMulSum || !encReductionOf(task, info_.rank_n).scaleInputs) return Ok{};
  bool readsOthers = program_.peerInputs;
  for (const encQueue& queue : program_.queues) {
    for (const encBlock& b : queue.blocks) {
      for (const encDesc& desc : b.descs) {
        for (size_t k = 0; k < desc.sources.size(); k++) {
          const bool scaled = (desc.scaledSources >> k & 1) != 0;
          readsOthers = readsOthers || (scaled && desc.sources[k].rank != info_.rank);
        }
      }
    }
  }
  if (!readsOthers) return Ok{};
  return fail(
      ncclInvalidArgument,
      "%s by %s: rank %d: PreMulSum multiplies by a scalar of each rank, but ranks read the "
      "inputs of others: want an algorithm where they read their own: ring",
      encOpName(task.op), program_.algorithm.c_str(), info_.rank);
}

Result<encProgram> encBuilder::finish() && {
  NCCL_CHECK(!inLoop());
  TRY(checkScalars());
  uint64_t scratch = program_.scratchBytes;
  const auto touch = [&](const encAddress& address, uint64_t bytes) {
    if (address.buffer != encBuffer::Scratch || address.rank != info_.rank) return;
    scratch = std::max(scratch, static_cast<uint64_t>(address.offset) + bytes);
  };
  for (encQueue& queue : program_.queues) {
    std::erase_if(queue.blocks, [](const encBlock& b) { return b.descs.empty(); });
    for (const encBlock& b : queue.blocks) {
      for (const encDesc& desc : b.descs) {
        for (const encAddress& source : desc.sources)
          touch(source, desc.bytes);
        for (const encAddress& destination : desc.destinations)
          touch(destination, desc.bytes);
        touch(desc.net, desc.bytes);
      }
    }
  }
  std::erase_if(program_.queues, [](const encQueue& queue) { return queue.blocks.empty(); });
  for (const auto& [semaphore, expected] : expected_) {
    if (expected.before > 0) program_.totals.emplace_back(semaphore, expected.before);
  }
  // Whoever fills a slot of ours does so for us to read, so our own addresses cover it.
  program_.scratchBytes = scratch;
  return std::move(program_);
}

Status encCheckComm(const enc_comm_info& info) {
  if (info.rank_n < 1 || info.rank < 0 || info.rank >= info.rank_n) {
    return fail(ncclInvalidArgument, "rank %d of %d: want 0 <= rank < ranks", info.rank,
                info.rank_n);
  }
  if (info.node.size() != static_cast<size_t>(info.rank_n)) {
    return fail(ncclInvalidArgument, "hosts of %zu ranks are known: want %d", info.node.size(),
                info.rank_n);
  }
  const size_t leastRings = info.rank_n > 1 ? 1 : 0;
  if (info.rings.size() < leastRings || info.rings.size() > static_cast<size_t>(kMaxChannels)) {
    return fail(ncclInvalidArgument, "%zu rings: want %zu to %d", info.rings.size(), leastRings,
                kMaxChannels);
  }
  for (size_t channel = 0; channel < info.rings.size(); channel++) {
    std::vector<bool> seen(info.rank_n, false);
    for (const int rank : info.rings[channel]) {
      if (rank < 0 || rank >= info.rank_n || seen[rank]) {
        return fail(ncclInvalidArgument,
                    "ring %zu has rank %d twice or out of range: want each of %d", channel, rank,
                    info.rank_n);
      }
      seen[rank] = true;
    }
    if (info.rings[channel].size() != static_cast<size_t>(info.rank_n)) {
      return fail(ncclInvalidArgument, "ring %zu has %zu ranks: want %d", channel,
                  info.rings[channel].size(), info.rank_n);
    }
  }
  return Ok{};
}

namespace {

Status checkMessages(const enc_comm_info& info, const std::vector<encMessage>& messages,
                     const char* what) {
  if (messages.size() > UINT16_MAX) {
    return fail(ncclInvalidUsage, "%zu %s in one group: at most %d", messages.size(), what,
                UINT16_MAX);
  }
  for (const encMessage& message : messages) {
    if (message.peer < 0 || message.peer >= info.rank_n) {
      return fail(ncclInvalidArgument, "%s %u names peer %d: want 0 to %d", what,
                  unsigned{message.index}, message.peer, info.rank_n - 1);
    }
    if (message.index >= messages.size()) {
      return fail(ncclInvalidArgument, "%s to peer %d has index %u: want less than %zu", what,
                  message.peer, unsigned{message.index}, messages.size());
    }
    if (message.bytes > static_cast<uint64_t>(INT64_MAX)) {
      return fail(ncclInvalidArgument, "%s with peer %d has %llu bytes: too large", what,
                  message.peer, static_cast<unsigned long long>(message.bytes));
    }
  }
  return Ok{};
}

bool hasRoot(encOp op) {
  return op == encOp::Broadcast || op == encOp::Reduce || op == encOp::Gather ||
         op == encOp::Scatter;
}

}  // namespace

Status encCheckTask(const enc_comm_info& info, const encTask& task) {
  if (task.op == encOp::SendRecv) {
    TRY(checkMessages(info, task.sends, "send"));
    return checkMessages(info, task.recvs, "receive");
  }
  const uint64_t size = ncclTypeSize(task.type);
  if (size == 0) {
    return fail(ncclInvalidArgument, "%s: data type %d: want 0 to %d", encOpName(task.op),
                static_cast<int>(task.type), static_cast<int>(ncclNumTypes) - 1);
  }
  const int redOp = static_cast<int>(task.redOp);
  if (redOp < 0 || redOp > static_cast<int>(kRedOpPreMulSum)) {
    return fail(ncclInvalidArgument, "%s: operator %d: want 0 to %d", encOpName(task.op), redOp,
                static_cast<int>(kRedOpPreMulSum));
  }
  if (hasRoot(task.op) && (task.root < 0 || task.root >= info.rank_n)) {
    return fail(ncclInvalidArgument, "%s: root %d: want 0 to %d", encOpName(task.op), task.root,
                info.rank_n - 1);
  }
  if (task.op == encOp::Permute || task.op == encOp::PermuteReduce) {
    TRY(encCheckPermute(info, task));
  }
  if (task.count > static_cast<uint64_t>(INT64_MAX) / size / static_cast<uint64_t>(info.rank_n)) {
    return fail(ncclInvalidArgument, "%s: count %llu of %llu bytes on %d ranks: too large",
                encOpName(task.op), static_cast<unsigned long long>(task.count),
                static_cast<unsigned long long>(size), info.rank_n);
  }
  return Ok{};
}

encReduction encReductionOf(const encTask& task, int nRanks) {
  const bool reduces = task.op == encOp::AllReduce || task.op == encOp::Reduce ||
                       task.op == encOp::ReduceScatter || task.op == encOp::PermuteReduce;
  if (!reduces) return {};
  if (task.redOp == kRedOpPreMulSum) return {true, false};
  if (task.redOp != ncclAvg || nRanks == 1) return {};
  // Floats are scaled before the sum, as it might overflow; integers would lose their fractions.
  return ncclTypeIsFloat(task.type) ? encReduction{true, false} : encReduction{false, true};
}

}  // namespace nccom
