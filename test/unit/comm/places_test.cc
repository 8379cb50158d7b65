#include "comm/places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "comm/peers.h"
#include "comm/process.h"

namespace nccom {
namespace {

using testing::HasSubstr;

/// Hosts of devices of a cluster, as Process::hostOf() tells them.
std::vector<HostOfDevice> hostsOf(const std::string& text, const std::vector<int>& devices) {
  const NeuronCluster cluster = parseCluster(text, 0).value();
  std::vector<HostOfDevice> hosts;
  for (const int device : devices) {
    const ClusterPlace place = cluster.place(device).value();
    const ClusterHost& from = cluster.hosts[place.host];
    HostOfDevice host;
    host.platform = from.platform;
    host.device = place.device;
    host.nDevices = from.nDevices;
    host.shape = from.shape;
    host.pod = from.pod;
    host.podNode = from.podNode;
    hosts.push_back(host);
  }
  return hosts;
}

TEST(Places, KnowTheMachineOfEqualServers) {
  const auto hosts = hostsOf("2xtrn2.48xlarge", {0, 1, 64, 65});
  const CommPlaces places = placesOf({}, hosts, {0, 0, 1, 1}, false);
  ASSERT_NE(places.machine.platform, nullptr);
  EXPECT_EQ(places.machine.platform->name, "trn2.48xlarge");
  EXPECT_EQ(places.machine.lnc, 2);
  EXPECT_EQ(places.cores, (std::vector<int>{0, 1, 0, 1}));
  const enc_comm_info info = describePlaces(places).value();
  EXPECT_EQ(info.situation.node_n, 2);
  EXPECT_EQ(info.peers[3].server, 1);
  EXPECT_TRUE(info.rings.empty());
}

TEST(Places, TakeDifferentServersForPlainHosts) {
  const auto hosts = hostsOf("1xtrn2.48xlarge,1xtrn1.32xlarge", {0, 5, 64});
  const CommPlaces places = placesOf({}, hosts, {0, 0, 1}, false);
  EXPECT_EQ(places.machine.platform, nullptr);
  EXPECT_TRUE(describePlaces(places).value().situation.isHost());
  ncclParams file;
  file.topoFile = "machine.xml";
  EXPECT_EQ(placesOf(file, hostsOf("1xtrn2.48xlarge", {0, 5}), {0, 0}, false).machine.platform,
            nullptr);
}

TEST(Places, WholePodsKeepTheirShape) {
  const std::string pods = "trn2-ultraserver";
  const auto whole = hostsOf(pods, {0, 64, 128, 192});
  EXPECT_EQ(placesOf({}, whole, {0, 1, 2, 3}, true).machine.shape.name, "X4");
  const auto part = hostsOf(pods, {0, 64, 128});
  EXPECT_EQ(placesOf({}, part, {0, 1, 2}, true).machine.shape.type, NeuronPodType::None);
  const auto turned = hostsOf(pods, {64, 0, 128, 192});
  EXPECT_EQ(placesOf({}, turned, {0, 1, 2, 3}, true).machine.shape.type, NeuronPodType::None);
}

TEST(Places, RingsOfAPodPassEveryRankOnceWhateverTheirNumbers) {
  // Ranks in turns over the servers.
  std::vector<int> devices, servers;
  for (int rank = 0; rank < 32; rank++) {
    devices.push_back(rank % 4 * 64 + rank / 4);
    servers.push_back(rank % 4);
  }
  const auto info =
      describePlaces(placesOf({}, hostsOf("trn2-ultraserver", devices), servers, true));
  ASSERT_TRUE(info.ok()) << info.error().message;
  ASSERT_FALSE(info.value().rings.empty());
  for (const std::vector<int>& ring : info.value().rings) {
    EXPECT_EQ(std::set<int>(ring.begin(), ring.end()).size(), 32u);
    int crossings = 0;
    for (size_t i = 0; i < ring.size(); i++)
      crossings += servers[ring[i]] != servers[ring[(i + 1) % ring.size()]] ? 1 : 0;
    EXPECT_EQ(crossings, 4);
  }
}

TEST(AlgOptions, AreWhatTheVariablesSay) {
  ncclParams params;
  params.alg = "rdh";
  EXPECT_EQ(algOptionsOf(params, enc_comm_type::Intra).value().forced, enc_alg_type::IntraRdh);
  EXPECT_EQ(algOptionsOf(params, enc_comm_type::Inter).value().forced, enc_alg_type::InterRdh);
  EXPECT_EQ(algOptionsOf({}, enc_comm_type::Intra).value(), encAlgOptions{});
  params.dbgSingleCycleRing = 0;
  EXPECT_EQ(algOptionsOf(params, enc_comm_type::Intra).value().singleCycleRing, 0);
}

TEST(AlgOptions, RefuseWhatIsNone) {
  ncclParams params;
  params.alg = "tree";
  EXPECT_THAT(algOptionsOf(params, enc_comm_type::Intra).error().message,
              AllOf(HasSubstr("NCCOM_ALG"), HasSubstr("\"tree\""), HasSubstr("kangaring")));
  params.alg.clear();
  params.algTypes = int64_t{1} << 22;
  EXPECT_THAT(algOptionsOf(params, enc_comm_type::Intra).error().message,
              HasSubstr("NEURON_RT_CC_ALG_TYPES is 4194304"));
  params.algTypes = 1;
  params.meshBufferBytes = -1;
  EXPECT_FALSE(algOptionsOf(params, enc_comm_type::Intra).ok());
}

TEST(AlgOptions, ThatDifferBetweenRanksAreNamed) {
  ncclParams params;
  EXPECT_EQ(algOptionsText(params), "");
  params.alg = "mesh";
  params.dbgRdh = 0;
  EXPECT_EQ(algOptionsText(params), "NCCOM_ALG=mesh NEURON_RT_DBG_RDH_CC=0");
}

TEST(AlgOptions, AllThatDifferAreNamedWithinThePeersField) {
  ncclParams params;
  params.alg = "single_cycle_ring";
  params.dbgHybridRing = false;
  for (int64_t* value :
       {&params.algTypes, &params.dbgHierarchical, &params.dbgKangaring, &params.dbgSingleCycleRing,
        &params.dbgRdh, &params.dbgMesh, &params.interMeshMaxNodes, &params.hierPipeline,
        &params.meshBufferBytes, &params.intraRdhBufferBytes, &params.interRdhBufferBytes,
        &params.workBytes}) {
    *value = std::numeric_limits<int64_t>::min();
  }
  EXPECT_LT(algOptionsText(params).size(), sizeof(ncclPeerInfo::algorithms));
}

}  // namespace
}  // namespace nccom
