// Finds channels: orders of a host's ranks that the links can carry, and the NICs at their ends.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/topo.h"
#include "misc/limits.h"

namespace nccom {

// NCCL_TOPO_PATTERN_* values, as graph files have them. Rings and the three trees are searched for.
enum class ncclTopoPattern : uint8_t {
  BalancedTree = 1,
  SplitTree = 2,
  Tree = 3,
  Ring = 4,
  Nvls = 5,
  CollnetDirect = 6
};

/// Channels of one host. Rates are GB/s of one channel in one direction.
struct ncclTopoGraph {
  // what is wanted
  int id = 0;  // 0 ring, 1 tree, 2 collnet chain, 3 nvls, 4 collnet direct
  ncclTopoPattern pattern = ncclTopoPattern::Ring;
  int crossNic = 2;  // in: 0 never, 1 always, 2 if useful; out: 0, or 1 or 2 when NICs may differ
  int collNet = 0;
  int minChannels = 1;
  int maxChannels = 16;  // at most kMaxChannels
  // what was found
  int nChannels = 0;
  float bwIntra = 0;
  float bwInter = 0;       // 0: no network leg
  float latencyInter = 0;  // microseconds
  ncclTopoPathType typeIntra = ncclTopoPathType::Loc;
  ncclTopoPathType typeInter = ncclTopoPathType::Pix;
  bool sameChannels = true;  // all channels have one order
  int nHops = 0;             // links used, over all channels
  bool crossRackToRack = false;
  std::vector<std::vector<int>> intra;        // [channel] ranks, in ring order
  std::vector<std::array<int64_t, 2>> inter;  // [channel] ids of the NETs in and out
  std::vector<std::string> why;               // what was tried and given up, in order

  /// `why` explains a graph, it is no part of it.
  bool operator==(const ncclTopoGraph& other) const;
};

/// Sets system.maxBw and system.totalBw from the paths.
void ncclTopoSearchInit(ncclTopoSystem& system);

/// Nccl gives NCCL 2.30's answers, Best never worse ones.
enum class ncclTopoSearch : uint8_t { Nccl, Best };

/// Fills `wanted` with the best channels found: the inherited depth-first search, which relaxes
/// equal channels, path types, NIC crossing and bandwidth in turn, within step budgets (never
/// time, so that equal inputs give equal graphs). If nothing is found: one channel in the order
/// of the system. Paths and ncclTopoSearchInit must have been computed.
///
/// Of trees: `intra` runs from the root's side down; `inter` has the NET of the first device and
/// the one that the tree comes back to. A BalancedTree may come back as a Tree. NCCL asks for as
/// many channels, least and most, as its ring has.
///
/// @error ncclInvalidUsage     a pattern other than Ring and the trees
/// @error ncclInvalidArgument  no GPU, or channel bounds outside 1..kMaxChannels
Result<ncclTopoGraph> ncclTopoCompute(const ncclTopoSystem& system, const ncclTopoGraph& wanted,
                                      ncclTopoSearch search = ncclTopoSearch::Best);

/// The graph as text: one line of properties, one a channel.
std::string ncclTopoPrintGraph(const ncclTopoSystem& system, const ncclTopoGraph& graph);

/// A <graphs> document of these graphs (NCCL_GRAPH_DUMP_FILE).
/// @error ncclInvalidArgument  a rank of a graph is not in the system
Result<ncclXml> ncclTopoGetXmlFromGraphs(const std::vector<ncclTopoGraph>& graphs,
                                         const ncclTopoSystem& system);

/// The graph of a <graphs> document with the id of `wanted` (NCCL_GRAPH_FILE); `wanted` itself,
/// without channels, if the document has none.
/// @error ncclInvalidUsage  with file:line:column: a channel that is not an order of exactly this
///                          host's ranks, an unknown device or NET, a malformed attribute
Result<ncclTopoGraph> ncclTopoGetGraphFromXml(const ncclXml& xml, const ncclTopoSystem& system,
                                              const ncclTopoGraph& wanted);

}  // namespace nccom
