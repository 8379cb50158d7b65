#include "graph/pod.h"

#include "graph/connect.h"
#include "neuron_test_util.h"

namespace nccom {
namespace {

Result<NeuronFabric> podOf(const char* platform, const char* shape) {
  const NeuronPlatform* found = TRY(findPlatform(platform));
  return neuronFabric(*found, TRY(findPodShape(*found, shape)), 2);
}

/// The name of the only pod shape with so many hosts.
std::string shapeOf(const NeuronPlatform& platform, int nHosts) {
  for (const NeuronPodShape& shape : platform.pods) {
    if (shape.nHosts == nHosts) return std::string(shape.name);
  }
  return "?";
}

using Nodes = std::vector<int>;
using Flags = std::vector<bool>;

TEST(Pod, HostsOfAP2pPodFollowTheRingOfZLinks) {
  ASSERT_OK(pod, podOf("trn2u.48xlarge", "X4"));
  ASSERT_OK(all, ncclTopoGetP2pPodInterNodeGraph(pod, {2, 0, 3, 1}));
  EXPECT_EQ(all.nodes, (Nodes{0, 1, 2, 3}));
  EXPECT_EQ(all.direct, (Flags{true, true, true, true}));
  EXPECT_EQ(all.reversed, (Flags{false, true, false, true}));
  EXPECT_FALSE(all.crossRackToRack);
  ASSERT_OK(three, ncclTopoGetP2pPodInterNodeGraph(pod, {0, 1, 3}));
  EXPECT_EQ(three.nodes, (Nodes{3, 0, 1}));  // the gap closes the order
  EXPECT_EQ(three.direct, (Flags{true, true, false}));
  ASSERT_OK(across, ncclTopoGetP2pPodInterNodeGraph(pod, {0, 2}));
  EXPECT_EQ(across.direct, (Flags{false, false}));
  ASSERT_OK(one, ncclTopoGetP2pPodInterNodeGraph(pod, {1}));
  EXPECT_EQ(one.direct, (Flags{false}));
  ASSERT_OK(pair, podOf("trn2u.48xlarge", "X2H"));
  ASSERT_OK(two, ncclTopoGetP2pPodInterNodeGraph(pair, {0, 1}));
  EXPECT_EQ(two.direct, (Flags{true, true}));
}

TEST(Pod, SwitchedHostsGoUpOneRackAndDownTheOther) {
  ASSERT_OK(gen1, findPlatform("trn3.48xlarge"));
  ASSERT_OK(pod, podOf("trn3.48xlarge", shapeOf(*gen1, 4).c_str()));
  ASSERT_OK(all, ncclTopoGetP2pPodInterNodeGraph(pod, {0, 1, 2, 3}));
  EXPECT_EQ(all.nodes, (Nodes{0, 1, 3, 2}));
  EXPECT_EQ(all.direct, (Flags{true, true, true, true}));
  EXPECT_TRUE(all.crossRackToRack);
  ASSERT_OK(rack, ncclTopoGetP2pPodInterNodeGraph(pod, {2, 3}));
  EXPECT_FALSE(rack.crossRackToRack);
  ASSERT_OK(partners, ncclTopoGetP2pPodInterNodeGraph(pod, {1, 3}));
  EXPECT_EQ(partners.direct, (Flags{true, true}));
  ASSERT_OK(three, ncclTopoGetP2pPodInterNodeGraph(pod, {0, 1, 2}));
  EXPECT_EQ(three.nodes.back(), 2);
  EXPECT_EQ(std::count(three.direct.begin(), three.direct.end(), true), 2);

  ASSERT_OK(gen2, findPlatform("trn3e.24xlarge"));
  ASSERT_OK(large, podOf("trn3e.24xlarge", shapeOf(*gen2, 36).c_str()));
  Nodes nodes = firstDevices(36);
  ASSERT_OK(racks, ncclTopoGetP2pPodInterNodeGraph(large, nodes));
  EXPECT_EQ(std::count(racks.direct.begin(), racks.direct.end(), true), 36);
  std::sort(racks.nodes.begin(), racks.nodes.end());
  EXPECT_EQ(racks.nodes, nodes);
}

TEST(Pod, PeersLieSoManyZLinksAway) {
  ASSERT_OK(pod, podOf("trn2u.48xlarge", "X4"));
  for (int node = 0; node < 4; node++) {
    for (int distance = 0; distance < 6; distance++) {
      ASSERT_OK(peer, podPeerNode(pod, 7, node, distance));
      EXPECT_EQ(peer, (node + distance) % 4);
    }
  }
  expectError(podPeerNode(pod, 16, 0, 1).error().message, "device 16");
  expectError(podPeerNode(pod, 0, 4, 1).error().message, "node 4 of a pod of 4");
  ASSERT_OK(alone, neuronFabric(kTrn2x48xlarge, 2));
  expectError(podPeerNode(alone, 0, 0, 1).error().message, "no P2P pod");
}

TEST(Pod, AccessFollowsTheLinks) {
  ASSERT_OK(torus, podOf("trn2u.48xlarge", "X4"));
  const auto can = [](const NeuronFabric& pod, int rid, int node, int otherRid, int otherNode) {
    auto result = podNodeCanAccessPeerNode(pod, rid, node, otherRid, otherNode);
    return result.ok() && result.value();
  };
  EXPECT_TRUE(can(torus, 0, 1, 15, 1));  // one host
  EXPECT_TRUE(can(torus, 5, 0, 5, 1));   // one place, next host
  EXPECT_FALSE(can(torus, 5, 0, 5, 2));  // the host across
  EXPECT_FALSE(can(torus, 5, 0, 4, 1));  // another place
  ASSERT_OK(gen1, findPlatform("trn3.48xlarge"));
  ASSERT_OK(pod, podOf("trn3.48xlarge", shapeOf(*gen1, 4).c_str()));
  EXPECT_TRUE(can(pod, 3, 0, 16 + 9, 1));  // one rack
  EXPECT_TRUE(can(pod, 3, 0, 32 + 3, 2));  // across, one place
  EXPECT_FALSE(can(pod, 3, 0, 32 + 4, 2));
  EXPECT_FALSE(can(pod, 3, 0, 48 + 3, 3));
  expectError(podNodeCanAccessPeerNode(pod, 3, 1, 3, 0).error().message,
              "node 1 has no device with routing id 3");
}

TEST(Pod, NamesWhatIsNoPod) {
  ASSERT_OK(alone, neuronFabric(kTrn2x48xlarge, 2));
  ASSERT_OK(pod, podOf("trn2u.48xlarge", "X4"));
  const auto message = [](const NeuronFabric& fabric, const Nodes& nodes) {
    return ncclTopoGetP2pPodInterNodeGraph(fabric, nodes).error().message;
  };
  expectError(message(alone, {0}), "has no pod");
  expectError(message(pod, {}), "no node");
  expectError(message(pod, {0, 4}), "node 4 of a pod of 4");
  expectError(message(pod, {1, 1}), "node 1 is named twice");
}

/// Rings over the hosts of a pod leave each host and enter the next over a direct link.
void expectDirectRings(const NeuronPlatform& platform, const std::string& shape,
                       const Nodes& nodes) {
  ASSERT_OK(podShape, findPodShape(platform, shape));
  ASSERT_OK(fabric, neuronFabric(platform, podShape, 2));
  ASSERT_OK(order, ncclTopoGetP2pPodInterNodeGraph(fabric, nodes));
  const int perHost = fabric.devicesPerHost * fabric.coresPerDevice;
  const int nRanks = static_cast<int>(nodes.size()) * perHost;
  std::vector<ncclTopoRanks> all(nRanks);
  std::vector<int> nodeOf(nRanks), hostOrder;
  for (const int node : order.nodes)
    hostOrder.push_back(
        static_cast<int>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin()));
  for (size_t i = 0; i < nodes.size(); i++) {
    NeuronHostSpec spec;
    spec.platform = &platform;
    spec.lnc = 2;
    spec.pod = shape;
    spec.host = nodes[i];
    spec.firstRank = static_cast<int>(i) * perHost;
    spec.nHosts = static_cast<int>(nodes.size());
    spec.cores = coresOf(platform, 2, firstDevices(fabric.devicesPerHost));
    ASSERT_OK(host, neuronHost(spec));
    NeuronGraphOptions options;
    options.host = nodes[i];
    options.podNodes = nodes;
    ASSERT_OK(graph, neuronTopoGetGraph(fabric, host.system, options));
    EXPECT_EQ(graph.ring.crossRackToRack, order.crossRackToRack);
    for (int r = 0; r < perHost; r++)
      nodeOf[spec.firstRank + r] = static_cast<int>(i);
    ASSERT_TRUE(ncclTopoPresetHost(graph.ring, graph.ring, all).ok());
  }
  ASSERT_OK(rings, ncclTopoConnect(nodeOf, all, {.max = 32}, hostOrder));
  int crossings = 0;
  for (const std::vector<int>& ring : rings.rings) {
    for (size_t i = 0; i < ring.size(); i++) {
      const int a = ring[i];
      const int b = ring[(i + 1) % ring.size()];
      if (nodeOf[a] == nodeOf[b]) continue;
      crossings++;
      const auto deviceOf = [&](int rank) {
        return nodes[rank / perHost] * fabric.devicesPerHost +
               rank % perHost / fabric.coresPerDevice;
      };
      EXPECT_NE(fabric.link(deviceOf(a), deviceOf(b)), nullptr)
          << deviceOf(a) << " -> " << deviceOf(b);
    }
  }
  EXPECT_EQ(crossings, static_cast<int>(rings.rings.size() * nodes.size()));
}

TEST(Pod, RingsCrossHostsOverDirectLinks) {
  expectDirectRings(kTrn2ux48xlarge, "X4", {0, 1, 2, 3});
  expectDirectRings(kTrn2ux48xlarge, "X2V", {0, 1});
  expectDirectRings(kTrn2ux48xlarge, "X4", {1, 2});
  expectDirectRings(kTrn3px48xlarge, "X4", {0, 1, 2, 3});
  expectDirectRings(kTrn3x48xlarge, shapeOf(kTrn3x48xlarge, 4), {0, 1, 2, 3});
  expectDirectRings(kTrn3x48xlarge, shapeOf(kTrn3x48xlarge, 4), {1, 3});
}

TEST(Pod, RingsCrossA144DevicePodOverDirectLinks) {
  expectDirectRings(kTrn3ex24xlarge, shapeOf(kTrn3ex24xlarge, 36), firstDevices(36));
}

}  // namespace
}  // namespace nccom
