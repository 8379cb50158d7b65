#include "graph/cluster.h"

#include "graph_test_util.h"

namespace nccom {
namespace {

void expectPlacesInOrder(const NeuronCluster& cluster) {
  int device = 0;
  for (int h = 0; h < cluster.hostCount(); h++) {
    EXPECT_EQ(cluster.hosts[h].firstDevice, device);
    for (const int local : {0, cluster.hosts[h].nDevices - 1}) {
      ASSERT_OK(place, cluster.place(device + local));
      EXPECT_EQ(place, (ClusterPlace{h, local}));
    }
    device += cluster.hosts[h].nDevices;
  }
  EXPECT_EQ(cluster.deviceCount(), device);
  EXPECT_FALSE(cluster.place(device).ok());
  EXPECT_FALSE(cluster.place(-1).ok());
}

TEST(Cluster, CountsHostsOfOnePlatform) {
  ASSERT_OK(cluster, parseCluster("4xtrn2.48xlarge", 0));
  EXPECT_EQ(cluster.hostCount(), 4);
  EXPECT_EQ(cluster.deviceCount(), 4 * 64);
  EXPECT_EQ(cluster.nPods, 0);
  expectPlacesInOrder(cluster);
  ASSERT_OK(lnc1, parseCluster("4xtrn2.48xlarge", 1));
  EXPECT_EQ(lnc1.deviceCount(), 4 * 128);
  ASSERT_OK(one, parseCluster("inf2.48xlarge", 0));
  EXPECT_EQ(one.deviceCount(), 24);
}

TEST(Cluster, MixesPlatformsInOrder) {
  ASSERT_OK(cluster, parseCluster("2xtrn1.32xlarge,1xtrn2.48xlarge,3xhost", 0, 5));
  ASSERT_EQ(cluster.hostCount(), 6);
  EXPECT_EQ(cluster.hosts[0].neuron, &kTrn1x32xlarge);
  EXPECT_EQ(cluster.hosts[0].lnc, 1);
  EXPECT_EQ(cluster.hosts[2].neuron, &kTrn2x48xlarge);
  EXPECT_EQ(cluster.hosts[2].lnc, 2);
  EXPECT_EQ(cluster.hosts[5].neuron, nullptr);
  EXPECT_EQ(cluster.deviceCount(), 2 * 32 + 64 + 3 * 5);
  expectPlacesInOrder(cluster);
}

TEST(Cluster, PodsHaveSeveralHosts) {
  ASSERT_OK(cluster, parseCluster("trn2.48xlarge,2xtrn2u.48xlarge/X4,trn2u.48xlarge/X2H", 0));
  ASSERT_EQ(cluster.hostCount(), 1 + 8 + 2);
  EXPECT_EQ(cluster.nPods, 3);
  EXPECT_EQ(cluster.hosts[0].pod, -1);
  EXPECT_EQ(cluster.hosts[0].podNode, -1);
  for (int h = 1; h < 9; h++) {
    EXPECT_EQ(cluster.hosts[h].pod, (h - 1) / 4);
    EXPECT_EQ(cluster.hosts[h].podNode, (h - 1) % 4);
    EXPECT_EQ(cluster.hosts[h].electedNode(), (h - 1) % 4);
  }
  EXPECT_EQ(cluster.hosts[10].podNode, 1);
  EXPECT_EQ(cluster.hosts[10].electedNode(), 3);  // the pair across racks is nodes 0 and 3
  expectPlacesInOrder(cluster);
  ASSERT_OK(alone, parseCluster("3xtrn2u.48xlarge/X1", 0));
  EXPECT_EQ(alone.nPods, 0);
  EXPECT_EQ(alone.hosts[2].pod, -1);
}

TEST(Cluster, NamesWholeUltraServers) {
  for (const auto& [name, hosts, devices] :
       {std::tuple{"trn2-ultraserver", 4, 256}, std::tuple{"2xtrn3-gen1-ultraserver", 8, 512},
        std::tuple{"trn3-gen2-ultraserver", 36, 576}}) {
    ASSERT_OK(cluster, parseCluster(name, 0));
    EXPECT_EQ(cluster.hostCount(), hosts);
    EXPECT_EQ(cluster.deviceCount(), devices);
    expectPlacesInOrder(cluster);
  }
}

TEST(Cluster, EveryPlatformAndPodCanBeNamed) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    ASSERT_OK(plain, parseCluster("2x" + std::string(platform->name), 0));
    EXPECT_EQ(plain.hosts[1].neuron, platform);
    EXPECT_EQ(plain.nPods, 0);
    for (const NeuronPodShape& shape : platform->pods) {
      const std::string name = std::string(platform->name) + "/" + std::string(shape.name);
      ASSERT_OK(pod, parseCluster(name, 0));
      EXPECT_EQ(pod.hostCount(), shape.nHosts);
    }
  }
  EXPECT_TRUE(parseCluster("2xhost/numa", 0).ok());
}

TEST(Cluster, HostsMayOfferTheirFirstDevicesOnly) {
  ASSERT_OK(cluster, parseCluster("4xtrn2.48xlarge:2,trn2u.48xlarge/X4:3,host:4", 0, 8));
  EXPECT_EQ(cluster.hostCount(), 9);
  EXPECT_EQ(cluster.deviceCount(), 4 * 2 + 4 * 3 + 4);
  expectPlacesInOrder(cluster);
  for (const char* text : {"trn2.48xlarge:65", "trn2.48xlarge:0", "trn2.48xlarge:-1",
                           "host:", "host:x", "host:4:4", "trn2.48xlarge:2x"}) {
    EXPECT_FALSE(parseCluster(text, 0, 8).ok()) << text;
  }
}

TEST(Cluster, MistakesAreNamed) {
  for (const auto& [text, wanted] :
       {std::pair{"", "'' names no platform"}, std::pair{"trn2.48xlarge,", "'' names no platform"},
        std::pair{"4", "'4' names no platform"},
        std::pair{"0xtrn2.48xlarge", "count in '0xtrn2.48xlarge', expected 1 to 65536"},
        std::pair{"99999999999xhost", "expected 1 to 65536"},
        std::pair{"4xtrn9.48xlarge", "unknown platform 'trn9.48xlarge'; known: trn2.48xlarge"},
        std::pair{"4x", "unknown platform ''"},
        std::pair{"-1xtrn2.48xlarge", "unknown platform '-1xtrn2.48xlarge'"},
        std::pair{"trn2u.48xlarge/X3", "no pod 'X3'; it has X1, X2H, X2V, X4"},
        std::pair{"trn2.48xlarge/X4", "no pod 'X4'; it has none"},
        std::pair{"host/X4", "host has no pods"},
        std::pair{"65536xtrn2-ultraserver", "has 262144 hosts, expected at most 65536"}}) {
    const auto cluster = parseCluster(text, 0, 1);
    ASSERT_FALSE(cluster.ok()) << text;
    expectError(cluster.error().message, wanted);
    expectError(cluster.error().message, std::string("cluster '") + text + "'");
  }
  const auto lnc = parseCluster("trn2.48xlarge,trn1.32xlarge", 2);
  ASSERT_FALSE(lnc.ok());
  expectError(lnc.error().message, "trn1.32xlarge has no logical core size 2; it has 1");
}

}  // namespace
}  // namespace nccom
