// Kangarings: rings over some ranks of each die, the primaries, each of which reads for the others
// of its die, its secondaries.
//
// A path is written p0 s0 p1 s1 ...: each primary followed by its secondaries. With logical cores
// of two (LNC 2) a die has one secondary, the core across the RMTV; with single ones (LNC 1) three:
// the core of equal index across the RMTV, the other one there, and the core beside it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "graph/fabric.h"
#include "graph/neuron_search.h"
#include "misc/result.h"

namespace nccom {

constexpr int kMaxKangaPaths = 4;
constexpr int kKangaringPiece = 4;  // entries of a path that a rank reports

/// A rank's part in one path; ranks that are not there are -1.
struct KangaringRole {
  int rank = -1;
  bool isPrimary = false;
  int peerRmtv = -1;   // across the RMTV, same index
  int peerRmtv2 = -1;  // across the RMTV, the other index; LNC 1 only
  int peerLocal = -1;  // same engine group, the other index; LNC 1 only
  // of a primary
  int prev = -1, next = -1;  // primaries
  int nextPeerRmtv = -1;     // the next primary's peerRmtv
  bool isNextPcie = false;   // the next primary is on another device; else on the other die
  int port = -1;             // of the device, towards the next primary; -1 within a device
  bool operator==(const KangaringRole&) const = default;
};

struct KangaringPath {
  std::vector<KangaringRole> roles;  // in the order of the path
  std::vector<int> ranks() const;    // p0 s0 p1 s1 ...
  bool operator==(const KangaringPath&) const = default;
};

struct NeuronKangaring {
  int virtualCoreSize = 0;
  std::vector<KangaringPath> paths;  // at most kMaxKangaPaths
  bool operator==(const NeuronKangaring&) const = default;
};

/// Paths along these tours, one each way, taking turns: with several tours, or ways, each rank is
/// primary in some paths and secondary in others. Primaries are those cores that drive the ports
/// where the tour allows it.
///
/// @param tours   closed, over links only, each device once; at most kMaxKangaPaths / 2 are used
/// @param rankOf  [core of the fabric] rank, -1: none. Every core of a toured device has one
/// @error ncclInvalidArgument  a tour with fewer than two devices, or that passes none or some
///                             twice; a core without rank; a platform without dies
Result<NeuronKangaring> kangaringPaths(const NeuronFabric& fabric,
                                       const std::vector<NeuronTour>& tours,
                                       const std::vector<int>& rankOf);

/// What a rank tells the others of the paths: of each, the piece that holds the rank itself. A
/// piece is a device's part at LNC 2, a die's at LNC 1. -1 where there is no path.
using JbogKangaringRows = std::array<std::array<int, kKangaringPiece>, kMaxKangaPaths>;

JbogKangaringRows kangaringRows(const NeuronKangaring& kangaring, int rank);

/// Puts the paths together again from what all ranks have told.
///
/// @param rows   [nRanks]
/// @param order  [path] the ranks that begin a piece, in the order of the path
/// @error ncclInternalError  the rows contradict each other, or a rank is in no piece
Result<std::vector<std::vector<int>>> joinKangaringRows(const std::vector<JbogKangaringRows>& rows,
                                                        const std::vector<std::vector<int>>& order);

/// The ranks that begin a piece.
std::vector<int> pieceHeads(const KangaringPath& path);

/// Number of the board (JBOG) within its host that a device is on; -1: the host has none.
inline int neuronTrnSwitchV1JbogId(const NeuronFabric& fabric, int device) {
  return fabric.devices[device].tray;
}

}  // namespace nccom
