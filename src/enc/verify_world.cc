#include "enc/verify_world.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "enc/buffers.h"
#include "enc/builder.h"
#include "include/plugin/nccom_device.h"
#include "misc/datatype.h"

namespace nccom {

const encDesc& encVerifyWorld::desc(const encSite& site) const {
  return program(site.operation, site.rank).queues[site.queue].blocks[site.block].descs[site.desc];
}

uint32_t encVerifyWorld::siteId(const encSite& site) const {
  const auto found = siteIds.find({static_cast<size_t>(site.operation),
                                   static_cast<size_t>(site.rank), site.queue, site.block});
  return found->second + static_cast<uint32_t>(site.desc);
}

std::string encVerifyWorld::text(const encSite& site) const {
  const encProgram& of = program(site.operation, site.rank);
  return "rank " + std::to_string(site.rank) + " queue " + std::to_string(site.queue) + " block " +
         std::to_string(site.block) + " descriptor " + std::to_string(site.desc) +
         " of operation " + std::to_string(site.operation) + " (" + encOpName(of.task.op) +
         "): " + encDump(desc(site));
}

Error encVerifyWorld::bad(const encSite& site, const std::string& what) const {
  return fail(ncclInternalError, "%s: %s", text(site).c_str(), what.c_str());
}

namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 62;  // far from where sums would wrap

std::string number(uint64_t value) {
  return std::to_string(value);
}

/// Checks one operation descriptor by descriptor, and counts increments.
class Inspector {
 public:
  explicit Inspector(encVerifyWorld& world) : world_(world) {}

  Status operation(int number) {
    operation_ = number;
    for (int rank = 0; rank < world_.info.rank_n; rank++)
      TRY(program(rank));
    return Ok{};
  }

  /// Declared totals against increments: by operation, but for messages, whose groups need not
  /// match one by one: over the whole sequence.
  Status totals() const {
    const auto ranks = static_cast<size_t>(world_.info.rank_n);
    const uint32_t semaphores = world_.layouts[0].semaphores();
    for (size_t id = 0; id < ranks * semaphores; id++) {
      const int rank = static_cast<int>(id / semaphores);
      const auto semaphore = static_cast<uint32_t>(id % semaphores);
      uint64_t messagesDeclared = 0, messagesRaised = 0;
      for (size_t op = 0; op < world_.operations.size(); op++) {
        const encProgram& program = world_.operations[op][rank];
        const uint64_t declared = declaredTotal(program, semaphore);
        const uint64_t raised = raisedTotal(id, static_cast<int>(op));
        if (program.task.op == encOp::SendRecv) {
          messagesDeclared += declared;
          messagesRaised += raised;
        } else if (declared != raised) {
          return wrongTotal(rank, semaphore, raised, declared);
        }
      }
      if (messagesDeclared != messagesRaised) {
        return wrongTotal(rank, semaphore, messagesRaised, messagesDeclared);
      }
    }
    return Ok{};
  }

  /// A semaphore has one writer, which its waits name; or it is a count that is awaited in full,
  /// whoever raises it.
  Status writers() const {
    for (const auto& [site, value] : waits_) {
      const uint32_t semaphore = world_.desc(site).semaphore;
      const size_t id = world_.semaphoreId(site.rank, semaphore);
      const uint64_t total = raisedTotal(id, site.operation);
      const auto& raisers = world_.raisers[id];
      const bool one = std::all_of(raisers.begin(), raisers.end(), [&](const encRaiser& raiser) {
        return raiser.party == raisers[0].party;
      });
      if (one && !raisers.empty() && raisers[0].party != world_.desc(site).rank) {
        return world_.bad(
            site, "is raised by rank " + std::to_string(raisers[0].party) + " (-1: the proxy)");
      }
      if (!one && value != static_cast<int64_t>(total)) {
        return world_.bad(site, "waits for " + std::to_string(value) + " of " + number(total) +
                                    " increments by more than one writer: want all of them");
      }
    }
    return Ok{};
  }

 private:
  Status program(int rank) {
    const encProgram& program = world_.program(operation_, rank);
    const encTask& first = world_.program(operation_, 0).task;
    const bool sameTask = program.task == first ||
                          (program.task.op == encOp::SendRecv && first.op == encOp::SendRecv);
    if (program.rank != rank || program.nRanks != world_.info.rank_n || !sameTask) {
      return fail(ncclInternalError,
                  "operation %d: program %d is %s for rank %d of %d: want %s for rank %d of %d",
                  operation_, rank, encOpName(program.task.op), program.rank, program.nRanks,
                  encOpName(first.op), rank, world_.info.rank_n);
    }
    if (program.queues.size() > NCCOM_MAX_QUEUES ||
        program.scratchBytes > world_.layouts[rank].scratchBytes()) {
      return fail(ncclInternalError, "rank %d: %zu queues, %llu bytes of scratch: at most %d, %llu",
                  rank, program.queues.size(),
                  static_cast<unsigned long long>(program.scratchBytes), NCCOM_MAX_QUEUES,
                  static_cast<unsigned long long>(world_.layouts[rank].scratchBytes()));
    }
    TRY(connections(program));
    for (size_t queue = 0; queue < program.queues.size(); queue++) {
      const std::vector<encBlock>& blocks = program.queues[queue].blocks;
      if (blocks.empty()) return fail(ncclInternalError, "rank %d queue %zu is empty", rank, queue);
      for (size_t number = 0; number < blocks.size(); number++) {
        TRY(block({operation_, rank, queue, number, 0}, blocks[number]));
      }
    }
    return Ok{};
  }

  Status block(const encSite& first, const encBlock& block) {
    if (block.repeat < 1 || block.descs.empty()) {
      return fail(ncclInternalError, "rank %d queue %zu block %zu is empty or never runs",
                  first.rank, first.queue, first.block);
    }
    world_.siteIds[{static_cast<size_t>(first.operation), static_cast<size_t>(first.rank),
                    first.queue, first.block}] = static_cast<uint32_t>(world_.sites.size());
    for (size_t i = 0; i < block.descs.size(); i++) {
      encSite site = first;
      site.desc = i;
      world_.sites.push_back(site);
      TRY(desc(site, block.descs[i], block.repeat));
    }
    return Ok{};
  }

  Status connections(const encProgram& program) {
    connectionQueue_.assign(program.connections.size(), SIZE_MAX);
    for (const encConnection& connection : program.connections) {
      const bool remote = connection.peer >= 0 && connection.peer < world_.info.rank_n &&
                          !world_.info.sameNode(program.rank, connection.peer);
      if (!remote || connection.semaphore >= world_.layouts[0].semaphores()) {
        return fail(ncclInternalError,
                    "rank %d: connection with rank %d raises semaphore %u: want a rank of another "
                    "host, less than %u",
                    program.rank, connection.peer, connection.semaphore,
                    world_.layouts[0].semaphores());
      }
    }
    return Ok{};
  }

  Status desc(const encSite& site, const encDesc& desc, uint64_t repeat) {
    switch (desc.type) {
      case encDescType::Transfer:
        return transfer(site, desc, repeat);
      case encDescType::Wait:
        return wait(site, desc, repeat);
      case encDescType::Inc:
        if (desc.value < 1) return world_.bad(site, "want a positive increment");
        return raise(site, desc.rank, desc.semaphore, static_cast<uint64_t>(desc.value) * repeat);
      case encDescType::Post:
        return post(site, desc, repeat);
      case encDescType::NetSend:
      case encDescType::NetRecv:
        return net(site, desc, repeat);
    }
    return Ok{};
  }

  Status transfer(const encSite& site, const encDesc& desc, uint64_t repeat) {
    if (desc.sources.empty() || desc.destinations.empty() || desc.sources.size() > 64) {
      return world_.bad(site, "want 1 to 64 sources and at least one destination");
    }
    for (const encAddress& source : desc.sources)
      TRY(address(site, source, desc.bytes, repeat));
    for (const encAddress& destination : desc.destinations) {
      if (destination.buffer == encBuffer::Posted) {
        return world_.bad(site, "writes a posted message");
      }
      TRY(address(site, destination, desc.bytes, repeat));
    }
    if (desc.sources.size() == 1 && desc.scaledSources == 0 && !desc.divide) return Ok{};
    const encTask& task = world_.program(site.operation, site.rank).task;
    const uint64_t size = ncclTypeSize(task.type);
    uint64_t odd = desc.bytes % size;
    for (const encAddress& source : desc.sources)
      odd |= misaligned(source, size);
    for (const encAddress& destination : desc.destinations)
      odd |= misaligned(destination, size);
    if (odd != 0) return world_.bad(site, "cuts elements of " + number(size) + " bytes");
    return Ok{};
  }

  static uint64_t misaligned(const encAddress& address, uint64_t size) {
    return static_cast<uint64_t>(address.offset) % size |
           static_cast<uint64_t>(address.stride) % size;
  }

  /// In bounds in every iteration, and of this host.
  Status address(const encSite& site, const encAddress& a, uint64_t bytes, uint64_t repeat) {
    if (a.rank < 0 || a.rank >= world_.info.rank_n || !world_.info.sameNode(site.rank, a.rank)) {
      return world_.bad(site, "touches rank " + std::to_string(a.rank) + ", not of its host");
    }
    if (a.buffer == encBuffer::Posted) return Ok{};  // its size is the message's, seen in the run
    const encTask& task = world_.program(site.operation, a.rank).task;
    const uint64_t size = a.buffer == encBuffer::Scratch
                              ? world_.layouts[a.rank].scratchBytes()
                              : encBufferBytes(task, a.rank, world_.info.rank_n, a.buffer, a.index);
    int64_t travel = 0, last = 0, end = 0;
    const bool fits =
        bytes < kMaxBytes && repeat < kMaxBytes &&
        !__builtin_mul_overflow(a.stride, static_cast<int64_t>(repeat) - 1, &travel) &&
        !__builtin_add_overflow(a.offset, travel, &last) &&
        !__builtin_add_overflow(std::max(a.offset, last), static_cast<int64_t>(bytes), &end);
    if (!fits || std::min(a.offset, last) < 0 || end > static_cast<int64_t>(size)) {
      return world_.bad(site, "bytes " + std::to_string(a.offset) + " to " + std::to_string(end) +
                                  " of a buffer of " + number(size) + " bytes of rank " +
                                  std::to_string(a.rank));
    }
    const encProgram& owner = world_.program(site.operation, a.rank);
    if (a.buffer == encBuffer::Scratch && end > static_cast<int64_t>(owner.scratchBytes)) {
      return world_.bad(site, "scratch byte " + std::to_string(end) + ": rank " +
                                  std::to_string(a.rank) + " declares " +
                                  number(owner.scratchBytes));
    }
    if (a.rank == site.rank || a.buffer == encBuffer::Scratch) return Ok{};
    const bool output = a.buffer == encBuffer::Output;
    if (output ? owner.peerOutputs : owner.peerInputs) return Ok{};
    return world_.bad(site, "rank " + std::to_string(a.rank) +
                                " does not declare that peers use its " +
                                (output ? "OUTPUT" : "INPUT"));
  }

  Status wait(const encSite& site, const encDesc& desc, uint64_t repeat) {
    if (desc.semaphore >= world_.layouts[0].semaphores()) {
      return world_.bad(site,
                        "there are " + number(world_.layouts[0].semaphores()) + " semaphores");
    }
    int64_t travel = 0, last = 0;
    const bool fits =
        repeat < kMaxBytes && desc.stride >= 0 &&
        !__builtin_mul_overflow(desc.stride, static_cast<int64_t>(repeat) - 1, &travel) &&
        !__builtin_add_overflow(desc.value, travel, &last);
    const uint64_t total = declaredTotal(world_.program(site.operation, site.rank), desc.semaphore);
    if (!fits || last > static_cast<int64_t>(total)) {
      return world_.bad(site, "waits up to " + std::to_string(last) + " on " +
                                  world_.layouts[0].semaphoreName(desc.semaphore) +
                                  ", which gets " + number(total) + " increments");
    }
    const auto [queue, isFirst] =
        waitingQueue_.try_emplace({site.operation, site.rank, desc.semaphore}, site.queue);
    if (!isFirst && queue->second != site.queue) {
      return world_.bad(site, "queue " + number(queue->second) +
                                  " waits for the same semaphore: a device keeps one waiter");
    }
    waits_.emplace_back(site, last);
    return Ok{};
  }

  Status post(const encSite& site, const encDesc& desc, uint64_t repeat) {
    const encProgram& program = world_.program(site.operation, site.rank);
    const uint64_t size =
        encBufferBytes(program.task, site.rank, program.nRanks, encBuffer::Input, desc.index);
    if (repeat != 1 || desc.bytes > size || !program.peerInputs) {
      return world_.bad(site, "posts a buffer of " + number(size) + " bytes " + number(repeat) +
                                  " times: want it once, in the buffer, and declared");
    }
    return raise(site, desc.rank, desc.semaphore, 1);
  }

  Status net(const encSite& site, const encDesc& desc, uint64_t repeat) {
    const encProgram& program = world_.program(site.operation, site.rank);
    const bool send = desc.type == encDescType::NetSend;
    if (desc.connection >= program.connections.size() ||
        program.connections[desc.connection].send != send) {
      return world_.bad(site, "no such connection");
    }
    size_t& queue = connectionQueue_[desc.connection];
    if (queue != SIZE_MAX && queue != site.queue) {
      return world_.bad(site, "queue " + number(queue) + " uses the same connection: no order");
    }
    queue = site.queue;
    if (desc.net.buffer != encBuffer::Scratch || desc.net.rank != site.rank || desc.bytes == 0) {
      return world_.bad(site, "want bytes of its own SCRATCH");
    }
    TRY(address(site, desc.net, desc.bytes, repeat));
    const uint32_t semaphore = program.connections[desc.connection].semaphore;
    add(site.rank, semaphore, {encRaiser::kProxyParty, site.operation, desc.connection, repeat});
    return Ok{};
  }

  Status raise(const encSite& site, int rank, uint32_t semaphore, uint64_t count) {
    if (rank < 0 || rank >= world_.info.rank_n || !world_.info.sameNode(site.rank, rank) ||
        semaphore >= world_.layouts[0].semaphores()) {
      return world_.bad(site, "no such semaphore on this host");
    }
    add(rank, semaphore, {site.rank, site.operation, site.queue, count});
    return Ok{};
  }

  void add(int rank, uint32_t semaphore, encRaiser raiser) {
    std::vector<encRaiser>& raisers = world_.raisers[world_.semaphoreId(rank, semaphore)];
    for (encRaiser& known : raisers) {
      if (known.party == raiser.party && known.operation == raiser.operation &&
          known.queue == raiser.queue) {
        known.total += raiser.total;
        return;
      }
    }
    raisers.push_back(raiser);
  }

  uint64_t raisedTotal(size_t id, int operation) const {
    uint64_t total = 0;
    for (const encRaiser& raiser : world_.raisers[id]) {
      if (raiser.operation == operation) total += raiser.total;
    }
    return total;
  }

  static uint64_t declaredTotal(const encProgram& program, uint32_t semaphore) {
    const auto found = std::lower_bound(program.totals.begin(), program.totals.end(),
                                        std::pair<uint32_t, uint64_t>(semaphore, 0));
    return found != program.totals.end() && found->first == semaphore ? found->second : 0;
  }

  Error wrongTotal(int rank, uint32_t semaphore, uint64_t raised, uint64_t declared) const {
    return fail(ncclInternalError,
                "rank %d: semaphore %u (%s) gets %llu increments: its program declares %llu", rank,
                semaphore, world_.layouts[0].semaphoreName(semaphore).c_str(),
                static_cast<unsigned long long>(raised), static_cast<unsigned long long>(declared));
  }

  encVerifyWorld& world_;
  int operation_ = 0;
  std::vector<size_t> connectionQueue_;
  std::vector<std::pair<encSite, int64_t>> waits_;
  std::map<std::tuple<int, int, uint32_t>, size_t> waitingQueue_;
};

/// Of all increments of a semaphore, those that may come before the first one of `raiser`: all but
/// its own and those of its party in later operations.
uint64_t without(const std::vector<encRaiser>& raisers, const encRaiser& raiser) {
  uint64_t count = 0;
  for (const encRaiser& other : raisers) {
    if (other.party == raiser.party && other.operation > raiser.operation) continue;
    if (other.party == raiser.party && other.operation == raiser.operation &&
        other.queue == raiser.queue) {
      continue;
    }
    count += other.total;
  }
  return count;
}

}  // namespace

Result<encVerifyWorld> encInspect(const enc_comm_info& info,
                                  std::span<const encOperation> operations,
                                  const encVerifyOptions& options) {
  TRY(encCheckComm(info));
  encVerifyWorld world{info, operations, options, {}, {}, {}, {}};
  enc_comm_info other = info;
  for (other.rank = 0; other.rank < info.rank_n; other.rank++) {
    world.layouts.push_back(encLayout::of(other));
  }
  world.raisers.resize(static_cast<size_t>(info.rank_n) * world.layouts[0].semaphores());
  Inspector inspector(world);
  for (size_t i = 0; i < operations.size(); i++) {
    if (operations[i].size() != static_cast<size_t>(info.rank_n)) {
      return fail(ncclInternalError, "operation %zu has %zu programs: want %d", i,
                  operations[i].size(), info.rank_n);
    }
    TRY(inspector.operation(static_cast<int>(i)));
  }
  TRY(inspector.totals());
  TRY(inspector.writers());
  for (std::vector<encRaiser>& raisers : world.raisers) {
    for (encRaiser& raiser : raisers)
      raiser.without = without(raisers, raiser);
  }
  return world;
}

}  // namespace nccom
