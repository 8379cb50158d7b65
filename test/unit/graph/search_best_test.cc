// What must hold of both searches, whatever the machine; and NCCL's own answers, if they are here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <tuple>

#include <nlohmann/json.hpp>

#include "graph/graph.h"
#include "graph/search.h"
#include "graph_test_util.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;

// ---- machines -----------------------------------------------------------------------------------

struct Box {
  int nGpus = 4;
  int gpusPerCpu = 2;
  int nNets = 2;
  int netMbps = 100000;
  int nvLinks = 0;  // to each other device; 0: none
  bool hasSwitch = false;
  int sm = 80;
  bool isReversed = false;  // the file names the last CPU first
  std::string vendor = "AuthenticAMD";
};

std::string busId(int number) {
  return fail(ncclSuccess, "0000:%02x:00.0", number).message;
}

std::string linksOf(const Box& box, int gpu) {
  std::string text;
  const std::string count = " count=\"" + std::to_string(box.nvLinks) + "\"";
  if (box.hasSwitch) text += "<nvlink target=\"0000:f0:00.0\" tclass=\"0x068000\"" + count + "/>";
  for (int other = 0; other < box.nGpus && !box.hasSwitch && box.nvLinks > 0; other++) {
    if (other == gpu) continue;
    text += "<nvlink target=\"" + busId(16 + other) + "\" tclass=\"0x030200\"" + count + "/>";
  }
  return text;
}

std::string deviceText(const Box& box, int gpu) {
  const std::string number = std::to_string(gpu);
  return "<pci busid=\"" + busId(16 + gpu) +
         "\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"" +
         number + "\" sm=\"" + std::to_string(box.sm) + "\" rank=\"" + number + "\" gdr=\"1\">" +
         linksOf(box, gpu) + "</gpu></pci>";
}

std::string netText(const Box& box, int net) {
  const std::string number = std::to_string(net);
  return "<pci busid=\"" + busId(128 + net) +
         "\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><nic>"
         "<net name=\"net" +
         number + "\" dev=\"" + number + "\" speed=\"" + std::to_string(box.netMbps) +
         "\" port=\"1\" guid=\"0x" + number + "1\" maxconn=\"8\" gdr=\"1\"/></nic></pci>";
}

std::string boxText(const Box& box) {
  const int nCpus = (box.nGpus + box.gpusPerCpu - 1) / box.gpusPerCpu;
  std::vector<std::string> cpus;
  for (int cpu = 0; cpu < nCpus; cpu++) {
    std::string text = "<cpu numaid=\"" + std::to_string(cpu) + "\" arch=\"x86_64\" vendor=\"" +
                       box.vendor + "\" familyid=\"143\" modelid=\"49\">";
    for (int g = cpu * box.gpusPerCpu; g < std::min(box.nGpus, (cpu + 1) * box.gpusPerCpu); g++)
      text += deviceText(box, g);
    for (int n = cpu; n < box.nNets; n += nCpus)
      text += netText(box, n);
    cpus.push_back(text + "</cpu>");
  }
  if (box.isReversed) std::reverse(cpus.begin(), cpus.end());
  return "<system version=\"1\">" + std::accumulate(cpus.begin(), cpus.end(), std::string()) +
         "</system>";
}

ncclTopoSystem systemOf(const std::string& text, bool inter) {
  const auto xml = ncclXml::parse(text, "box.xml");
  EXPECT_TRUE(xml.ok());
  auto loaded = ncclTopoGetSystemFromXml(xml.value());
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  ncclTopoSystem system = std::move(loaded.value().system);
  system.inter = inter;
  ncclTopoComputePaths(system);
  ncclTopoSearchInit(system);
  return system;
}

std::vector<Box> boxes() {
  return {
      {.nGpus = 1, .nNets = 1},
      {.nGpus = 2},
      {.nGpus = 2, .vendor = "GenuineIntel"},
      {.nGpus = 3, .nNets = 3, .nvLinks = 1},
      {.nGpus = 4, .nNets = 1, .sm = 70},
      {.nGpus = 4, .nNets = 4, .nvLinks = 2},
      {.nGpus = 5, .gpusPerCpu = 3, .nNets = 2, .netMbps = 25000},
      {.nGpus = 6, .gpusPerCpu = 3, .nNets = 6, .nvLinks = 1, .sm = 90},
      {.nGpus = 8,
       .gpusPerCpu = 4,
       .nNets = 8,
       .netMbps = 200000,
       .nvLinks = 12,
       .hasSwitch = true},
      {.nGpus = 8,
       .gpusPerCpu = 4,
       .nNets = 8,
       .netMbps = 400000,
       .nvLinks = 18,
       .hasSwitch = true,
       .sm = 90},
      {.nGpus = 8, .gpusPerCpu = 4, .nNets = 2, .vendor = "GenuineIntel"},
  };
}

// ---- graphs -------------------------------------------------------------------------------------

struct Graphs {
  ncclTopoGraph ring, tree;
};

Graphs graphsOf(const ncclTopoSystem& system, ncclTopoSearch search) {
  ncclTopoGraph wanted;
  wanted.maxChannels = kMaxChannels;
  auto ring = ncclTopoCompute(system, wanted, search);
  EXPECT_TRUE(ring.ok());
  wanted.id = 1;
  wanted.pattern = ncclTopoPattern::BalancedTree;
  wanted.minChannels = wanted.maxChannels = ring.value().nChannels;
  auto tree = ncclTopoCompute(system, wanted, search);
  EXPECT_TRUE(tree.ok());
  return {std::move(ring.value()), std::move(tree.value())};
}

/// More is better.
std::tuple<float, int, int> valueOf(const ncclTopoGraph& graph) {
  const float gbps = graph.inter.empty() ? graph.bwIntra : std::min(graph.bwIntra, graph.bwInter);
  return {std::round(static_cast<float>(graph.nChannels) * gbps * 1000),
          -static_cast<int>(graph.typeIntra), -static_cast<int>(graph.typeInter)};
}

class Loads {
 public:
  explicit Loads(const ncclTopoSystem& system) : system_(system) {}

  void add(ncclTopoNodeRef from, ncclTopoNodeRef to, float gbps) {
    for (const ncclTopoHop& hop : system_.path(from, to).hops)
      loads_[{hop.from, hop.link}] += gbps;
  }

  void expectFit() const {
    for (const auto& [place, gbps] : loads_) {
      const ncclTopoLink& link = system_.at(place.first).links[place.second];
      EXPECT_LE(gbps, link.bwGBps * 1.001F)
          << toText(place.first.type) << place.first.index << " to " << toText(link.remote.type)
          << link.remote.index;
    }
  }

 private:
  const ncclTopoSystem& system_;
  std::map<std::pair<ncclTopoNodeRef, int>, float> loads_;
};

void expectLinksFit(const ncclTopoSystem& system, const ncclTopoGraph& graph) {
  Loads loads(system);
  const bool isRing = graph.pattern == ncclTopoPattern::Ring;
  for (int c = 0; c < graph.nChannels; c++) {
    std::vector<ncclTopoNodeRef> gpus;
    for (const int rank : graph.intra[c])
      gpus.push_back(gpuRef(ncclTopoRankToIndex(system, rank)));
    for (size_t i = 0; i + 1 < gpus.size(); i++)
      loads.add(gpus[i], gpus[i + 1], graph.bwIntra);
    if (!system.inter) {
      if (isRing) loads.add(gpus.back(), gpus[0], graph.bwIntra);
      continue;
    }
    const auto net = [&](int end) {
      const int index = ncclTopoIdToIndex(system, Type::Net, graph.inter[c][end]);
      EXPECT_NE(index, -1);
      return netRef(index);
    };
    const bool isBalanced = graph.pattern == ncclTopoPattern::BalancedTree && gpus.size() > 1;
    loads.add(net(0), gpus[0], graph.bwInter);
    loads.add(isRing ? gpus.back() : gpus[0], net(1),
              isBalanced ? graph.bwInter / 2 : graph.bwInter);
    if (isBalanced) loads.add(gpus[1], net(1), graph.bwInter / 2);
  }
  loads.expectFit();
}

void expectSound(const ncclTopoSystem& system, const ncclTopoGraph& graph) {
  expectRings(graph, system.count(Type::Gpu));
  EXPECT_EQ(graph.inter.size(), system.inter ? graph.intra.size() : 0);
  const bool isFallback = graph.bwIntra == 0.1F;
  if (!isFallback) expectLinksFit(system, graph);
}

std::string nameOf(const Box& box, bool inter) {
  return std::to_string(box.nGpus) + " devices sm " + std::to_string(box.sm) + ", " +
         std::to_string(box.nNets) + " NICs, " + std::to_string(box.nvLinks) + " links" +
         (box.hasSwitch ? ", switch" : "") + (inter ? ", several hosts" : "");
}

TEST(SearchBest, ChannelsVisitEveryRankOnceAndFitTheLinks) {
  for (const Box& box : boxes()) {
    for (const bool inter : {false, true}) {
      const ncclTopoSystem system = systemOf(boxText(box), inter);
      for (const ncclTopoSearch search : {ncclTopoSearch::Nccl, ncclTopoSearch::Best}) {
        SCOPED_TRACE(nameOf(box, inter) + (search == ncclTopoSearch::Best ? ", best" : ", nccl"));
        const Graphs graphs = graphsOf(system, search);
        expectSound(system, graphs.ring);
        expectSound(system, graphs.tree);
      }
    }
  }
}

TEST(SearchBest, IsNeverWorseThanNccl) {
  for (const Box& box : boxes()) {
    for (const bool inter : {false, true}) {
      SCOPED_TRACE(nameOf(box, inter));
      const ncclTopoSystem system = systemOf(boxText(box), inter);
      const Graphs nccl = graphsOf(system, ncclTopoSearch::Nccl);
      const Graphs best = graphsOf(system, ncclTopoSearch::Best);
      EXPECT_GE(valueOf(best.ring), valueOf(nccl.ring));
      EXPECT_GE(valueOf(best.tree), valueOf(nccl.tree));
    }
  }
}

TEST(SearchBest, IsNeverWorseThanNcclOnTorusAndRingPlatforms) {
  for (const char* name : {"trn1.32xlarge", "trn1n.32xlarge", "inf2.48xlarge", "trn2.48xlarge"}) {
    ASSERT_OK(platform, findPlatform(name));
    ASSERT_OK(xml, neuronTopoGetXml(*platform, 0));
    std::vector<LocalRank> ranks;
    for (int dev = 0; dev < platform->logicalCores(platform->defaultLnc); dev++)
      ranks.push_back({dev, dev});
    ASSERT_TRUE(setRanks(xml, ranks).ok());
    for (const bool inter : {false, true}) {
      SCOPED_TRACE(std::string(name) + (inter ? " with network" : ""));
      const ncclTopoSystem system = systemOf(xml.toText(), inter);
      const Graphs nccl = graphsOf(system, ncclTopoSearch::Nccl);
      const Graphs best = graphsOf(system, ncclTopoSearch::Best);
      EXPECT_GE(valueOf(best.ring), valueOf(nccl.ring));
      EXPECT_GE(valueOf(best.tree), valueOf(nccl.tree));
    }
  }
}

TEST(SearchBest, EqualInputsGiveEqualGraphs) {
  for (const Box& box : boxes()) {
    const ncclTopoSystem system = systemOf(boxText(box), true);
    const Graphs first = graphsOf(system, ncclTopoSearch::Best);
    const Graphs second = graphsOf(system, ncclTopoSearch::Best);
    EXPECT_TRUE(first.ring == second.ring);
    EXPECT_TRUE(first.tree == second.tree);
    EXPECT_EQ(first.ring.why, second.ring.why);
  }
}

TEST(SearchBest, TheOrderOfTheFileDoesNotMatter) {
  for (Box box : boxes()) {
    for (const bool inter : {false, true}) {
      SCOPED_TRACE(nameOf(box, inter));
      box.isReversed = false;
      const Graphs forwards = graphsOf(systemOf(boxText(box), inter), ncclTopoSearch::Best);
      box.isReversed = true;
      const Graphs backwards = graphsOf(systemOf(boxText(box), inter), ncclTopoSearch::Best);
      EXPECT_EQ(valueOf(forwards.ring), valueOf(backwards.ring));
    }
  }
}

TEST(SearchBest, SaysWhatCannotFitAndWhy) {
  // One slow link to a device that every ring must visit.
  std::string text = boxText({.nGpus = 3, .gpusPerCpu = 3});
  const std::string wide = "link_width=\"16\"><gpu dev=\"2\"";
  text.replace(text.find(wide), wide.size(), "link_width=\"2\"><gpu dev=\"2\"");
  const ncclTopoGraph ring = graphsOf(systemOf(text, false), ncclTopoSearch::Best).ring;
  const std::string why = std::accumulate(
      ring.why.begin(), ring.why.end(), std::string(),
      [](const std::string& all, const std::string& line) { return all + line + "\n"; });
  EXPECT_NE(why.find("rejected untried: at most no channel can fit"), std::string::npos) << why;
  EXPECT_NE(why.find("too narrow, perhaps with others: PCI link"), std::string::npos) << why;
  EXPECT_NE(why.find("found"), std::string::npos) << why;
  EXPECT_EQ(ring.bwIntra, 3) << why;
}

TEST(SearchNccl, SaysWhichLinkIsFull) {
  const ncclTopoGraph ring =
      graphsOf(systemOf(boxText({.nGpus = 4}), false), ncclTopoSearch::Nccl).ring;
  EXPECT_TRUE(std::any_of(ring.why.begin(), ring.why.end(), [](const std::string& line) {
    return line.find("most often full: ") != std::string::npos &&
           line.find("GB/s") != std::string::npos;
  }));
}

TEST(SearchBest, TreeGraphsRoundTripThroughXml) {
  for (const bool inter : {false, true}) {
    const ncclTopoSystem system = systemOf(boxText({.nGpus = 4, .nNets = 4, .nvLinks = 2}), inter);
    const Graphs graphs = graphsOf(system, ncclTopoSearch::Best);
    ASSERT_OK(xml, ncclTopoGetXmlFromGraphs({graphs.ring, graphs.tree}, system));
    ASSERT_OK(parsed, ncclXml::parse(xml.toText(), "g.xml"));
    ncclTopoGraph wanted = graphs.tree;
    ASSERT_OK(read, ncclTopoGetGraphFromXml(parsed, system, wanted));
    read.nHops = graphs.tree.nHops;  // not in the file
    EXPECT_TRUE(read == graphs.tree) << xml.toText();
  }
}

// ---- NCCL's answers -----------------------------------------------------------------------------

std::filesystem::path corpus() {
  const char* path = std::getenv("LIBNCCOM_TOPO_CORPUS");
  return path != nullptr ? path : "../shared/topo";
}

void expectAsNccl(const nlohmann::json& golden, const ncclTopoGraph& graph) {
  EXPECT_EQ(golden["nChannels"], graph.nChannels);
  EXPECT_NEAR(golden["bwIntra"].get<float>(), graph.bwIntra, 1e-3F);
  EXPECT_NEAR(golden["bwInter"].get<float>(), graph.bwInter, 1e-3F);
  EXPECT_EQ(golden["typeIntra"], toText(graph.typeIntra));
  EXPECT_EQ(golden["typeInter"], toText(graph.typeInter));
  EXPECT_EQ(golden["sameChannels"], graph.sameChannels ? 1 : 0);
  EXPECT_EQ(golden["crossNic"], graph.crossNic);
  EXPECT_EQ(golden["intra"].get<std::vector<std::vector<int>>>(), graph.intra);
}

ncclTopoGraph ofGolden(const nlohmann::json& golden) {
  ncclTopoGraph graph;
  graph.nChannels = golden["nChannels"];
  graph.bwIntra = golden["bwIntra"];
  graph.bwInter = golden["bwInter"];
  graph.typeIntra = pathTypeFromText(golden["typeIntra"]).value();
  graph.typeInter = pathTypeFromText(golden["typeInter"]).value();
  graph.inter.resize(golden["inter"].size());
  return graph;
}

TEST(SearchCorpus, NcclIsEqualledAndNeverBeatsBest) {
  // Quick ones of every family.
  const std::vector<std::string> names = {
      "a100pcie_2gpu_2nic", "a6000_4gpu_10socketnics", "aws_g5_8a10g", "aws_p5_8h100_32efa",
      "dgx1v_quanta_8v100", "gb200_tray_4gpu",         "oci_h100_bm8", "rccl_4p3l_n2",
      "rccl_8p_rome_n2_1",  "rtx4090_2gpu_ib",         "simccl_8a100"};
  if (!std::filesystem::exists(corpus() / "golden")) {
    GTEST_SKIP() << "no corpus of topologies at " << corpus() << " (LIBNCCOM_TOPO_CORPUS)";
  }
  int nCompared = 0;
  for (const std::string& name : names) {
    for (const bool inter : {false, true}) {
      SCOPED_TRACE(name + (inter ? ".d1" : ".d0"));
      std::ifstream file(corpus() / "golden" / (name + (inter ? ".d1.json" : ".d0.json")));
      if (!file) continue;
      const nlohmann::json golden = nlohmann::json::parse(file);
      const ncclTopoSystem system = systemOf(readText(corpus() / "xml" / (name + ".xml")), inter);
      const Graphs nccl = graphsOf(system, ncclTopoSearch::Nccl);
      expectAsNccl(golden["graphs"]["ring"], nccl.ring);
      expectAsNccl(golden["graphs"]["tree"], nccl.tree);
      const Graphs best = graphsOf(system, ncclTopoSearch::Best);
      expectSound(system, best.ring);
      expectSound(system, best.tree);
      EXPECT_GE(valueOf(best.ring), valueOf(ofGolden(golden["graphs"]["ring"])));
      EXPECT_GE(valueOf(best.tree), valueOf(ofGolden(golden["graphs"]["tree"])));
      nCompared++;
    }
  }
  EXPECT_GT(nCompared, 0) << "the corpus has none of the files";
}

}  // namespace
}  // namespace nccom
