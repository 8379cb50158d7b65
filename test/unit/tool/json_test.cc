#include <set>

#include "tool_test_util.h"
#include "tools/nccom/topo_json.h"

namespace nccom {
namespace {

std::set<std::string> keysOf(const Json& json) {
  std::set<std::string> keys;
  for (const auto& [key, value] : json.items())
    keys.insert(key);
  return keys;
}

TEST(Json, ADirectRunHasItsDomainAtTheTop) {
  ASSERT_OK(answer, smallAnswer("d1"));
  const Json json = answerJson(answer);
  for (const char* key : {"file", "ngpus", "nnets", "gpuSelection", "system", "paths", "graphs"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_FALSE(json.contains("domains"));
  EXPECT_EQ(json["ngpus"], 4);
  EXPECT_EQ(json["nnets"], 1);
  EXPECT_EQ(keysOf(json["system"]),
            (std::set<std::string>{"maxBw", "totalBw", "inter", "nHosts", "nodes"}));
  EXPECT_EQ(keysOf(json["system"]["nodes"]),
            (std::set<std::string>{"GPU", "CPU", "NIC", "NET", "DEV"}));
  EXPECT_EQ(json["graphs"]["ring"]["inter"][0], Json::array({"0x0", "0x0"}));
}

TEST(Json, LinksSayTypeRateAndFarEnd) {
  ASSERT_OK(answer, smallAnswer("d0", 2));
  const Json nodes = answerJson(answer)["system"]["nodes"];
  EXPECT_EQ(nodes["GPU"][0]["links"], Json::array({Json::array({"LOC", 5000, "DEV:0"})}));
  EXPECT_EQ(nodes["DEV"][0]["links"][1], Json::array({"NVL", 40, "DEV:1"}));
  EXPECT_EQ(nodes["CPU"][0]["model"], 3);
}

TEST(Json, RatesHaveNineDigits) {
  ASSERT_OK(answer, smallAnswer("d0"));
  TopoDomain domain = answer.result.domains[0];
  domain.ring.bwIntra = 1.2F;
  domain.ring.bwInter = 0.5F;
  const Json ring = domainJson(domain)["graphs"]["ring"];
  EXPECT_EQ(ring["bwIntra"].dump(), "1.20000005");
  EXPECT_EQ(ring["bwInter"].dump(), "0.5");
}

TEST(Json, APipelineHasDomainsAndWhatAllRanksShare) {
  ASSERT_OK(answer, smallAnswer("p2"));
  const Json json = answerJson(answer);
  ASSERT_EQ(json["domains"].size(), 1);
  EXPECT_EQ(json["domains"][0]["ranks"], Json::array({0, 1, 2, 3}));
  const Json& global = json["global"];
  EXPECT_EQ(global["nRanks"], 8);
  EXPECT_EQ(global["nNodes"], 2);
  EXPECT_EQ(global["rankToNode"], Json::array({0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(global["rings"].size(), global["nChannels"].get<size_t>());
  EXPECT_EQ(global["trees"][0]["up"].size(), 8);
  EXPECT_EQ(global["trees"][0]["down"][0].size(), 3);
}

TEST(Json, PathsAreMatricesOverDevicesAndNics) {
  ASSERT_OK(answer, smallAnswer("d0"));
  const Json paths = answerJson(answer)["paths"];
  EXPECT_EQ(paths["gpuRanks"], Json::array({0, 1, 2, 3}));
  EXPECT_EQ(paths["netIds"], Json::array({"0x0"}));
  for (const char* key : {"type", "bw", "hops"}) {
    EXPECT_EQ(paths["gpuGpu"][key].size(), 4);
    EXPECT_EQ(paths["gpuGpu"][key][0].size(), 4);
    EXPECT_EQ(paths["gpuNet"][key][0].size(), 1);
  }
  EXPECT_EQ(paths["gpuGpu"]["type"][0][0], "LOC");
}

TEST(Json, TrainiumHostsHaveWhatTheNeuronSearchFound) {
  ASSERT_OK(answer, platformAnswer("trn2.48xlarge"));
  const Json neuron = answerJson(answer)["domains"][0]["graphs"]["ring"];
  EXPECT_EQ(neuron["intra"][0].size(), 64);
  const Json found = answerJson(answer)["domains"][0]["neuron"];
  EXPECT_EQ(found["mlaCycles"].size(), 2);
  EXPECT_FALSE(found["kangaring"].empty());
}

}  // namespace
}  // namespace nccom
