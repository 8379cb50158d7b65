#include "graph/platform.h"

#include <bit>
#include <map>

#include "graph_test_util.h"

namespace nccom {
namespace {

const NeuronPlatform& kTrn2 = kTrn2x48xlarge;

TEST(Platform, TorusLinksAreMutualAndFollowTheHypercube) {
  for (int d = 0; d < 16; d++) {
    const NeuronDevice& device = kTrn2.devices[d];
    std::set<int> neighbours;
    for (const int n : device.neighbours) {
      neighbours.insert(n);
      const auto& back = kTrn2.devices[n].neighbours;
      EXPECT_EQ(std::count(back.begin(), back.end(), d), 1) << d << " " << n;
      const auto difference = static_cast<unsigned>(device.routingId) ^
                              static_cast<unsigned>(kTrn2.devices[n].routingId);
      EXPECT_EQ(std::popcount(difference), 1) << d << " " << n;
    }
    EXPECT_EQ(neighbours.size(), 4U);
    const int r = device.row;
    const int c = device.col;
    EXPECT_EQ(4 * r + c, d);
    const std::set<int> grid = {4 * ((r + 1) % 4) + c, 4 * ((r + 3) % 4) + c, 4 * r + (c + 1) % 4,
                                4 * r + (c + 3) % 4};
    EXPECT_EQ(neighbours, grid) << d;
  }
}

TEST(Platform, BusIdsAndPhysicalCoresAreAllDifferent) {
  std::set<std::string_view> busIds;
  for (const NeuronDevice& device : kTrn2.devices) {
    busIds.insert(device.busId);
    busIds.insert(device.efaBusId);
    const std::set<int> cores(device.physicalCores.begin(), device.physicalCores.end());
    EXPECT_EQ(cores.size(), 8U);
  }
  EXPECT_EQ(busIds.size(), 32U);
}

TEST(Platform, EveryCoreHasItsPlace) {
  for (const int lnc : {1, 2}) {
    std::set<std::array<int, 3>> places;
    for (int core = 0; core < kTrn2.logicalCores(lnc); core++) {
      const NeuronCore place = kTrn2.coreAt(core, lnc);
      places.insert({place.device, place.seng, place.index});
      EXPECT_EQ(kTrn2.coreOf(place.device, place.seng, place.index, lnc), core);
    }
    EXPECT_EQ(static_cast<int>(places.size()), kTrn2.logicalCores(lnc));
  }
  // Device 0 lists its physical cores as 4 5 6 7 2 3 0 1.
  EXPECT_EQ(kTrn2.coreAt(0, 2), (NeuronCore{.device = 0, .slot = 0, .seng = 2, .index = 0}));
  EXPECT_EQ(kTrn2.coreAt(3, 2), (NeuronCore{.device = 0, .slot = 3, .seng = 0, .index = 0}));
  EXPECT_EQ(kTrn2.coreAt(5, 1), (NeuronCore{.device = 0, .slot = 5, .seng = 1, .index = 1}));
}

TEST(Platform, EdgesAreSymmetricAndSumUpToTheLinks) {
  for (const int lnc : {1, 2}) {
    std::map<std::pair<int, int>, NeuronEdge> edges;
    std::map<std::pair<int, int>, float> betweenDevices;
    for (const NeuronEdge& edge : kTrn2.edges(lnc)) {
      EXPECT_TRUE(edges.emplace(std::pair(edge.from, edge.to), edge).second);
      EXPECT_NE(edge.from, edge.to);
      const int a = kTrn2.coreAt(edge.from, lnc).device;
      const int b = kTrn2.coreAt(edge.to, lnc).device;
      EXPECT_EQ(edge.locality == EdgeLocality::RemoteMla, a != b);
      if (a != b) betweenDevices[{a, b}] += edge.bwGBps;
    }
    for (const auto& [ends, edge] : edges) {
      const auto back = edges.find({ends.second, ends.first});
      ASSERT_NE(back, edges.end());
      EXPECT_EQ(back->second.locality, edge.locality);
      EXPECT_EQ(back->second.bwGBps, edge.bwGBps);
    }
    EXPECT_EQ(betweenDevices.size(), 64U);  // 32 links, both directions
    for (const auto& [devices, bwGBps] : betweenDevices)
      EXPECT_EQ(bwGBps, 128);
    const size_t perCore = lnc == 2 ? 3 : 5;
    EXPECT_EQ(edges.size(), perCore * static_cast<size_t>(kTrn2.logicalCores(lnc)));
  }
}

TEST(Platform, CountsAndSizes) {
  EXPECT_EQ(deviceCount("trn2.48xlarge", 0).value(), 64);
  EXPECT_EQ(deviceCount("trn2.48xlarge", 2).value(), 64);
  EXPECT_EQ(deviceCount("trn2.48xlarge", 1).value(), 128);
  EXPECT_EQ(kTrn2.hbmBytesPerCore(2), int64_t{24} << 30);
  EXPECT_EQ(kTrn2.hbmBytesPerCore(1), int64_t{12} << 30);
  EXPECT_GE(deviceCount("host", 0).value(), 1);
  EXPECT_EQ(deviceCount("host", 0, 5).value(), 5);
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

TEST(Platform, SynthesisedSystemHasAllPartsInTheirPlaces) {
  for (const int lnc : {1, 2}) {
    ASSERT_OK(xml, neuronTopoGetXml(kTrn2, lnc));
    std::vector<LocalRank> ranks;
    for (int i = 0; i < kTrn2.logicalCores(lnc); i++)
      ranks.push_back({i, i});
    ASSERT_TRUE(setRanks(xml, ranks).ok());
    ASSERT_OK(loaded, ncclTopoGetSystemFromXml(xml));
    EXPECT_EQ(loaded.notes, std::vector<std::string>());
    ncclTopoSystem& system = loaded.system;
    EXPECT_EQ(system.count(ncclTopoNodeType::Gpu), kTrn2.logicalCores(lnc));
    EXPECT_EQ(system.count(ncclTopoNodeType::Dev), kTrn2.logicalCores(lnc));
    EXPECT_EQ(system.count(ncclTopoNodeType::Cpu), 2);
    EXPECT_EQ(system.count(ncclTopoNodeType::Net), 16);
    EXPECT_EQ(system.count(ncclTopoNodeType::Pci), 32);
    ncclTopoComputePaths(system);
    for (int g = 0; g < system.count(ncclTopoNodeType::Gpu); g++) {
      const int dev = system.nodes(ncclTopoNodeType::Gpu)[g].gpu.dev;
      const int device = kTrn2.coreAt(dev, lnc).device;
      const int net = ncclTopoGetLocalNet(system, g, 0);
      ASSERT_GE(net, 0);
      EXPECT_EQ(system.nodes(ncclTopoNodeType::Net)[net].net.dev, device);
      const ncclTopoNode& cpu = system.nodes(ncclTopoNodeType::Cpu)[ncclGetLocalCpu(system, g)];
      EXPECT_EQ(cpu.id, kTrn2.devices[device].numa);
    }
  }
}

TEST(Platform, HostHasADeviceACoreInItsNumaNode) {
  ASSERT_OK(xml, hostTopoGetXml(0, "numa:2 core:4 pu:2"));
  std::vector<LocalRank> ranks;
  for (int i = 0; i < 8; i++)
    ranks.push_back({i, i});
  ASSERT_TRUE(setRanks(xml, ranks).ok());
  ASSERT_OK(loaded, ncclTopoGetSystemFromXml(xml));
  ncclTopoSystem& system = loaded.system;
  EXPECT_EQ(system.count(ncclTopoNodeType::Cpu), 2);
  EXPECT_EQ(system.nodes(ncclTopoNodeType::Cpu)[1].cpu.affinity, "0000ff00");
  ASSERT_EQ(system.count(ncclTopoNodeType::Gpu), 8);
  ncclTopoComputePaths(system);
  EXPECT_EQ(system.path(gpuRef(0), gpuRef(3)).type, ncclTopoPathType::Phb);
  EXPECT_EQ(system.path(gpuRef(0), gpuRef(4)).type, ncclTopoPathType::Sys);
}

TEST(Platform, HostMayHaveMoreDevicesThanCores) {
  GraphInput input = inputFor({0, 1, 2, 3, 4, 5, 6, 7, 8}, 0, 9);
  input.platform = "host";
  input.hostDevices = 9;
  ASSERT_OK(result, buildGraph(input));
  expectRings(result.ring, 9);
  EXPECT_FALSE(hostTopoGetXml(-1).ok());
  EXPECT_FALSE(hostTopoGetXml(8193).ok());
  EXPECT_FALSE(hostTopoGetXml(0, "no such thing").ok());
}

}  // namespace
}  // namespace nccom
