// Copies of paths that leave and enter the host near different NICs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/neuron_cores.h"
#include "graph/topo.h"

namespace nccom {

/// A path that channels are copies of.
struct NeuronBasePath {
  NeuronCorePath path;
  bool closed = true;  // may be turned
  bool operator==(const NeuronBasePath&) const = default;
};

struct NeuronChannel {
  std::vector<int> cores;
  std::array<int64_t, 2> nets = {};  // NETs of the head and of the tail; several hosts only
  bool operator==(const NeuronChannel&) const = default;
};

/// The NICs nearest to each core.
struct NeuronNets {
  /// [core of the fabric] ids of NETs, in order; empty where the core takes no part.
  std::vector<std::vector<int64_t>> nearest;
  /// All of them, in order.
  std::vector<int64_t> all() const;
};

struct LaneOptions {
  int minChannels = 1;
  int maxChannels = 16;
  bool inter = false;    // channels have a network leg
  bool crossNic = true;  // the two ends of a channel may use different NICs
};

/// Channels in pairs: 2k runs along a base path, 2k + 1 the other way with the NICs exchanged, so
/// that hosts which swap the two of a pair stay on one rail.
///
/// Without a network leg: a pair a base path. With one: base paths are repeated until every NIC
/// can be an end of one pair, and each copy is turned (rotatePath) to begin and end at NICs that
/// the others use least. Raised to minChannels by repetition, cut at maxChannels.
///
/// @param paths  at least one
std::vector<NeuronChannel> duplicatePaths(const std::vector<NeuronBasePath>& paths,
                                          const NeuronNets& nets, const LaneOptions& options);

}  // namespace nccom
