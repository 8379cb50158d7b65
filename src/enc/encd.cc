#include "enc/encd.h"

#include <cstring>

#include "misc/check.h"

namespace nccom {
namespace {

/// nccomDesc_v1::rank: a wait for the proxy says whose message it is.
int32_t raiserOf(const encProgram& program, const encDesc& desc) {
  if (desc.type != encDescType::Wait || desc.rank >= 0) return desc.rank;
  for (const encConnection& connection : program.connections) {
    if (connection.semaphore == desc.semaphore) return -2 - connection.peer;
  }
  return desc.rank;
}

constexpr size_t kStepNameBytes = 32;
constexpr uint32_t kSteps = kStepNumbers;

nccomAddress_v1 lower(const encAddress& address) {
  nccomAddress_v1 raw{};
  raw.rank = address.rank;
  raw.buffer = static_cast<uint16_t>(address.buffer);
  raw.index = address.index;
  raw.offset = address.offset;
  raw.stride = address.stride;
  return raw;
}

uint16_t lower(encDescType type) {
  switch (type) {
    case encDescType::Transfer:
      return nccomDescTransfer;
    case encDescType::Wait:
      return nccomDescWait;
    case encDescType::Inc:
      return nccomDescInc;
    case encDescType::Post:
      return nccomDescPost;
    case encDescType::NetSend:
      return nccomDescNetSend;
    case encDescType::NetRecv:
      return nccomDescNetRecv;
  }
  NCCL_CHECK(false && "a descriptor type");
}

/// The tables of the fixed layout while they grow.
struct Tables {
  std::vector<nccomQueue_v1> queues;
  std::vector<nccomBlock_v1> blocks;
  std::vector<nccomDesc_v1> descs;
  std::vector<nccomAddress_v1> addresses;
  std::vector<nccomSemaphoreTotal_v1> totals;
};

nccomDesc_v1 lower(const encProgram& program, const encLayout& layout, const encDesc& desc,
                   Tables& tables) {
  nccomDesc_v1 raw{};
  raw.type = lower(desc.type);
  raw.flags = static_cast<uint16_t>((desc.scaledSources != 0 ? NCCOM_TRANSFER_SCALE : 0u) |
                                    (desc.divide ? NCCOM_TRANSFER_DIVIDE : 0u) |
                                    (desc.byValue ? NCCOM_POST_VALUE : 0u));
  raw.step = static_cast<uint16_t>(desc.step);
  raw.nSources = static_cast<uint16_t>(desc.sources.size());
  raw.nDestinations = static_cast<uint16_t>(desc.destinations.size());
  raw.index = desc.index;
  raw.firstAddress = static_cast<uint32_t>(tables.addresses.size());
  raw.scaledSources = desc.scaledSources;
  raw.bytes = desc.bytes;
  raw.rank = raiserOf(program, desc);
  raw.semaphore = desc.semaphore;
  raw.value = desc.value;
  raw.stride = desc.stride;
  if (desc.type == encDescType::NetSend || desc.type == encDescType::NetRecv) {
    raw.connection = layout.hostIndex(program.connections[desc.connection]);
  }
  for (const encAddress& address : desc.sources)
    tables.addresses.push_back(lower(address));
  for (const encAddress& address : desc.destinations)
    tables.addresses.push_back(lower(address));
  return raw;
}

Tables tablesOf(const encProgram& program, const encLayout& layout) {
  Tables tables;
  for (const encQueue& queue : program.queues) {
    tables.queues.push_back({static_cast<uint32_t>(tables.blocks.size()),
                             static_cast<uint32_t>(queue.blocks.size()), queue.channel, 0});
    for (const encBlock& block : queue.blocks) {
      tables.blocks.push_back({static_cast<uint32_t>(tables.descs.size()),
                               static_cast<uint32_t>(block.descs.size()), block.repeat});
      for (const encDesc& desc : block.descs) {
        tables.descs.push_back(lower(program, layout, desc, tables));
      }
    }
  }
  for (const auto& [semaphore, total] : program.totals) {
    tables.totals.push_back({semaphore, 0, total});
  }
  return tables;
}

/// Appends a table and returns its offset.
template <class Row>
uint64_t place(std::vector<uint64_t>& words, const std::vector<Row>& rows) {
  static_assert(sizeof(Row) % sizeof(uint64_t) == 0 && alignof(Row) <= alignof(uint64_t));
  const size_t first = words.size();
  words.resize(first + rows.size() * sizeof(Row) / sizeof(uint64_t));
  if (!rows.empty()) memcpy(&words[first], rows.data(), rows.size() * sizeof(Row));
  return first * sizeof(uint64_t);
}

struct StepName {
  char text[kStepNameBytes];
};

std::vector<uint64_t> stepNameWords() {
  std::vector<uint64_t> words(kSteps * kStepNameBytes / sizeof(uint64_t));
  for (uint32_t step = 0; step < kSteps; step++) {
    StepName name{};
    strncpy(name.text, encStepName(static_cast<encStep>(step)), kStepNameBytes - 1);
    memcpy(&words[step * kStepNameBytes / sizeof(uint64_t)], &name, sizeof(name));
  }
  return words;
}

/// The fold that the device carries out: averages and scaled sums are sums.
ncclRedOp_t foldOf(const encTask& task) {
  return static_cast<int>(task.redOp) <= ncclMin ? task.redOp : ncclSum;
}

Status checkWidths(const encBlock& block) {
  for (const encDesc& desc : block.descs) {
    if (desc.sources.size() <= 64 && desc.destinations.size() <= UINT16_MAX) continue;
    return fail(ncclInternalError, "%s: %zu sources, %zu destinations: at most 64, %d",
                encStepName(desc.step), desc.sources.size(), desc.destinations.size(), UINT16_MAX);
  }
  return Ok{};
}

Status checkWidths(const encProgram& program) {
  if (program.queues.size() > NCCOM_MAX_QUEUES) {
    return fail(ncclInternalError, "%s: %zu queues: at most %d", encOpName(program.task.op),
                program.queues.size(), NCCOM_MAX_QUEUES);
  }
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks)
      TRY(checkWidths(block));
  }
  return Ok{};
}

}  // namespace

Result<encdProgram> encdLower(const encProgram& program, const encLayout& layout) {
  TRY(checkWidths(program));
  const Tables tables = tablesOf(program, layout);
  nccomProgram_v1 header{};
  static_assert(sizeof(header) % sizeof(uint64_t) == 0);
  std::vector<uint64_t> words(sizeof(header) / sizeof(uint64_t));
  header.magic = NCCOM_PROGRAM_MAGIC;
  header.version = NCCOM_PROGRAM_VERSION;
  header.rank = program.rank;
  header.nRanks = program.nRanks;
  header.dataType = program.task.type;
  header.redOp = foldOf(program.task);
  header.nQueues = static_cast<uint32_t>(tables.queues.size());
  header.nBlocks = static_cast<uint32_t>(tables.blocks.size());
  header.nDescs = static_cast<uint32_t>(tables.descs.size());
  header.nAddresses = static_cast<uint32_t>(tables.addresses.size());
  header.nTotals = static_cast<uint32_t>(tables.totals.size());
  header.nSteps = kSteps;
  header.queues = static_cast<uint32_t>(place(words, tables.queues));
  header.blocks = static_cast<uint32_t>(place(words, tables.blocks));
  header.descs = static_cast<uint32_t>(place(words, tables.descs));
  header.addresses = static_cast<uint32_t>(place(words, tables.addresses));
  header.totals = static_cast<uint32_t>(place(words, tables.totals));
  header.steps = static_cast<uint32_t>(place(words, stepNameWords()));
  static_assert(kMaxValueBytes == NCCOM_VALUE_BYTES && kMaxPosted == NCCOM_POSTED &&
                kMaxPostedValues == NCCOM_POSTED_VALUES);
  header.peerInputs = program.inputByValue ? 2 : program.peerInputs ? 1 : 0;
  header.peerOutputs = program.peerOutputs ? 1 : 0;
  const uint64_t bytes = words.size() * sizeof(uint64_t);
  if (bytes > UINT32_MAX) {
    return fail(ncclInternalError, "%s of %llu elements: its program has %llu bytes: at most %u",
                encOpName(program.task.op), static_cast<unsigned long long>(program.task.count),
                static_cast<unsigned long long>(bytes), UINT32_MAX);
  }
  header.bytes = static_cast<uint32_t>(bytes);
  memcpy(words.data(), &header, sizeof(header));
  return encdProgram(std::move(words));
}

}  // namespace nccom
