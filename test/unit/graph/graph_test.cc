#include "graph/graph.h"

#include <algorithm>

#include "graph_test_util.h"

namespace nccom {
namespace {

const std::vector<int> kEight = {0, 1, 2, 3, 4, 5, 6, 7};

TEST(Graph, DumpedFileGivesTheSameSystemAndRing) {
  for (const int nRanks : {8, 16}) {
    const TempFile topo("");
    const TempFile graph("");
    GraphInput input = inputFor(kEight, 2, nRanks);
    input.nets = {{.name = "eth0"}, {.name = "eth1"}};
    input.topoDumpFile = topo.path();
    input.graphDumpFile = graph.path();
    ASSERT_OK(made, buildGraph(input));
    input.topoDumpFile = input.graphDumpFile = "";
    input.topoFile = topo.path();
    ASSERT_OK(read, buildGraph(input));
    EXPECT_TRUE(read.system == made.system);
    EXPECT_TRUE(read.ring == made.ring);
    EXPECT_EQ(read.nets, made.nets);
    input.graphFile = graph.path();
    ASSERT_OK(loaded, buildGraph(input));
    EXPECT_EQ(loaded.ring.intra, made.ring.intra);
    EXPECT_EQ(loaded.ring.inter, made.ring.inter);
  }
}

TEST(Graph, RanksNeedNotFollowDevices) {
  GraphInput input;
  input.nRanks = 6;
  input.localRanks = {{5, 9}, {1, 30}, {3, 8}};
  ASSERT_OK(result, buildGraph(input));
  for (const std::vector<int>& channel : result.ring.intra) {
    EXPECT_EQ(std::set<int>(channel.begin(), channel.end()), (std::set<int>{1, 3, 5}));
  }
}

TEST(Graph, AskingForWhatIsNotThereIsAnError) {
  const auto device = buildGraph(inputFor({0, 64}, 2, 2));
  ASSERT_FALSE(device.ok());
  expectError(device.error().message, "rank 1 uses device 64");
  expectError(device.error().message, "64 devices, 0 to 63");
  const auto twice = buildGraph(inputFor({3, 3}, 2, 2));
  ASSERT_FALSE(twice.ok());
  expectError(twice.error().message, "ranks 0 and 1 both use device 3");
  EXPECT_FALSE(buildGraph(inputFor({}, 2, 2)).ok());
  GraphInput unknown = inputFor({0}, 2, 1);
  unknown.platform = "nosuch";
  const auto platform = buildGraph(unknown);
  ASSERT_FALSE(platform.ok());
  expectError(platform.error().message, "known: trn2.48xlarge, host");
  GraphInput file = inputFor({0}, 2, 1);
  file.topoFile = "/nonexistent.xml";
  EXPECT_FALSE(buildGraph(file).ok());
  GraphInput graph = inputFor({0}, 2, 1);
  graph.graphFile = "/nonexistent.xml";
  EXPECT_FALSE(buildGraph(graph).ok());
}

TEST(Graph, GraphOfOtherDevicesNamesFileAndLine) {
  const TempFile file("");
  GraphInput input = inputFor({0, 1, 2, 3}, 2, 4);
  input.graphDumpFile = file.path();
  ASSERT_TRUE(buildGraph(input).ok());
  for (const auto& devs : {std::vector{0, 1}, std::vector{0, 1, 2}, std::vector{0, 1, 2, 3, 4}}) {
    GraphInput other = inputFor(devs, 2, static_cast<int>(devs.size()));
    other.graphFile = file.path();
    const auto result = buildGraph(other);
    ASSERT_FALSE(result.ok());
    expectError(result.error().message, file.path() + ":");
  }
}

TEST(Nets, StandInForTheNicsOfAnotherMachineInTurn) {
  GraphInput input = inputFor(kEight, 2, 16);
  input.nets = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
  ASSERT_OK(result, buildGraph(input));
  ASSERT_EQ(result.nets.size(), 16U);
  for (int i = 0; i < 16; i++) {
    EXPECT_EQ(result.nets[i], (NetMapping{.netId = i, .dev = i % 3}));
    const int node = ncclTopoIdToIndex(result.system, ncclTopoNodeType::Net, i);
    EXPECT_EQ(result.system.nodes(ncclTopoNodeType::Net)[node].net.dev, i % 3);
  }
}

TEST(Nets, DriveTheNicsOfTheirName) {
  GraphInput input = inputFor(kEight, 2, 16);
  // Device 0's NIC is rdmap201s0; a second device is not in the document.
  input.nets = {{.name = "eth0", .speedMbps = 10000}, {.name = "rdmap201s0", .speedMbps = 1}};
  ASSERT_OK(result, buildGraph(input));
  ASSERT_EQ(result.nets.size(), 2U);
  const auto& nets = result.system.nodes(ncclTopoNodeType::Net);
  for (const ncclTopoNode& net : nets) {
    EXPECT_EQ(net.net.dev, net.net.name == "eth0" ? 0 : 1);
    EXPECT_EQ(net.net.bwGBps, net.net.name == "eth0" ? 1.25F : 25.0F);
  }
}

TEST(Nets, HangOffTheFirstCpuWhereTheFileHasNone) {
  const TempFile file(R"(<system version="1">
    <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
      <pci busid="0000:01:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="80" gdr="1"/></pci>
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="1" sm="80" gdr="1"/></pci>
      <pci busid="0000:03:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16"/>
    </cpu></system>)");
  GraphInput input = inputFor({0, 1}, 0, 4);
  input.topoFile = file.path();
  input.nets = {
      {.name = "virtual", .pciPath = "", .speedMbps = 50000},
      {.name = "real", .pciPath = "/sys/devices/pci0000:00/0000:03:00.0", .speedMbps = 50000}};
  ASSERT_OK(result, buildGraph(input));
  EXPECT_EQ(result.system.count(ncclTopoNodeType::Net), 2);
  EXPECT_EQ(result.system.count(ncclTopoNodeType::Nic), 2);
  expectRings(result.ring, 2);
  EXPECT_GT(result.ring.bwInter, 1);
}

TEST(Nets, SeveralHostsWithoutAnyAreNoted) {
  GraphInput input = inputFor({0, 1}, 0, 4);
  input.platform = "host";
  input.hostDevices = 2;
  ASSERT_OK(result, buildGraph(input));
  if (result.nets.empty()) {
    ASSERT_FALSE(result.notes.empty());
    expectError(result.notes.back(), "no NIC");
  }
  input.nets = {{.name = "sock0", .speedMbps = 10000}};
  ASSERT_OK(withNet, buildGraph(input));
  ASSERT_OK(choice, ncclTopoGetNetDev(withNet.system, withNet.ring, 0, 0));
  EXPECT_EQ(choice.dev, 0);
}

TEST(BuildGraph, TheNeuronSearchFindsTheRingWhereItIsMeantTo) {
  for (const std::string& name : platformNames()) {
    if (isHostPlatform(name)) continue;
    SCOPED_TRACE(name);
    ASSERT_OK(platform, findPlatform(name));
    GraphInput input = inputFor({0, 1}, 0, 2);
    input.platform = name;
    ASSERT_OK(inherited, buildGraph(input));
    EXPECT_EQ(inherited.neuron.has_value(), platform->family == NeuronFamily::SwitchV1);
    input.newAlgorithm = true;
    ASSERT_OK(asked, buildGraph(input));
    ASSERT_TRUE(asked.neuron.has_value());
    EXPECT_EQ(asked.ring, asked.neuron->ring);
    EXPECT_FALSE(asked.ring.why.empty());
    for (std::vector<int> channel : asked.ring.intra) {
      std::sort(channel.begin(), channel.end());
      EXPECT_EQ(channel, (std::vector<int>{0, 1}));
    }
  }
}

TEST(Verify, OddDeviceCountsAreNotedNotRefused) {
  ASSERT_OK(two, buildGraph(inputFor(kEight, 2, 8)));
  ASSERT_EQ(two.notes.size(), 1U);
  expectError(two.notes[0], "use 2 physical devices; Trainium hosts support 1, 4, 8 or 16");
  GraphInput inferentia = inputFor({0, 1, 2, 3, 4, 5}, 0, 6);  // of three devices: any run will do
  inferentia.platform = "inf2.48xlarge";
  ASSERT_OK(three, buildGraph(inferentia));
  EXPECT_TRUE(three.notes.empty());
  ASSERT_OK(one, buildGraph(inputFor({0, 1, 2, 3}, 2, 4)));
  EXPECT_TRUE(one.notes.empty());
  GraphInput quiet = inputFor(kEight, 2, 8);
  quiet.verify = false;
  ASSERT_OK(unchecked, buildGraph(quiet));
  EXPECT_TRUE(unchecked.notes.empty());
}

TEST(Verify, LinksToMissingDevicesOfATrainiumFileAreErrors) {
  ASSERT_OK(xml, neuronTopoGetXml(kTrn2x48xlarge, 2));
  std::string text = xml.toText();
  const size_t place = text.find("target=\"0000:58:01.0\"");
  ASSERT_NE(place, std::string::npos);
  text.replace(place, 21, "target=\"0000:ee:01.0\"");
  const TempFile file(text);
  GraphInput input = inputFor({0, 1}, 2, 2);
  input.topoFile = file.path();
  const auto result = buildGraph(input);
  ASSERT_FALSE(result.ok());
  expectError(result.error().message, "0000:ee:01.0, which is not in the topology");
}

TEST(Graph, TwoHostsEndToEnd) {
  // 5 ranks on host 0, 3 on host 1, as two hosts compute it for themselves.
  std::vector<int> nodeOf = {0, 0, 0, 0, 0, 1, 1, 1};
  std::vector<ncclTopoRanks> records(8);
  for (const int host : {0, 1}) {
    GraphInput input;
    input.nRanks = 8;
    for (int r = 0; r < 8; r++) {
      if (nodeOf[r] == host) input.localRanks.push_back({r, r});
    }
    input.nets = {{.name = "x"}};
    ASSERT_OK(result, buildGraph(input));
    for (const LocalRank& local : input.localRanks) {
      records[local.rank] = ncclTopoPreset(result.ring, local.rank).value();
    }
  }
  for (int r = 0; r < 8; r++) {
    ASSERT_OK(rings, ncclTopoPostset(r, nodeOf, records, {}));
    EXPECT_GE(rings.channels.size(), 2U);
  }
}

}  // namespace
}  // namespace nccom
