#include "graph/pipeline.h"

#include <numeric>

#include "graph_test_util.h"

namespace nccom {
namespace {

struct Gpu {
  int dev, cpu;
};

/// GPUs below CPUs 0 and 1, each with a link of `fabricGBps` to the next (0: none), and a NIC of
/// `netMbps` below the first device's CPU, or next to each device.
struct Machine {
  std::vector<Gpu> gpus = {{0, 0}, {1, 0}, {2, 1}, {3, 1}};
  int fabricGBps = 20;
  int netMbps = 100000;
  bool nicAtEach = false;
  bool onSwitch = false;  // devices are joined by a switch instead of to each other
};

std::string busIdOf(int dev) {
  return "0000:" + std::to_string(10 + dev) + ":00.0";
}

std::string nicText(int number, int mbps) {
  const std::string n = std::to_string(number);
  return "<pci busid=\"0000:" + std::to_string(50 + number) +
         ":00.0\" class=\"0x020000\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><nic>"
         "<net name=\"n" +
         n + "\" dev=\"" + n + "\" speed=\"" + std::to_string(mbps) +
         "\" port=\"1\" latency=\"0\" guid=\"0x" + n +
         "\" maxconn=\"1024\" gdr=\"1\"/></nic></pci>";
}

std::string deviceText(const Machine& machine, size_t i) {
  const size_t n = machine.gpus.size();
  const Gpu& gpu = machine.gpus[i];
  const std::string bus = busIdOf(gpu.dev);
  std::string text = "<pci busid=\"0000:" + std::to_string(30 + gpu.dev) +
                     ":00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">"
                     "<pci busid=\"" +
                     bus +
                     "\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" "
                     "link_width=\"16\"><gpu dev=\"" +
                     std::to_string(gpu.dev) + "\" sm=\"80\" gdr=\"1\">";
  for (const size_t peer : {(i + 1) % n, (i + n - 1) % n}) {
    if (machine.fabricGBps == 0 || peer == i || machine.onSwitch) continue;
    text += "<nvlink target=\"" + busIdOf(machine.gpus[peer].dev) + "\" count=\"" +
            std::to_string(machine.fabricGBps / 20) + "\" tclass=\"0x030200\"/>";
  }
  if (machine.onSwitch) {
    text += "<nvlink target=\"fffffff:ffff:ff\" count=\"12\" tclass=\"0x068000\"/>";
  }
  text += "</gpu></pci>";
  if (machine.nicAtEach) text += nicText(gpu.dev, machine.netMbps);
  return text + "</pci>";
}

std::string textOf(const Machine& machine) {
  std::string text = "<system version=\"1\">";
  for (const int cpu : {0, 1}) {
    text += "<cpu numaid=\"" + std::to_string(cpu) +
            "\" affinity=\"1\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
            "modelid=\"143\">";
    for (size_t i = 0; i < machine.gpus.size(); i++) {
      if (machine.gpus[i].cpu == cpu) text += deviceText(machine, i);
    }
    if (cpu == 0 && !machine.nicAtEach) text += nicText(0, machine.netMbps);
    text += "</cpu>";
  }
  return text + "</system>";
}

ncclXml xmlOf(const Machine& machine) {
  return ncclXml::parse(textOf(machine), "machine.xml").value();
}

std::vector<PipelineHost> hostsOf(const ncclXml& xml, int n, const std::vector<int>& gpus = {}) {
  PipelineHost host;
  host.xml = &xml;
  host.gpus = gpus;
  return std::vector<PipelineHost>(n, host);
}

std::vector<int> ranksOf(const ncclTopoSystem& system) {
  std::vector<int> ranks;
  for (const ncclTopoNode& gpu : system.nodes(ncclTopoNodeType::Gpu))
    ranks.push_back(gpu.gpu.rank);
  return ranks;
}

/// Every ring is a round of all ranks, every tree reaches them all from one root.
void expectWhole(const PipelineResult& result) {
  const size_t n = result.nodeOf.size();
  std::vector<int> all(n);
  std::iota(all.begin(), all.end(), 0);
  ASSERT_FALSE(result.global.rings.empty());
  for (std::vector<int> ring : result.global.rings) {
    std::sort(ring.begin(), ring.end());
    EXPECT_EQ(ring, all);
  }
  for (const std::vector<ncclTree>& tree : result.global.trees) {
    int roots = 0;
    for (int rank = 0; rank < static_cast<int>(n); rank++) {
      roots += tree[rank].up == -1 ? 1 : 0;
      for (const int child : tree[rank].down) {
        EXPECT_TRUE(child == -1 || tree[child].up == rank) << child << " below " << rank;
      }
    }
    EXPECT_EQ(roots, 1);
  }
}

TEST(Pipeline, RingsHoldAllRanksForEveryNumberOfHostsAndSubset) {
  const ncclXml xml = xmlOf({});
  for (const auto& gpus : std::vector<std::vector<int>>{{}, {0}, {3}, {1, 2}, {2, 0, 3}}) {
    for (const int nHosts : {1, 2, 3, 5}) {
      SCOPED_TRACE(std::to_string(gpus.size()) + " devices, hosts " + std::to_string(nHosts));
      ASSERT_OK(result, runPipeline(hostsOf(xml, nHosts, gpus), {}));
      const size_t perHost = gpus.empty() ? 4 : gpus.size();
      ASSERT_EQ(result.nodeOf.size(), perHost * static_cast<size_t>(nHosts));
      ASSERT_EQ(result.domains.size(), 1);
      EXPECT_EQ(result.domains[0].system.inter, nHosts > 1);
      EXPECT_EQ(result.nodeOf.back(), nHosts - 1);
      expectWhole(result);
    }
  }
}

TEST(Pipeline, RanksFollowTheNumbersOfDevices) {
  Machine machine;
  machine.gpus = {{2, 0}, {0, 0}, {3, 1}, {1, 1}};
  const ncclXml xml = xmlOf(machine);
  ASSERT_OK(result, runPipeline(hostsOf(xml, 1), {}));
  for (const ncclTopoNode& gpu : result.domains[0].system.nodes(ncclTopoNodeType::Gpu))
    EXPECT_EQ(gpu.gpu.rank, gpu.gpu.dev);
  ASSERT_OK(subset, runPipeline(hostsOf(xml, 1, {3, 1}), {}));
  for (const ncclTopoNode& gpu : subset.domains[0].system.nodes(ncclTopoNodeType::Gpu))
    EXPECT_EQ(gpu.gpu.rank, gpu.gpu.dev == 3 ? 0 : 1);
}

TEST(Pipeline, FusingPutsWhatRankZeroSeesFirst) {
  // The first rank's device is below CPU 1, of which the NIC below CPU 0 comes first in any case.
  Machine machine;
  machine.gpus = {{1, 0}, {2, 0}, {0, 0}, {3, 1}};
  const ncclXml xml = xmlOf(machine);
  ASSERT_OK(fused, runPipeline(hostsOf(xml, 1), {}));
  EXPECT_EQ(ranksOf(fused.domains[0].system), (std::vector<int>{0, 1, 2, 3}));
  PipelineOptions whole;
  whole.fuse = false;
  ASSERT_OK(shared, runPipeline(hostsOf(xml, 1), whole));
  EXPECT_EQ(ranksOf(shared.domains[0].system), (std::vector<int>{1, 2, 0, 3}));
}

TEST(Pipeline, FasterNicsPartAHost) {
  Machine machine;
  machine.fabricGBps = 0;
  machine.nicAtEach = true;
  machine.netMbps = 200000;
  const ncclXml xml = xmlOf(machine);
  PipelineOptions options;
  ASSERT_OK(together, runPipeline(hostsOf(xml, 1), options));
  EXPECT_EQ(together.domains.size(), 1);
  options.paths.netIntra = true;
  for (const int nHosts : {1, 3}) {
    ASSERT_OK(result, runPipeline(hostsOf(xml, nHosts), options));
    // Over PCI below one CPU devices are as fast as their NICs, between the CPUs slower.
    ASSERT_EQ(result.domains.size(), 2);
    EXPECT_EQ(result.domains[0].ranks, (std::vector<int>{0, 1}));
    EXPECT_EQ(result.domains[1].ranks, (std::vector<int>{2, 3}));
    EXPECT_EQ(result.nodeOf.back(), 2 * nHosts - 1);
    expectWhole(result);
  }
  machine.fabricGBps = 40;  // now neighbours reach each other faster than the network
  const ncclXml joined = xmlOf(machine);
  ASSERT_OK(result, runPipeline(hostsOf(joined, 1), options));
  EXPECT_EQ(result.domains.size(), 1);
}

TEST(Pipeline, ACliqueIsOneDomainOfManyHosts) {
  Machine machine;
  machine.onSwitch = true;
  const ncclXml xml = xmlOf(machine);
  PipelineOptions options;
  options.clique = true;
  ASSERT_OK(result, runPipeline(hostsOf(xml, 3), options));
  ASSERT_EQ(result.domains.size(), 1);
  EXPECT_EQ(result.domains[0].ranks.size(), 12);
  EXPECT_EQ(result.domains[0].system.hostHashes.size(), 3);
  EXPECT_FALSE(result.domains[0].system.inter);
  expectWhole(result);
}

TEST(Pipeline, NetsAreNumberedAsAPluginWould) {
  std::string text = textOf({});
  text.replace(text.find("<net name=\"n0\" dev=\"0\""), 22, "<net name=\"n0\" dev=\"7\"");
  ASSERT_OK(xml, ncclXml::parse(text, "machine.xml"));
  ASSERT_OK(result, runPipeline(hostsOf(xml, 2), {}));
  EXPECT_EQ(result.domains[0].system.nodes(ncclTopoNodeType::Net)[0].id, 0);
  ASSERT_FALSE(result.notes.empty());
  expectError(result.notes[0], "numbered in their order");
}

TEST(Pipeline, NeuronHostsAreSearchedOverTheirFabric) {
  ASSERT_OK(platform, findPlatform("trn2.48xlarge"));
  ASSERT_OK(xml, neuronTopoGetXml(*platform, 2));
  ASSERT_OK(fabric, neuronFabric(*platform, 2));
  std::vector<PipelineHost> hosts = hostsOf(xml, 2);
  for (PipelineHost& host : hosts)
    host.fabric = &fabric;
  PipelineOptions options;
  options.fuse = false;
  options.neuronSearch = true;
  options.maxChannels = 16;
  options.maxJoined = kMaxChannels;
  ASSERT_OK(result, runPipeline(hosts, options));
  ASSERT_TRUE(result.domains[0].neuron);
  EXPECT_EQ(result.domains[0].ring.intra, result.domains[0].neuron->ring.intra);
  EXPECT_FALSE(result.domains[0].neuron->kangaring.paths.empty());
  EXPECT_EQ(result.domains[0].neuron->mlaCycles.size(), 2);
  expectWhole(result);
}

TEST(Pipeline, NamesWhatItCannotDo) {
  EXPECT_FALSE(runPipeline({}, {}).ok());
  const ncclXml xml = xmlOf({});
  for (const int gpu : {-1, 4}) {
    const auto result = runPipeline(hostsOf(xml, 1, {gpu}), {});
    ASSERT_FALSE(result.ok());
    expectError(result.error().message, "machine.xml has 4");
  }
  std::string text = textOf({});
  text.replace(text.find("link_width=\"16\""), 15, "link_width=\"x6\"");
  ASSERT_OK(bad, ncclXml::parse(text, "machine.xml"));
  const auto result = runPipeline(hostsOf(bad, 2), {});
  ASSERT_FALSE(result.ok());
  expectError(result.error().message, "machine.xml:1:");
  ASSERT_OK(empty, ncclXml::parse("<system version=\"1\"><cpu numaid=\"0\"/></system>", "e.xml"));
  EXPECT_FALSE(runPipeline(hostsOf(empty, 1), {}).ok());
}

TEST(Pipeline, DirectLeavesRanksAndOrderAsTheyStand) {
  std::string text = textOf({});
  int rank = 3;
  for (size_t at = text.find(" sm="); at != std::string::npos; at = text.find(" sm=", at + 20))
    text.insert(at, " rank=\"" + std::to_string(rank--) + "\"");
  ASSERT_OK(xml, ncclXml::parse(text, "machine.xml"));
  std::vector<std::string> notes;
  ASSERT_OK(domain, topoDirect(xml, true, {}, notes));
  EXPECT_EQ(domain.ranks, (std::vector<int>{3, 2, 1, 0}));
  EXPECT_TRUE(domain.system.inter);
  ASSERT_TRUE(searchGraphs(domain, {}).ok());
  EXPECT_FALSE(domain.ring.inter.empty());
  const ncclXml none = xmlOf({});
  EXPECT_FALSE(topoDirect(none, false, {}, notes).ok());
}

}  // namespace
}  // namespace nccom
