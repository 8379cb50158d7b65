#include "plugins/device_emu/program.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "plugins/device_emu/kernels.h"
#include "plugins/device_emu/page.h"

namespace nccom::emu {
namespace {

constexpr uint32_t kStepNameBytes = 32;
constexpr uint64_t kMaxExtent = uint64_t{1} << 62;  // far from where sums of two would wrap

bool isInteger(int32_t type) {
  return type <= ncclUint64;
}
static_assert(ncclInt8 == 0 && ncclUint64 == 5);

struct Table {
  const char* name;
  uint32_t offset;
  uint64_t bytes;
};

Status checkTables(const nccomProgram_v1& head) {
  const Table tables[] = {
      {"queues", head.queues, uint64_t{head.nQueues} * sizeof(nccomQueue_v1)},
      {"blocks", head.blocks, uint64_t{head.nBlocks} * sizeof(nccomBlock_v1)},
      {"descriptors", head.descs, uint64_t{head.nDescs} * sizeof(nccomDesc_v1)},
      {"addresses", head.addresses, uint64_t{head.nAddresses} * sizeof(nccomAddress_v1)},
      {"totals", head.totals, uint64_t{head.nTotals} * sizeof(nccomSemaphoreTotal_v1)},
      {"step names", head.steps, uint64_t{head.nSteps} * kStepNameBytes},
  };
  for (const Table& table : tables) {
    if (table.offset % 8 != 0 || table.offset + table.bytes > head.bytes) {
      return fail(ncclInvalidArgument,
                  "program: table of %s at offset %u with %llu bytes: want it 8-byte aligned and "
                  "inside the block's %u bytes",
                  table.name, table.offset, static_cast<unsigned long long>(table.bytes),
                  head.bytes);
    }
  }
  return Ok{};
}

Status checkHead(const nccomProgram_v1& head, const ProgramLimits& limits) {
  if (head.magic != NCCOM_PROGRAM_MAGIC || head.version != NCCOM_PROGRAM_VERSION ||
      head.bytes < sizeof head) {
    return fail(ncclInvalidArgument,
                "program: magic %llx, version %u, %u bytes: want magic %llx, version %d and a "
                "block of at least %zu bytes",
                static_cast<unsigned long long>(head.magic), head.version, head.bytes,
                static_cast<unsigned long long>(NCCOM_PROGRAM_MAGIC), NCCOM_PROGRAM_VERSION,
                sizeof head);
  }
  const auto nRanks = static_cast<int32_t>(limits.ranks.size());
  if (head.rank != limits.rank || head.nRanks != nRanks) {
    return fail(ncclInvalidArgument,
                "program is for rank %d of %d: the communicator is rank %d of %d", head.rank,
                head.nRanks, limits.rank, nRanks);
  }
  if (head.nQueues > NCCOM_MAX_QUEUES) {
    return fail(ncclInvalidArgument, "program has %u queues: at most %d", head.nQueues,
                NCCOM_MAX_QUEUES);
  }
  if (head.dataType < 0 || head.dataType >= ncclNumTypes) {
    return fail(ncclInvalidArgument, "program has data type %d: want 0 to %d", head.dataType,
                ncclNumTypes - 1);
  }
  if (head.redOp < ncclSum || head.redOp > ncclMin) {
    return fail(ncclInvalidArgument,
                "program has operator %d: want sum, prod, max or min (0 to %d)", head.redOp,
                ncclMin);
  }
  return checkTables(head);
}

}  // namespace

// Walks all descriptors once; collects what the program touches.
class LoadedProgram::Checker {
 public:
  Checker(LoadedProgram& program, const ProgramLimits& limits)
      : program_(program), limits_(limits) {}

  Status run() {
    for (const nccomQueue_v1& queue : program_.queues()) {
      queue_++;
      if (uint64_t{queue.firstBlock} + queue.nBlocks > program_.head().nBlocks) {
        return fail(ncclInvalidArgument, "program: queue with blocks %u to %u of %u",
                    queue.firstBlock, queue.firstBlock + queue.nBlocks, program_.head().nBlocks);
      }
      for (const nccomBlock_v1& block :
           program_.blocks().subspan(queue.firstBlock, queue.nBlocks)) {
        EMU_TRY(checkBlock(block));
      }
    }
    EMU_TRY(checkTotals());
    EMU_TRY(collect());
    program_.exchanges_ = exchanges();
    std::set<int32_t> ranks{limits_.rank};
    for (const nccomAddress_v1& address : program_.addresses())
      ranks.insert(address.rank);
    program_.hearsOfAll_ =
        program_.exchanges_ && ranks.size() == static_cast<size_t>(program_.head().nRanks);
    return Ok{};
  }

 private:
  Status checkBlock(const nccomBlock_v1& block) {
    if (block.repeat < 1 || block.nDescs < 1 ||
        uint64_t{block.firstDesc} + block.nDescs > program_.head().nDescs) {
      return fail(ncclInvalidArgument,
                  "program: block with descriptors %u to %u of %u, repeated %llu times: want some, "
                  "repeated at least once",
                  block.firstDesc, block.firstDesc + block.nDescs, program_.head().nDescs,
                  static_cast<unsigned long long>(block.repeat));
    }
    for (uint32_t i = block.firstDesc; i < block.firstDesc + block.nDescs; i++) {
      const Status status = checkDesc(program_.descs()[i], block.repeat);
      if (!status.ok()) {
        return fail(status.error().code, "program: descriptor %u: %s", i,
                    status.error().message.c_str());
      }
    }
    return Ok{};
  }

  Status checkDesc(const nccomDesc_v1& desc, uint64_t repeat) {
    if (desc.step >= program_.head().nSteps) {
      return fail(ncclInvalidArgument, "step %u of %u", desc.step, program_.head().nSteps);
    }
    switch (desc.type) {
      case nccomDescTransfer:
        return checkTransfer(desc, repeat);
      case nccomDescWait:
        return checkWait(desc);
      case nccomDescInc:
        if (desc.value < 0) {
          return fail(ncclInvalidArgument, "increment by %lld", static_cast<long long>(desc.value));
        }
        return checkSemaphore(desc.rank, desc.semaphore);
      case nccomDescPost:
        return checkPost(desc, repeat);
      case nccomDescNetSend:
      case nccomDescNetRecv:
        if (desc.connection < limits_.nConnections) return Ok{};
        return fail(ncclInvalidArgument, "connection %u of %u", desc.connection,
                    limits_.nConnections);
      default:
        return fail(ncclInvalidArgument, "unknown type %u", desc.type);
    }
  }

  Status checkRank(int32_t rank) const {
    if (rank < 0 || rank >= program_.head().nRanks) {
      return fail(ncclInvalidArgument, "rank %d of %d", rank, program_.head().nRanks);
    }
    if (limits_.ranks[static_cast<size_t>(rank)].reachable) return Ok{};
    return fail(ncclInvalidArgument, "rank %d is not connected or not of this host", rank);
  }

  Status checkSemaphore(int32_t rank, uint32_t semaphore) const {
    EMU_TRY(checkRank(rank));
    const uint32_t n = limits_.ranks[static_cast<size_t>(rank)].nSemaphores;
    if (semaphore < n) return Ok{};
    return fail(ncclInvalidArgument, "semaphore %u of %u of rank %d", semaphore, n, rank);
  }

  /// Who raises a semaphore goes on with the one queue that waits for it.
  Status checkWait(const nccomDesc_v1& desc) {
    EMU_TRY(checkSemaphore(limits_.rank, desc.semaphore));
    const auto [waiter, first] = waiters_.emplace(desc.semaphore, queue_);
    if (first || waiter->second == queue_) return Ok{};
    return fail(ncclInvalidArgument, "queues %u and %u wait for semaphore %u: one may",
                waiter->second, queue_, desc.semaphore);
  }

  Status checkPost(const nccomDesc_v1& desc, uint64_t repeat) {
    EMU_TRY(checkRank(desc.rank));
    if ((desc.flags & NCCOM_POST_VALUE) != 0 && desc.bytes > NCCOM_VALUE_BYTES) {
      return fail(ncclInvalidArgument, "a message of %llu bytes by value: at most %d",
                  static_cast<unsigned long long>(desc.bytes), NCCOM_VALUE_BYTES);
    }
    if (desc.value < 0 || desc.value > UINT16_MAX || repeat != 1) {
      return fail(ncclInvalidArgument, "message %lld, posted %llu times: want 0 to %d, once",
                  static_cast<long long>(desc.value), static_cast<unsigned long long>(repeat),
                  UINT16_MAX);
    }
    touch(program_.inputBytes_, desc.index, desc.bytes);
    posts_[desc.rank].push_back(static_cast<uint64_t>(desc.value));
    return Ok{};
  }

  Status checkTransfer(const nccomDesc_v1& desc, uint64_t repeat) {
    if (desc.nSources < 1 || desc.nSources > kMaxSources || desc.nDestinations < 1 ||
        desc.nDestinations > kMaxDestinations) {
      return fail(ncclInvalidArgument, "%u sources to %u destinations: want 1 to %d each",
                  desc.nSources, desc.nDestinations, kMaxSources);
    }
    const uint32_t n = uint32_t{desc.nSources} + desc.nDestinations;
    if (uint64_t{desc.firstAddress} + n > program_.head().nAddresses) {
      return fail(ncclInvalidArgument, "addresses %u to %u of %u", desc.firstAddress,
                  desc.firstAddress + n, program_.head().nAddresses);
    }
    if (desc.nSources > 1 || desc.scaledSources != 0 ||
        (desc.flags & (NCCOM_TRANSFER_SCALE | NCCOM_TRANSFER_DIVIDE)) != 0) {
      program_.computes_ = true;
      if (desc.bytes % program_.elementBytes_ != 0) {
        return fail(ncclInvalidArgument, "%llu bytes: want a multiple of the element's %llu",
                    static_cast<unsigned long long>(desc.bytes),
                    static_cast<unsigned long long>(program_.elementBytes_));
      }
    }
    program_.volume_ += desc.bytes * desc.nDestinations * repeat;
    if ((desc.flags & NCCOM_TRANSFER_DIVIDE) != 0 && !isInteger(program_.head().dataType)) {
      return fail(ncclInvalidArgument, "division of data type %d: only integers are divided",
                  program_.head().dataType);
    }
    for (uint32_t k = 0; k < n; k++) {
      const nccomAddress_v1& address = program_.addresses()[desc.firstAddress + k];
      EMU_TRY(checkAddress(address, desc, repeat, k < desc.nSources));
    }
    return Ok{};
  }

  Status checkAddress(const nccomAddress_v1& address, const nccomDesc_v1& desc, uint64_t repeat,
                      bool source) {
    EMU_TRY(checkRank(address.rank));
    const uint64_t end = EMU_TRY(extent(address, desc.bytes, repeat));
    const RankLimits& rank = limits_.ranks[static_cast<size_t>(address.rank)];
    const bool own = address.rank == limits_.rank;
    switch (address.buffer) {
      case nccomBufferScratch:
        if (end <= rank.scratchBytes) return Ok{};
        return fail(ncclInvalidArgument, "byte %llu of rank %d's scratch, which has %llu",
                    static_cast<unsigned long long>(end), address.rank,
                    static_cast<unsigned long long>(rank.scratchBytes));
      case nccomBufferPosted:
        if (!source) return fail(ncclInvalidArgument, "a posted message as destination");
        return addPosted(address, repeat, end);
      case nccomBufferInput:
      case nccomBufferOutput:
        if (own) {
          touch(address.buffer == nccomBufferInput ? program_.inputBytes_ : program_.outputBytes_,
                address.index, end);
          return Ok{};
        }
        program_.namesPeers_ = true;
        if (address.index == 0) return Ok{};
        return fail(ncclInvalidArgument, "buffer %u of rank %d: of other ranks only the first",
                    address.index, address.rank);
      default:
        return fail(ncclInvalidArgument, "unknown buffer %u", address.buffer);
    }
  }

  /// One past the highest byte that `bytes` at an address touch in any iteration.
  static Result<uint64_t> extent(const nccomAddress_v1& address, uint64_t bytes, uint64_t repeat) {
    int64_t travel = 0, last = 0, high = 0;
    const bool fits =
        bytes <= kMaxExtent && repeat - 1 <= kMaxExtent &&
        !__builtin_mul_overflow(address.stride, static_cast<int64_t>(repeat - 1), &travel) &&
        !__builtin_add_overflow(address.offset, travel, &last) &&
        !__builtin_add_overflow(std::max(address.offset, last), static_cast<int64_t>(bytes), &high);
    if (!fits || std::min(address.offset, last) < 0) {
      return fail(ncclInvalidArgument,
                  "%llu bytes at offset %lld, stride %lld, %llu times: not in any buffer",
                  static_cast<unsigned long long>(bytes), static_cast<long long>(address.offset),
                  static_cast<long long>(address.stride), static_cast<unsigned long long>(repeat));
    }
    return static_cast<uint64_t>(high);
  }

  static void touch(std::vector<uint64_t>& bytes, uint16_t index, uint64_t end) {
    if (bytes.size() <= index) bytes.resize(size_t{index} + 1, 0);
    bytes[index] = std::max(bytes[index], end);
  }

  /// Messages are taken in order, so that of those before one that was taken none need be looked
  /// at.
  Status addPosted(const nccomAddress_v1& address, uint64_t repeat, uint64_t end) {
    const auto [last, first] = readers_.try_emplace(address.rank, queue_, address.index);
    auto& [queue, index] = last->second;
    if (queue != queue_ || address.index < index) {
      return fail(ncclInvalidArgument,
                  "message %u of rank %d in queue %u after message %u in queue %u: want them in "
                  "order, in one queue",
                  address.index, address.rank, queue_, index, queue);
    }
    index = address.index;
    PostedUse& use = posted_[{address.rank, address.index}];
    use.rank = address.rank;
    use.index = address.index;
    use.uses += repeat;
    use.bytes = std::max(use.bytes, end);
    return Ok{};
  }

  Status checkTotals() const {
    for (const nccomSemaphoreTotal_v1& total : program_.totals()) {
      EMU_TRY(checkSemaphore(limits_.rank, total.semaphore));
    }
    return Ok{};
  }

  Status collect() {
    uint32_t expected = 0;
    for (const auto& [key, use] : posted_) {
      expected =
          !program_.posted_.empty() && program_.posted_.back().rank == use.rank ? expected : 0;
      if (use.index != expected) {
        return fail(ncclInvalidArgument, "program receives message %u of rank %d but not %u",
                    use.index, use.rank, expected);
      }
      expected++;
      program_.posted_.push_back(use);
    }
    for (auto& [rank, messages] : posts_) {
      std::sort(messages.begin(), messages.end());
      for (uint64_t i = 0; i < messages.size(); i++) {
        if (messages[i] == i) continue;
        return fail(ncclInvalidArgument,
                    "program posts %zu messages to rank %d but not number %llu", messages.size(),
                    rank, static_cast<unsigned long long>(i));
      }
      program_.posts_.emplace_back(rank, messages.size());
    }
    return Ok{};
  }

  /// A short message, or a transfer of own and given values to own outputs.
  bool isOfExchange(const nccomDesc_v1& desc) const {
    if (desc.type == nccomDescPost) return (desc.flags & NCCOM_POST_VALUE) != 0;
    if (desc.type != nccomDescTransfer) return false;
    const auto all =
        program_.addresses().subspan(desc.firstAddress, size_t{desc.nSources} + desc.nDestinations);
    for (size_t k = 0; k < all.size(); k++) {
      const bool own = all[k].rank == limits_.rank;
      if (k >= desc.nSources) {
        if (all[k].buffer != nccomBufferOutput || !own) return false;
      } else if (all[k].buffer == nccomBufferPosted) {
        if (desc.bytes > NCCOM_VALUE_BYTES) return false;
      } else if (all[k].buffer != nccomBufferInput || (all[k].index != 0 && !own)) {
        return false;
      }
    }
    return true;
  }

  bool exchanges() const {
    const nccomProgram_v1& head = program_.head();
    const auto once = [](const nccomBlock_v1& block) { return block.repeat == 1; };
    // Those of one queue are in order; else each output must be made of values alone.
    const bool ordered = head.nQueues <= 1 || !program_.posts().empty();
    // Nobody waits for an exchange to take messages: a sender has room for all of them, and for
    // later ones when the next operation of their receiver has come.
    const bool few = std::all_of(posted_.begin(), posted_.end(),
                                 [](const auto& use) { return use.second.index < kMailValues; });
    return head.peerInputs != 1 && head.peerOutputs == 0 && head.nTotals == 0 && ordered && few &&
           std::all_of(program_.blocks().begin(), program_.blocks().end(), once) &&
           std::all_of(program_.descs().begin(), program_.descs().end(),
                       [this](const nccomDesc_v1& desc) { return isOfExchange(desc); });
  }

  LoadedProgram& program_;
  const ProgramLimits& limits_;
  std::map<std::pair<int32_t, uint16_t>, PostedUse> posted_;
  std::map<int32_t, std::vector<uint64_t>> posts_;
  std::map<uint32_t, uint32_t> waiters_;                      // semaphore to queue
  std::map<int32_t, std::pair<uint32_t, uint16_t>> readers_;  // of a rank: queue, last message
  uint32_t queue_ = ~uint32_t{0};
};

Result<std::unique_ptr<LoadedProgram>> LoadedProgram::load(const nccomProgram_v1& block,
                                                           const ProgramLimits& limits) {
  EMU_TRY(checkHead(block, limits));
  std::unique_ptr<LoadedProgram> program(new LoadedProgram);  // NOLINT: the constructor is private
  program->words_.resize((block.bytes + 7) / 8);
  memcpy(program->words_.data(), &block, block.bytes);
  program->elementBytes_ = nccom::emu::elementBytes(static_cast<ncclDataType_t>(block.dataType));
  EMU_TRY(Checker(*program, limits).run());
  if (program->exchanges()) program->listExchange();
  return program;
}

/// No block of an exchange is repeated.
void LoadedProgram::listExchange() {
  for (const nccomQueue_v1& queue : queues()) {
    for (const nccomBlock_v1& block : blocks().subspan(queue.firstBlock, queue.nBlocks)) {
      for (const nccomDesc_v1& desc : descs().subspan(block.firstDesc, block.nDescs))
        (desc.type == nccomDescPost ? exchangePosts_ : exchangeTransfers_).push_back(&desc);
    }
  }
}

std::string LoadedProgram::stepName(uint16_t step) const {
  const char* name = at<char>(head().steps) + size_t{step} * kStepNameBytes;
  return std::string(name, strnlen(name, kStepNameBytes));
}

size_t LoadedProgram::postedAt(int32_t rank, uint16_t index) const {
  const auto found = std::lower_bound(
      posted_.begin(), posted_.end(), std::pair(rank, index),
      [](const PostedUse& use, const auto& key) { return std::pair(use.rank, use.index) < key; });
  return static_cast<size_t>(found - posted_.begin());
}

Status LoadedProgram::setStaged(std::unique_ptr<const LoadedProgram> staged) {
  if (staged->namesPeers() || staged->head().peerInputs != 0 || staged->head().peerOutputs != 0) {
    return fail(ncclInvalidArgument,
                "program for buffers that others cannot map: it uses those of other ranks");
  }
  staged_ = std::move(staged);
  return Ok{};
}

}  // namespace nccom::emu
