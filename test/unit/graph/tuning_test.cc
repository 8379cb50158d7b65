#include "graph/tuning.h"

#include "graph_test_util.h"

namespace nccom {
namespace {

using enum TuningCollective;
using Algorithm = NcclAlgorithm;
using Protocol = NcclProtocol;

ncclTopoGraph graphOf(ncclTopoPattern pattern, int nChannels, float bwGBps) {
  ncclTopoGraph graph;
  graph.pattern = pattern;
  graph.nChannels = nChannels;
  graph.bwIntra = graph.bwInter = bwGBps;
  graph.typeIntra = ncclTopoPathType::Nvl;
  graph.typeInter = ncclTopoPathType::Pix;
  graph.sameChannels = false;
  return graph;
}

const ncclTopoGraph kRing = graphOf(ncclTopoPattern::Ring, 12, 20);
const ncclTopoGraph kTree = graphOf(ncclTopoPattern::BalancedTree, 12, 20);

TuningInput inputOf(int nRanks, int nNodes) {
  TuningInput input;
  input.ring = &kRing;
  input.tree = &kTree;
  input.nRanks = nRanks;
  input.nNodes = nNodes;
  input.nChannels = 24;
  input.minSm = input.maxSm = 80;
  input.cpuArch = CpuArch::X86;
  input.cpuVendor = CpuVendor::Amd;
  return input;
}

TEST(Tuning, OneHostAsComputedByHand) {
  ASSERT_OK(tuning, NcclTuning::model(inputOf(8, 1)));
  // 12 channels of 20 GB/s; all-reduce takes 14 steps of which each moves 1/8.
  EXPECT_FLOAT_EQ(tuning.cost(AllReduce, Algorithm::Ring, Protocol::Simple).bwGBps,
                  240 * 8.0F / 14);
  EXPECT_FLOAT_EQ(tuning.cost(AllReduce, Algorithm::Ring, Protocol::Simple).latencyUs,
                  8.4F + 14 * 3.4F);
  EXPECT_FLOAT_EQ(tuning.cost(AllReduce, Algorithm::Ring, Protocol::Ll).bwGBps, 87.7F * 8.0F / 14);
  EXPECT_FLOAT_EQ(tuning.cost(AllReduce, Algorithm::Tree, Protocol::Simple).bwGBps, 240 * .92F / 2);
  EXPECT_FLOAT_EQ(tuning.cost(AllReduce, Algorithm::Tree, Protocol::Ll128).latencyUs,
                  14 + 2 * 7 * 1.25F);
  EXPECT_FLOAT_EQ(tuning.cost(AllGather, Algorithm::Ring, Protocol::Simple).bwGBps, 240 * 8.0F / 7);
}

TEST(Tuning, SeveralHostsAsComputedByHand) {
  ASSERT_OK(tuning, NcclTuning::model(inputOf(32, 4)));
  // 6 of the 62 steps cross hosts; on AMD a step takes at least 3 x 2 us of posting.
  EXPECT_FLOAT_EQ(tuning.cost(AllReduce, Algorithm::Ring, Protocol::Simple).latencyUs,
                  8.4F + 56 * 6.0F + 6 * 14.0F);
  EXPECT_FLOAT_EQ(tuning.cost(AllReduce, Algorithm::Tree, Protocol::Simple).latencyUs,
                  8.4F + 2 * (7 * 4.0F + 2 * 14.0F));
  EXPECT_FLOAT_EQ(tuning.cost(AllReduce, Algorithm::Ring, Protocol::Ll).bwGBps, 19.0F * 32 / 62);
  EXPECT_FLOAT_EQ(tuning.cost(Broadcast, Algorithm::Ring, Protocol::Ll).latencyUs,
                  6.6F + 32 * 2.7F);
}

TEST(Tuning, OffersWhatNcclOffers) {
  ASSERT_OK(tuning, NcclTuning::model(inputOf(16, 2)));
  const auto isOffered = [](const NcclTuning& model, TuningCollective collective,
                            Algorithm algorithm, Protocol protocol) {
    return model.timeUs(collective, algorithm, protocol, 4096).has_value();
  };
  for (const TuningCollective collective : {Broadcast, Reduce, AllGather, ReduceScatter}) {
    EXPECT_FALSE(isOffered(tuning, collective, Algorithm::Tree, Protocol::Simple));
    EXPECT_TRUE(isOffered(tuning, collective, Algorithm::Ring, Protocol::Ll128));
    EXPECT_FALSE(isOffered(tuning, collective, Algorithm::Pat, Protocol::Simple));
  }
  // One rank a host.
  ASSERT_OK(sparse, NcclTuning::model(inputOf(4, 4)));
  EXPECT_TRUE(isOffered(sparse, AllGather, Algorithm::Pat, Protocol::Simple));
  EXPECT_FALSE(isOffered(sparse, AllReduce, Algorithm::Pat, Protocol::Simple));
  // The 128-byte protocol wants close NICs and one generation.
  ncclTopoGraph distant = kRing;
  distant.typeInter = ncclTopoPathType::Phb;
  TuningInput input = inputOf(16, 2);
  input.ring = &distant;
  ASSERT_OK(far, NcclTuning::model(input));
  EXPECT_FALSE(isOffered(far, AllReduce, Algorithm::Ring, Protocol::Ll128));
  input = inputOf(16, 2);
  input.maxSm = 86;
  ASSERT_OK(mixed, NcclTuning::model(input));
  EXPECT_FALSE(isOffered(mixed, AllReduce, Algorithm::Ring, Protocol::Ll128));
  EXPECT_TRUE(isOffered(mixed, AllReduce, Algorithm::Ring, Protocol::Simple));
}

TEST(Tuning, TimeGrowsWithSizeAndTendsToTheBandwidth) {
  for (const int nNodes : {1, 2, 5}) {
    ASSERT_OK(tuning, NcclTuning::model(inputOf(8 * nNodes, nNodes)));
    for (const Protocol protocol : {Protocol::Ll, Protocol::Ll128, Protocol::Simple}) {
      double last = 0;
      for (uint64_t bytes = 1; bytes <= uint64_t{1} << 40; bytes *= 2) {
        const double us = tuning.timeUs(AllReduce, Algorithm::Ring, protocol, bytes).value();
        EXPECT_GT(us, last);
        last = us;
      }
      const double bw =
          static_cast<double>(tuning.cost(AllReduce, Algorithm::Ring, protocol).bwGBps);
      EXPECT_NEAR(static_cast<double>(uint64_t{1} << 40) / 1000 / last / bw, 1, 0.01);
    }
  }
}

TEST(Tuning, WhatDoesNotFitIsAnError) {
  TuningInput input = inputOf(8, 1);
  input.tree = nullptr;
  EXPECT_FALSE(NcclTuning::model(input).ok());
  EXPECT_FALSE(NcclTuning::model(inputOf(2, 3)).ok());
  EXPECT_FALSE(NcclTuning::model(inputOf(0, 0)).ok());
  ASSERT_OK(alone, NcclTuning::model(inputOf(1, 1)));
  EXPECT_FALSE(alone.timeUs(AllReduce, Algorithm::Ring, Protocol::Simple, 8).has_value());
}

TEST(NeuronTuning, KangaringHalvesTheStepsAndSparesMemory) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    NeuronTuningInput input;
    input.platform = platform;
    input.ring = &kRing;
    input.nRanks = 64;
    input.nNodes = 1;
    for (const TuningCollective collective : {AllGather, ReduceScatter, AllReduce}) {
      ASSERT_OK(ring, neuronCost(input, collective, NeuronTuningAlgorithm::Ring));
      ASSERT_OK(paired, neuronCost(input, collective, NeuronTuningAlgorithm::Kangaring));
      EXPECT_GT(ring.bwGBps, 0) << platform->name;
      EXPECT_GE(paired.bwGBps, ring.bwGBps) << platform->name;
      EXPECT_NEAR(static_cast<double>(paired.latencyUs), static_cast<double>(ring.latencyUs) / 2,
                  2);
      input.nNodes = 4;
      ASSERT_OK(wide, neuronCost(input, collective, NeuronTuningAlgorithm::Ring));
      EXPECT_GE(wide.latencyUs, ring.latencyUs) << platform->name;
      input.nNodes = 1;
    }
  }
  EXPECT_FALSE(neuronCost({}, AllReduce, NeuronTuningAlgorithm::Ring).ok());
}

}  // namespace
}  // namespace nccom
