// Lowering: an encProgram as the device reads it (include/plugin/nccom_device.h), and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "enc/layout.h"
#include "enc/program.h"
#include "include/plugin/nccom_device.h"
#include "misc/result.h"

namespace nccom {

/// Owns a lowered program: one block, 8-byte aligned.
class encdProgram {
 public:
  explicit encdProgram(std::vector<uint64_t> words) : words_(std::move(words)) {}
  const nccomProgram_v1* header() const {
    return reinterpret_cast<const nccomProgram_v1*>(words_.data());
  }
  size_t bytes() const { return words_.size() * sizeof(uint64_t); }
  bool operator==(const encdProgram&) const = default;

 private:
  std::vector<uint64_t> words_;
};

/// @param layout  of the program's communicator and rank: numbers the host indices of connections
/// @error ncclInternalError  a table outgrows its 32-bit offsets, or a field its width
Result<encdProgram> encdLower(const encProgram& program, const encLayout& layout);

/// What can be read back from a lowered program. `connection` of a network descriptor is its host
/// index.
struct encdRaised {
  int rank = 0, nRanks = 1;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t redOp = ncclSum;
  std::vector<encQueue> queues;
  std::vector<std::pair<uint32_t, uint64_t>> totals;
  bool peerInputs = false, peerOutputs = false, inputByValue = false;
  bool operator==(const encdRaised&) const = default;
};

/// Reads `bytes` at `data`, which may be anything: every offset, index and value is checked.
/// @error ncclInvalidArgument  names the field, what it has and what it may have
Result<encdRaised> encdRaise(const void* data, size_t bytes);

}  // namespace nccom
