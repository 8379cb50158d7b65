// Groups that meshes join, on all machines.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "enc/comm_shape.h"
#include "enc/mesh.h"
#include "graph/platform.h"
#include "test/unit/enc/reference.h"
#include "test/unit/enc/worlds.h"

namespace nccom::test {

struct MeshGroup {
  std::string platform = "host";
  int nodes = 1, ranks = 2;
  int lnc = 0;  // 0: the platform's own
  std::string pod = "";
};

inline encMachine machineOf(const MeshGroup& group) {
  encMachine machine;
  machine.hostDevices = 128;
  if (group.platform == "host") return machine;
  machine.platform = findPlatform(group.platform).value();
  machine.lnc = checkLnc(*machine.platform, group.lnc).value();
  machine.shape = findPodShape(*machine.platform, group.pod).value();
  return machine;
}

/// @param places  [server] logical cores; empty: from core 0 on
inline World worldOf(const MeshGroup& group, encSizes sizes = {4096, 4096, 16384},
                     const std::vector<std::vector<int>>& places = {}) {
  const encMachine machine = machineOf(group);
  const auto cores =
      places.empty() ? encDealtCores(machine, group.nodes, group.ranks).value() : places;
  World world;
  world.comm = encShapeComm(machine, cores).value();
  world.comm->sizes = sizes;
  return world;
}

inline Composer meshComposer(enc_alg_type alg = enc_alg_type::Mesh) {
  return [alg](const enc_comm_info& info, const encTask& task) {
    return encComposeMesh(info, task, alg);
  };
}

/// A rank on every n-th core of a server.
inline std::vector<std::vector<int>> everyCore(int ranks, int stride, int nodes = 1) {
  std::vector<int> cores;
  for (int i = 0; i < ranks; i++)
    cores.push_back(i * stride);
  return std::vector<std::vector<int>>(nodes, cores);
}

inline const std::vector<encOp> kMeshOps{encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather,
                                         encOp::AlltoAll};

}  // namespace nccom::test
