// Groups behind switches.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "enc/flat.h"
#include "enc/mesh_switch_grid.h"
#include "test/unit/enc/mesh_worlds.h"

namespace nccom::test {

inline const std::string kGen1 = "trn3.48xlarge", kGen2 = "trn3e.24xlarge";
inline constexpr encSizes kTiny{256, 256, 4096};

/// The same cores of so many nodes of one rack. The only ring is in order of ranks.
inline World rackOf(const std::string& platform, int lnc, int nodes, const std::vector<int>& cores,
                    encSizes sizes = kTiny) {
  const std::string pod = platform == kGen1 ? "X2" : "X18";
  enc_comm_info info;
  std::vector<int> servers, coreOf;
  for (int node = 0; node < nodes; node++) {
    servers.insert(servers.end(), cores.size(), node);
    coreOf.insert(coreOf.end(), cores.begin(), cores.end());
  }
  info.rank_n = static_cast<int>(servers.size());
  info.node.assign(servers.size(), 0);
  info.sizes = sizes;
  const encMachine machine = machineOf({platform, nodes, info.rank_n, lnc, pod});
  EXPECT_TRUE(encPlaceComm(machine, servers, coreOf, info).ok());
  info.rings.emplace_back(servers.size());
  std::iota(info.rings[0].begin(), info.rings[0].end(), 0);
  World world;
  world.comm = std::move(info);
  return world;
}

inline std::vector<int> upTo(int cores, int stride = 1) {
  return everyCore(cores / stride, stride)[0];
}

/// Of each number of ranks and arrangement, at most `most` ranks.
inline std::vector<World> groups(int most) {
  struct Group {
    std::string platform;
    int lnc, nodes;
    std::vector<int> cores;
  };
  const std::vector<Group> all{
      {kGen2, 2, 1, upTo(16, 4)},   // a rank a device, one row
      {kGen2, 2, 1, {0, 1, 4, 5}},  // two devices
      {kGen2, 2, 4, {0}},           // one column
      {kGen2, 2, 1, upTo(8)},
      {kGen2, 2, 2, {0, 1, 12, 13}},  // outer columns
      {kGen1, 2, 1, {0, 1, 20, 21}},  // devices with holes between them
      {kGen2, 2, 1, upTo(16)},        // a node
      {kGen1, 2, 2, upTo(32, 4)},     // a rank a device, four rows
      {kGen2, 1, 1, upTo(32)},
      {kGen2, 2, 2, upTo(16)},
      {kGen2, 2, 4, upTo(16)},
      {kGen1, 2, 1, upTo(64)},
      {kGen2, 1, 4, upTo(32)},  // 128
      {kGen1, 2, 2, upTo(64)},
      {kGen2, 2, 16, upTo(16)},  // 256
      {kGen1, 1, 2, upTo(128)},
  };
  std::vector<World> worlds;
  for (const Group& group : all) {
    if (group.nodes * static_cast<int>(group.cores.size()) > most) continue;
    worlds.push_back(rackOf(group.platform, group.lnc, group.nodes, group.cores));
  }
  return worlds;
}

inline encMeshGeometry geometryOf(const World& world, int rank) {
  const enc_comm_info info = world.info(rank);
  return encMeshGeometryOf(info, encFlatStage(info, {}).ranks, rank).value();
}

inline encSwitchGrid gridOf(const World& world, int rank) {
  return encSwitchGridOf(geometryOf(world, rank), world.comm->platform->deviceCount()).value();
}

}  // namespace nccom::test
