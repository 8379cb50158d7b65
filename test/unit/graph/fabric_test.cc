#include "graph/fabric.h"

#include <bit>
#include <map>
#include <set>

#include "graph_test_util.h"

namespace nccom {
namespace {

struct Case {
  const NeuronPlatform* platform;
  NeuronPodShape shape;
  int lnc;
  std::string name() const {
    return std::string(platform->name) + "/" + std::string(shape.name) + " lnc " +
           std::to_string(lnc);
  }
};

/// Every platform, on its own and in all its pods, at each logical core size.
std::vector<Case> allCases() {
  std::vector<Case> cases;
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    for (const int lnc : platform->lncs) {
      cases.push_back({platform, kNoPod, lnc});
      for (const NeuronPodShape& shape : platform->pods)
        cases.push_back({platform, shape, lnc});
    }
  }
  return cases;
}

NeuronFabric fabricOf(const NeuronPlatform& platform, const char* pod, int lnc = 0) {
  return neuronFabric(platform, findPodShape(platform, pod).value(), lnc).value();
}

unsigned bitsBetween(int a, int b) {
  return static_cast<unsigned>(a) ^ static_cast<unsigned>(b);
}

TEST(Fabric, LinksAreSortedAndMutual) {
  for (const Case& c : allCases()) {
    SCOPED_TRACE(c.name());
    ASSERT_OK(fabric, neuronFabric(*c.platform, c.shape, c.lnc));
    std::pair<int, int> previous = {-1, -1};
    for (const FabricLink& link : fabric.links) {
      ASSERT_LT(previous, std::pair(link.from, link.to));
      previous = {link.from, link.to};
      ASSERT_NE(link.from, link.to);
      ASSERT_GT(link.bwGBps, 0);
      const FabricLink* back = fabric.link(link.to, link.from);
      ASSERT_NE(back, nullptr);
      FabricLink turned = *back;
      std::swap(turned.from, turned.to);
      std::swap(turned.fromPort, turned.toPort);
      std::swap(turned.fromSengs, turned.toSengs);
      ASSERT_EQ(turned, link);
    }
  }
}

TEST(Fabric, PortsLeadToOneDeviceAndBack) {
  for (const Case& c : allCases()) {
    SCOPED_TRACE(c.name());
    ASSERT_OK(fabric, neuronFabric(*c.platform, c.shape, c.lnc));
    size_t direct = 0;
    for (int d = 0; d < fabric.deviceCount(); d++) {
      for (int port = 0; port < kPortCount; port++) {
        const int peer = fabric.peer(d, port);
        if (peer == -1) continue;
        direct++;
        const FabricLink* link = fabric.link(d, peer);
        ASSERT_NE(link, nullptr);
        EXPECT_EQ(fabric.peer(peer, link->toPort), d);
      }
    }
    const auto nDirect = std::count_if(fabric.links.begin(), fabric.links.end(),
                                       [](const FabricLink& l) { return l.group == -1; });
    EXPECT_EQ(direct, static_cast<size_t>(nDirect));
  }
}

TEST(Fabric, DirectEdgesSumUpToTheirLinks) {
  for (const Case& c : allCases()) {
    SCOPED_TRACE(c.name());
    ASSERT_OK(fabric, neuronFabric(*c.platform, c.shape, c.lnc));
    std::map<std::pair<int, int>, float> betweenDevices;
    std::pair<int, int> previous = {-1, -1};
    for (const NeuronEdge& edge : fabric.edges) {
      ASSERT_LT(previous, std::pair(edge.from, edge.to));
      previous = {edge.from, edge.to};
      const int a = fabric.cores[edge.from].device;
      const int b = fabric.cores[edge.to].device;
      ASSERT_EQ(edge.locality == EdgeLocality::RemoteMla, a != b);
      if (a != b) betweenDevices[{a, b}] += edge.bwGBps;
    }
    for (const FabricLink& link : fabric.links) {
      if (link.group != -1) continue;
      ASSERT_NEAR((betweenDevices[{link.from, link.to}]), link.bwGBps, 1e-3);
      betweenDevices.erase({link.from, link.to});
    }
    EXPECT_TRUE(betweenDevices.empty());
  }
}

TEST(Fabric, EveryCoreHasItsPlace) {
  for (const Case& c : allCases()) {
    SCOPED_TRACE(c.name());
    ASSERT_OK(fabric, neuronFabric(*c.platform, c.shape, c.lnc));
    const NeuronPlatform& platform = *c.platform;
    EXPECT_EQ(fabric.coreCount(),
              c.shape.nHosts * platform.deviceCount() * platform.coresPerDevice / c.lnc);
    std::set<std::array<int, 3>> places;
    for (int i = 0; i < fabric.coreCount(); i++) {
      const NeuronCore& core = fabric.cores[i];
      EXPECT_EQ(core.device * fabric.coresPerDevice + core.slot, i);
      EXPECT_LT(core.seng, platform.sengsPerDevice());
      EXPECT_LT(core.index, platform.coresPerSeng / c.lnc);
      places.insert({core.device, core.seng, core.index});
    }
    EXPECT_EQ(static_cast<int>(places.size()), fabric.coreCount());
  }
}

TEST(Fabric, TorusNeighboursDifferInOneBitOfTheirRoutingIds) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    if (platform->devices[0].row < 0) continue;
    SCOPED_TRACE(platform->name);
    ASSERT_OK(fabric, neuronFabric(*platform, 0));
    ASSERT_EQ(fabric.deviceCount(), 16);
    for (int a = 0; a < 16; a++) {
      EXPECT_EQ(fabric.linksFrom(a).size(), 4U);
      for (int b = 0; b < 16; b++) {
        const unsigned bits = bitsBetween(fabric.devices[a].routingId, fabric.devices[b].routingId);
        EXPECT_EQ(fabric.link(a, b) != nullptr, std::popcount(bits) == 1) << a << " " << b;
      }
    }
  }
}

TEST(Fabric, EngineGroupsPairUpAndKeepToTheirAxes) {
  for (const NeuronPlatform* platform : {&kTrn2x48xlarge, &kTrn2ux48xlarge, &kTrn3px48xlarge}) {
    ASSERT_OK(fabric, neuronFabric(*platform, 0));
    std::set<std::pair<int, int>> joined;
    for (const FabricLink& link : fabric.links) {
      EXPECT_EQ(link.fromSengs, 1 << link.fromPort);
      joined.insert(std::minmax(link.fromPort, link.toPort));
      const unsigned axis =
          bitsBetween(fabric.devices[link.from].routingId, fabric.devices[link.to].routingId);
      EXPECT_EQ(axis >= 4, link.fromPort < 2) << link.from << " " << link.to;
    }
    EXPECT_EQ(joined,
              (std::set<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 1}, {2, 2}, {2, 3}, {3, 3}}));
  }
}

TEST(Fabric, Trn1PortsFaceEachOther) {
  for (const NeuronPlatform* platform : {&kTrn1x32xlarge, &kTrn1nx32xlarge}) {
    ASSERT_OK(fabric, neuronFabric(*platform, 0));
    for (const FabricLink& link : fabric.links) {
      EXPECT_EQ(link.toPort, (link.fromPort + 2) % 4);  // up - down, left - right
      const unsigned axis =
          bitsBetween(fabric.devices[link.from].routingId, fabric.devices[link.to].routingId);
      EXPECT_EQ(axis == 1 || axis == 8, link.fromPort % 2 == 0);
    }
  }
}

TEST(Fabric, X4IsATorusOfThreeDimensions) {
  for (const NeuronPlatform* platform : {&kTrn2ux48xlarge, &kTrn3px48xlarge}) {
    const NeuronFabric fabric = fabricOf(*platform, "X4");
    ASSERT_EQ(fabric.deviceCount(), 64);
    EXPECT_EQ(fabric.podType, NeuronPodType::P2p);
    EXPECT_EQ(fabric.podNodeIds, (std::vector<int>{0, 1, 2, 3}));
    for (int d = 0; d < 64; d++) {
      const FabricDevice& device = fabric.devices[d];
      const int z = device.host;
      const auto at = [&](int row, int col, int host) {
        return (host + 4) % 4 * 16 + (row + 4) % 4 * 4 + (col + 4) % 4;
      };
      std::set<int> wanted = {at(device.row - 1, device.col, z), at(device.row + 1, device.col, z),
                              at(device.row, device.col - 1, z), at(device.row, device.col + 1, z),
                              at(device.row, device.col, z - 1), at(device.row, device.col, z + 1)};
      std::set<int> found;
      for (const FabricLink& link : fabric.linksFrom(d)) {
        found.insert(link.to);
        const bool isZ = fabric.devices[link.to].host != z;
        EXPECT_EQ(link.kind, isZ ? FabricLinkKind::PodZ : FabricLinkKind::NeuronLink);
        EXPECT_EQ(link.bwGBps, isZ ? platform->podLinkGBps : platform->deviceLinkGBps);
      }
      EXPECT_EQ(found, wanted);
      // Rack mates 0-1 and 2-3 on the left, the other rack on the right.
      EXPECT_EQ(fabric.peer(d, kPortZLeft), (z ^ 1) * 16 + d % 16);
      EXPECT_EQ(fabric.peer(d, kPortZRight), (3 - z) * 16 + d % 16);
    }
  }
}

TEST(Fabric, PairsUseTheCablesOfTheirSide) {
  for (const auto& [pod, port, other] :
       {std::tuple{"X2V", kPortZLeft, kPortZRight}, std::tuple{"X2H", kPortZRight, kPortZLeft}}) {
    const NeuronFabric fabric = fabricOf(kTrn2ux48xlarge, pod);
    ASSERT_EQ(fabric.deviceCount(), 32);
    for (int d = 0; d < 32; d++) {
      EXPECT_EQ(fabric.peer(d, port), (d + 16) % 32);
      EXPECT_EQ(fabric.peer(d, other), -1);
    }
  }
  const NeuronFabric alone = fabricOf(kTrn2ux48xlarge, "X1");
  EXPECT_EQ(alone.podType, NeuronPodType::None);
  EXPECT_EQ(alone.podNodeIds, std::vector<int>{-1});
  EXPECT_EQ(alone.deviceCount(), 16);
}

TEST(Fabric, TurnedHostsNumberTheirCoresFromTheOtherDie) {
  const NeuronFabric fabric = fabricOf(kTrn2ux48xlarge, "X4", 1);
  for (int host = 0; host < 4; host++) {
    for (int i = 0; i < 128; i++) {
      const NeuronCore& core = fabric.cores[host * 128 + i];
      const NeuronCore& plain = fabric.cores[host % 2 == 1 ? i ^ 6 : i];
      EXPECT_EQ(core.seng, plain.seng);
      EXPECT_EQ(core.index, plain.index);
    }
  }
}

TEST(Fabric, SwitchGroupsHoldConsecutiveDevices) {
  const NeuronFabric gen1 = fabricOf(kTrn3x48xlarge, "X4");
  EXPECT_EQ(gen1.family, NeuronFamily::SwitchV1);
  EXPECT_EQ(gen1.podType, NeuronPodType::Switch);
  ASSERT_EQ(gen1.groups.size(), 6U);
  const NeuronFabric gen2 = fabricOf(kTrn3ex24xlarge, "X36");
  ASSERT_EQ(gen2.deviceCount(), 144);
  ASSERT_EQ(gen2.groups.size(), 38U);
  for (const NeuronFabric* fabric : {&gen1, &gen2}) {
    std::map<SwitchLevel, int> next;
    for (const SwitchGroup& group : fabric->groups) {
      EXPECT_EQ(group.firstDevice, next[group.level]) << group.name;
      next[group.level] = group.lastDevice + 1;
      for (int d = group.firstDevice; d <= group.lastDevice; d++) {
        const FabricDevice& device = fabric->devices[d];
        EXPECT_EQ(group.level == SwitchLevel::Rack ? "rack-switch-" + std::to_string(device.rack)
                                                   : group.name,
                  group.name);
      }
    }
    for (const auto& [level, end] : next)
      EXPECT_EQ(end, fabric->deviceCount());
    for (int d = 0; d < fabric->deviceCount(); d++)
      EXPECT_EQ(fabric->devices[d].routingId, d);
  }
  EXPECT_EQ(gen1.groups[4].lastDevice, 31);
  EXPECT_EQ(gen2.groups[0].bwGBps, 128);
  EXPECT_EQ(gen2.groups[36].bwGBps, 160);
  EXPECT_EQ(gen2.groups[36].lastDevice, 71);
}

TEST(Fabric, SwitchesReachTheRackAndCablesTheOtherRack) {
  for (const auto& [platform, pod, perRack] :
       {std::tuple{&kTrn3x48xlarge, "X4", 32}, std::tuple{&kTrn3Pairsx48xlarge, "X4", 32},
        std::tuple{&kTrn3Dev0x48xlarge, "X4", 32}, std::tuple{&kTrn3ex24xlarge, "X36", 72}}) {
    SCOPED_TRACE(platform->name);
    const NeuronFabric fabric = fabricOf(*platform, pod);
    for (int a = 0; a < fabric.deviceCount(); a++) {
      EXPECT_EQ(fabric.linksFrom(a).size(), static_cast<size_t>(perRack));  // rack mates and one
      EXPECT_EQ(fabric.peer(a, kPortCrossRack), (a + perRack) % (2 * perRack));
      const int partner = platform->switches.trayGBps > 0 ? a ^ 1 : -1;
      EXPECT_EQ(fabric.peer(a, kPortTray), partner);
      for (const FabricLink& link : fabric.linksFrom(a)) {
        if (link.group == -1) continue;
        const SwitchGroup& group = fabric.groups[link.group];
        EXPECT_EQ(link.bwGBps, group.bwGBps);
        for (const int end : {link.from, link.to}) {
          EXPECT_GE(end, group.firstDevice);
          EXPECT_LE(end, group.lastDevice);
        }
      }
    }
  }
  // A chip's 704 GB/s, both directions, however its links are shared out.
  for (const NeuronPlatform* platform : {&kTrn3x48xlarge, &kTrn3Pairsx48xlarge, &kTrn3ex24xlarge}) {
    const NeuronSwitches& s = platform->switches;
    EXPECT_EQ(2 * (s.trayGBps + s.sledGBps + s.rackGBps + s.crossRackGBps), 704);
  }
}

TEST(Fabric, UnknownPodsAreErrorsThatListTheKnown) {
  const auto shape = findPodShape(kTrn2ux48xlarge, "X3");
  ASSERT_FALSE(shape.ok());
  expectError(shape.error().message, "trn2u.48xlarge has no pod 'X3'; it has X1, X2H, X2V, X4");
  const auto none = findPodShape(kTrn2x48xlarge, "X4");
  ASSERT_FALSE(none.ok());
  expectError(none.error().message, "it has none");
  EXPECT_FALSE(neuronFabric(kTrn1x32xlarge, 2).ok());
}

}  // namespace
}  // namespace nccom
