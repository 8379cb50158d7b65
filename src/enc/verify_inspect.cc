#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "enc/buffers.h"
#include "enc/builder.h"
#include "enc/links.h"
#include "enc/verify_world.h"
#include "include/plugin/nccom_device.h"
#include "misc/datatype.h"

namespace nccom {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 62;  // far from where sums would wrap

std::string number(uint64_t value) {
  return std::to_string(value);
}

uint64_t declaredTotal(const encProgram& program, uint32_t semaphore) {
  const auto found = std::lower_bound(program.totals.begin(), program.totals.end(),
                                      std::pair<uint32_t, uint64_t>(semaphore, 0));
  return found != program.totals.end() && found->first == semaphore ? found->second : 0;
}

/// What is known of a semaphore while operations are looked at one by one.
struct Count {
  int raisedIn = -1, declaredIn = -1, awaitedIn = -1;  // the last operation
  uint64_t raised = 0;                                 // in that
  size_t awaitedBy = 0;                                // queue
  uint64_t messagesDeclared = 0, messagesRaised = 0;
};

/// Checks operations descriptor by descriptor, and counts increments.
class Inspector {
 public:
  Inspector(encVerifyWorld& world, std::optional<encLinks> links)
      : world_(world), links_(std::move(links)), limit_(world.layout.semaphores()) {}

  Status operation(int number) {
    operation_ = number;
    for (int rank = 0; rank < world_.info.rank_n; rank++)
      TRY(program(rank));
    return totals();
  }

  Status finish() {
    for (size_t i = 0; i < world_.semaphores.size(); i++) {
      if (counts_[i].messagesDeclared == counts_[i].messagesRaised) continue;
      return wrongTotal(world_.semaphores[i], counts_[i].messagesRaised,
                        counts_[i].messagesDeclared);
    }
    return writers();
  }

 private:
  /// Declared totals against increments: by operation, but for messages, whose groups need not
  /// match one by one: over the whole sequence.
  Status totals() {
    const auto isMessages = [&](int rank) {
      return world_.program(operation_, rank).task.op == encOp::SendRecv;
    };
    for (int rank = 0; rank < world_.info.rank_n; rank++) {
      for (const auto& [semaphore, declared] : world_.program(operation_, rank).totals) {
        const uint32_t id = use(rank, semaphore);
        Count& count = counts_[id];
        count.declaredIn = operation_;
        const uint64_t raised = count.raisedIn == operation_ ? count.raised : 0;
        if (isMessages(rank)) {
          count.messagesDeclared += declared;
        } else if (declared != raised) {
          return wrongTotal(world_.semaphores[id], raised, declared);
        }
      }
    }
    for (size_t id = 0; id < counts_.size(); id++) {
      Count& count = counts_[id];
      if (count.raisedIn != operation_) continue;
      if (isMessages(world_.semaphores[id].rank)) {
        count.messagesRaised += count.raised;
      } else if (count.declaredIn != operation_) {
        return wrongTotal(world_.semaphores[id], count.raised, 0);
      }
    }
    return Ok{};
  }

  /// If a semaphore has one writer, its waits name it. (Else it counts passes: see
  /// encOrderedSemaphore.)
  Status writers() const {
    for (const auto& [site, semaphore] : waits_) {
      const std::vector<encRaiser>& raisers = world_.semaphores[semaphore].raisers;
      const bool one = std::all_of(raisers.begin(), raisers.end(), [&](const encRaiser& raiser) {
        return raiser.party == raisers[0].party;
      });
      if (!one || raisers.empty() || raisers[0].party == world_.desc(site).rank) continue;
      return world_.bad(
          site, "is raised by rank " + std::to_string(raisers[0].party) + " (-1: the proxy)");
    }
    return Ok{};
  }

  Status program(int rank) {
    const encProgram& program = world_.program(operation_, rank);
    TRY(shape(program, rank));
    TRY(encCheckTask(world_.info, program.task));
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

  Status shape(const encProgram& program, int rank) const {
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
        program.scratchBytes > world_.scratchBytes[rank]) {
      return fail(ncclInternalError, "rank %d: %zu queues, %llu bytes of scratch: at most %d, %llu",
                  rank, program.queues.size(),
                  static_cast<unsigned long long>(program.scratchBytes), NCCOM_MAX_QUEUES,
                  static_cast<unsigned long long>(world_.scratchBytes[rank]));
    }
    const uint64_t input = encBufferBytes(program.task, rank, program.nRanks, encBuffer::Input, 0);
    if (program.inputByValue && input > kMaxValueBytes) {
      return fail(ncclInternalError, "rank %d gives %llu bytes of INPUT by value: at most %llu",
                  rank, static_cast<unsigned long long>(input),
                  static_cast<unsigned long long>(kMaxValueBytes));
    }
    for (size_t i = 0; i < program.totals.size(); i++) {
      const auto [semaphore, total] = program.totals[i];
      if (semaphore < limit_ && total > 0 && (i == 0 || program.totals[i - 1].first < semaphore)) {
        continue;
      }
      return fail(ncclInternalError,
                  "rank %d: total %zu is %llu of semaphore %u: want increments of one after the "
                  "other, below %u",
                  rank, i, static_cast<unsigned long long>(total), semaphore, limit_);
    }
    return Ok{};
  }

  Status block(const encSite& first, const encBlock& block) {
    if (block.repeat < 1 || block.descs.empty()) {
      return fail(ncclInternalError, "rank %d queue %zu block %zu is empty or never runs",
                  first.rank, first.queue, first.block);
    }
    site_ = static_cast<uint32_t>(world_.targets.size());
    world_.addBlock(first);
    encSite site = first;
    for (size_t i = 0; i < block.descs.size(); i++, site_++) {
      site.desc = i;
      TRY(desc(site, block.descs[i], block.repeat));
    }
    return Ok{};
  }

  Status connections(const encProgram& program) {
    connectionQueue_.assign(program.connections.size(), SIZE_MAX);
    for (const encConnection& connection : program.connections) {
      const bool remote = connection.peer >= 0 && connection.peer < world_.info.rank_n &&
                          !world_.info.sameNode(program.rank, connection.peer);
      const bool channel =
          connection.channel >= kP2pChannel && connection.channel < world_.layout.pipes();
      if (!remote || !channel || connection.semaphore >= limit_) {
        return fail(ncclInternalError,
                    "rank %d: connection with rank %d raises semaphore %u: want a rank of another "
                    "host, less than %u",
                    program.rank, connection.peer, connection.semaphore, limit_);
      }
    }
    return once(program);
  }

  /// No connection twice.
  Status once(const encProgram& program) const {
    std::vector<std::tuple<int, int, bool>> ends;
    for (const encConnection& connection : program.connections)
      ends.emplace_back(connection.peer, connection.channel, connection.send);
    std::sort(ends.begin(), ends.end());
    const auto twice = std::adjacent_find(ends.begin(), ends.end());
    if (twice == ends.end()) return Ok{};
    return fail(ncclInternalError, "rank %d: two connections with rank %d on channel %d",
                program.rank, std::get<0>(*twice), std::get<1>(*twice));
  }

  Status desc(const encSite& site, const encDesc& desc, uint64_t repeat) {
    switch (desc.type) {
      case encDescType::Transfer:
        return transfer(site, desc, repeat);
      case encDescType::Wait:
        return wait(site, desc, repeat);
      case encDescType::Inc:
        return increment(site, desc, repeat);
      case encDescType::Post:
        return post(site, desc, repeat);
      case encDescType::NetSend:
      case encDescType::NetRecv:
        return net(site, desc, repeat);
    }
    return Ok{};
  }

  Status transfer(const encSite& site, const encDesc& desc, uint64_t repeat) {
    if (desc.sources.empty() || desc.destinations.empty() || desc.sources.size() > 64 ||
        desc.destinations.size() > 64) {
      return world_.bad(site, number(desc.sources.size()) + " sources and " +
                                  number(desc.destinations.size()) +
                                  " destinations: want 1 to 64 of each");
    }
    for (const encAddress& source : desc.sources)
      TRY(address(site, source, desc.bytes, repeat));
    for (const encAddress& destination : desc.destinations) {
      if (destination.buffer == encBuffer::Posted) {
        return world_.bad(site, "writes a posted message");
      }
      TRY(address(site, destination, desc.bytes, repeat));
    }
    TRY(links(site, desc));
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

  /// Ways for all that moves: a copy goes straight to its destinations, the rest by who computes.
  Status links(const encSite& site, const encDesc& desc) const {
    if (!links_) return Ok{};
    const bool copies = desc.sources.size() == 1;
    for (const encAddress& source : desc.sources) {
      if (!copies && !links_->joined(source.rank, site.rank)) {
        return world_.bad(site, links_->whyNot(source.rank, site.rank));
      }
    }
    for (const encAddress& destination : desc.destinations) {
      const int from = copies ? desc.sources[0].rank : site.rank;
      if (!links_->joined(from, destination.rank)) {
        return world_.bad(site, links_->whyNot(from, destination.rank));
      }
    }
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
                              ? world_.scratchBytes[a.rank]
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
    if (a.buffer == encBuffer::Scratch && crossesWork(std::min(a.offset, last), end)) {
      return world_.bad(site, "bytes " + std::to_string(a.offset) + " to " + std::to_string(end) +
                                  " of scratch lie within and without the work area");
    }
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

  bool crossesWork(int64_t begin, int64_t end) const {
    const auto first = static_cast<int64_t>(world_.layout.workBegin());
    const auto last = first + static_cast<int64_t>(world_.layout.workBytes);
    return (begin < first && first < end) || (begin < last && last < end);
  }

  Status wait(const encSite& site, const encDesc& desc, uint64_t repeat) {
    if (desc.semaphore >= limit_) {
      return world_.bad(site, "there are " + number(limit_) + " semaphores");
    }
    int64_t travel = 0, last = 0;
    const bool fits =
        repeat < kMaxBytes && desc.stride >= 0 &&
        !__builtin_mul_overflow(desc.stride, static_cast<int64_t>(repeat) - 1, &travel) &&
        !__builtin_add_overflow(desc.value, travel, &last);
    const uint64_t total = declaredTotal(world_.program(site.operation, site.rank), desc.semaphore);
    if (!fits || last > static_cast<int64_t>(total)) {
      return world_.bad(site, "waits up to " + std::to_string(last) + " on " +
                                  world_.layout.semaphoreName(desc.semaphore) + ", which gets " +
                                  number(total) + " increments");
    }
    const uint32_t id = use(site.rank, desc.semaphore);
    Count& count = counts_[id];
    if (count.awaitedIn == operation_ && count.awaitedBy != site.queue) {
      return world_.bad(site, "queue " + number(count.awaitedBy) +
                                  " waits for the same semaphore: a device keeps one waiter");
    }
    count.awaitedIn = operation_;
    count.awaitedBy = site.queue;
    world_.targets[site_].semaphore = id;
    waits_.emplace_back(site, id);
    return Ok{};
  }

  Status post(const encSite& site, const encDesc& desc, uint64_t repeat) {
    const encProgram& program = world_.program(site.operation, site.rank);
    const uint64_t size =
        encBufferBytes(program.task, site.rank, program.nRanks, encBuffer::Input, desc.index);
    if (repeat != 1 || desc.bytes > size || !(program.peerInputs || desc.byValue)) {
      return world_.bad(site, "posts a buffer of " + number(size) + " bytes " + number(repeat) +
                                  " times: want it once, in the buffer, and declared");
    }
    if (desc.byValue && desc.bytes > kMaxValueBytes) {
      return world_.bad(site, "posts " + number(desc.bytes) + " bytes by value: at most " +
                                  number(kMaxValueBytes));
    }
    if (desc.rank >= 0 && desc.rank < world_.info.rank_n && desc.rank != site.rank &&
        world_.info.sameNode(site.rank, desc.rank)) {
      return Ok{};
    }
    return world_.bad(site, "posts to rank " + std::to_string(desc.rank) + ", no peer of its host");
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

  Status increment(const encSite& site, const encDesc& desc, uint64_t repeat) {
    uint64_t count = 0;
    const bool fits = desc.value >= 1 &&
                      !__builtin_mul_overflow(static_cast<uint64_t>(desc.value), repeat, &count);
    if (!fits || count > kMaxBytes) return world_.bad(site, "want a positive increment");
    return raise(site, desc.rank, desc.semaphore, count);
  }

  Status raise(const encSite& site, int rank, uint32_t semaphore, uint64_t count) {
    if (rank < 0 || rank >= world_.info.rank_n || !world_.info.sameNode(site.rank, rank) ||
        semaphore >= limit_) {
      return world_.bad(site, "no such semaphore on this host");
    }
    add(rank, semaphore, {site.rank, operation_, site.queue, count});
    return Ok{};
  }

  void add(int rank, uint32_t semaphore, encRaiser raiser) {
    const uint32_t id = use(rank, semaphore);
    Count& count = counts_[id];
    count.raised = raiser.total + (count.raisedIn == operation_ ? count.raised : 0);
    count.raisedIn = operation_;
    std::vector<encRaiser>& raisers = world_.semaphores[id].raisers;
    size_t at = raisers.size();
    while (at > 0 && raisers[at - 1].operation == operation_ &&
           (raisers[at - 1].party != raiser.party || raisers[at - 1].queue != raiser.queue)) {
      at--;
    }
    if (at > 0 && raisers[at - 1].operation == operation_) {
      raisers[--at].total += raiser.total;
    } else {
      at = raisers.size();
      raisers.push_back(raiser);
    }
    world_.targets[site_] = {id, static_cast<uint32_t>(at)};
  }

  uint32_t use(int rank, uint32_t semaphore) {
    const uint32_t id = world_.addSemaphore(rank, semaphore);
    if (id == counts_.size()) counts_.emplace_back();
    return id;
  }

  Error wrongTotal(const encUsedSemaphore& semaphore, uint64_t raised, uint64_t declared) const {
    return fail(ncclInternalError,
                "rank %d: semaphore %u (%s) gets %llu increments: its program declares %llu",
                semaphore.rank, semaphore.number,
                world_.layout.semaphoreName(semaphore.number).c_str(),
                static_cast<unsigned long long>(raised), static_cast<unsigned long long>(declared));
  }

  encVerifyWorld& world_;
  const std::optional<encLinks> links_;  // if they are to be looked at
  const uint32_t limit_;                 // number of semaphores that a rank has
  int operation_ = 0;
  uint32_t site_ = 0;  // number of the descriptor that is looked at
  std::vector<size_t> connectionQueue_;
  std::vector<Count> counts_;  // of world_.semaphores
  std::vector<std::pair<encSite, uint32_t>> waits_;
};

/// Of all increments of a semaphore, those that may come before the first one of each raiser: all
/// but its own and those of its party in later operations.
void countOthers(std::vector<encRaiser>& raisers) {
  if (raisers.size() < 2) return;
  uint64_t all = 0;
  for (const encRaiser& raiser : raisers)
    all += raiser.total;
  std::vector<encRaiser*> order;
  order.reserve(raisers.size());
  for (encRaiser& raiser : raisers)
    order.push_back(&raiser);
  std::sort(order.begin(), order.end(), [](const encRaiser* a, const encRaiser* b) {
    return std::tuple(a->party, b->operation, a->queue) <
           std::tuple(b->party, a->operation, b->queue);
  });
  uint64_t later = 0, same = 0;  // increments of the party in later operations, and in this one
  for (size_t i = 0; i < order.size(); i++) {
    const bool sameParty = i > 0 && order[i]->party == order[i - 1]->party;
    if (!sameParty) {
      later = same = 0;
    } else if (order[i]->operation != order[i - 1]->operation) {
      later += std::exchange(same, 0);
    }
    order[i]->without = all - later - order[i]->total;
    same += order[i]->total;
  }
}

/// Bytes of each rank's scratch, which depend on how many ranks its host has.
std::vector<uint64_t> scratchOf(enc_comm_info info) {
  std::map<int, size_t> members;
  for (const int node : info.node)
    members[node]++;
  std::map<size_t, uint64_t> known;
  std::vector<uint64_t> bytes;
  for (info.rank = 0; info.rank < info.rank_n; info.rank++) {
    const auto [found, isNew] = known.try_emplace(members[info.node[info.rank]], 0);
    if (isNew) found->second = encLayout::of(info).scratchBytes();
    bytes.push_back(found->second);
  }
  return bytes;
}

}  // namespace

Result<encVerifyWorld> encInspect(const enc_comm_info& info,
                                  std::span<const encOperation> operations,
                                  const encVerifyOptions& options) {
  TRY(encCheckComm(info));
  encVerifyWorld world(info, operations, options);
  world.scratchBytes = scratchOf(info);
  std::optional<encLinks> links;
  if (options.links) links = TRY(encLinks::of(info));
  Inspector inspector(world, std::move(links));
  for (size_t i = 0; i < operations.size(); i++) {
    if (operations[i].size() != static_cast<size_t>(info.rank_n)) {
      return fail(ncclInternalError, "operation %zu has %zu programs: want %d", i,
                  operations[i].size(), info.rank_n);
    }
    TRY(inspector.operation(static_cast<int>(i)));
  }
  TRY(inspector.finish());
  for (encUsedSemaphore& semaphore : world.semaphores)
    countOthers(semaphore.raisers);
  return world;
}

}  // namespace nccom
