#include "comm/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace nccom {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<ncclPeerInfo> world(const std::vector<uint64_t>& hosts) {
  std::vector<ncclPeerInfo> peers(hosts.size());
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    peers[rank].rank = static_cast<int32_t>(rank);
    peers[rank].device = static_cast<int32_t>(rank);
    peers[rank].nRanks = static_cast<int32_t>(hosts.size());
    peers[rank].pid = static_cast<int32_t>(100 + rank);
    peers[rank].hostHash = hosts[rank];
  }
  return peers;
}

TEST(Peers, NumberHostsInTheOrderOfTheirLowestRank) {
  EXPECT_THAT(nodesOf(world({7, 3, 7, 9, 3})), ElementsAre(0, 1, 0, 2, 1));
}

TEST(Peers, MayUseOneDeviceNumberOnDifferentHosts) {
  auto peers = world({1, 2});
  peers[1].device = peers[0].device;
  EXPECT_TRUE(checkPeers(peers).ok());
}

TEST(Peers, OnOneDeviceOfOneHostAreBothNamed) {
  auto peers = world({1, 1, 1});
  peers[2].device = peers[1].device;
  const Status status = checkPeers(peers);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ncclInvalidUsage);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("rank 1"), HasSubstr("rank 2"),
                                            HasSubstr("device 1"), HasSubstr("102")));
}

TEST(Peers, ThatDisagreeAreNamedWithBothValues) {
  const std::vector<std::pair<std::string, std::function<void(ncclPeerInfo&)>>> faults = {
      {"version", [](ncclPeerInfo& p) { p.version = 12345; }},
      {"NCCL_BUFFSIZE", [](ncclPeerInfo& p) { p.bufferBytes = 12345; }},
      {"the platform (NCCOM_PLATFORM, NCCOM_CLUSTER, NCCL_TOPO_FILE)",
       [](ncclPeerInfo& p) { strcpy(p.platform, "12345"); }},
      {"net", [](ncclPeerInfo& p) { strcpy(p.net, "12345"); }},
      {"channels", [](ncclPeerInfo& p) { p.maxChannels = 12345; }},
      {"number of ranks", [](ncclPeerInfo& p) { p.nRanks = 12345; }},
  };
  for (const auto& [what, fault] : faults) {
    auto peers = world({1, 1, 2});
    fault(peers[2]);
    const Status status = checkPeers(peers);
    ASSERT_FALSE(status.ok()) << what;
    EXPECT_THAT(status.error().message, AllOf(HasSubstr(what), HasSubstr("12345"),
                                              HasSubstr("rank 2"), HasSubstr("rank 0")));
  }
}

TEST(Peers, TextsThatDifferPastTheirFieldStayDifferent) {
  for (const size_t bytes : {64U, 128U, 1024U}) {
    const std::string most(bytes - 1, 'x');
    EXPECT_EQ(fitted(most, bytes), most);
    const std::string one = most + "/a", other = most + "/b";
    EXPECT_EQ(fitted(one, bytes).size(), bytes - 1);
    EXPECT_EQ(fitted(one, bytes), fitted(one, bytes));
    EXPECT_NE(fitted(one, bytes), fitted(other, bytes));
    EXPECT_NE(fitted(one, bytes), fitted(most + "/", bytes));
    EXPECT_THAT(fitted(one, bytes), HasSubstr("xxx... #"));
  }
}

}  // namespace
}  // namespace nccom
