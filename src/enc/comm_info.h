// enc_comm_info: all that a composer knows of a communicator, as a value. Equal on every rank but
// for `rank`.
#pragma once

#include <cstdint>
#include <vector>

namespace nccom {

/// Limits and sizes that all ranks agree on.
struct encSizes {
  uint64_t bufferBytes = 512 << 10;  // staging buffer of a ring channel, per rank (NCCL_BUFFSIZE)
  uint64_t p2pBufferBytes =
      256 << 10;  // staging buffer of a network point-to-point peer and direction
  bool operator==(const encSizes&) const = default;
};

struct enc_comm_info {
  int rank = 0;
  int rank_n = 1;         // NOLINT(readability-identifier-naming): the field's name for it
  std::vector<int> node;  // [rank_n] host index of each rank
  std::vector<std::vector<int>>
      rings;  // [channel][rank_n] ranks in ring order, the same rotation on every rank
  encSizes sizes;
  bool operator==(const enc_comm_info&) const = default;

  bool sameNode(int a, int b) const { return node[a] == node[b]; }
};

}  // namespace nccom
