#include "enc/links.h"

#include <gtest/gtest.h>

#include <numeric>

#include "graph/neuron_search.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

/// All cores of all hosts of a pod, or of one host.
enc_comm_info whole(const std::string& platform, int lnc, const std::string& pod = "") {
  encMachine machine;
  machine.platform = findPlatform(platform).value();
  machine.lnc = lnc;
  machine.shape = findPodShape(*machine.platform, pod).value();
  const int hosts = machine.shape.nHosts;
  return encShapeComm(
             machine,
             encDealtCores(machine, hosts, hosts * machine.platform->logicalCores(lnc)).value())
      .value();
}

encLinks linksOf(const enc_comm_info& info) {
  return encLinks::of(info).value().value();
}

TEST(Links, AreNotKnownOfThisMachine) {
  EXPECT_FALSE(encLinks::of(test::shaped("host", 1, {{0, 1, 2}}).info(0)).value().has_value());
}

TEST(Links, AreNotCrossedWithinADevice) {
  encLinks links = linksOf(whole("trn2.48xlarge", 2));
  for (int a = 0; a < 4; a++) {
    for (int b = 0; b < 4; b++) {
      EXPECT_TRUE(links.route(a, b).joined);
      EXPECT_EQ(links.route(a, b).hops, 0);
    }
  }
  EXPECT_EQ(links.route(0, 3).locality, EdgeLocality::D2d);
}

// On a torus of 4 x 4, by rows and columns.
TEST(Links, AreAsManyAsTheTorusAsksFor) {
  const enc_comm_info info = whole("trn2.48xlarge", 2);
  const NeuronFabric fabric = neuronFabric(*info.platform, 2).value();
  encLinks links = linksOf(info);
  const auto around = [](int a, int b) { return std::min(std::abs(a - b), 4 - std::abs(a - b)); };
  for (int a = 0; a < info.rank_n; a += 3) {
    for (int b = 0; b < info.rank_n; b++) {
      const FabricDevice& from = fabric.devices[info.peers[a].device];
      const FabricDevice& to = fabric.devices[info.peers[b].device];
      EXPECT_EQ(links.route(a, b).hops, around(from.row, to.row) + around(from.col, to.col));
    }
  }
}

// Each way leads from device to device, over links that follow one another.
TEST(Links, FollowOneAnother) {
  for (const auto& [platform, pod] : {std::pair("trn1.32xlarge", ""),
                                      {"inf2.48xlarge", ""},
                                      {"trn2u.48xlarge", "X4"},
                                      {"trn3.48xlarge", "X4"}}) {
    const NeuronPlatform* found = findPlatform(platform).value();
    const enc_comm_info info = whole(platform, found->defaultLnc, pod);
    const NeuronFabric fabric = neuronFabric(*found, info.pod, info.lnc).value();
    encLinks links = linksOf(info);
    for (int b = 0; b < info.rank_n; b += 7) {
      const encRoute& route = links.route(1, b);
      ASSERT_TRUE(route.joined) << platform << " " << b;
      int at = info.peers[1].device;
      for (const int link : route.links) {
        EXPECT_EQ(fabric.links[link].from, at);
        at = fabric.links[link].to;
      }
      EXPECT_EQ(at, info.peers[b].server * fabric.devicesPerHost + info.peers[b].device);
    }
  }
}

TEST(Links, OfPodsJoinEqualPlaces) {
  const enc_comm_info info = whole("trn2u.48xlarge", 2, "X4");
  encLinks links = linksOf(info);
  EXPECT_EQ(links.route(0, 64).hops, 1);
  EXPECT_EQ(links.route(0, 64 + 4).hops, 2);
  links.carry(0, 64, 100);
  ASSERT_EQ(links.uses().size(), 1u);
  EXPECT_EQ(links.uses()[0].kind, "pod Z");
  EXPECT_EQ(links.uses()[0].busiest, "0:0 -> 1:0");
}

TEST(Links, EndAtTheBorderOfAPod) {
  encMachine machine;
  machine.platform = findPlatform("trn2.48xlarge").value();
  machine.lnc = 2;
  const enc_comm_info info = encShapeComm(machine, {{0, 1}, {0, 1}}).value();
  encLinks links = linksOf(info);
  EXPECT_TRUE(links.joined(0, 1));
  EXPECT_FALSE(links.joined(0, 2));
  EXPECT_FALSE(links.route(0, 2).joined);
  links.carry(0, 2, 100);
  EXPECT_TRUE(links.uses().empty());
}

// A device behind a switch has one port, whichever devices it talks to.
TEST(Links, ThroughASwitchLoadPorts) {
  const enc_comm_info info = whole("trn3e.24xlarge", 1, "X18");
  encLinks links = linksOf(info);
  const int perHost = info.rank_n / 18;
  int last = -1, sent = 0;
  for (int host = 1; host < 18; host++) {
    const encRoute& route = links.route(0, host * perHost);
    ASSERT_EQ(route.hops, 1);
    links.carry(0, host * perHost, 10);
    sent++;
    last = host * perHost;
  }
  const std::vector<encLinkUse> uses = links.uses();
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].kind, "rack switch");
  EXPECT_EQ(uses[0].links, sent + 1);
  EXPECT_EQ(uses[0].most, 10u * static_cast<uint64_t>(sent));
  EXPECT_EQ(uses[0].busiest, "0:0 -> switch");
  EXPECT_EQ(links.mostHops(), 1);
  EXPECT_GT(last, 0);
}

TEST(Links, CountEachLinkOfAWay) {
  const enc_comm_info info = whole("trn2.48xlarge", 2);
  encLinks links = linksOf(info);
  int far = 0;
  for (int b = 0; b < info.rank_n; b++)
    far = links.route(0, b).hops > links.route(0, far).hops ? b : far;
  links.carry(0, far, 100);
  links.carry(0, 1, 7);
  const std::vector<encLinkUse> uses = links.uses();
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_TRUE(uses[0].within);
  EXPECT_EQ(uses[0].bytes, 7u);
  EXPECT_EQ(uses[1].kind, "NeuronLink");
  EXPECT_EQ(uses[1].bytes, 400u);
  EXPECT_EQ(uses[1].most, 100u);
  EXPECT_EQ(links.mostHops(), 4);
}

TEST(Links, SayWhatIsWrongWithPlaces) {
  enc_comm_info info = whole("trn2.48xlarge", 2);
  info.peers[3].core = 64;
  const auto links = encLinks::of(info);
  ASSERT_FALSE(links.ok());
  EXPECT_EQ(links.error().message,
            "rank 3 is on core 64 of server 0: trn2.48xlarge has cores 0 to 63 at LNC 2");
}

}  // namespace
}  // namespace nccom
