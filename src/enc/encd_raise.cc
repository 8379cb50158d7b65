#include <algorithm>
#include <cstring>

#include "enc/encd.h"
#include "misc/datatype.h"

namespace nccom {
namespace {

constexpr uint32_t kStepNameBytes = 32;
constexpr uint32_t kSteps = kStepNumbers;

/// Reads rows of one block of bytes, each checked before it is copied out.
class Reader {
 public:
  Reader(const char* data, const nccomProgram_v1& header) : data_(data), header_(header) {}

  template <class Row>
  Status table(const char* name, uint32_t offset, uint32_t rows) const {
    const uint64_t end = offset + uint64_t{rows} * sizeof(Row);
    if (offset % 8 != 0 || offset < sizeof(header_) || end > header_.bytes) {
      return fail(ncclInvalidArgument,
                  "%s: %u rows at offset %u: want them aligned to 8, in bytes %zu to %u", name,
                  rows, offset, sizeof(header_), header_.bytes);
    }
    return Ok{};
  }
  template <class Row>
  Row row(uint32_t offset, uint64_t index) const {
    Row copy;
    memcpy(&copy, data_ + offset + index * sizeof(Row), sizeof(Row));
    return copy;
  }
  Status range(const char* name, uint64_t first, uint64_t count, uint64_t size) const {
    if (first + count > size) {
      return fail(ncclInvalidArgument, "%s: %llu from %llu: there are %llu", name,
                  static_cast<unsigned long long>(count), static_cast<unsigned long long>(first),
                  static_cast<unsigned long long>(size));
    }
    return Ok{};
  }
  const nccomProgram_v1& header() const { return header_; }

 private:
  const char* data_;
  const nccomProgram_v1& header_;
};

Status checkHeader(const Reader& reader, size_t bytes) {
  const nccomProgram_v1& h = reader.header();
  if (h.magic != NCCOM_PROGRAM_MAGIC || h.version != NCCOM_PROGRAM_VERSION) {
    return fail(ncclInvalidArgument, "magic %llx version %u: want %llx version %d",
                static_cast<unsigned long long>(h.magic), h.version, NCCOM_PROGRAM_MAGIC,
                NCCOM_PROGRAM_VERSION);
  }
  if (h.bytes > bytes)
    return fail(ncclInvalidArgument, "program of %u bytes: have %zu", h.bytes, bytes);
  if (h.nRanks < 1 || h.rank < 0 || h.rank >= h.nRanks) {
    return fail(ncclInvalidArgument, "rank %d of %d", h.rank, h.nRanks);
  }
  if (ncclTypeSize(static_cast<ncclDataType_t>(h.dataType)) == 0 || h.redOp < 0 ||
      h.redOp > ncclMin) {
    return fail(ncclInvalidArgument, "data type %d, fold %d: want a type, and sum to min",
                h.dataType, h.redOp);
  }
  if (h.nQueues > NCCOM_MAX_QUEUES || h.nSteps != kSteps || h.peerInputs > 2 || h.peerOutputs > 1) {
    return fail(ncclInvalidArgument,
                "%u queues, %u steps, flags %u %u: want at most %d, %u, 0 to 2, 0 or 1", h.nQueues,
                h.nSteps, h.peerInputs, h.peerOutputs, NCCOM_MAX_QUEUES, kSteps);
  }
  TRY(reader.table<nccomQueue_v1>("queues", h.queues, h.nQueues));
  TRY(reader.table<nccomBlock_v1>("blocks", h.blocks, h.nBlocks));
  TRY(reader.table<nccomDesc_v1>("descriptors", h.descs, h.nDescs));
  TRY(reader.table<nccomAddress_v1>("addresses", h.addresses, h.nAddresses));
  TRY(reader.table<nccomSemaphoreTotal_v1>("totals", h.totals, h.nTotals));
  struct Name {
    char text[kStepNameBytes];
  };
  TRY(reader.table<Name>("steps", h.steps, h.nSteps));
  for (uint32_t step = 0; step < h.nSteps; step++) {
    const Name name = reader.row<Name>(h.steps, step);
    if (strncmp(name.text, encStepName(static_cast<encStep>(step)), kStepNameBytes) != 0) {
      return fail(ncclInvalidArgument, "step %u is not %s", step,
                  encStepName(static_cast<encStep>(step)));
    }
  }
  return Ok{};
}

Result<encAddress> raiseAddress(const Reader& reader, uint64_t index) {
  const nccomProgram_v1& h = reader.header();
  const auto raw = reader.row<nccomAddress_v1>(h.addresses, index);
  if (raw.rank < 0 || raw.rank >= h.nRanks || raw.buffer > nccomBufferPosted || raw.offset < 0) {
    return fail(ncclInvalidArgument,
                "address %llu: rank %d buffer %u offset %lld: want a rank below %d, "
                "a buffer to %d, no negative offset",
                static_cast<unsigned long long>(index), raw.rank, raw.buffer,
                static_cast<long long>(raw.offset), h.nRanks, nccomBufferPosted);
  }
  return encAddress{raw.rank, static_cast<encBuffer>(raw.buffer), raw.index, raw.offset,
                    raw.stride};
}

Status raiseTransfer(const Reader& reader, const nccomDesc_v1& raw, encDesc& desc) {
  if (raw.nSources < 1 || raw.nSources > 64 || raw.nDestinations < 1) {
    return fail(ncclInvalidArgument,
                "transfer with %u sources, %u destinations: want 1 to 64, 1 or more", raw.nSources,
                raw.nDestinations);
  }
  TRY(reader.range("addresses of a transfer", raw.firstAddress,
                   uint64_t{raw.nSources} + raw.nDestinations, reader.header().nAddresses));
  const uint64_t known = raw.nSources == 64 ? ~uint64_t{0} : (uint64_t{1} << raw.nSources) - 1;
  const bool scales = (raw.flags & NCCOM_TRANSFER_SCALE) != 0;
  if ((raw.scaledSources & ~known) != 0 || scales != (raw.scaledSources != 0) || raw.flags > 3) {
    return fail(ncclInvalidArgument, "transfer of %u sources: flags %u, scaled sources %llx",
                raw.nSources, raw.flags, static_cast<unsigned long long>(raw.scaledSources));
  }
  for (uint32_t i = 0; i < raw.nSources; i++) {
    desc.sources.push_back(TRY(raiseAddress(reader, uint64_t{raw.firstAddress} + i)));
  }
  for (uint32_t i = 0; i < raw.nDestinations; i++) {
    desc.destinations.push_back(
        TRY(raiseAddress(reader, uint64_t{raw.firstAddress} + raw.nSources + i)));
  }
  desc.scaledSources = raw.scaledSources;
  desc.divide = (raw.flags & NCCOM_TRANSFER_DIVIDE) != 0;
  return Ok{};
}

Result<encDesc> raiseDesc(const Reader& reader, uint32_t index) {
  const nccomProgram_v1& h = reader.header();
  const auto raw = reader.row<nccomDesc_v1>(h.descs, index);
  if (raw.type > nccomDescNetRecv || raw.step >= h.nSteps) {
    return fail(ncclInvalidArgument,
                "descriptor %u: type %u step %u: want at most %d, less than %u", index, raw.type,
                raw.step, nccomDescNetRecv, h.nSteps);
  }
  encDesc desc;
  desc.type = static_cast<encDescType>(raw.type);
  desc.step = static_cast<encStep>(raw.step);
  desc.bytes = raw.bytes;
  desc.rank = std::max(raw.rank, -1);  // the peer of a wait for the proxy is for reports only
  desc.semaphore = raw.semaphore;
  desc.value = raw.value;
  desc.stride = raw.stride;
  desc.index = raw.index;
  desc.connection = raw.connection;
  if (raw.type == nccomDescTransfer) TRY(raiseTransfer(reader, raw, desc));
  if (raw.type == nccomDescPost) {
    desc.byValue = (raw.flags & NCCOM_POST_VALUE) != 0;
    if ((raw.flags & ~NCCOM_POST_VALUE) != 0 || (desc.byValue && raw.bytes > kMaxValueBytes)) {
      return fail(ncclInvalidArgument, "descriptor %u: post of %llu bytes with flags %u", index,
                  static_cast<unsigned long long>(raw.bytes), raw.flags);
    }
  }
  const bool raises = raw.type == nccomDescInc || raw.type == nccomDescPost;
  const bool waits = raw.type == nccomDescWait;
  if ((raises && raw.rank < 0) ||
      ((raises || waits) && (raw.rank < -1 - h.nRanks || raw.rank >= h.nRanks))) {
    return fail(ncclInvalidArgument, "descriptor %u: rank %d of %d", index, raw.rank, h.nRanks);
  }
  if (raises && raw.value < (raw.type == nccomDescInc ? 1 : 0)) {
    return fail(ncclInvalidArgument, "descriptor %u: value %lld: want it positive", index,
                static_cast<long long>(raw.value));
  }
  return desc;
}

Result<encQueue> raiseQueue(const Reader& reader, uint32_t index) {
  const nccomProgram_v1& h = reader.header();
  const auto raw = reader.row<nccomQueue_v1>(h.queues, index);
  TRY(reader.range("blocks of a queue", raw.firstBlock, raw.nBlocks, h.nBlocks));
  encQueue queue{raw.channel, {}};
  for (uint32_t b = 0; b < raw.nBlocks; b++) {
    const auto block = reader.row<nccomBlock_v1>(h.blocks, uint64_t{raw.firstBlock} + b);
    TRY(reader.range("descriptors of a block", block.firstDesc, block.nDescs, h.nDescs));
    if (block.repeat < 1) return fail(ncclInvalidArgument, "block %u repeats 0 times", b);
    queue.blocks.push_back({block.repeat, {}});
    for (uint32_t d = 0; d < block.nDescs; d++) {
      queue.blocks.back().descs.push_back(TRY(raiseDesc(reader, block.firstDesc + d)));
    }
  }
  return queue;
}

}  // namespace

Result<encdRaised> encdRaise(const void* data, size_t bytes) {
  nccomProgram_v1 header;
  if (data == nullptr || bytes < sizeof(header)) {
    return fail(ncclInvalidArgument, "program of %zu bytes: want at least %zu", bytes,
                sizeof(header));
  }
  memcpy(&header, data, sizeof(header));
  const Reader reader(static_cast<const char*>(data), header);
  TRY(checkHeader(reader, bytes));
  encdRaised raised;
  raised.rank = header.rank;
  raised.nRanks = header.nRanks;
  raised.type = static_cast<ncclDataType_t>(header.dataType);
  raised.redOp = static_cast<ncclRedOp_t>(header.redOp);
  raised.peerInputs = header.peerInputs != 0;
  raised.inputByValue = header.peerInputs == 2;
  raised.peerOutputs = header.peerOutputs != 0;
  for (uint32_t queue = 0; queue < header.nQueues; queue++) {
    raised.queues.push_back(TRY(raiseQueue(reader, queue)));
  }
  for (uint32_t i = 0; i < header.nTotals; i++) {
    const auto total = reader.row<nccomSemaphoreTotal_v1>(header.totals, i);
    if (i > 0 && total.semaphore <= raised.totals.back().first) {
      return fail(ncclInvalidArgument, "total of semaphore %u after that of %u: want them rising",
                  total.semaphore, raised.totals.back().first);
    }
    raised.totals.emplace_back(total.semaphore, total.total);
  }
  return raised;
}

}  // namespace nccom
