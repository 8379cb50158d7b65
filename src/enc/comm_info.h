// enc_comm_info: all that a composer knows of a communicator, as a value. Equal on every rank but
// for `rank`.
#pragma once

#include <cstdint>
#include <vector>

#include "enc/alg_situation.h"
#include "graph/kangaring.h"
#include "graph/platform.h"

namespace nccom {

/// Limits and sizes that all ranks agree on.
struct encSizes {
  uint64_t bufferBytes = 512 << 10;  // staging buffer of a ring channel, per rank (NCCL_BUFFSIZE)
  uint64_t p2pBufferBytes =
      256 << 10;  // staging buffer of a network point-to-point peer and direction
  /// Scratch of a rank that one operation has to itself: channel buffers of meshes and RDH, partial
  /// results of hierarchies. Messages that need more go in windows.
  uint64_t workBytes = 32 << 20;
  bool operator==(const encSizes&) const = default;
};

/// Where a rank runs.
struct enc_peer_info {
  int server = 0;  // the runtime's node: a host of the platform, by first appearance
  int device = 0;  // of the server
  int core = 0;    // logical core of the server
  int slot = 0;    // logical core within the device
  bool operator==(const enc_peer_info&) const = default;
};

struct enc_comm_info {
  int rank = 0;
  int rank_n = 1;         // NOLINT(readability-identifier-naming): the field's name for it
  std::vector<int> node;  // [rank_n] ranks of equal number share memory; others need the network
  std::vector<std::vector<int>>
      rings;  // [channel][rank_n] ranks in ring order, the same rotation on every rank
  encSizes sizes;

  // What algorithms that follow the machine need; without `peers` nothing is known of it, and rings
  // and point-to-point messages are all there is.
  const NeuronPlatform* platform = nullptr;  // of all servers; null: this machine, or mixed ones
  int lnc = 1;
  NeuronPodShape pod = kNoPod;       // that the servers are hosts of, the first on its first place
  std::vector<enc_peer_info> peers;  // [rank_n]
  encSituation situation;            // the machine and the group; operation and size are unset
  encAlgOptions options;
  /// Of one server, in positions among the server's ranks: the same on every server.
  NeuronKangaring kangaring;
  /// Of one server: cycles of its devices, over links.
  std::vector<std::vector<int>> mlaCycles;

  bool operator==(const enc_comm_info&) const = default;

  bool sameNode(int a, int b) const { return node[a] == node[b]; }
};

}  // namespace nccom
