#include "graph/mla_cycle.h"

#include "neuron_test_util.h"

namespace nccom {
namespace {

size_t cyclesOf(const NeuronPlatform& platform, const std::vector<int>& devices) {
  auto fabric = neuronFabric(platform, platform.defaultLnc);
  const auto cycles = mlaCycles(fabric.value(), devices);
  std::set<std::pair<int, int>> links;
  for (const std::vector<int>& cycle : cycles) {
    const std::set<int> seen(cycle.begin(), cycle.end());
    EXPECT_EQ(seen, std::set<int>(devices.begin(), devices.end()));
    EXPECT_EQ(seen.size(), cycle.size());
    for (size_t i = 0; i < cycle.size(); i++) {
      const int from = cycle[i];
      const int to = cycle[(i + 1) % cycle.size()];
      EXPECT_NE(fabric.value().link(from, to), nullptr) << from << " " << to;
      if (cycle.size() == 2) continue;  // one link, there and back
      EXPECT_TRUE(links.insert(std::minmax(from, to)).second);
    }
  }
  return cycles.size();
}

TEST(MlaCycle, ATorusHasTwoThatShareNoLink) {
  for (const NeuronPlatform* platform :
       {&kTrn1x32xlarge, &kTrn1nx32xlarge, &kTrn2x48xlarge, &kTrn2ux48xlarge, &kTrn3px48xlarge})
    EXPECT_EQ(cyclesOf(*platform, firstDevices(16)), 2U);
}

TEST(MlaCycle, EverySubsetGetsWhatItsLinksMake) {
  for (const NeuronPlatform* platform : {&kTrn1x32xlarge, &kTrn2x48xlarge}) {
    EXPECT_EQ(cyclesOf(*platform, {}), 0U);
    EXPECT_EQ(cyclesOf(*platform, {3}), 0U);
    EXPECT_EQ(cyclesOf(*platform, {0, 1}), 1U);
    EXPECT_EQ(cyclesOf(*platform, {0, 5}), 0U);
    for (int row = 0; row < 4; row++)
      EXPECT_EQ(cyclesOf(*platform, {4 * row, 4 * row + 1, 4 * row + 2, 4 * row + 3}), 1U);
    for (int column = 0; column < 4; column++)
      EXPECT_EQ(cyclesOf(*platform, {column, column + 4, column + 8, column + 12}), 1U);
    EXPECT_EQ(cyclesOf(*platform, {0, 1, 4, 5}), 1U);
    EXPECT_EQ(cyclesOf(*platform, firstDevices(8)), 1U);
    EXPECT_EQ(cyclesOf(*platform, {8, 9, 10, 11, 12, 13, 14, 15}), 1U);
    EXPECT_EQ(cyclesOf(*platform, firstDevices(12)), 1U);
    EXPECT_EQ(cyclesOf(*platform, firstDevices(15)), 0U);
    EXPECT_EQ(cyclesOf(*platform, {0, 1, 2, 3, 8, 9, 10, 11}), 0U);  // rows apart
  }
}

TEST(MlaCycle, RingsHaveOneAndChainsNone) {
  EXPECT_EQ(cyclesOf(kInf2x48xlarge, firstDevices(12)), 1U);
  EXPECT_EQ(cyclesOf(kInf2x48xlarge, firstDevices(11)), 0U);
  EXPECT_EQ(cyclesOf(kInf2x24xlarge, firstDevices(6)), 0U);
}

TEST(MlaCycle, BehindSwitchesAnyPairIsJoined) {
  EXPECT_EQ(cyclesOf(kTrn3x48xlarge, firstDevices(16)), 4U);
  EXPECT_EQ(cyclesOf(kTrn3x48xlarge, {1, 6, 9, 12, 14}), 2U);
  EXPECT_EQ(cyclesOf(kTrn3ex24xlarge, firstDevices(4)), 1U);
}

TEST(MlaCycle, DoesNotDependOnTheOrderOfDevices) {
  ASSERT_OK(fabric, neuronFabric(kTrn2x48xlarge, 2));
  std::vector<int> devices = firstDevices(16);
  const auto cycles = mlaCycles(fabric, devices);
  std::reverse(devices.begin(), devices.end());
  EXPECT_EQ(mlaCycles(fabric, devices), cycles);
}

}  // namespace
}  // namespace nccom
