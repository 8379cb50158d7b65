#include "graph/neuron_graph.h"

#include <map>

#include "graph/connect.h"
#include "graph/mla_cycle.h"
#include "neuron_test_util.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;

Result<NeuronGraph> wholeHost(const char* platform, int lnc, int nHosts = 1) {
  NeuronHostSpec spec;
  spec.platform = TRY(findPlatform(platform));
  spec.lnc = lnc;
  spec.nHosts = nHosts;
  spec.cores = coresOf(*spec.platform, lnc, firstDevices(spec.platform->deviceCount()));
  const NeuronHost host = TRY(neuronHost(spec));
  return neuronTopoGetGraph(host.fabric, host.system);
}

/// How often channels take each direct link of the fabric.
std::map<int, int> linkUses(const NeuronFabric& fabric, const NeuronGraph& graph) {
  std::map<int, int> uses;
  for (const std::vector<NeuronHop>& hops : graph.hops) {
    for (const NeuronHop& hop : hops) {
      for (const int link : hop.links) {
        if (fabric.links[link].group == -1) uses[link]++;
      }
    }
  }
  return uses;
}

struct Found {
  const NeuronHostSpec& spec;
  const NeuronHost& host;
  const NeuronGraph& graph;
};

void expectAllRanksOnEveryChannel(const Found& found) {
  const ncclTopoGraph& ring = found.graph.ring;
  expectRings(ring, static_cast<int>(found.spec.cores.size()));
  EXPECT_LE(ring.nChannels, 16);
  EXPECT_EQ(found.graph.hops.size(), ring.intra.size());
  EXPECT_GT(ring.bwIntra, 0);
  const bool hasNets = found.spec.nHosts > 1 && found.host.system.count(Type::Net) > 0;
  EXPECT_EQ(ring.inter.size(), hasNets ? ring.intra.size() : 0);
}

/// Hops between devices follow links of the fabric from port to port.
void expectRealPorts(const Found& found) {
  const NeuronFabric& fabric = found.host.fabric;
  for (const std::vector<NeuronHop>& hops : found.graph.hops) {
    for (const NeuronHop& hop : hops) {
      const int from = fabric.cores[hop.from].device;
      const int to = fabric.cores[hop.to].device;
      EXPECT_TRUE(hop.reachable);
      EXPECT_EQ(hop.links.empty(), from == to);
      int at = from;
      for (const int index : hop.links) {
        const FabricLink& link = fabric.links[index];
        ASSERT_EQ(link.from, at);
        const int peer = link.group == -1 ? fabric.peer(link.from, link.fromPort) : link.to;
        EXPECT_EQ(peer, link.to);
        at = link.to;
      }
      EXPECT_EQ(at, to);
    }
  }
}

/// Where all cores of the devices are in, and links join these, no hop takes more than one.
void expectShortHopsOfWholeDevices(const Found& found) {
  const NeuronFabric& fabric = found.host.fabric;
  std::set<int> devices;
  for (const int core : found.spec.cores)
    devices.insert(core / fabric.coresPerDevice);
  if (found.spec.cores.size() != devices.size() * fabric.coresPerDevice) return;
  std::vector<bool> allowed(fabric.devices.size(), false);
  for (const int device : devices)
    allowed[device] = true;
  for (const int device : devices) {
    if (shortestWay(fabric, *devices.begin(), device, allowed).empty()) return;
  }
  for (const std::vector<NeuronHop>& hops : found.graph.hops) {
    for (const NeuronHop& hop : hops)
      EXPECT_LE(hop.links.size(), 1U);
  }
}

void expectEqualAfterItsDocument(const Found& found) {
  if (found.host.system.inter && found.host.system.count(Type::Net) == 0) return;
  ASSERT_OK(xml, ncclTopoGetXmlFromGraphs({found.graph.ring}, found.host.system));
  ASSERT_OK(reread, ncclXml::parse(xml.toText(), "graphs"));
  ASSERT_OK(again, ncclTopoGetGraphFromXml(reread, found.host.system, found.graph.ring));
  EXPECT_EQ(again, found.graph.ring);
}

TEST(NeuronGraph, EveryHostAndSubsetGetsChannelsOverItsLinks) {
  for (const NeuronPlatform* platform : distinctPlatforms()) {
    for (const int lnc : platform->lncs) {
      for (const std::vector<int>& cores : coreSets(*platform, lnc)) {
        NeuronHostSpec spec{.platform = platform, .lnc = lnc, .cores = cores};
        ASSERT_OK(host, neuronHost(spec));
        for (const int nHosts : {1, 2}) {
          spec.nHosts = nHosts;
          SCOPED_TRACE(nameOf(spec));
          host.system.inter = nHosts > 1;  // all that other hosts change
          ASSERT_OK(graph, neuronTopoGetGraph(host.fabric, host.system));
          const Found found{spec, host, graph};
          expectAllRanksOnEveryChannel(found);
          expectRealPorts(found);
          expectShortHopsOfWholeDevices(found);
          expectEqualAfterItsDocument(found);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

void expectHostsJoin(const NeuronHostSpec& spec) {
  const int perHost = spec.platform->logicalCores(spec.lnc);
  ASSERT_OK(host, neuronHost(spec));
  ASSERT_OK(graph, neuronTopoGetGraph(host.fabric, host.system));
  std::vector<ncclTopoRanks> all(static_cast<size_t>(spec.nHosts * perHost));
  std::vector<int> nodeOf;
  for (int node = 0; node < spec.nHosts; node++) {
    ncclTopoGraph ring = graph.ring;
    for (std::vector<int>& order : ring.intra) {
      for (int& rank : order)
        rank += node * perHost;
    }
    ASSERT_TRUE(ncclTopoPresetHost(ring, ring, all).ok());
    nodeOf.insert(nodeOf.end(), perHost, node);
  }
  ASSERT_OK(rings, ncclTopoConnect(nodeOf, all, {.max = 32}));
  for (const std::vector<int>& ring : rings.rings) {
    int crossings = 0;
    for (size_t i = 0; i < ring.size(); i++)
      crossings += nodeOf[ring[i]] != nodeOf[ring[(i + 1) % ring.size()]] ? 1 : 0;
    EXPECT_EQ(crossings, spec.nHosts > 1 ? spec.nHosts : 0);
  }
}

/// The whole of each platform, on one, two and four hosts, joined.
TEST(NeuronGraph, HostsOfEveryPlatformJoinIntoRings) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    for (const int lnc : platform->lncs) {
      for (const int nHosts : {1, 2, 4}) {
        NeuronHostSpec spec{.platform = platform, .lnc = lnc, .nHosts = nHosts};
        spec.cores = coresOf(*platform, lnc, firstDevices(platform->deviceCount()));
        SCOPED_TRACE(nameOf(spec));
        expectHostsJoin(spec);
      }
    }
  }
}

TEST(NeuronGraph, TrainiumHasTwoEdgeDisjointToursBothWays) {
  for (const char* name :
       {"trn1.32xlarge", "trn1n.32xlarge", "trn2.48xlarge", "trn2u.48xlarge", "trn3p.48xlarge"}) {
    ASSERT_OK(platform, findPlatform(name));
    for (const int lnc : platform->lncs) {
      SCOPED_TRACE(std::string(name) + " lnc " + std::to_string(lnc));
      ASSERT_OK(fabric, neuronFabric(*platform, lnc));
      ASSERT_OK(graph, wholeHost(name, lnc));
      EXPECT_EQ(graph.tours.size(), 2U);
      EXPECT_EQ(graph.ring.nChannels, 4);
      const std::map<int, int> uses = linkUses(fabric, graph);
      EXPECT_EQ(uses.size(), fabric.links.size());  // every link, each way, and ...
      for (const auto& [link, n] : uses)
        EXPECT_EQ(n, 1) << link;  // ... once
    }
  }
}

TEST(NeuronGraph, CoresOfTrn2DriveThePortsTheyUse) {
  for (const int lnc : {1, 2}) {
    ASSERT_OK(fabric, neuronFabric(kTrn2x48xlarge, lnc));
    ASSERT_OK(graph, wholeHost("trn2.48xlarge", lnc));
    for (const NeuronTour& tour : graph.tours)
      EXPECT_EQ(tour.turnCost, 0);
    for (const std::vector<NeuronHop>& hops : graph.hops) {
      for (const NeuronHop& hop : hops) {
        EXPECT_NE(hop.locality, EdgeLocality::Local);
        for (const int index : hop.links) {
          EXPECT_TRUE(fabric.links[index].fromSengs >> fabric.cores[hop.from].seng & 1);
          EXPECT_TRUE(fabric.links[index].toSengs >> fabric.cores[hop.to].seng & 1);
        }
      }
    }
  }
}

TEST(NeuronGraph, ChannelsCarryWhatALinkCarries) {
  ASSERT_OK(trn1, wholeHost("trn1.32xlarge", 1));
  EXPECT_FLOAT_EQ(trn1.ring.bwIntra, kTrn1x32xlarge.deviceLinkGBps);
  ASSERT_OK(trn2, wholeHost("trn2.48xlarge", 2));
  EXPECT_FLOAT_EQ(trn2.ring.bwIntra, kTrn2x48xlarge.deviceLinkGBps);
  ASSERT_OK(inf2, wholeHost("inf2.48xlarge", 1));
  EXPECT_FLOAT_EQ(inf2.ring.bwIntra, kInf2x48xlarge.deviceLinkGBps);
}

TEST(NeuronGraph, SubsetsHaveAsManyToursAsTheirLinksAllow) {
  const auto tours = [](const NeuronPlatform& platform, const std::vector<int>& devices) {
    const int lnc = platform.defaultLnc;
    NeuronHostSpec spec{.platform = &platform, .lnc = lnc};
    spec.cores = coresOf(platform, lnc, devices);
    auto host = neuronHost(spec);
    auto graph = neuronTopoGetGraph(host.value().fabric, host.value().system);
    return std::pair(graph.value().tours.size(), graph.value().tours[0].devices.size());
  };
  using Counts = std::pair<size_t, size_t>;  // tours, visits of the first
  for (const NeuronPlatform* platform : {&kTrn1x32xlarge, &kTrn2x48xlarge}) {
    EXPECT_EQ(tours(*platform, firstDevices(16)), Counts(2, 16));
    EXPECT_EQ(tours(*platform, firstDevices(12)), Counts(1, 12));
    EXPECT_EQ(tours(*platform, firstDevices(8)), Counts(1, 8));
    EXPECT_EQ(tours(*platform, firstDevices(4)), Counts(1, 4));
    EXPECT_EQ(tours(*platform, {0, 1, 4, 5}), Counts(1, 4));
    EXPECT_EQ(tours(*platform, firstDevices(2)), Counts(1, 2));
    // An odd number of devices of a torus has no tour: one is passed twice.
    EXPECT_EQ(tours(*platform, firstDevices(3)), Counts(1, 4));
    EXPECT_EQ(tours(*platform, firstDevices(7)), Counts(1, 8));
    EXPECT_EQ(tours(*platform, firstDevices(15)), Counts(1, 16));
  }
  EXPECT_EQ(tours(kInf2x48xlarge, firstDevices(12)), Counts(1, 12));
  // Out over one core of each device, back over the other.
  EXPECT_EQ(tours(kInf2x48xlarge, firstDevices(5)), Counts(1, 8));
  EXPECT_EQ(tours(kInf2x24xlarge, firstDevices(6)), Counts(1, 10));
}

TEST(NeuronGraph, ScatteredCoresUseFewLongLegs) {
  // One core of each of these has no neighbour in use: every leg passes one other device.
  NeuronHostSpec spec{.platform = &kTrn2x48xlarge, .lnc = 2};
  spec.cores = {0, 5 * 4, 10 * 4, 15 * 4};
  ASSERT_OK(apart, neuronHost(spec));
  ASSERT_OK(graph, neuronTopoGetGraph(apart.fabric, apart.system));
  EXPECT_EQ(graph.tours[0].extraHops, 4);
  EXPECT_EQ(graph.ring.typeIntra, ncclTopoPathType::Nvb);
  // A bent line: closed it has one long leg on a single host, open none.
  spec.cores = {0, 1 * 4, 2 * 4};
  ASSERT_OK(line, neuronHost(spec));
  ASSERT_OK(closed, neuronTopoGetGraph(line.fabric, line.system));
  EXPECT_EQ(closed.tours[0].extraHops, 1);
  spec.nHosts = 2;
  ASSERT_OK(lines, neuronHost(spec));
  ASSERT_OK(open, neuronTopoGetGraph(lines.fabric, lines.system));
  EXPECT_EQ(open.tours[0].extraHops, 0);
  EXPECT_FALSE(open.tours[0].closed);
}

TEST(NeuronGraph, EveryEfaIsUsedAlikeBothWays) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    for (const int lnc : platform->lncs) {
      NeuronHostSpec spec{.platform = platform, .lnc = lnc, .nHosts = 2};
      spec.cores = coresOf(*platform, lnc, firstDevices(platform->deviceCount()));
      SCOPED_TRACE(nameOf(spec));
      ASSERT_OK(host, neuronHost(spec));
      ASSERT_OK(graph, neuronTopoGetGraph(host.fabric, host.system));
      std::map<int64_t, std::pair<int, int>> uses;
      for (const ncclTopoNode& net : host.system.nodes(Type::Net))
        uses[net.id];
      for (const auto& [in, out] : graph.ring.inter) {
        uses[in].first++;
        uses[out].second++;
      }
      EXPECT_EQ(static_cast<int>(uses.size()), host.system.count(Type::Net));
      for (const auto& [id, use] : uses) {
        EXPECT_EQ(use.first, uses.begin()->second.first) << id;
        EXPECT_EQ(use.second, uses.begin()->second.second) << id;
        EXPECT_GT(use.first, 0) << id;
      }
    }
  }
}

TEST(NeuronGraph, HeadsAndTailsSitNextToTheirNics) {
  ASSERT_OK(platform, findPlatform("trn2.48xlarge"));
  NeuronHostSpec spec{.platform = platform, .lnc = 2, .nHosts = 4};
  spec.cores = coresOf(*platform, 2, firstDevices(16));
  ASSERT_OK(host, neuronHost(spec));
  ASSERT_OK(graph, neuronTopoGetGraph(host.fabric, host.system));
  EXPECT_EQ(graph.ring.nChannels, 16);
  EXPECT_LE(graph.ring.typeInter, ncclTopoPathType::Pxb);
  for (int c = 0; c < graph.ring.nChannels; c++) {
    const auto efaOf = [&](int rank) { return host.fabric.devices[rank / 4].efa; };
    const auto devOf = [&](int64_t id) {
      return host.system.nodes(Type::Net)[ncclTopoIdToIndex(host.system, Type::Net, id)].net.dev;
    };
    EXPECT_EQ(devOf(graph.ring.inter[c][0]), efaOf(graph.ring.intra[c].front()));
    EXPECT_EQ(devOf(graph.ring.inter[c][1]), efaOf(graph.ring.intra[c].back()));
  }
}

TEST(NeuronGraph, PairsOfChannelsRunOppositeWays) {
  ASSERT_OK(graph, wholeHost("trn2.48xlarge", 2, 2));
  ASSERT_EQ(graph.ring.nChannels % 2, 0);
  EXPECT_EQ(graph.ring.crossNic, 2);
  for (int c = 0; c < graph.ring.nChannels; c += 2) {
    std::vector<int> back = graph.ring.intra[c + 1];
    std::reverse(back.begin(), back.end());
    EXPECT_EQ(graph.ring.intra[c], back);
    EXPECT_EQ(graph.ring.inter[c][0], graph.ring.inter[c + 1][1]);
    EXPECT_EQ(graph.ring.inter[c][1], graph.ring.inter[c + 1][0]);
  }
}

TEST(NeuronGraph, DoesNotDependOnTheOrderOfRanksOrCpus) {
  std::mt19937 random(7);
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    for (const int nHosts : {1, 2}) {
      const int lnc = platform->defaultLnc;
      NeuronHostSpec spec{.platform = platform, .lnc = lnc, .nHosts = nHosts};
      spec.cores = coresOf(*platform, lnc, firstDevices(platform->deviceCount()));
      SCOPED_TRACE(nameOf(spec));
      ASSERT_OK(host, neuronHost(spec));
      ASSERT_OK(graph, neuronTopoGetGraph(host.fabric, host.system));
      spec.cpusBackwards = true;
      ASSERT_OK(other, neuronHost(spec));
      ASSERT_OK(same, neuronTopoGetGraph(other.fabric, other.system));
      EXPECT_EQ(same, graph);
      // Other ranks on the same cores: the same order of cores.
      std::shuffle(spec.cores.begin(), spec.cores.end(), random);
      ASSERT_OK(shuffled, neuronHost(spec));
      ASSERT_OK(renamed, neuronTopoGetGraph(shuffled.fabric, shuffled.system));
      EXPECT_EQ(renamed.hops, graph.hops);
      EXPECT_EQ(renamed.mlaCycles, graph.mlaCycles);
      for (size_t c = 0; c < graph.ring.intra.size(); c++) {
        for (size_t i = 0; i < spec.cores.size(); i++)
          EXPECT_EQ(spec.cores[renamed.ring.intra[c][i]], graph.ring.intra[c][i]);
      }
    }
  }
}

TEST(NeuronGraph, KeepsToTheBoundsOfChannels) {
  ASSERT_OK(platform, findPlatform("trn2.48xlarge"));
  for (const int nHosts : {1, 2}) {
    NeuronHostSpec spec{.platform = platform, .lnc = 2, .nHosts = nHosts};
    spec.cores = coresOf(*platform, 2, firstDevices(16));
    ASSERT_OK(host, neuronHost(spec));
    for (const auto& [min, max] : {std::pair(1, 1), {3, 3}, {20, 32}, {1, 32}}) {
      NeuronGraphOptions options{.minChannels = min, .maxChannels = max};
      ASSERT_OK(graph, neuronTopoGetGraph(host.fabric, host.system, options));
      EXPECT_GE(graph.ring.nChannels, min);
      EXPECT_LE(graph.ring.nChannels, max);
      expectRings(graph.ring, 64);
    }
  }
}

TEST(NeuronGraph, WithoutCrossingNicsBothEndsUseOne) {
  ASSERT_OK(platform, findPlatform("trn2.48xlarge"));
  NeuronHostSpec spec{.platform = platform, .lnc = 2, .nHosts = 2};
  spec.cores = coresOf(*platform, 2, firstDevices(16));
  ASSERT_OK(host, neuronHost(spec));
  NeuronGraphOptions options{.maxChannels = 32, .crossNic = 0};
  ASSERT_OK(graph, neuronTopoGetGraph(host.fabric, host.system, options));
  EXPECT_EQ(graph.ring.crossNic, 0);
  std::set<int64_t> nets;
  for (const auto& [in, out] : graph.ring.inter) {
    EXPECT_EQ(in, out);
    nets.insert(in);
  }
  EXPECT_EQ(nets.size(), 16U);
}

TEST(NeuronGraph, NamesWhatIsWrongWithItsInput) {
  ASSERT_OK(platform, findPlatform("trn2.48xlarge"));
  NeuronHostSpec spec{.platform = platform, .lnc = 2};
  spec.cores = {0, 1};
  ASSERT_OK(host, neuronHost(spec));
  const auto message = [&](const NeuronGraphOptions& options) {
    const auto result = neuronTopoGetGraph(host.fabric, host.system, options);
    return result.ok() ? std::string() : result.error().message;
  };
  expectError(message({.minChannels = 0}), "channel bounds 0..16");
  expectError(message({.maxChannels = 33}), "channel bounds 1..33");
  expectError(message({.host = 1}), "host 1 of a fabric of 1");
  expectError(message({.podNodes = {2}}), "host 0 is not among the 1 nodes");
  expectError(message({.podNodes = {0}}), "on its own has no pod");
  ncclTopoSystem system = host.system;
  system.nodes(Type::Gpu)[1].gpu.dev = 0;
  expectError(neuronTopoGetGraph(host.fabric, system).error().message, "are both on device 0");
  system.nodes(Type::Gpu)[1].gpu.dev = 64;
  expectError(neuronTopoGetGraph(host.fabric, system).error().message, "on device 64");
  system.nodes(Type::Gpu).clear();
  expectError(neuronTopoGetGraph(host.fabric, system).error().message, "without ranks");
}

TEST(NeuronGraph, TellsFamiliesApart) {
  for (const auto& [name, calculator] : {std::pair("inf2.48xlarge", "Trn1"),
                                         {"trn1.32xlarge", "Trn1"},
                                         {"trn2u.48xlarge", "TRN2"},
                                         {"trn3p.48xlarge", "TRN3"},
                                         {"trn3.48xlarge", "TRN3SwitchV1"}}) {
    ASSERT_OK(graph, wholeHost(name, 0 == std::string(name).rfind("trn2", 0) ? 2 : 1));
    EXPECT_EQ(graph.why[0], "Neuron search, calculator " + std::string(calculator));
  }
  EXPECT_TRUE(neuronTopoUseNewAlgorithm(NeuronFamily::SwitchV1, false));
  EXPECT_FALSE(neuronTopoUseNewAlgorithm(NeuronFamily::Cayman, false));
  EXPECT_TRUE(neuronTopoUseNewAlgorithm(NeuronFamily::Sunda, true));
}

TEST(NeuronGraph, ListsHopsForPeople) {
  ASSERT_OK(fabric, neuronFabric(kTrn2x48xlarge, 2));
  ASSERT_OK(graph, wholeHost("trn2.48xlarge", 2));
  const std::string text = neuronGraphText(fabric, graph);
  for (const char* word : {"channel 3\n", " RMTV\n", " D2D\n", "remote MLA, NeuronLink 0:",
                           "kangaring path[3]= ", "mla cycle[1]= ", "128 GB/s"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace nccom
