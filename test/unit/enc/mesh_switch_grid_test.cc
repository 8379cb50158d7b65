// The grid of devices behind switches.
#include "enc/mesh_switch_grid.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "test/unit/enc/mesh_switch_worlds.h"

namespace nccom {
namespace {

using test::geometryOf;
using test::gridOf;
using test::groups;
using test::kGen1;
using test::kGen2;
using test::rackOf;
using test::upTo;
using test::World;

TEST(SwitchGrid, IsTheRowsAndColumnsOfTheGroup) {
  const auto shape = [](const World& world) {
    const encSwitchGrid grid = gridOf(world, 0);
    return std::array<int, 3>{grid.rows, grid.cols, grid.slots};
  };
  using Shape = std::array<int, 3>;
  EXPECT_EQ(shape(rackOf(kGen2, 2, 1, upTo(16))), (Shape{1, 4, 4}));
  EXPECT_EQ(shape(rackOf(kGen2, 2, 4, upTo(16))), (Shape{4, 4, 4}));
  EXPECT_EQ(shape(rackOf(kGen2, 2, 4, {0})), (Shape{1, 4, 1}));
  EXPECT_EQ(shape(rackOf(kGen2, 2, 2, {0, 1, 12, 13})), (Shape{2, 2, 2}));
  EXPECT_EQ(shape(rackOf(kGen1, 2, 1, upTo(64))), (Shape{4, 4, 4}));
  EXPECT_EQ(shape(rackOf(kGen1, 1, 2, upTo(128))), (Shape{8, 4, 8}));
  EXPECT_EQ(shape(rackOf(kGen1, 2, 1, {0, 20})), (Shape{1, 2, 1})) << "a hole where they cross";
}

TEST(SwitchGrid, ReachesEverybodyInTwoSteps) {
  for (const World& world : groups(64)) {
    const int n = world.rank_n();
    for (int rank = 0; rank < n; rank++) {
      const encSwitchGrid grid = gridOf(world, rank);
      std::set<int> reached{rank};
      for (const auto& list : {grid.mates(), grid.inRow(), grid.beyond()}) {
        for (const int member : list)
          EXPECT_TRUE(reached.insert(member).second) << rank << " meets " << member << " twice";
      }
      EXPECT_EQ(reached.size(), static_cast<size_t>(n));
      std::set<int> rowFirst;
      for (const int member : grid.alongCol())
        rowFirst.insert(grid.row[member]);
      EXPECT_EQ(rowFirst.size(), static_cast<size_t>(grid.rows - 1));
      EXPECT_EQ(grid.at(grid.row[rank], grid.col[rank], grid.slot[rank]), rank);
    }
  }
}

// At any time, ranks of a device send to different devices, and so do those of a row.
TEST(SwitchGrid, SpraysPeersOverPorts) {
  const World world = rackOf(kGen2, 2, 4, upTo(16));
  const encSwitchGrid own = gridOf(world, 0);
  for (size_t step = 0; step < own.inRow().size(); step++) {
    std::set<int> ends;
    for (int col = 0; col < own.cols; col++) {
      const encSwitchGrid grid = gridOf(world, own.at(0, col, 0));
      const int to = grid.inRow()[step];
      EXPECT_TRUE(ends.insert(to).second) << "two ranks send to " << to << " in step " << step;
      if (step > 0) {
        EXPECT_NE(grid.col[to], grid.col[grid.inRow()[step - 1]]);
      }
    }
  }
}

TEST(SwitchGrid, SaysWhichDeviceDiffers) {
  const World world = rackOf(kGen2, 2, 1, {0, 1, 2, 4});
  const auto grid = encSwitchGridOf(geometryOf(world, 0), 4);
  ASSERT_FALSE(grid.ok());
  EXPECT_EQ(grid.error().message,
            "switch mesh of 4 ranks: device 1 of node 0 has 1 of them, device 0 of node 0 3: want "
            "the same on all");
}

}  // namespace
}  // namespace nccom
