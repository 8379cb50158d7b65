#include "graph/search.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "graph_test_util.h"

namespace nccom {
namespace {

std::vector<int> someCores(int n, int total, unsigned seed) {
  std::vector<int> cores(total);
  std::iota(cores.begin(), cores.end(), 0);
  std::mt19937 random(seed);
  if (seed != 0) std::shuffle(cores.begin(), cores.end(), random);
  cores.resize(n);
  return cores;
}

TEST(Search, EverySubsetOfTrn2HasRings) {
  for (int n = 1; n <= 64; n++) {
    for (const unsigned seed : {0U, static_cast<unsigned>(n)}) {
      SCOPED_TRACE("n " + std::to_string(n) + " seed " + std::to_string(seed));
      ASSERT_OK(result, buildGraph(inputFor(someCores(n, 64, seed), 2, n)));
      expectRings(result.ring, n);
      EXPECT_GE(result.ring.bwIntra, 3);
      EXPECT_TRUE(result.ring.inter.empty());
    }
  }
}

TEST(Search, SingleCoreGroupsOfTrn2HaveRings) {
  for (const int n : {1, 2, 3, 7, 8, 16, 33, 64, 100, 127, 128}) {
    SCOPED_TRACE("n " + std::to_string(n));
    ASSERT_OK(result, buildGraph(inputFor(someCores(n, 128, 0), 1, n)));
    expectRings(result.ring, n);
    EXPECT_GE(result.ring.bwIntra, 3);
  }
}

TEST(Search, SeveralHostsGetANicAtBothEnds) {
  for (const int n : {1, 2, 5, 8, 16, 40, 64}) {
    SCOPED_TRACE("n " + std::to_string(n));
    ASSERT_OK(result, buildGraph(inputFor(someCores(n, 64, 0), 2, 2 * n)));
    expectRings(result.ring, n);
    EXPECT_TRUE(result.system.inter);
    ASSERT_EQ(static_cast<int>(result.ring.inter.size()), result.ring.nChannels);
    EXPECT_GE(result.ring.bwInter, 3);
    for (const auto& nets : result.ring.inter) {
      for (const int64_t id : nets) {
        EXPECT_NE(ncclTopoIdToIndex(result.system, ncclTopoNodeType::Net, id), -1);
      }
    }
  }
}

TEST(Search, WholeTrn2UsesTheFabricOnly) {
  ASSERT_OK(result, buildGraph(inputFor(someCores(64, 64, 0), 2, 64)));
  EXPECT_LE(result.ring.typeIntra, ncclTopoPathType::Nvb);
  EXPECT_GE(static_cast<float>(result.ring.nChannels) * result.ring.bwIntra, 100);
}

TEST(Search, ChannelsFitTheLinks) {
  for (const int n : {4, 8, 24, 64}) {
    ASSERT_OK(result, buildGraph(inputFor(someCores(n, 64, 0), 2, n)));
    const ncclTopoSystem& system = result.system;
    std::map<std::pair<ncclTopoNodeRef, int>, float> load;
    for (const std::vector<int>& channel : result.ring.intra) {
      for (size_t i = 0; i < channel.size(); i++) {
        const int a = ncclTopoRankToIndex(system, channel[i]);
        const int b = ncclTopoRankToIndex(system, channel[(i + 1) % channel.size()]);
        for (const ncclTopoHop& hop : system.path(gpuRef(a), gpuRef(b)).hops) {
          load[{hop.from, hop.link}] += result.ring.bwIntra;
        }
      }
    }
    for (const auto& [place, gbps] : load) {
      EXPECT_LE(gbps, system.at(place.first).links[place.second].bwGBps * 1.001F);
    }
  }
}

TEST(Search, EqualInputsGiveEqualGraphs) {
  const GraphInput input = inputFor(someCores(24, 64, 7), 2, 48);
  ASSERT_OK(first, buildGraph(input));
  ASSERT_OK(second, buildGraph(input));
  EXPECT_TRUE(first.ring == second.ring);
  EXPECT_TRUE(first.system == second.system);
  EXPECT_EQ(first.ring.why, second.ring.why);
  EXPECT_FALSE(first.ring.why.empty());
}

TEST(Search, FallsBackToTheSystemsOrder) {
  // Two devices with nothing wide enough between them for even the slowest channel of the ladder.
  const std::string text = R"(<system version="1"><cpu numaid="0" arch="x86_64" vendor="x">
    <pci busid="0:1:0.0" class="0x030200" link_speed="2.5 GT/s" link_width="1">
      <gpu dev="0" sm="80" rank="1" gdr="0"/></pci>
    <pci busid="0:2:0.0" class="0x030200" link_speed="2.5 GT/s" link_width="1">
      <gpu dev="1" sm="80" rank="0" gdr="0"/></pci></cpu></system>)";
  ASSERT_OK(xml, ncclXml::parse(text, "t"));
  ASSERT_OK(loaded, ncclTopoGetSystemFromXml(xml));
  ncclTopoComputePaths(loaded.system);
  ncclTopoSearchInit(loaded.system);
  ASSERT_OK(graph, ncclTopoCompute(loaded.system, {}));
  EXPECT_EQ(graph.nChannels, 1);
  EXPECT_EQ(graph.intra, (std::vector<std::vector<int>>{{1, 0}}));
  EXPECT_EQ(graph.bwIntra, 0.1F);
  EXPECT_NE(graph.why.back().find("order of the system"), std::string::npos);
}

TEST(Search, RefusesWhatItCannotDo) {
  ASSERT_OK(result, buildGraph(inputFor({0, 1}, 2, 2)));
  ncclTopoGraph nvls;
  nvls.pattern = ncclTopoPattern::Nvls;
  EXPECT_FALSE(ncclTopoCompute(result.system, nvls).ok());
  ncclTopoGraph none;
  none.maxChannels = 0;
  EXPECT_FALSE(ncclTopoCompute(result.system, none).ok());
  ncclTopoGraph many;
  many.maxChannels = kMaxChannels + 1;
  EXPECT_FALSE(ncclTopoCompute(result.system, many).ok());
}

TEST(Search, RespectsTheChannelLimit) {
  for (const int limit : {1, 2, 3, 32}) {
    GraphInput input = inputFor({0, 1, 2, 3}, 2, 4);
    input.maxChannels = limit;
    ASSERT_OK(result, buildGraph(input));
    EXPECT_LE(result.ring.nChannels, limit);
  }
}

TEST(GraphXml, RoundTrips) {
  for (const int nRanks : {8, 16}) {  // one host, two
    ASSERT_OK(result, buildGraph(inputFor({0, 1, 2, 3, 4, 5, 6, 7}, 2, nRanks)));
    ASSERT_OK(xml, ncclTopoGetXmlFromGraphs({result.ring}, result.system));
    ASSERT_OK(parsed, ncclXml::parse(xml.toText(), "g.xml"));
    ncclTopoGraph wanted;
    ASSERT_OK(read, ncclTopoGetGraphFromXml(parsed, result.system, wanted));
    read.nHops = result.ring.nHops;  // not in the file
    EXPECT_TRUE(read == result.ring) << xml.toText();
    wanted.id = 1;
    ASSERT_OK(other, ncclTopoGetGraphFromXml(parsed, result.system, wanted));
    EXPECT_EQ(other.nChannels, 0);
  }
}

std::string graphError(const std::string& body, const ncclTopoSystem& system) {
  const std::string head =
      "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" "
      "speedintra=\"20\" speedinter=\"20\" typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\">";
  auto xml = ncclXml::parse(head + "\n" + body + "</graph></graphs>", "g.xml");
  EXPECT_TRUE(xml.ok());
  const auto graph = ncclTopoGetGraphFromXml(xml.value(), system, {});
  return graph.ok() ? "" : graph.error().message;
}

TEST(GraphXml, ErrorsSayWhichDeviceAndWhere) {
  ASSERT_OK(result, buildGraph(inputFor({0, 1}, 2, 2)));
  const ncclTopoSystem& system = result.system;
  EXPECT_EQ(graphError("<channel><gpu dev='0'/><gpu dev='1'/></channel>", system), "");
  expectError(graphError("<channel><gpu dev='0'/><gpu dev='5'/></channel>", system),
              "g.xml:2:24: <gpu> dev 0x5 rank (not stated) is not among the 2 devices used here");
  expectError(graphError("<channel><gpu dev='0'/></channel>", system),
              "has 1 devices, expected all 2");
  expectError(graphError("<channel><gpu dev='0'/><gpu dev='0'/></channel>", system), "is twice");
  expectError(graphError("", system), "has 0 channels and nchannels 1");
  expectError(graphError("<channel><gpu/></channel>", system), "lacks the attribute dev");
}

/// The golden file, or (LIBNCCOM_GOLDEN_WRITE=1) writes it.
void expectGolden(const std::string& text, const std::string& name) {
  const std::filesystem::path path = "test/golden/graph/" + name;
  if (std::getenv("LIBNCCOM_GOLDEN_WRITE") != nullptr) std::ofstream(path) << text;
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " not found; run from the root of the repository";
  }
  EXPECT_EQ(readText(path), text) << "differs from " << path;
}

TEST(Golden, Trn2SystemIsAsRecorded) {
  ASSERT_OK(xml, neuronTopoGetXml(kTrn2x48xlarge, 2));
  expectGolden(xml.toText(), "trn2.48xlarge.xml");
}

TEST(Golden, Trn2RingIsAsRecorded) {
  ASSERT_OK(result, buildGraph(inputFor(someCores(64, 64, 0), 2, 64)));
  ASSERT_OK(xml, ncclTopoGetXmlFromGraphs({result.ring}, result.system));
  expectGolden(xml.toText(), "trn2.48xlarge.ring.xml");
}

TEST(Golden, TwoHostTrn2RingIsAsRecorded) {
  ASSERT_OK(result, buildGraph(inputFor(someCores(64, 64, 0), 2, 128)));
  ASSERT_OK(xml, ncclTopoGetXmlFromGraphs({result.ring}, result.system));
  expectGolden(xml.toText(), "trn2.48xlarge.ring2.xml");
}

}  // namespace
}  // namespace nccom
