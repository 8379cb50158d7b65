// The two passes over the peers of a full mesh, on tables that no machine of ours has, too.
#include "enc/mesh_roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "enc/mesh_build.h"
#include "test/unit/enc/mesh_worlds.h"

namespace nccom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Role = mesh_group_types;

/// Members on cores of one host, each on a chip of its own; or kNetworkDev, kPodMlaDev.
encMeshGeometry table(int self, const std::vector<int>& devs) {
  encMeshGeometry g;
  g.self = self;
  g.type = enc_alg_mesh_type::FullMesh;
  for (size_t member = 0; member < devs.size(); member++) {
    encMeshPeer peer;
    peer.neuron_dev = devs[member];
    peer.rid = devs[member];
    peer.pod_node_id = static_cast<int>(member);
    peer.isNeighbor = devs[member] >= 0;
    peer.shares = devs[member] != kNetworkDev;
    g.peers.push_back(peer);
    g.chip.push_back(static_cast<int>(member));
    g.place.push_back(0);
    g.chips.push_back({0, static_cast<int>(member), {static_cast<int>(member)}});
  }
  return g;
}

const std::vector<int>& role(const encMeshRoles& roles, Role which) {
  return membersOf(roles, which);
}

std::string errorOf(const encMeshGeometry& g) {
  const auto classes = encClassifyMeshPeers(g);
  if (!classes.ok()) return classes.error().message;
  const auto roles = encMeshRolesOf(g, classes.value());
  return roles.ok() ? "" : roles.error().message;
}

TEST(MeshRoles, HopsAreHammingDistances) {
  const encMeshClasses classes = encClassifyMeshPeers(table(1, {0, 5, 4, 10})).value();
  EXPECT_THAT(classes.hops, ElementsAre(2, 0, 1, 4));
  EXPECT_EQ(classes.srcDevs, 4);
  EXPECT_EQ(classes.sibling, 2);
}

TEST(MeshRoles, SiblingDiffersInTheLowestBitAndNoOther) {
  // One hop away, but not the other core of the device.
  EXPECT_EQ(encClassifyMeshPeers(table(0, {4, 6})).value().sibling, -1);
  EXPECT_EQ(encClassifyMeshPeers(table(0, {5, 6})).value().sibling, -1);
  EXPECT_EQ(encClassifyMeshPeers(table(0, {7, 6})).value().sibling, 1);
}

TEST(MeshRoles, PodPeersCountAsDevices) {
  encMeshGeometry g = table(0, {4, kPodMlaDev, kPodMlaDev, kNetworkDev});
  const encMeshClasses classes = encClassifyMeshPeers(g).value();
  EXPECT_EQ(classes.srcDevs, 3);
  EXPECT_THAT(classes.netInter, ElementsAre(3));
  EXPECT_THAT(classes.podRoots, ElementsAre(1, 2));
}

// Groups are what shares the channel buffer: hosts of the pod too.
TEST(MeshRoles, BuffersAreSharedByDevicesPodAndNetwork) {
  encMeshGeometry g = table(0, {4, kPodMlaDev, kPodMlaDev});
  g.situation.rank_n = g.situation.node_n = 3;
  g.situation.enable_pod = true;
  encMeshPlan plan = encBuildFullMesh(g, {true, true, 1 << 25}).value();
  EXPECT_EQ(plan.mesh.src_devs, 3);
  EXPECT_EQ(plan.mesh.num_groups, 3);
  EXPECT_EQ(plan.mesh.max_chbuf_space_per_group, g.options.meshBufferBytes / 3);
  EXPECT_FALSE(plan.mesh.use_net);

  g = table(0, {4, 6, kNetworkDev, kNetworkDev, kNetworkDev});
  g.situation.rank_n = 5;
  g.situation.node_n = 4;
  plan = encBuildFullMesh(g, {true, true, 1 << 25}).value();
  EXPECT_EQ(plan.mesh.src_devs, 2);
  EXPECT_EQ(plan.mesh.num_groups, 5);
  EXPECT_EQ(plan.mesh.max_chbuf_space_per_group, g.options.meshBufferBytes / 5);
  EXPECT_TRUE(plan.mesh.use_net);
}

TEST(MeshRoles, PodNodesAreNumberedInTheirPod) {
  const test::World world = test::worldOf({"trn2u.48xlarge", 8, 8, 2, "X4"});
  const encMeshGeometry g = encMeshGeometryOf(world.info(0), {0, 1, 2, 3, 4, 5, 6, 7}, 0).value();
  for (int member = 0; member < 8; member++)
    EXPECT_EQ(g.peers[member].pod_node_id, member % 4);
}

TEST(MeshRoles, SiblingAndPodExcludeEachOther) {
  encMeshGeometry g = table(0, {4, 5, kPodMlaDev});
  g.situation.node_n = 2;
  g.situation.enable_pod = true;
  EXPECT_THAT(errorOf(g), HasSubstr("member 1 is the sibling of member 0"));
  g.peers[1].neuron_dev = g.peers[1].rid = 6;
  EXPECT_EQ(errorOf(g), "");
}

TEST(MeshRoles, NetworkRootsStartElsewhereOnEachRank) {
  for (int self = 0; self < 4; self++) {
    std::vector<int> devs(4, kNetworkDev);
    devs[self] = 0;
    encMeshGeometry g = table(self, devs);
    g.situation.node_n = 4;
    const encMeshRoles roles = encMeshRolesOf(g, encClassifyMeshPeers(g).value()).value();
    const std::vector<int>& all = role(roles, Role::ALL_INTER_ROOTS);
    ASSERT_EQ(all.size(), 4u);
    EXPECT_EQ(all[0], self);
    std::vector<int> net;
    for (int i = 0; i < 4; i++) {
      if (i != self) net.push_back(i);
    }
    EXPECT_EQ(all[1], net[self % 3]);
    EXPECT_THAT(role(roles, Role::INTER_GROUP_ROOTS), IsEmpty());
  }
}

TEST(MeshRoles, FollowTheMachine) {
  const test::World world = test::worldOf({"trn1.32xlarge", 1, 8});
  const encMeshGeometry g = encMeshGeometryOf(world.info(2), {0, 1, 2, 3, 4, 5, 6, 7}, 2).value();
  const encMeshRoles roles = encMeshRolesOf(g, encClassifyMeshPeers(g).value()).value();
  EXPECT_THAT(role(roles, Role::SELF), ElementsAre(2));
  EXPECT_THAT(role(roles, Role::INTRA_GROUP_MEMBERS), ElementsAre(2, 3));
  EXPECT_THAT(role(roles, Role::INTER_GROUP_ROOTS), ElementsAre(4, 5, 6, 7, 0, 1));
  EXPECT_THAT(role(roles, Role::ALL_INTER_ROOTS), ElementsAre(2, 4, 5, 6, 7, 0, 1));
  for (const int neighbor : role(roles, Role::INTRA_GROUP_NEIGHBORS)) {
    const int other = g.chips[g.chip[neighbor]].device;
    EXPECT_TRUE(other == 1 || world.comm->platform->portTo(1, other) >= 0);
  }
}

TEST(MeshRoles, NameWhatIsWrong) {
  EXPECT_THAT(errorOf(table(0, {4, 5, 4})), HasSubstr("member 2 has routing id 4"));
  EXPECT_THAT(errorOf(table(0, {kPodMlaDev, 5})),
              HasSubstr("member 0 is another host of the pod to itself"));
  EXPECT_THAT(errorOf(table(0, {4, kUnknownDev})), HasSubstr("member 1 is on device -3"));
  encMeshGeometry g = table(0, {4, kNetworkDev});
  g.situation.node_n = 2;
  g.situation.enable_pod = true;
  EXPECT_THAT(errorOf(g), HasSubstr("want either a network or a pod"));
  g = table(0, {4, kPodMlaDev});
  g.situation.node_n = 2;
  EXPECT_THAT(errorOf(g), HasSubstr("want either a network or a pod"));
  g = table(0, {4, 6, 8, kNetworkDev});
  g.situation.node_n = 2;
  EXPECT_EQ(errorOf(g), "");
}

}  // namespace
}  // namespace nccom
