#include "graph/kangaring.h"

#include <map>

#include "neuron_test_util.h"

namespace nccom {
namespace {

const std::vector<const NeuronPlatform*> kWithDies = {&kTrn2x48xlarge,      &kTrn2ux48xlarge,
                                                      &kTrn3px48xlarge,     &kTrn3x48xlarge,
                                                      &kTrn3Pairsx48xlarge, &kTrn3ex24xlarge};

struct Made {
  NeuronHost host;
  NeuronGraph graph;
};

Result<Made> make(const NeuronPlatform& platform, int lnc, const std::vector<int>& devices) {
  NeuronHostSpec spec;
  spec.platform = &platform;
  spec.lnc = lnc;
  spec.cores = coresOf(platform, lnc, devices);
  Made made;
  made.host = TRY(neuronHost(spec));
  made.graph = TRY(neuronTopoGetGraph(made.host.fabric, made.host.system));
  return made;
}

struct Case {
  std::string name;
  int nDevices;
  Made made;
};

/// Made once for all tests.
const std::vector<Case>& everyKangaring() {
  static const std::vector<Case> kCases = [] {
    std::vector<Case> cases;
    for (const NeuronPlatform* platform : kWithDies) {
      for (const int lnc : {1, 2}) {
        for (const int n : {2, 4, 8, 16}) {
          if (n > platform->deviceCount()) continue;
          auto made = make(*platform, lnc, firstDevices(n));
          EXPECT_TRUE(made.ok());
          if (!made.ok()) continue;
          cases.push_back({std::string(platform->name) + " lnc " + std::to_string(lnc) +
                               " devices " + std::to_string(n),
                           n, std::move(made).value()});
        }
      }
    }
    return cases;
  }();
  return kCases;
}

template <class Check>
void forEveryKangaring(Check check) {
  for (const Case& some : everyKangaring()) {
    SCOPED_TRACE(some.name);
    check(some.made.host.fabric, some.made.graph.kangaring, some.nDevices);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Kangaring, PathsPassAllRanksOnceAPrimaryADie) {
  forEveryKangaring([](const NeuronFabric& fabric, const NeuronKangaring& kangaring, int n) {
    ASSERT_GE(kangaring.paths.size(), 2U);
    EXPECT_LE(kangaring.paths.size(), static_cast<size_t>(kMaxKangaPaths));
    EXPECT_EQ(kangaring.virtualCoreSize, fabric.lnc);
    const int nRanks = n * fabric.coresPerDevice;
    const int group = fabric.lnc == 2 ? 2 : 4;
    for (const KangaringPath& path : kangaring.paths) {
      const std::vector<int> ranks = path.ranks();
      const std::set<int> seen(ranks.begin(), ranks.end());
      EXPECT_EQ(static_cast<int>(ranks.size()), nRanks);
      EXPECT_EQ(static_cast<int>(seen.size()), nRanks);
      std::set<std::pair<int, int>> dies;
      for (int i = 0; i < nRanks; i++) {
        EXPECT_EQ(path.roles[i].isPrimary, i % group == 0);
        const NeuronCore& core = fabric.cores[ranks[i]];
        const NeuronCore& primary = fabric.cores[ranks[i - i % group]];
        EXPECT_EQ(core.device, primary.device);
        EXPECT_EQ(core.seng / 2, primary.seng / 2);
        if (path.roles[i].isPrimary) dies.emplace(core.device, core.seng / 2);
      }
      EXPECT_EQ(static_cast<int>(dies.size()), 2 * n);
    }
  });
}

TEST(Kangaring, RolesAreMutual) {
  forEveryKangaring([](const NeuronFabric& fabric, const NeuronKangaring& kangaring, int) {
    for (const KangaringPath& path : kangaring.paths) {
      std::map<int, KangaringRole> roles;
      for (const KangaringRole& role : path.roles)
        roles[role.rank] = role;
      for (const KangaringRole& role : path.roles) {
        const NeuronCore& core = fabric.cores[role.rank];
        const NeuronCore& across = fabric.cores[role.peerRmtv];
        EXPECT_EQ(across.device, core.device);
        EXPECT_EQ(across.seng, core.seng ^ 1);
        EXPECT_EQ(across.index, core.index);
        EXPECT_EQ(roles[role.peerRmtv].peerRmtv, role.rank);
        if (fabric.lnc == 2) {
          EXPECT_EQ(role.peerRmtv2, -1);
          EXPECT_EQ(role.peerLocal, -1);
        } else {
          EXPECT_EQ(roles[role.peerRmtv2].peerRmtv2, role.rank);
          EXPECT_EQ(roles[role.peerLocal].peerLocal, role.rank);
          EXPECT_EQ(fabric.cores[role.peerLocal].seng, core.seng);
          EXPECT_EQ(roles[role.peerRmtv].peerLocal, role.peerRmtv2);
        }
        if (!role.isPrimary) {
          EXPECT_EQ(role.next, -1);
          continue;
        }
        const KangaringRole& next = roles[role.next];
        EXPECT_TRUE(next.isPrimary);
        EXPECT_EQ(next.prev, role.rank);
        EXPECT_EQ(next.peerRmtv, role.nextPeerRmtv);
      }
    }
  });
}

TEST(Kangaring, PrimariesMeetOverD2dOrALink) {
  forEveryKangaring([](const NeuronFabric& fabric, const NeuronKangaring& kangaring, int n) {
    for (const KangaringPath& path : kangaring.paths) {
      int links = 0;
      for (const KangaringRole& role : path.roles) {
        if (!role.isPrimary) continue;
        const NeuronCore& core = fabric.cores[role.rank];
        const NeuronCore& next = fabric.cores[role.next];
        EXPECT_EQ(role.isNextPcie, core.device != next.device);
        if (!role.isNextPcie) {
          EXPECT_EQ(next.seng, core.seng ^ 2);
          EXPECT_EQ(role.port, -1);
          continue;
        }
        links++;
        const FabricLink* link = fabric.link(core.device, next.device);
        ASSERT_NE(link, nullptr);
        EXPECT_EQ(role.port, link->fromPort);
      }
      EXPECT_EQ(links, n);
    }
  });
}

TEST(Kangaring, EveryRankIsPrimaryInAsManyPathsAsOthers) {
  forEveryKangaring([](const NeuronFabric& fabric, const NeuronKangaring& kangaring, int n) {
    std::map<int, size_t> uses;
    for (const KangaringPath& path : kangaring.paths) {
      for (const KangaringRole& role : path.roles)
        uses[role.rank] += role.isPrimary ? 1 : 0;
    }
    const size_t group = fabric.lnc == 2 ? 2 : 4;
    if (kangaring.paths.size() < group) return;  // a primary of four, in two paths
    EXPECT_EQ(static_cast<int>(uses.size()), n * fabric.coresPerDevice);
    for (const auto& [rank, n1] : uses)
      EXPECT_EQ(n1, kangaring.paths.size() / group) << rank;
  });
}

TEST(Kangaring, TheTorusHasFourThatShareNoLink) {
  for (const int lnc : {1, 2}) {
    ASSERT_OK(made, make(kTrn2x48xlarge, lnc, firstDevices(16)));
    ASSERT_EQ(made.graph.kangaring.paths.size(), 4U);
    std::set<std::pair<int, int>> links;
    int atPort = 0;
    for (const KangaringPath& path : made.graph.kangaring.paths) {
      for (const KangaringRole& role : path.roles) {
        if (!role.isPrimary || !role.isNextPcie) continue;
        const NeuronCore& core = made.host.fabric.cores[role.rank];
        const NeuronCore& next = made.host.fabric.cores[role.next];
        EXPECT_TRUE(links.emplace(core.device, next.device).second);
        // A port belongs to the engine group of its number: the primary's or its neighbour's.
        EXPECT_EQ(role.port / 2, core.seng / 2);
        atPort += role.port == core.seng ? 1 : 0;
      }
    }
    EXPECT_EQ(links.size(), 64U);
    EXPECT_GE(atPort, 48);  // the fewest that pairs of disjoint tours of this torus leave to others
  }
}

TEST(Kangaring, NeedsWholeDevicesOnATour) {
  NeuronHostSpec spec;
  spec.platform = &kTrn2x48xlarge;
  spec.lnc = 2;
  for (const std::vector<int>& cores : {std::vector<int>{0, 1, 2, 3},
                                        {0, 1, 2, 3, 4, 5, 6},
                                        coresOf(kTrn2x48xlarge, 2, {0, 5}),
                                        coresOf(kTrn2x48xlarge, 2, {0, 1, 2})}) {
    spec.cores = cores;
    ASSERT_OK(host, neuronHost(spec));
    ASSERT_OK(graph, neuronTopoGetGraph(host.fabric, host.system));
    EXPECT_TRUE(graph.kangaring.paths.empty());
  }
  ASSERT_OK(fabric, neuronFabric(kTrn2x48xlarge, 2));
  std::vector<int> rankOf(64);
  std::iota(rankOf.begin(), rankOf.end(), 0);
  const auto message = [&](const NeuronTour& tour) {
    return kangaringPaths(fabric, {tour}, rankOf).error().message;
  };
  NeuronTour tour;
  tour.devices = {0};
  expectError(message(tour), "expected a closed tour of at least two");
  tour.devices = {0, 5};
  expectError(message(tour), "which no link joins");
  tour.devices = {0, 1};
  rankOf[5] = -1;
  expectError(message(tour), "core 1 of device 1 has no rank");
  ASSERT_OK(trn1, neuronFabric(kTrn1x32xlarge, 1));
  expectError(kangaringPaths(trn1, {tour}, std::vector<int>(32, 0)).error().message,
              "no pairs of engine groups");
}

TEST(Kangaring, RowsOfAllRanksMakeThePathsAgain) {
  forEveryKangaring([](const NeuronFabric& fabric, const NeuronKangaring& kangaring, int n) {
    std::vector<JbogKangaringRows> rows;
    for (int rank = 0; rank < n * fabric.coresPerDevice; rank++)
      rows.push_back(kangaringRows(kangaring, rank));
    std::vector<std::vector<int>> order, wanted;
    for (const KangaringPath& path : kangaring.paths) {
      order.push_back(pieceHeads(path));
      wanted.push_back(path.ranks());
    }
    ASSERT_OK(joined, joinKangaringRows(rows, order));
    EXPECT_EQ(joined, wanted);
    rows[1][0] = rows[fabric.coresPerDevice][0];
    EXPECT_FALSE(joinKangaringRows(rows, order).ok());
    order[0].pop_back();
    EXPECT_FALSE(joinKangaringRows(rows, order).ok());
  });
}

TEST(Kangaring, BoardsHoldTwoDevices) {
  ASSERT_OK(fabric, neuronFabric(kTrn3Pairsx48xlarge, 2));
  for (int device = 0; device < 16; device++)
    EXPECT_EQ(neuronTrnSwitchV1JbogId(fabric, device), device / 2);
  ASSERT_OK(torus, neuronFabric(kTrn2x48xlarge, 2));
  EXPECT_EQ(neuronTrnSwitchV1JbogId(torus, 3), -1);
}

}  // namespace
}  // namespace nccom
