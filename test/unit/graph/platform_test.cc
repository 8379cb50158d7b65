#include "graph/platform.h"

#include <bit>
#include <map>

#include "graph_test_util.h"

namespace nccom {
namespace {

const NeuronPlatform& kTrn2 = kTrn2x48xlarge;

TEST(Platform, LinksAreMutualAndPortsHaveOwners) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    SCOPED_TRACE(platform->name);
    for (int d = 0; d < platform->deviceCount(); d++) {
      std::set<int> seen;
      for (int port = 0; port < kMaxDevicePorts; port++) {
        const int neighbour = platform->devices[d].neighbours[port];
        if (neighbour == -1) continue;
        ASSERT_LT(neighbour, platform->deviceCount());
        EXPECT_NE(neighbour, d);
        EXPECT_TRUE(seen.insert(neighbour).second);
        const int back = platform->portTo(neighbour, d);
        ASSERT_GE(back, 0);
        EXPECT_GT(platform->portSengs[port], 0);
        EXPECT_EQ(std::popcount(platform->portSengs[port]),
                  std::popcount(platform->portSengs[back]));
      }
    }
  }
}

TEST(Platform, GridsAreToruses) {
  int nGrids = 0;
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    if (platform->devices[0].row < 0) continue;
    nGrids++;
    SCOPED_TRACE(platform->name);
    for (int d = 0; d < 16; d++) {
      const NeuronDevice& device = platform->devices[d];
      const int r = device.row;
      const int c = device.col;
      EXPECT_EQ(4 * r + c, d);
      const std::set<int> grid = {4 * ((r + 1) % 4) + c, 4 * ((r + 3) % 4) + c, 4 * r + (c + 1) % 4,
                                  4 * r + (c + 3) % 4};
      EXPECT_EQ(std::set<int>(device.neighbours.begin(), device.neighbours.end()), grid) << d;
    }
  }
  EXPECT_EQ(nGrids, 6);  // trn1, trn1n, trn2 (in two orders), trn2u, trn3p
}

TEST(Platform, Inf2IsARingOrAnOpenChain) {
  EXPECT_EQ(printedNeighbours(kInf2x48xlarge, 0), (std::vector<int>{11, 1}));
  EXPECT_EQ(printedNeighbours(kInf2x48xlarge, 11), (std::vector<int>{10, 0}));
  EXPECT_EQ(printedNeighbours(kInf2x24xlarge, 0), std::vector<int>{1});
  EXPECT_EQ(printedNeighbours(kInf2x24xlarge, 5), std::vector<int>{4});
  EXPECT_TRUE(printedNeighbours(kInf2x1xlarge, 0).empty());
}

TEST(Platform, DocumentedOrderIsUpLeftDownRight) {
  for (int d = 0; d < 16; d++) {
    EXPECT_EQ(printedNeighbours(kTrn2DocOrderx48xlarge, d), printedNeighbours(kTrn1x32xlarge, d));
    EXPECT_EQ(kTrn2DocOrderx48xlarge.devices[d].neighbours, kTrn2x48xlarge.devices[d].neighbours);
  }
  EXPECT_EQ(printedNeighbours(kTrn2x48xlarge, 0), (std::vector<int>{12, 1, 3, 4}));
}

TEST(Platform, BusIdsAndPhysicalCoresAreAllDifferent) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    SCOPED_TRACE(platform->name);
    std::set<std::string_view> busIds;
    std::set<std::string_view> efas;
    std::set<int> routingIds;
    for (const NeuronDevice& device : platform->devices) {
      busIds.insert(device.busId);
      if (!device.efaBusId.empty()) efas.insert(device.efaBusId);
      routingIds.insert(device.routingId);
      const auto first = device.physicalCores.begin();
      const std::set<int> cores(first, first + platform->coresPerDevice);
      EXPECT_EQ(static_cast<int>(cores.size()), platform->coresPerDevice);
      EXPECT_EQ(*cores.rbegin(), platform->coresPerDevice - 1);
    }
    EXPECT_EQ(busIds.size(), platform->devices.size());
    EXPECT_EQ(routingIds.size(), platform->devices.size());
    EXPECT_EQ(efas.empty(), !platform->hostNicBusId.empty());
    for (const std::string_view efa : efas)
      EXPECT_FALSE(busIds.contains(efa));
    const size_t perEfa = platform == &kTrn1x32xlarge ? 2 : 1;
    if (!efas.empty()) {
      EXPECT_EQ(efas.size() * perEfa, platform->devices.size());
    }
  }
}

TEST(Platform, NumaNodesShareOutAllCpus) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    SCOPED_TRACE(platform->name);
    std::set<int> cpus;
    int count = 0;
    std::set<int> nodes;
    for (const NeuronNuma& numa : platform->numas) {
      nodes.insert(numa.id);
      std::string mask = cpuMask(numa.cpus);
      std::erase(mask, ',');
      for (size_t digit = 0; digit < mask.size(); digit++) {
        const unsigned long value =
            std::stoul(mask.substr(mask.size() - 1 - digit, 1), nullptr, 16);
        for (int bit = 0; bit < 4; bit++) {
          if ((value >> bit & 1) == 0) continue;
          cpus.insert(static_cast<int>(digit) * 4 + bit);
          count++;
        }
      }
    }
    EXPECT_EQ(count, platform->vcpus);
    EXPECT_EQ(static_cast<int>(cpus.size()), platform->vcpus);
    for (const NeuronDevice& device : platform->devices)
      EXPECT_TRUE(nodes.contains(device.numa) || device.numa == -1);
  }
}

TEST(Platform, EveryCoreHasItsPlace) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    SCOPED_TRACE(platform->name);
    for (const int lnc : platform->lncs) {
      for (const int node : {0, 1, 2, 3}) {
        std::set<std::array<int, 3>> places;
        for (int core = 0; core < platform->logicalCores(lnc); core++) {
          const NeuronCore place = platform->coreAt(core, lnc, node);
          places.insert({place.device, place.seng, place.index});
          EXPECT_EQ(platform->coreOf(place.device, place.seng, place.index, lnc, node), core);
        }
        EXPECT_EQ(static_cast<int>(places.size()), platform->logicalCores(lnc));
        if (platform->pods.empty()) break;
      }
    }
  }
  // Device 0 of a Trn2 host lists its physical cores as 4 5 6 7 2 3 0 1.
  EXPECT_EQ(kTrn2.coreAt(0, 2), (NeuronCore{.device = 0, .slot = 0, .seng = 2, .index = 0}));
  EXPECT_EQ(kTrn2.coreAt(3, 2), (NeuronCore{.device = 0, .slot = 3, .seng = 0, .index = 0}));
  EXPECT_EQ(kTrn2.coreAt(5, 1), (NeuronCore{.device = 0, .slot = 5, .seng = 1, .index = 1}));
}

TEST(Platform, EdgesAreSymmetricAndSumUpToTheLinks) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    for (const int lnc : platform->lncs) {
      SCOPED_TRACE(std::string(platform->name) + " lnc " + std::to_string(lnc));
      std::map<std::pair<int, int>, NeuronEdge> edges;
      std::map<std::pair<int, int>, float> betweenDevices;
      for (const NeuronEdge& edge : platform->edges(lnc)) {
        EXPECT_TRUE(edges.emplace(std::pair(edge.from, edge.to), edge).second);
        EXPECT_NE(edge.from, edge.to);
        const int a = platform->coreAt(edge.from, lnc).device;
        const int b = platform->coreAt(edge.to, lnc).device;
        EXPECT_EQ(edge.locality == EdgeLocality::RemoteMla, a != b);
        if (a != b) betweenDevices[{a, b}] += edge.bwGBps;
      }
      for (const auto& [ends, edge] : edges) {
        const auto back = edges.find({ends.second, ends.first});
        ASSERT_NE(back, edges.end());
        EXPECT_EQ(back->second.locality, edge.locality);
        EXPECT_EQ(back->second.bwGBps, edge.bwGBps);
      }
      size_t links = 0;
      for (const NeuronDevice& device : platform->devices) {
        links += std::count_if(device.neighbours.begin(), device.neighbours.end(),
                               [](int neighbour) { return neighbour >= 0; });
      }
      EXPECT_EQ(betweenDevices.size(), links);
      for (const auto& [devices, bwGBps] : betweenDevices)
        EXPECT_FLOAT_EQ(bwGBps, platform->deviceLinkGBps);
    }
  }
  EXPECT_EQ(kTrn2.edges(2).size(), 3U * 64);
  EXPECT_EQ(kTrn2.edges(1).size(), 5U * 128);
}

TEST(Platform, FamiliesFollowTheGeneration) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    const int sm = platform->sm;
    EXPECT_EQ(platform->coreName, "NCv" + std::to_string(sm));
    EXPECT_EQ(platform->family == NeuronFamily::Sunda, sm == 2);
    EXPECT_EQ(platform->family == NeuronFamily::Cayman, sm == 3);
    EXPECT_EQ(platform->family == NeuronFamily::SwitchV1, platform->isSwitched());
    EXPECT_EQ(platform->lncs.size(), sm == 2 ? 1U : 2U);
    EXPECT_EQ(platform->defaultLnc, sm == 2 ? 1 : 2);
  }
}

TEST(Platform, CountsAndSizes) {
  EXPECT_EQ(deviceCount("trn2.48xlarge", 0).value(), 64);
  EXPECT_EQ(deviceCount("trn2.48xlarge", 2).value(), 64);
  EXPECT_EQ(deviceCount("trn2.48xlarge", 1).value(), 128);
  for (const auto& [name, atDefault] :
       {std::pair{"inf2.xlarge", 2}, std::pair{"inf2.24xlarge", 12}, std::pair{"inf2.48xlarge", 24},
        std::pair{"trn1.2xlarge", 2}, std::pair{"trn1n.32xlarge", 32}, std::pair{"trn2.3xlarge", 4},
        std::pair{"trn2u.48xlarge", 64}, std::pair{"trn3.48xlarge", 64},
        std::pair{"trn3e.24xlarge", 16}}) {
    EXPECT_EQ(deviceCount(name, 0).value(), atDefault) << name;
  }
  EXPECT_EQ(kTrn2.hbmBytesPerCore(2), int64_t{24} << 30);
  EXPECT_EQ(kTrn2.hbmBytesPerCore(1), int64_t{12} << 30);
  EXPECT_GE(deviceCount("host", 0).value(), 1);
  EXPECT_EQ(deviceCount("host", 0, 5).value(), 5);
  EXPECT_LE(deviceCount("host/numa", 0).value(), deviceCount("host", 0).value());
}

TEST(Platform, UnknownNamesAreErrorsThatListTheKnown) {
  const auto name = deviceCount("nosuch", 0);
  ASSERT_FALSE(name.ok());
  expectError(name.error().message, "unknown platform 'nosuch'; known: trn2.48xlarge, host");
  const auto lnc = deviceCount("trn2.48xlarge", 4);
  ASSERT_FALSE(lnc.ok());
  expectError(lnc.error().message, "trn2.48xlarge has no logical core size 4; it has 2, 1");
}

TEST(Platform, CpuListsBecomeMasks) {
  EXPECT_EQ(cpuMask("0-3,8"), "0000010f");
  EXPECT_EQ(cpuMask("32"), "00000001,00000000");
  EXPECT_EQ(cpuMask("0-47,96-143"), "0000ffff,ffffffff,00000000,0000ffff,ffffffff");
  EXPECT_EQ(cpuMask(""), "00000000");
}

}  // namespace
}  // namespace nccom
