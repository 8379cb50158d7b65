// The devices of a group behind switches as rows and columns, and the peers that a rank has along
// them. Any device reaches any other of its rack in one hop; the axes only keep the number of peers
// small: two steps, along a row and then along a column, reach everybody.
//
// Devices stand in rows of four, through the hosts of the pod; a group has the rows and columns
// that its devices stand in. A group that does not have all devices where they cross is a single
// row, and so is one of a single column.
#pragma once

#include <vector>

#include "enc/mesh_geometry.h"
#include "misc/result.h"

namespace nccom {

constexpr int kDevicesInRow = 4;

struct encSwitchGrid {
  int rows = 1, cols = 1;
  int slots = 1;                    // members of each device
  std::vector<int> members;         // by row, column and slot
  std::vector<int> row, col, slot;  // [member]
  int self = 0;

  int at(int ofRow, int ofCol, int ofSlot) const {
    return members[(ofRow * cols + ofCol) * slots + ofSlot];
  }
  int n() const { return rows * cols * slots; }
  int devices() const { return rows * cols; }

  // Peers, in an order in which successive ones are on different devices, and that starts elsewhere
  // for each rank: at any time, ranks send through many ports, and to many.
  std::vector<int> mates() const;     // on our device
  std::vector<int> inRow() const;     // in our row, on other devices, whatever their slot
  std::vector<int> alongRow() const;  // those of them in our slot
  std::vector<int> alongCol() const;  // in our slot and column, in other rows
  std::vector<int> beyond() const;    // all in other rows

  bool operator==(const encSwitchGrid&) const = default;
};

/// @param devicesPerHost  of the platform
/// @error ncclInvalidArgument  devices have different numbers of members: names one
Result<encSwitchGrid> encSwitchGridOf(const encMeshGeometry& geometry, int devicesPerHost);

}  // namespace nccom
