#include "enc/comm_shape.h"

#include <gtest/gtest.h>

#include "enc/builder.h"
#include "graph/platform.h"

namespace nccom {
namespace {

encMachine machine(const std::string& name, int lnc = 0, const std::string& pod = "") {
  encMachine result;
  result.platform = findPlatform(name).value();
  result.lnc = checkLnc(*result.platform, lnc).value();
  result.shape = findPodShape(*result.platform, pod).value();
  return result;
}

Result<enc_comm_info> shape(const encMachine& on, int nodes, int ranks) {
  return encShapeComm(on, TRY(encDealtCores(on, nodes, ranks)));
}

TEST(CommShape, KnowsEveryPlatform) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    for (const int lnc : platform->lncs) {
      const encMachine on{platform, lnc, kNoPod, 0};
      for (const int nodes : {1, 2, 4}) {
        const int ranks = nodes * platform->logicalCores(lnc);
        const auto info = shape(on, nodes, ranks);
        SCOPED_TRACE(std::string(platform->name) + " LNC " + std::to_string(lnc));
        ASSERT_TRUE(info.ok()) << info.error().message;
        EXPECT_TRUE(encCheckComm(info.value()).ok());
        EXPECT_EQ(info.value().peers.size(), static_cast<size_t>(ranks));
        EXPECT_EQ(info.value().node.back(), nodes - 1);
        EXPECT_EQ(info.value().situation.kangaringPaths,
                  static_cast<int>(info.value().kangaring.paths.size()));
      }
    }
  }
}

TEST(CommShape, IsTheSameOnAllRanksButForTheRank) {
  const encMachine on = machine("trn2.48xlarge");
  const auto cores = encDealtCores(on, 2, 16).value();
  enc_comm_info first = encShapeComm(on, cores, 0).value();
  const enc_comm_info last = encShapeComm(on, cores, 15).value();
  first.rank = 15;
  EXPECT_EQ(first, last);
}

TEST(CommShape, ServersOfAPodShareMemory) {
  const encMachine on = machine("trn2u.48xlarge", 2, "X4");
  const enc_comm_info info = shape(on, 4, 256).value();
  EXPECT_TRUE(info.sameNode(0, 255));
  EXPECT_TRUE(info.situation.enable_pod);
  EXPECT_EQ(info.peers[255].server, 3);
}

TEST(CommShape, TakesThisMachineToo) {
  const encMachine on{nullptr, 1, kNoPod, 8};
  const enc_comm_info info = shape(on, 2, 12).value();
  EXPECT_TRUE(info.situation.isHost());
  EXPECT_EQ(info.rings.size(), 1u);
  EXPECT_EQ(info.peers[7].server, 1);
}

TEST(CommShape, RefusesARankThatThereIsNot) {
  const encMachine on = machine("trn2.48xlarge");
  EXPECT_FALSE(encShapeComm(on, encDealtCores(on, 1, 4).value(), 4).ok());
}

}  // namespace
}  // namespace nccom
