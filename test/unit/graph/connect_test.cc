#include "graph/connect.h"

#include <numeric>
#include <random>

#include "graph_test_util.h"

namespace nccom {
namespace {

/// Channels of one host: any order of its ranks.
ncclTopoGraph hostGraph(const std::vector<int>& ranks, int nChannels, std::mt19937& random) {
  ncclTopoGraph graph;
  graph.crossNic = 0;
  graph.nChannels = nChannels;
  graph.bwIntra = 20;
  for (int c = 0; c < nChannels; c++) {
    graph.intra.push_back(ranks);
    std::shuffle(graph.intra.back().begin(), graph.intra.back().end(), random);
  }
  return graph;
}

ncclTopoGraph hostGraphOf(const std::vector<int>& ranks) {
  std::mt19937 random(1);
  ncclTopoGraph graph = hostGraph(ranks, 1, random);
  graph.intra[0] = ranks;
  return graph;
}

struct World {
  std::vector<int> nodeOf;
  std::vector<ncclTopoRanks> records;
  std::vector<std::pair<ncclTopoGraph, ncclTopoGraph>> graphs;  // [host] ring and tree
  int minChannels = kMaxChannels;
};

/// Hosts with 1 to 9 ranks each, ranks dealt over hosts at random.
World makeWorld(int nHosts, unsigned seed, int crossNic,
                ncclTopoPattern pattern = ncclTopoPattern::BalancedTree) {
  std::mt19937 random(seed);
  World world;
  for (int h = 0; h < nHosts; h++) {
    for (unsigned i = 0; i <= random() % 9; i++)
      world.nodeOf.push_back(h);
  }
  std::shuffle(world.nodeOf.begin(), world.nodeOf.end(), random);
  world.records.resize(world.nodeOf.size());
  for (int h = 0; h < nHosts; h++) {
    std::vector<int> ranks;
    for (int r = 0; r < static_cast<int>(world.nodeOf.size()); r++) {
      if (world.nodeOf[r] == h) ranks.push_back(r);
    }
    const int nChannels = 1 + static_cast<int>(random() % 6);
    world.minChannels = std::min(world.minChannels, nChannels);
    ncclTopoGraph graph = hostGraph(ranks, nChannels, random);
    graph.crossNic = crossNic;
    ncclTopoGraph tree = hostGraph(ranks, nChannels, random);
    tree.pattern = pattern;
    for (const int r : ranks)
      world.records[r] = ncclTopoPreset(graph, tree, r).value();
    world.graphs.emplace_back(graph, tree);
  }
  return world;
}

TEST(Postset, ClosesEveryRingOverUnevenHosts) {
  for (int nHosts = 1; nHosts <= 8; nHosts++) {
    for (unsigned seed = 0; seed < 20; seed++) {
      SCOPED_TRACE("hosts " + std::to_string(nHosts) + " seed " + std::to_string(seed));
      const World world = makeWorld(nHosts, seed, seed % 2 == 0 ? 0 : 2);
      const auto nRanks = static_cast<int>(world.nodeOf.size());
      std::vector<ncclRings> views;
      for (int rank = 0; rank < nRanks; rank++) {
        ASSERT_OK(rings, ncclTopoPostset(rank, world.nodeOf, world.records, {}));
        views.push_back(rings);
      }
      EXPECT_EQ(static_cast<int>(views[0].channels.size()), 2 * world.minChannels);
      for (size_t c = 0; c < views[0].channels.size(); c++) {
        for (int rank = 0; rank < nRanks; rank++) {
          const ncclRing& ring = views[rank].channels[c];
          ASSERT_EQ(static_cast<int>(ring.userRanks.size()), nRanks);
          ASSERT_EQ(ring.userRanks[0], rank);
          // All ranks see one and the same ring.
          ASSERT_EQ(views[ring.next].channels[c].prev, rank);
          ASSERT_EQ(views[ring.prev].channels[c].next, rank);
        }
        // Each host is entered once.
        int nCrossings = 0;
        for (int rank = 0; rank < nRanks; rank++) {
          if (world.nodeOf[views[rank].channels[c].next] != world.nodeOf[rank]) nCrossings++;
        }
        EXPECT_EQ(nCrossings, nHosts == 1 ? 0 : nHosts);
      }
    }
  }
}

TEST(Postset, CopiesRunTheSameWay) {
  const World world = makeWorld(3, 5, 0);
  ASSERT_OK(rings, ncclTopoPostset(0, world.nodeOf, world.records, {}));
  for (int c = 0; c < rings.nSearched; c++) {
    EXPECT_TRUE(rings.channels[c] == rings.channels[c + rings.nSearched]);
  }
}

TEST(Postset, KeepsToTheBounds) {
  const World world = makeWorld(2, 3, 0);
  for (const ChannelBounds bounds :
       {ChannelBounds{1, 1}, ChannelBounds{1, 3}, ChannelBounds{20, 32}}) {
    ASSERT_OK(rings, ncclTopoPostset(0, world.nodeOf, world.records, bounds));
    EXPECT_LE(static_cast<int>(rings.channels.size()), bounds.max);
    EXPECT_GE(static_cast<int>(rings.channels.size()), bounds.min);
  }
  EXPECT_FALSE(ncclTopoPostset(0, world.nodeOf, world.records, {0, 4}).ok());
  EXPECT_FALSE(ncclTopoPostset(0, world.nodeOf, world.records, {1, 33}).ok());
}

TEST(Postset, ContradictingRecordsAreErrors) {
  const World world = makeWorld(3, 1, 0);
  const auto nRanks = static_cast<int>(world.nodeOf.size());
  std::mt19937 random(1);
  int nFound = 0;
  for (int trial = 0; trial < 500; trial++) {
    World broken = world;
    ncclTopoRanks& record = broken.records[random() % nRanks];
    auto* table = std::array{&record.ringRecv, &record.ringSend, &record.ringPrev,
                             &record.ringNext}[random() % 4];
    (*table)[0] = static_cast<int32_t>(random() % (nRanks + 4)) - 2;
    const auto rings = ncclTopoPostset(0, broken.nodeOf, broken.records, {});
    if (!rings.ok()) nFound++;
  }
  EXPECT_GT(nFound, 50);  // many changes hit a value that no ring depends on
}

TEST(Postset, WrongShapesAreErrors) {
  const World world = makeWorld(2, 3, 0);
  const auto nRanks = static_cast<int>(world.nodeOf.size());
  EXPECT_FALSE(ncclTopoPostset(nRanks, world.nodeOf, world.records, {}).ok());
  EXPECT_FALSE(ncclTopoPostset(-1, world.nodeOf, world.records, {}).ok());
  World gap = world;
  for (int& host : gap.nodeOf)
    host = host == 0 ? 0 : 2;
  if (nRanks > 2) {
    const auto rings = ncclTopoPostset(0, gap.nodeOf, gap.records, {});
    ASSERT_FALSE(rings.ok());
    expectError(rings.error().message, "no rank has host index 1");
  }
  World none = world;
  none.records[0].nChannels = 0;
  EXPECT_FALSE(ncclTopoPostset(0, none.nodeOf, none.records, {}).ok());
}

/// All ranks hang on one root, children and parents agree, and each host but the root's is entered
/// from one rank.
void expectTree(const std::vector<ncclTree>& tree, const std::vector<int>& nodeOf, int nHosts) {
  std::vector<int> reached;
  int nCrossings = 0;
  for (int r = 0; r < static_cast<int>(tree.size()); r++) {
    if (tree[r].up == -1) reached.push_back(r);
    if (tree[r].up != -1 && nodeOf[tree[r].up] != nodeOf[r]) nCrossings++;
  }
  ASSERT_EQ(reached.size(), 1U);
  for (size_t i = 0; i < reached.size(); i++) {
    bool ended = false;
    for (const int child : tree[reached[i]].down) {
      if (child == -1) ended = true;
      if (child == -1) continue;
      ASSERT_FALSE(ended);  // filled from the front
      ASSERT_EQ(tree[child].up, reached[i]);
      reached.push_back(child);
    }
    ASSERT_LE(reached.size(), tree.size());
  }
  ASSERT_EQ(reached.size(), tree.size());
  ASSERT_EQ(nCrossings, nHosts - 1);
}

TEST(Connect, TreesSpanUnevenHosts) {
  for (const auto pattern :
       {ncclTopoPattern::BalancedTree, ncclTopoPattern::SplitTree, ncclTopoPattern::Tree}) {
    for (int nHosts = 1; nHosts <= 9; nHosts++) {
      SCOPED_TRACE("hosts " + std::to_string(nHosts));
      const World world = makeWorld(nHosts, static_cast<unsigned>(nHosts), 0, pattern);
      ASSERT_OK(all, ncclTopoConnect(world.nodeOf, world.records, {}));
      ASSERT_EQ(static_cast<int>(all.trees.size()), 2 * world.minChannels);
      for (const std::vector<ncclTree>& tree : all.trees)
        expectTree(tree, world.nodeOf, nHosts);
      if (nHosts > 2) {
        // A channel and its copy are the two different trees.
        EXPECT_NE(all.trees[0], all.trees[world.minChannels]);
      }
    }
  }
}

TEST(Connect, SeesTheRingsThatEachRankSees) {
  for (const int crossNic : {0, 2}) {
    const World world = makeWorld(5, 11, crossNic);
    for (const ChannelBounds bounds : {ChannelBounds{}, {1, 3}, {20, 32}, {1, 32, 90}}) {
      ASSERT_OK(all, ncclTopoConnect(world.nodeOf, world.records, bounds));
      ASSERT_OK(own, ncclTopoPostset(0, world.nodeOf, world.records, bounds));
      ASSERT_EQ(all.rings.size(), own.channels.size());
      EXPECT_EQ(all.nSearched, own.nSearched);
      for (size_t c = 0; c < all.rings.size(); c++)
        EXPECT_EQ(all.rings[c], own.channels[c].userRanks);
    }
  }
}

TEST(Connect, PassesHostsInTheGivenOrder) {
  const World world = makeWorld(6, 4, 0);
  const std::vector<int> order = {3, 0, 5, 1, 4, 2};
  ASSERT_OK(all, ncclTopoConnect(world.nodeOf, world.records, {}, order));
  for (const std::vector<int>& ring : all.rings) {
    const auto n = ring.size();
    for (size_t i = 0; i < n; i++) {
      const int from = world.nodeOf[ring[i]];
      const int to = world.nodeOf[ring[(i + 1) % n]];
      if (from == to) continue;
      const auto place = std::find(order.begin(), order.end(), from) - order.begin();
      EXPECT_EQ(to, order[(place + 1) % 6]);
    }
  }
  for (const std::vector<ncclTree>& tree : all.trees)
    expectTree(tree, world.nodeOf, 6);
  for (const std::vector<int>& wrong :
       {std::vector<int>{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4, 4}, {0, 1, 2, 3, 4, 6}, {-1}}) {
    EXPECT_FALSE(ncclTopoConnect(world.nodeOf, world.records, {}, wrong).ok());
  }
}

TEST(Connect, SecondHostsSwapPairsOfChannelsThatMayCrossNics) {
  World world = makeWorld(4, 0, 2);
  for (unsigned seed = 1; world.minChannels % 2 != 0; seed++)
    world = makeWorld(4, seed, 2);
  ASSERT_OK(all, ncclTopoConnect(world.nodeOf, world.records, {}));
  for (int host = 0; host < 4; host++) {
    for (int c = 0; c < world.minChannels; c++) {
      const std::vector<int>& ring = all.rings[c];
      const std::vector<int>& part = world.graphs[host].first.intra[host % 2 == 0 ? c : c ^ 1];
      auto twice = ring;
      twice.insert(twice.end(), ring.begin(), ring.end());
      EXPECT_NE(std::search(twice.begin(), twice.end(), part.begin(), part.end()), twice.end());
    }
  }
}

TEST(Connect, CopiesFourTimesForFastNewDevicesOnSeveralHosts) {
  World world = makeWorld(3, 2, 0);
  const int n = world.minChannels;
  ASSERT_LT(2 * n, 16);
  for (ncclTopoRanks& record : world.records)
    record.bwIntra = 48;
  ASSERT_OK(fast, ncclTopoConnect(world.nodeOf, world.records, {1, 64, 90}));
  EXPECT_EQ(static_cast<int>(fast.rings.size()), 4 * n);
  EXPECT_EQ(fast.trees[0], fast.trees[2 * n]);
  EXPECT_EQ(fast.trees[n], fast.trees[3 * n]);
  ASSERT_OK(old, ncclTopoConnect(world.nodeOf, world.records, {1, 64, 80}));
  EXPECT_EQ(static_cast<int>(old.rings.size()), 2 * n);
  // Cut first, then repeated.
  ASSERT_OK(cut, ncclTopoConnect(world.nodeOf, world.records, {1, 1, 90}));
  EXPECT_EQ(cut.rings.size(), 1U);
}

TEST(Connect, ContradictingRecordsAreErrors) {
  const World world = makeWorld(3, 1, 0);
  const auto nRanks = static_cast<int>(world.nodeOf.size());
  std::mt19937 random(1);
  int nFound = 0;
  for (int trial = 0; trial < 500; trial++) {
    World broken = world;
    ncclTopoRanks& record = broken.records[random() % nRanks];
    auto* table = std::array{&record.treeUp,       &record.treeDown,     &record.ringPrev,
                             &record.treeToParent, &record.treeToChild0, &record.treeToChild1,
                             &record.ringNext}[random() % 7];
    (*table)[0] = static_cast<int32_t>(random() % (nRanks + 4)) - 2;
    if (!ncclTopoConnect(broken.nodeOf, broken.records, {}).ok()) nFound++;
  }
  EXPECT_GT(nFound, 200);
}

TEST(Connect, HostsAreKnownByTheHeadOfTheirFirstChannel) {
  const World world = makeWorld(5, 8, 0);
  const std::vector<int> nodes = ncclTopoNodesOf(world.records);
  for (size_t a = 0; a < nodes.size(); a++) {
    for (size_t b = 0; b < nodes.size(); b++)
      EXPECT_EQ(nodes[a] == nodes[b], world.nodeOf[a] == world.nodeOf[b]);
  }
  EXPECT_EQ(nodes[0], 0);
}

TEST(Preset, OfAHostIsThatOfEachRank) {
  const World world = makeWorld(4, 6, 0);
  std::vector<ncclTopoRanks> all(world.records.size());
  for (const auto& [ring, tree] : world.graphs) {
    const auto status = ncclTopoPresetHost(ring, tree, all);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  EXPECT_TRUE(all == world.records);
  std::vector<ncclTopoRanks> few(1);
  EXPECT_FALSE(ncclTopoPresetHost(hostGraphOf({0, 1}), hostGraphOf({0, 1}), few).ok());
  EXPECT_FALSE(ncclTopoPresetHost({}, {}, few).ok());
}

TEST(Preset, ChildEndsFollowThePattern) {
  ncclTopoGraph tree = hostGraphOf({7, 5, 3});
  const auto children = [&](ncclTopoPattern pattern) {
    tree.pattern = pattern;
    const ncclTopoRanks record = ncclTopoPreset(tree, tree, 5).value();
    EXPECT_EQ(record.treeToParent[0], 7);
    EXPECT_EQ(record.treeUp[0], 7);
    EXPECT_EQ(record.treeDown[0], 3);
    return std::pair{record.treeToChild0[0], record.treeToChild1[0]};
  };
  EXPECT_EQ(children(ncclTopoPattern::Tree), std::pair(7, 7));
  EXPECT_EQ(children(ncclTopoPattern::BalancedTree), std::pair(5, 7));
  EXPECT_EQ(children(ncclTopoPattern::SplitTree), std::pair(5, 5));
}

TEST(BuildRings, ChecksClosureAndMembership) {
  const auto open = ncclBuildRings(0, {{2, 0, 1}}, {{1, 2, 2}});
  ASSERT_FALSE(open.ok());
  expectError(open.error().message, "ring 0 does not loop back to start (2 != 0)");
  const auto shortRing = ncclBuildRings(0, {{1, 0, 3, 2}}, {{1, 0, 3, 2}});
  ASSERT_FALSE(shortRing.ok());
  expectError(shortRing.error().message, "ring 0 does not contain rank 2");
  const auto gap = ncclBuildRings(0, {{-1, 0}}, {{1, -1}});
  ASSERT_FALSE(gap.ok());
  ASSERT_OK(single, ncclBuildRings(0, {{0}}, {{0}}));
  EXPECT_EQ(single[0].next, 0);
}

TEST(Preset, NeedsTheRankInEveryChannel) {
  std::mt19937 random(1);
  const ncclTopoGraph graph = hostGraph({4, 5}, 2, random);
  EXPECT_FALSE(ncclTopoPreset(graph, 6).ok());
}

TEST(NetDev, HeadReceivesAndTailSends) {
  GraphInput input = inputFor({0, 1, 2, 3, 4, 5, 6, 7}, 2, 16);
  for (int i = 0; i < 3; i++)
    input.nets.push_back({.name = "n" + std::to_string(i)});
  ASSERT_OK(result, buildGraph(input));
  for (int c = 0; c < 2 * result.ring.nChannels; c++) {
    const int searched = c % result.ring.nChannels;
    ASSERT_OK(in, ncclTopoGetNetDev(result.system, result.ring, c, result.ring.intra[searched][0]));
    EXPECT_EQ(in.id, result.ring.inter[searched][0]);
    ASSERT_OK(out,
              ncclTopoGetNetDev(result.system, result.ring, c, result.ring.intra[searched].back()));
    EXPECT_EQ(out.id, result.ring.inter[searched][1]);
    EXPECT_LT(out.dev, 3);
  }
  EXPECT_FALSE(ncclTopoGetNetDev(result.system, {}, 0, 0).ok());
  ASSERT_OK(local, ncclTopoGetLocalNetDev(result.system, 0, 5));
  EXPECT_EQ(local.id, 1);  // core 5 is on device 1
  EXPECT_FALSE(ncclTopoGetLocalNetDev(result.system, 0, 12).ok());
}

TEST(P2pChannels, ArePowersOfTwoAndSpreadPeers) {
  for (const int nRanks : {8, 16}) {
    ASSERT_OK(result, buildGraph(inputFor({0, 1, 2, 3, 4, 5, 6, 7}, 2, nRanks)));
    for (const int nChannels : {1, 3, 12, 32}) {
      ASSERT_OK(p2p, ncclTopoComputeP2pChannels(result.system, 3, nChannels));
      EXPECT_TRUE(isPow2(p2p.nChannels) && isPow2(p2p.perPeer));
      EXPECT_GE(p2p.nChannels, nChannels);
      EXPECT_LE(p2p.perPeer, p2p.nChannels);
      std::set<int> used;
      for (int i = 0; i < p2p.nChannels; i++)
        used.insert(p2p.channelOf(i / p2p.perPeer, i % p2p.perPeer));
      EXPECT_EQ(static_cast<int>(used.size()), p2p.nChannels);
    }
    EXPECT_FALSE(ncclTopoComputeP2pChannels(result.system, 99, 4).ok());
  }
}

}  // namespace
}  // namespace nccom
