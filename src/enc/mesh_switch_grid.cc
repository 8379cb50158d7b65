#include "enc/mesh_switch_grid.h"

#include <algorithm>
#include <set>

namespace nccom {
namespace {

/// Where the devices of a group stand: in numbers of the rows and columns that it has.
struct Place {
  int row = 0, col = 0;
};

int rankIn(const std::set<int>& values, int value) {
  return static_cast<int>(std::distance(values.begin(), values.find(value)));
}

std::vector<Place> boxOf(const std::vector<encMeshChip>& chips, int devicesPerHost) {
  std::set<int> rows, cols;
  std::vector<Place> places;
  for (const encMeshChip& chip : chips) {
    const int device = chip.server * devicesPerHost + chip.device;
    places.push_back({device / kDevicesInRow, device % kDevicesInRow});
    rows.insert(places.back().row);
    cols.insert(places.back().col);
  }
  const bool isFilled = rows.size() * cols.size() == chips.size() && cols.size() > 1;
  for (size_t i = 0; i < places.size(); i++) {
    places[i] = isFilled ? Place{rankIn(rows, places[i].row), rankIn(cols, places[i].col)}
                         : Place{0, static_cast<int>(i)};
  }
  return places;
}

}  // namespace

Result<encSwitchGrid> encSwitchGridOf(const encMeshGeometry& geometry, int devicesPerHost) {
  for (const encMeshChip& chip : geometry.chips) {
    if (geometry.perChip() > 0) break;
    if (chip.members.size() == geometry.chips[0].members.size()) continue;
    return fail(ncclInvalidArgument,
                "switch mesh of %d ranks: device %d of node %d has %zu of them, device %d of node "
                "%d %zu: want the same on all",
                geometry.n(), chip.device, chip.server, chip.members.size(),
                geometry.chips[0].device, geometry.chips[0].server,
                geometry.chips[0].members.size());
  }
  const std::vector<Place> places = boxOf(geometry.chips, devicesPerHost);
  encSwitchGrid grid;
  grid.self = geometry.self;
  grid.slots = geometry.perChip();
  for (const Place& place : places) {
    grid.rows = std::max(grid.rows, place.row + 1);
    grid.cols = std::max(grid.cols, place.col + 1);
  }
  grid.members.resize(geometry.n());
  grid.row.resize(geometry.n());
  grid.col.resize(geometry.n());
  grid.slot = geometry.place;
  for (int member = 0; member < geometry.n(); member++) {
    const Place& place = places[geometry.chip[member]];
    grid.row[member] = place.row;
    grid.col[member] = place.col;
    grid.members[(place.row * grid.cols + place.col) * grid.slots + grid.slot[member]] = member;
  }
  return grid;
}

std::vector<int> encSwitchGrid::mates() const {
  std::vector<int> found;
  for (int k = 1; k < slots; k++)
    found.push_back(at(row[self], col[self], (slot[self] + k) % slots));
  return found;
}

std::vector<int> encSwitchGrid::inRow() const {
  std::vector<int> found;
  for (int k = 0; k < slots; k++) {
    for (int i = 1; i < cols; i++)
      found.push_back(at(row[self], (col[self] + i) % cols, (slot[self] + k) % slots));
  }
  return found;
}

std::vector<int> encSwitchGrid::alongRow() const {
  std::vector<int> found;
  for (int i = 1; i < cols; i++)
    found.push_back(at(row[self], (col[self] + i) % cols, slot[self]));
  return found;
}

std::vector<int> encSwitchGrid::alongCol() const {
  std::vector<int> found;
  for (int i = 1; i < rows; i++)
    found.push_back(at((row[self] + i) % rows, col[self], slot[self]));
  return found;
}

std::vector<int> encSwitchGrid::beyond() const {
  std::vector<int> found;
  for (int k = 0; k < slots; k++) {
    for (int j = 0; j < cols; j++) {
      for (int i = 1; i < rows; i++) {
        found.push_back(
            at((row[self] + i) % rows, (col[self] + j) % cols, (slot[self] + k) % slots));
      }
    }
  }
  return found;
}

}  // namespace nccom
