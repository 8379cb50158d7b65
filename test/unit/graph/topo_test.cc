#include "graph/topo.h"

#include <algorithm>

#include "graph/paths.h"
#include "graph_test_util.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using Path = ncclTopoPathType;

// Two CPUs; under the first a switch with two devices and a NIC, and a device of its own; under
// the second a device. The first two devices share a fabric, so do they with a switch.
constexpr const char* kMixed = R"(<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:01:00.0" class="0x060400" vendor="0x1000" device="0xc010" subsystem_vendor="0x1" subsystem_device="0x2" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:03:00.0" count="4" tclass="0x030200"/>
          <nvlink target="fffffff:ffff:ff" count="6" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1">
          <nvlink target="0000:02:00.0" count="4" tclass="0x030200"/>
          <nvlink target="fffffff:ffff:ff" count="6" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:04:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx0" dev="0" latency="0" speed="200000" port="1" guid="0xabc" maxconn="64" gdr="1" coll="0"/>
          <net name="mlx1" dev="1" latency="1.5" speed="100000" port="2" guid="0xabc" maxconn="64" gdr="1" coll="1" gin="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:05:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8">
      <gpu dev="2" sm="80" rank="2" gdr="1">
        <nvlink target="x" count="2" tclass="0x068001" bw="12500"/>
      </gpu>
    </pci>
    <nic>
      <net name="eth0" dev="2" latency="0" speed="-1" port="0" guid="0x1" maxconn="64" gdr="0"/>
    </nic>
  </cpu>
  <cpu numaid="1" affinity="ff00" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:81:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="3" sm="80" rank="3" gdr="0">
        <c2c bw="25000" count="2"/>
      </gpu>
    </pci>
  </cpu>
</system>
)";

LoadedTopo load(const std::string& text) {
  auto xml = ncclXml::parse(text, "t.xml");
  EXPECT_TRUE(xml.ok()) << xml.error().message;
  auto loaded = ncclTopoGetSystemFromXml(xml.value());
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return std::move(loaded).value();
}

std::string errorOf(const std::string& text) {
  auto xml = ncclXml::parse(text, "t.xml");
  EXPECT_TRUE(xml.ok()) << xml.error().message;
  const auto loaded = ncclTopoGetSystemFromXml(xml.value());
  return loaded.ok() ? "" : loaded.error().message;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

/// Reading flattens two-level Broadcom switches, which leaves their links in no order of their own:
/// equal up to the order of those links.
ncclTopoSystem withSortedFlattenedLinks(ncclTopoSystem system) {
  for (ncclTopoNode& node : system.nodes(Type::Pci)) {
    if ((node.pci.device & 0xffff) != 0xffff) continue;
    std::sort(node.links.begin(), node.links.end(),
              [](const ncclTopoLink& a, const ncclTopoLink& b) { return a.remote < b.remote; });
  }
  return system;
}

void expectRoundTrip(const ncclTopoSystem& system, const std::string& name) {
  ASSERT_OK(xml, ncclTopoGetXmlFromSystem(system));
  ASSERT_OK(again, ncclTopoGetSystemFromXml(xml));
  EXPECT_TRUE(withSortedFlattenedLinks(again.system) == withSortedFlattenedLinks(system))
      << name << "\n"
      << xml.toText();
}

TEST(Topo, ReadsEveryKindOfNodeAndLink) {
  const ncclTopoSystem system = load(kMixed).system;
  EXPECT_EQ(system.count(Type::Gpu), 4);
  EXPECT_EQ(system.count(Type::Dev), 4);
  EXPECT_EQ(system.count(Type::Pci), 1);
  EXPECT_EQ(system.count(Type::Nvs), 1);
  EXPECT_EQ(system.count(Type::Cpu), 2);
  EXPECT_EQ(system.count(Type::Nic), 2);
  EXPECT_EQ(system.count(Type::Net), 3);
  EXPECT_EQ(system.count(Type::Gin), 1);
  EXPECT_EQ(system.nodes(Type::Net)[2].net.bwGBps, 1.25F);  // speed -1 counts as 10 Gb/s
  EXPECT_EQ(system.nodes(Type::Net)[0].net.asic, 0xabcU);
  EXPECT_EQ(system.nodes(Type::Pci)[0].pci.device, 0x1000c01000010002U);
}

TEST(Topo, LinksAreSortedByWidthThenPciDownAndUp) {
  const ncclTopoSystem system = load(kMixed).system;
  const std::vector<ncclTopoLink>& dev = system.nodes(Type::Dev)[0].links;
  ASSERT_EQ(dev.size(), 4U);
  EXPECT_EQ(dev[0].remote.type, Type::Gpu);
  EXPECT_EQ(dev[1].bwGBps, 120);
  EXPECT_EQ(dev[2].bwGBps, 80);
  EXPECT_EQ(dev[3].type, ncclTopoLinkType::Pci);
  const std::vector<ncclTopoLink>& bridge = system.nodes(Type::Pci)[0].links;
  EXPECT_EQ(bridge.back().remote, cpuRef(0));
}

TEST(Topo, RoundTripsThroughXml) {
  expectRoundTrip(load(kMixed).system, "mixed");
}

TEST(Topo, RoundTripsWhenADeviceHasAnotherClass) {
  for (const char* pciClass : {"0x040000", "2x030200", ""}) {
    const std::string odd = std::string("busid=\"0000:02:00.0\" class=\"") + pciClass + "\"";
    expectRoundTrip(load(replaced(kMixed, "busid=\"0000:02:00.0\" class=\"0x030200\"", odd)).system,
                    pciClass);
  }
}

TEST(Topo, RoundTripsWithPartsOfAChip) {
  std::string text = R"(<system version="1"><cpu numaid="0" arch="arm64" affinity="f">)";
  for (const char* bus : {"0000:01:00.0", "0000:02:00.0"}) {
    const char* other = std::string(bus) == "0000:01:00.0" ? "0000:02:00.0" : "0000:01:00.0";
    text += std::string(R"(<pci busid=")") + bus +
            R"(" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">)";
    for (int part = 0; part < 2; part++) {
      const int id = part + (std::string(bus) == "0000:02:00.0" ? 2 : 0);
      text += "<gpu dev=\"" + std::to_string(id) + "\" sm=\"100\" gdr=\"1\" rank=\"" +
              std::to_string(id) + "\" mlopart=\"" + std::to_string(part) + "\">" +
              "<nvlink target=\"" + other + "\" count=\"8\" tclass=\"0x030200\"/>" +
              "<c2c bw=\"50000\" count=\"4\"/></gpu>";
    }
    text += "</pci>";
  }
  const ncclTopoSystem system = load(text + "</cpu></system>").system;
  EXPECT_EQ(system.count(Type::Dev), 4);
  EXPECT_EQ(system.count(Type::Cxb), 2);
  expectRoundTrip(system, "parts");
}

TEST(Topo, MissingAttributesAreDefaultsWithANoteOrErrors) {
  // Every attribute of every element in turn.
  int nErrors = 0;
  int nNotes = 0;
  for (int skip = 0;; skip++) {
    ASSERT_OK(xml, ncclXml::parse(kMixed, "t.xml"));
    int seen = 0;
    std::string removed;
    std::vector<pugi::xml_node> open = {xml.root()};
    while (!open.empty() && removed.empty()) {
      pugi::xml_node node = open.back();
      open.pop_back();
      for (const pugi::xml_attribute attribute : node.attributes()) {
        if (seen++ != skip) continue;
        removed = std::string(node.name()) + "." + attribute.name();
        node.remove_attribute(attribute);
        break;
      }
      for (const pugi::xml_node child : node.children())
        open.push_back(child);
    }
    if (removed.empty()) break;
    const auto loaded = ncclTopoGetSystemFromXml(xml);
    if (!loaded.ok()) {
      nErrors++;
      EXPECT_NE(loaded.error().message.find("t.xml"), std::string::npos) << removed;
      continue;
    }
    nNotes += static_cast<int>(loaded.value().notes.size());
    ncclTopoSystem system = loaded.value().system;
    ncclTopoComputePaths(system);
  }
  EXPECT_GT(nErrors, 10);
  EXPECT_GT(nNotes, 10);
  EXPECT_EQ(load(kMixed).notes, std::vector<std::string>{"t.xml:29:7: <net> has speed -1; "
                                                         "assumed 10000 Mb/s"});
}

TEST(Topo, NotesNameWhatIsMissing) {
  const LoadedTopo loaded = load(replaced(kMixed, " arch=\"x86_64\"", ""));
  ASSERT_EQ(loaded.notes.size(), 2U);
  EXPECT_EQ(loaded.notes[0], "t.xml:2:3: <cpu> lacks the attribute arch; assumed an unknown CPU");
}

TEST(Topo, ContradictionsAreErrorsWithAPlace) {
  expectError(errorOf("<system version=\"1\"/>"), "<system> has no <cpu>");
  expectError(errorOf("<graphs version=\"1\"/>"), "found <graphs>, expected <system>");
  expectError(errorOf(replaced(kMixed, "rank=\"1\"", "rank=\"0\"")), "a second <gpu> with rank 0");
  expectError(errorOf(replaced(kMixed, "numaid=\"1\"", "numaid=\"0\"")), "a second <cpu>");
  expectError(errorOf(replaced(kMixed, "busid=\"0000:02:00.0\"", "busid=\"zz\"")),
              "t.xml:4:7: attribute busid=\"zz\" of <pci> is not a PCI bus id");
  expectError(errorOf(replaced(kMixed, "count=\"4\"", "count=\"0\"")), "count 0");
  expectError(errorOf(replaced(kMixed, "guid=\"0xabc\"", "guid=\"q\"")), "not hexadecimal");
  expectError(errorOf(replaced(kMixed, "link_width=\"16\"", "link_width=\"-1\"")),
              "link_width is -1");
  expectError(errorOf(replaced(kMixed, "target=\"0000:03:00.0\"", "target=\"0000:02:00.0\"")),
              "device to itself");
  // A one-way fabric link.
  const std::string oneWay = replaced(
      kMixed, "          <nvlink target=\"0000:03:00.0\" count=\"4\" tclass=\"0x030200\"/>\n", "");
  expectError(errorOf(oneWay), "has no link back");
}

TEST(Topo, LinksOfUnusedDevicesAreLeftOut) {
  const ncclTopoSystem system = load(replaced(kMixed, " rank=\"1\"", "")).system;
  EXPECT_EQ(system.count(Type::Gpu), 3);
  EXPECT_EQ(system.nodes(Type::Dev)[0].links.size(), 3U);
}

TEST(Topo, PrintShowsEveryNode) {
  ncclTopoSystem system = load(kMixed).system;
  ncclTopoComputePaths(system);
  const std::string text = ncclTopoPrint(system);
  for (const char* part :
       {"CPU/0-0", "CPU/0-1", "GPU/0-2000 (0)", "NET/0-2 (eth0)", "NVS/0-0", "SYS"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(TopoPaths, TypesAreNcclsAndSymmetricInType) {
  ncclTopoSystem system = load(kMixed).system;
  ncclTopoComputePaths(system);
  EXPECT_EQ(system.path(gpuRef(0), gpuRef(0)).type, Path::Loc);
  EXPECT_EQ(system.path(gpuRef(0), gpuRef(1)).type, Path::Nvl);
  EXPECT_EQ(system.path(gpuRef(0), gpuRef(1)).bwGBps, 120);  // through the switch
  EXPECT_EQ(system.path(gpuRef(0), gpuRef(2)).type, Path::Phb);
  EXPECT_EQ(system.path(gpuRef(0), gpuRef(3)).type, Path::Sys);
  EXPECT_EQ(system.path(gpuRef(0), netRef(0)).type, Path::Pix);
  EXPECT_EQ(system.path(gpuRef(2), netRef(0)).type, Path::Phb);
  for (int a = 0; a < 4; a++) {
    for (int b = 0; b < 4; b++) {
      EXPECT_EQ(system.path(gpuRef(a), gpuRef(b)).type, system.path(gpuRef(b), gpuRef(a)).type);
    }
  }
}

TEST(TopoPaths, HopsLeadFromSourceToTarget) {
  ncclTopoSystem system = load(kMixed).system;
  ncclTopoComputePaths(system);
  for (int from = 0; from < system.count(Type::Gpu); from++) {
    for (const Type type : {Type::Gpu, Type::Cpu, Type::Net}) {
      for (int to = 0; to < system.count(type); to++) {
        const ncclTopoPath& path = system.path(gpuRef(from), {type, to});
        ncclTopoNodeRef at = gpuRef(from);
        float bwGBps = kLocalGBps;
        for (const ncclTopoHop& hop : path.hops) {
          EXPECT_EQ(hop.from, at);
          bwGBps = std::min(bwGBps, system.at(at).links[hop.link].bwGBps);
          at = hopTarget(system, hop);
        }
        EXPECT_EQ(at, (ncclTopoNodeRef{type, to}));
        EXPECT_EQ(path.bwGBps, bwGBps);
      }
    }
  }
}

TEST(TopoPaths, TrimKeepsWhatOneRankReaches) {
  ncclTopoSystem system = load(kMixed).system;
  ncclTopoComputePaths(system);
  ncclTopoTrimSystem(system, 0, 4);
  EXPECT_EQ(system.count(Type::Gpu), 4);
  EXPECT_FALSE(system.inter);
  ncclTopoTrimSystem(system, 0, 8);
  EXPECT_TRUE(system.inter);
}

/// Published topology files, where this checkout has them next to it.
std::vector<std::filesystem::path> publishedFiles() {
  const char* configured = std::getenv("LIBNCCOM_TOPO_CORPUS");
  const std::filesystem::path corpus = configured != nullptr ? configured : "../shared/topo";
  const std::filesystem::path folder = corpus / "xml";
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".xml") files.push_back(entry.path());
  }
  return files;
}

TEST(TopoFiles, PublishedOnesRoundTripAndHaveRings) {
  const auto files = publishedFiles();
  if (files.empty()) GTEST_SKIP() << "no folder of published topologies; set LIBNCCOM_TOPO_CORPUS";
  for (const std::filesystem::path& file : files) {
    ASSERT_OK(xml, ncclXml::readFile(file));
    const auto loaded = ncclTopoGetSystemFromXml(xml);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    ncclTopoSystem system = loaded.value().system;
    expectRoundTrip(system, file);
    ncclTopoComputePaths(system);
    ncclTopoSearchInit(system);
    ASSERT_OK(graph, ncclTopoCompute(system, {}));
    expectRings(graph, system.count(Type::Gpu));
  }
}

}  // namespace
}  // namespace nccom
