// Which long blocks may be jumped over, and which bytes only the skipped iterations write.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "enc/verify_world.h"

namespace nccom {

inline constexpr uint64_t kHeadIterations = 3;  // the first, and two that each follow one like it
inline constexpr uint64_t kTailIterations = 2;

inline bool encJumps(const encBlock& block) {
  return block.repeat > kHeadIterations + kTailIterations;
}

struct encTrustedBytes {
  int rank = 0;
  encBuffer buffer = encBuffer::Output;
  uint16_t index = 0;
  int64_t begin = 0, end = 0;
};

/// What the jumps of one operation leave out; nullopt: its blocks are not such that the skipped
/// iterations are translations of the ones that run (verify.h), so all must run.
std::optional<std::vector<encTrustedBytes>> encPlanJumps(const encVerifyWorld& world,
                                                         int operation);

}  // namespace nccom
