#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "enc/connected_components.h"
#include "enc/disjoint_set.h"
#include "enc/src_target_pairs.h"

namespace nccom {
namespace {

using Forest = disjoint_set<uint32_t, true>;
using Components = connected_components<uint32_t, true>;
using Edges = std::vector<std::vector<uint32_t>>;

#ifdef __GLIBCXX__
static_assert(sizeof(Forest) == 112 && sizeof(Components) == 168,
              "two maps; then edges, universe and a count, as in the published layout");
static_assert(sizeof(enc_replica_group_info) == 96 && sizeof(enc_src_target_pairs_info) == 80,
              "as in the published layouts");
#endif

/// The walk as it was published, four levels written out and a call of itself for more.
uint32_t publishedWalk(std::unordered_map<uint32_t, uint32_t>& rep, uint32_t x) {
  if (rep[x] == x) return x;
  const uint32_t p1 = rep[x];
  if (rep[p1] == p1) return rep[x] = p1;
  const uint32_t p2 = rep[p1];
  if (rep[p2] != p2) {
    const uint32_t p3 = rep[p2];
    if (rep[p3] != p3) {
      const uint32_t p4 = rep[p3];
      if (rep[p4] != p4) rep[p4] = publishedWalk(rep, rep[p4]);
      rep[p3] = rep[p4];
    }
    rep[p2] = rep[p3];
  }
  rep[p1] = rep[p2];
  return rep[x] = rep[p1];
}

/// A number below `limit`.
uint32_t below(std::mt19937& random, uint32_t limit) {
  return static_cast<uint32_t>(random() % limit);
}

Edges randomEdges(std::mt19937& random, uint32_t vertices, size_t count) {
  Edges edges;
  for (size_t i = 0; i < count; i++) {
    // Sparse ids, and a pair of a vertex with itself now and then.
    edges.push_back({below(random, vertices) * 1000003U, below(random, vertices) * 1000003U});
  }
  return edges;
}

TEST(DisjointSet, LeavesTheForestThatThePublishedWalkLeaves) {
  for (uint32_t depth = 0; depth < 40; depth++) {
    for (uint32_t from = 0; from <= depth; from++) {
      Forest forest;  // a chain: 0 is the root
      for (uint32_t i = 0; i <= depth; i++)
        forest.makeSet(i);
      for (uint32_t i = 1; i <= depth; i++)
        forest.representative[i] = i - 1;
      auto expected = forest.representative;
      EXPECT_EQ(forest.findSet(from), publishedWalk(expected, from));
      EXPECT_EQ(forest.representative, expected) << "from " << from << " of a chain of " << depth;
    }
  }
}

TEST(DisjointSet, LinksEveryElementOnTheWayToTheRoot) {
  Forest forest;
  for (uint32_t i = 0; i <= 9; i++)
    forest.makeSet(i);
  for (uint32_t i = 1; i <= 9; i++)
    forest.representative[i] = i - 1;
  const auto ranks = forest.rank;
  EXPECT_EQ(forest.findSet(7), 0U);
  for (uint32_t i = 0; i <= 7; i++)
    EXPECT_EQ(forest.representative[i], 0U) << i;
  EXPECT_EQ(forest.representative[8], 7U);  // beyond the start of the walk
  EXPECT_EQ(forest.rank, ranks);
}

TEST(DisjointSet, KeepsTheFirstRootOfEqualTreesAndTheHigherOneOfOthers) {
  Forest forest;
  for (uint32_t i = 0; i < 6; i++)
    forest.makeSet(i);
  forest.unite(3, 1);  // equal: 3 stays and grows
  EXPECT_EQ(forest.findSet(1), 3U);
  EXPECT_EQ(forest.rank[3], 1U);
  forest.unite(5, 1);  // lower joins higher, whichever side it is on
  EXPECT_EQ(forest.findSet(5), 3U);
  forest.unite(1, 4);
  EXPECT_EQ(forest.findSet(4), 3U);
  EXPECT_EQ(forest.rank[3], 1U);
  forest.unite(4, 5);  // of one set already
  EXPECT_EQ(forest.rank[3], 1U);
}

TEST(DisjointSet, GrowsNoHigherThanTheLogarithm) {
  std::mt19937 random(7);
  constexpr uint32_t kSize = 1 << 12;
  Forest forest;
  for (uint32_t i = 0; i < kSize; i++)
    forest.makeSet(i);
  for (uint32_t width = 1; width < kSize; width *= 2) {  // always equals: the worst case
    for (uint32_t i = 0; i < kSize; i += 2 * width) {
      forest.unite(i + below(random, width), i + width + below(random, width));
    }
  }
  for (const auto& [element, height] : forest.rank)
    EXPECT_LE(height, 12U) << element;
}

TEST(ConnectedComponents, AreTheVerticesThatEdgesReach) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; trial++) {
    const Edges edges = randomEdges(random, 1 + below(random, 40), 1 + below(random, 40));
    std::map<uint32_t, std::set<uint32_t>> reach;  // by walking along edges until nothing is new
    for (const auto& edge : edges) {
      reach[edge[0]].insert({edge[0], edge[1]});
      reach[edge[1]].insert({edge[0], edge[1]});
    }
    for (bool grew = true; grew;) {
      grew = false;
      for (auto& [vertex, known] : reach) {
        std::set<uint32_t> more = known;
        for (const uint32_t other : known)
          more.insert(reach[other].begin(), reach[other].end());
        grew |= more.size() > known.size();
        known = std::move(more);
      }
    }

    Components graph(edges);
    EXPECT_EQ(graph.edges, edges);
    EXPECT_EQ(graph.num_vertices, reach.size());
    for (const auto& [vertex, expected] : reach) {
      const auto [components, root] = graph.getConnected(vertex);
      const std::vector<uint32_t>& members = components.at(root);
      EXPECT_EQ(std::set<uint32_t>(members.begin(), members.end()), expected);
      EXPECT_EQ(members.size(), expected.size());
      size_t all = 0;
      for (const auto& [otherRoot, others] : components) {
        all += others.size();
        EXPECT_EQ(graph.ds.findSet(others.front()), otherRoot);
      }
      EXPECT_EQ(all, graph.num_vertices);
    }
  }
}

TEST(ConnectedComponents, ListVerticesAsTheEdgesFirstNameThem) {
  Components graph({{9, 4}, {7, 7}, {4, 2}, {2, 9}, {0, 7}});
  EXPECT_EQ(graph.universe, (std::vector<uint32_t>{9, 4, 7, 2, 0}));
  const auto [components, root] = graph.getConnected(2);
  EXPECT_EQ(root, 9U);  // of {9,4}, the side of the source
  EXPECT_EQ(components.at(root), (std::vector<uint32_t>{9, 4, 2}));
  EXPECT_EQ(components.at(0), (std::vector<uint32_t>{7, 0}));
  EXPECT_FALSE(graph.contains(1));
}

encPairSet pairsOf(const Edges& edges) {
  encPairSet pairs;
  for (const auto& edge : edges)
    pairs.push_back({edge[0], edge[1]});
  return pairs;
}

TEST(SrcTargetPairs, GiveEveryRankTheSameGroupsWhateverTheirOrder) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 60; trial++) {
    Edges edges;
    for (int i = 0; i < 12; i++)
      edges.push_back({below(random, 16), below(random, 16)});
    std::map<std::vector<uint32_t>, std::set<uint32_t>> membersOf;
    std::set<uint32_t> named;
    for (const auto& edge : edges)
      named.insert(edge.begin(), edge.end());
    for (const uint32_t me : named) {
      std::shuffle(edges.begin(), edges.end(), random);
      const std::vector<encPairSet> sets{pairsOf(edges)};
      const enc_glb_comm global{me, 16};
      encGroups groups;
      const Status status = encParseSrcTargetPairs(&global, sets, groups);
      ASSERT_TRUE(status.ok()) << status.error().message;
      const enc_src_target_pairs_info& info = groups.src_target_pairs.at(0);
      EXPECT_TRUE(std::is_sorted(info.pairs.begin(), info.pairs.end()));
      EXPECT_EQ(info.participants.at(info.rank), me);
      EXPECT_EQ(info.rank_n, static_cast<int>(info.participants.size()));
      EXPECT_EQ(groups.replica_groups.at(info.replica_group_id).participants, info.participants);
      EXPECT_EQ(groups.replica_groups.at(info.replica_group_id).src_target_pairs_id, 0);
      membersOf[info.participants].insert(me);
    }
    // Each group is found by exactly its members, in one order.
    size_t all = 0;
    for (const auto& [participants, finders] : membersOf) {
      EXPECT_EQ(std::set<uint32_t>(participants.begin(), participants.end()), finders);
      all += finders.size();
    }
    EXPECT_EQ(all, named.size());
  }
}

TEST(SrcTargetPairs, AreLookedUpByTheGlobalId) {
  const std::vector<encPairSet> sets{{{0, 1}, {1, 0}, {6, 5}, {5, 6}}, {{5, 5}}};
  const enc_glb_comm global{5, 8};
  encGroups groups;
  groups.replica_groups.resize(2);  // declared ones come first
  ASSERT_TRUE(encParseSrcTargetPairs(&global, sets, groups).ok());
  EXPECT_EQ(groups.src_target_pairs[0].participants, (std::vector<uint32_t>{5, 6}));
  EXPECT_EQ(groups.src_target_pairs[0].replica_group_id, 2);
  EXPECT_EQ(groups.src_target_pairs[1].participants, (std::vector<uint32_t>{5}));
  EXPECT_EQ(groups.src_target_pairs[1].replica_group_id, 3);
  EXPECT_EQ(groups.src_target_pairs[1].src_target_pairs_id, 1);
  EXPECT_EQ(groups.replica_groups[3].group_id, 3);
}

std::string errorOf(const Status& status) {
  return status.ok() ? "" : status.error().message;
}

TEST(SrcTargetPairs, NeedAGlobalCommunicator) {
  encGroups groups;
  EXPECT_EQ(errorOf(encParseSrcTargetPairs(nullptr, {}, groups)),
            "Global communicator was not created. Unable to parse targets. (hint: was "
            "`nrt_load_collectives` called?)");
}

TEST(SrcTargetPairs, NameTheSetAndTheRankThatIsWrong) {
  const auto parse = [](uint32_t me, const std::vector<encPairSet>& sets) {
    const enc_glb_comm global{me, 8};
    encGroups groups;
    return errorOf(encParseSrcTargetPairs(&global, sets, groups));
  };
  const std::string missing = parse(3, {{{3, 3}}, {{0, 1}}});
  EXPECT_NE(missing.find("Failed to parse replica group generated from source_target_pairs 1"),
            std::string::npos)
      << missing;
  EXPECT_NE(missing.find("does not have myself 3"), std::string::npos) << missing;
  EXPECT_NE(parse(0, {{{0, 1}, {5, 8}}}).find("pairs 0: pair [5,8] names rank 8"),
            std::string::npos);
  EXPECT_EQ(parse(0, {{}}), "source_target_pairs 0 has no pair");
  EXPECT_NE(parse(0, std::vector<encPairSet>(17, {{0, 1}})).find("at most 16"), std::string::npos);
}

TEST(PermuteRings, AreTheCyclesOfThePermutation) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 100; trial++) {
    std::vector<uint32_t> targets(1 + random() % 12);
    std::iota(targets.begin(), targets.end(), 0U);
    std::shuffle(targets.begin(), targets.end(), random);
    encPairSet pairs;
    for (uint32_t i = 0; i < targets.size(); i++)
      pairs.push_back({i, targets[i]});
    std::shuffle(pairs.begin(), pairs.end(), random);
    const auto rings = encPermuteRings(pairs, 0);
    ASSERT_TRUE(rings.ok());
    std::set<uint32_t> seen;
    for (const std::vector<uint32_t>& ring : rings.value()) {
      EXPECT_EQ(ring.front(), *std::min_element(ring.begin(), ring.end()));
      for (size_t i = 0; i < ring.size(); i++) {
        EXPECT_TRUE(seen.insert(ring[i]).second);
        EXPECT_EQ(targets[ring[i]], ring[(i + 1) % ring.size()]);
      }
    }
    EXPECT_EQ(seen.size(), targets.size());
  }
}

TEST(PermuteRings, NameTheRankThatBreaksThem) {
  const auto error = [](const encPairSet& pairs) {
    const auto rings = encPermuteRings(pairs, 4);
    return rings.ok() ? "" : rings.error().message;
  };
  EXPECT_NE(error({{0, 1}, {1, 2}}).find("pairs 4: rank 2 is a target and never a source"),
            std::string::npos);
  EXPECT_NE(error({{0, 1}, {0, 2}}).find("rank 0 is a source twice"), std::string::npos);
  EXPECT_NE(error({{0, 1}, {2, 1}}).find("rank 1 is a target twice"), std::string::npos);
}

}  // namespace
}  // namespace nccom
