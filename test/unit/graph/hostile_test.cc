// Files that are damaged, enormous or malicious: read with a word about what was assumed, or
// refused with their place; never a crash.
#include <cstdio>
#include <map>

#include "graph/paths.h"
#include "graph/topo_lint.h"
#include "graph_test_util.h"

namespace nccom {
namespace {

using pugi::xml_node;

constexpr const char* kSystem = R"(<system version="1">
  <cpu numaid="0" host_hash="0x1" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:01:00.0" class="0x060400" vendor="0x1000" device="0xc010" subsystem_vendor="0x1" subsystem_device="0x2" link_speed="16.0 GT/s PCIe" link_width="16">
      <pcilink target="0000:05:00.0"/>
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="100" rank="0" gdr="1" mlopart="0" keep="1">
          <nvlink target="0000:03:00.0" count="4" tclass="0x030200"/>
          <nvlink target="fffffff:ffff:ff" count="6" tclass="0x068000" bw="25000"/>
          <c2c bw="50000" count="4"/>
        </gpu>
        <gpu dev="1" sm="100" rank="1" gdr="1" mlopart="1">
          <nvlink target="0000:03:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="2" sm="100" rank="2" gdr="1">
          <nvlink target="0000:02:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:04:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx0" dev="0" latency="0.5" speed="200000" port="1" guid="0xabc" maxconn="64" gdr="1" coll="0" keep="1" net="1" gin="1" rma="1" rail="0" plane="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:05:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="8">
      <pcilink target="0000:01:00.0"/>
    </pci>
    <nic><net name="eth0" dev="1" latency="0" speed="10000" port="0" guid="0x1" maxconn="8" gdr="0"/></nic>
  </cpu>
</system>
)";

constexpr const char* kGraphs = R"(<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="20" speedinter="12" latencyinter="0" typeintra="NVL" typeinter="PIX" samechannels="1">
    <channel>
      <net dev="0"/>
      <gpu dev="0" rank="0"/>
      <gpu dev="1" rank="1"/>
      <gpu dev="2" rank="2"/>
      <net dev="0"/>
    </channel>
  </graph>
</graphs>
)";

struct Spot {
  xml_node node;
  std::string attribute;
};

/// Every attribute of every element; of an element and attribute that come often, some.
std::vector<Spot> spotsOf(const ncclXml& xml, int atMostEach) {
  std::vector<Spot> spots;
  std::map<std::string, int> seen;
  std::vector<xml_node> open = {xml.root()};
  while (!open.empty()) {
    const xml_node node = open.back();
    open.pop_back();
    for (const pugi::xml_attribute attribute : node.attributes()) {
      if (seen[std::string(node.name()) + "." + attribute.name()]++ >= atMostEach) continue;
      spots.push_back({node, attribute.name()});
    }
    for (const xml_node child : node.children())
      open.push_back(child);
  }
  return spots;
}

/// "t.xml:LINE:COLUMN: ..."
bool hasPlace(const std::string& message) {
  int line = 0;
  int column = 0;
  int end = 0;
  const int read = sscanf(message.c_str(), "t.xml:%d:%d: %n", &line, &column, &end);
  return read == 2 && end > 0 && line > 0 && column > 0;
}

/// What became of a document: refused, or read with findings.
struct Outcome {
  bool isRefused = false;
  std::string said;
};

Outcome readIt(const ncclXml& xml) {
  Outcome outcome;
  for (const LintFinding& finding : lintTopo(xml)) {
    outcome.said += toText(finding) + "\n";
    outcome.isRefused |= finding.severity == LintSeverity::Error;
  }
  auto loaded = ncclTopoGetSystemFromXml(xml);
  EXPECT_EQ(loaded.ok(), !outcome.isRefused) << outcome.said;
  if (loaded.ok()) {
    ncclTopoComputePaths(loaded.value().system);
    ncclTopoSearchInit(loaded.value().system);
  } else {
    EXPECT_TRUE(hasPlace(loaded.error().message)) << loaded.error().message;
  }
  return outcome;
}

constexpr const char* kNumbers[] = {"version",
                                    "numaid",
                                    "familyid",
                                    "modelid",
                                    "vendor",
                                    "device",
                                    "subsystem_vendor",
                                    "subsystem_device",
                                    "link_width",
                                    "dev",
                                    "sm",
                                    "rank",
                                    "gdr",
                                    "mlopart",
                                    "keep",
                                    "count",
                                    "bw",
                                    "latency",
                                    "speed",
                                    "port",
                                    "maxconn",
                                    "coll",
                                    "net",
                                    "gin",
                                    "rma",
                                    "rail",
                                    "plane"};

bool isNumber(const Spot& spot) {
  if (std::string_view(spot.node.name()) == "cpu" && spot.attribute == "vendor") return false;
  return std::find(std::begin(kNumbers), std::end(kNumbers), spot.attribute) != std::end(kNumbers);
}

TEST(Hostile, EveryAttributeDeletedIsSaidOrRefused) {
  ASSERT_OK(xml, ncclXml::parse(kSystem, "t.xml"));
  const Outcome whole = readIt(xml);
  ASSERT_FALSE(whole.isRefused) << whole.said;
  for (const Spot& spot : spotsOf(xml, 100)) {
    xml_node node = spot.node;
    const std::string value = node.attribute(spot.attribute.c_str()).value();
    node.remove_attribute(spot.attribute.c_str());
    const Outcome outcome = readIt(xml);
    // These are seldom there, and mean nothing special where they are not.
    static const std::set<std::string> kSeldom = {"keep",  "net",  "gin", "rma",     "rail",
                                                  "plane", "coll", "bw",  "mlopart", "host_hash"};
    if (!kSeldom.contains(spot.attribute)) {
      EXPECT_NE(outcome.said, whole.said) << spot.node.name() << "." << spot.attribute;
    }
    node.append_attribute(spot.attribute.c_str()).set_value(value.c_str());
  }
}

TEST(Hostile, EveryNumberNegativeHugeOrTextIsSaidOrRefused) {
  ASSERT_OK(xml, ncclXml::parse(kSystem, "t.xml"));
  const Outcome whole = readIt(xml);
  for (const Spot& spot : spotsOf(xml, 100)) {
    pugi::xml_attribute attribute = spot.node.attribute(spot.attribute.c_str());
    const std::string value = attribute.value();
    for (const char* hostile :
         {"-7", "-2147483648", "2147483647", "99999999999999999999", "0x7fffffffffffffff", "1e999",
          "nan", "words", "12 monkeys", "", " ", "\xff\xfe", "0x"}) {
      attribute.set_value(hostile);
      const Outcome outcome = readIt(xml);
      const std::string what = std::string(spot.node.name()) + "." + spot.attribute + "=" + hostile;
      // A rank and the connections of a NIC may have any positive value.
      const bool mayBeHuge = std::string_view(hostile) == "2147483647" &&
                             (spot.attribute == "rank" || spot.attribute == "maxconn");
      EXPECT_TRUE(outcome.said != whole.said || mayBeHuge || !isNumber(spot)) << what;
    }
    attribute.set_value(value.c_str());
  }
}

TEST(Hostile, GraphsWithAnythingDamagedAreReadOrRefused) {
  ASSERT_OK(systemXml, ncclXml::parse(kSystem, "t.xml"));
  ASSERT_OK(loaded, ncclTopoGetSystemFromXml(systemXml));
  loaded.system.inter = true;
  ncclTopoComputePaths(loaded.system);
  ncclTopoSearchInit(loaded.system);
  ASSERT_OK(xml, ncclXml::parse(kGraphs, "t.xml"));
  const auto read = [&](const std::string& what) {
    lintTopo(xml);
    const auto graph = ncclTopoGetGraphFromXml(xml, loaded.system, {});
    EXPECT_TRUE(graph.ok() || hasPlace(graph.error().message)) << what;
  };
  ASSERT_OK(whole, ncclTopoGetGraphFromXml(xml, loaded.system, {}));
  EXPECT_EQ(whole.nChannels, 1);
  for (const Spot& spot : spotsOf(xml, 100)) {
    xml_node node = spot.node;
    pugi::xml_attribute attribute = node.attribute(spot.attribute.c_str());
    const std::string value = attribute.value();
    for (const char* hostile :
         {"-1", "2147483647", "99999999999999999999", "words", "", "1e999", "inf"}) {
      attribute.set_value(hostile);
      read(spot.attribute + hostile);
    }
    node.remove_attribute(attribute);
    read(spot.attribute);
    node.append_attribute(spot.attribute.c_str()).set_value(value.c_str());
  }
}

TEST(Hostile, DamagedPlatformsAreReadOrRefused) {
  ASSERT_OK(platform, findPlatform(std::string(kDefaultPlatform)));
  ASSERT_OK(made, neuronTopoGetXml(*platform, 0));
  ASSERT_OK(xml, ncclXml::parse(made.toText(), "t.xml"));
  for (const Spot& spot : spotsOf(xml, 1)) {
    xml_node node = spot.node;
    pugi::xml_attribute attribute = node.attribute(spot.attribute.c_str());
    const std::string value = attribute.value();
    for (const char* hostile : {"-1", "2147483647", "words"}) {
      attribute.set_value(hostile);
      const auto loaded = ncclTopoGetSystemFromXml(xml);
      EXPECT_TRUE(loaded.ok() || hasPlace(loaded.error().message)) << spot.attribute << hostile;
    }
    attribute.set_value(value.c_str());
  }
}

TEST(Hostile, EveryCutOfAFileIsRefused) {
  const std::string text = kSystem;
  for (size_t length = 0; length + 2 < text.size(); length += 7) {
    const auto xml = ncclXml::parse(text.substr(0, length), "t.xml");
    EXPECT_FALSE(xml.ok()) << length;
  }
}

/// `nSwitches` below a CPU, each with `nBelow` switches, the first ones with a device.
std::string manySwitches(int nSwitches, int nBelow, int nGpus) {
  const std::string link = " link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">";
  std::string text = "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ff\" arch=\"arm64\">";
  for (int i = 0; i < nSwitches; i++) {
    text += "<pci busid=\"" + std::to_string(1000000 + i) + "\" class=\"0x060400\"" + link;
    for (int below = 0; below < nBelow; below++) {
      const std::string busId = std::to_string(2000000 + nBelow * i + below);
      text += "<pci busid=\"" + busId + "\" class=\"0x060400\"" + link + "</pci>";
    }
    const std::string number = std::to_string(i);
    if (i < nGpus) {
      text += "<pci busid=\"" + std::to_string(3000000 + i) + "\" class=\"0x030000\"" + link +
              "<gpu dev=\"" + number + "\" sm=\"80\" rank=\"" + number + "\" gdr=\"1\"/></pci>";
    }
    text += "</pci>";
  }
  return text + "</cpu></system>";
}

TEST(Hostile, FiveThousandNodesAreRead) {
  struct Shape {
    int nSwitches, nBelow, nGpus;
  };
  for (const Shape& shape : {Shape{50, 99, 8}, Shape{5000, 0, 1}}) {
    const std::string text = manySwitches(shape.nSwitches, shape.nBelow, shape.nGpus);
    ASSERT_OK(xml, ncclXml::parse(text, "t.xml"));
    ASSERT_OK(loaded, ncclTopoGetSystemFromXml(xml));
    EXPECT_EQ(loaded.system.count(ncclTopoNodeType::Pci), 5000);
    EXPECT_EQ(loaded.system.count(ncclTopoNodeType::Gpu), shape.nGpus);
    ncclTopoComputePaths(loaded.system);
    EXPECT_FALSE(lintTopo(xml).empty());
  }
}

TEST(Hostile, TooManyCpusAreRefusedWithTheirPlace) {
  std::string text = "<system version=\"1\">\n";
  for (int i = 0; i < 5000; i++)
    text += "<cpu numaid=\"" + std::to_string(i) + "\" affinity=\"1\" arch=\"arm64\"/>\n";
  ASSERT_OK(xml, ncclXml::parse(text + "</system>", "t.xml"));
  const auto loaded = ncclTopoGetSystemFromXml(xml);
  ASSERT_FALSE(loaded.ok());
  expectError(loaded.error().message, "t.xml:1026:1: more than 1024 <cpu>");
}

TEST(Hostile, DeepNestingIsRefusedWithItsPlace) {
  for (const int depth : {1000, 10000, 100000}) {
    std::string text;
    for (int i = 0; i < depth; i++)
      text += "<pci busid=\"1\">";
    for (int i = 0; i < depth; i++)
      text += "</pci>";
    const auto xml = ncclXml::parse(
        "<system version=\"1\"><cpu numaid=\"0\">" + text + "</cpu></system>", "t.xml");
    ASSERT_FALSE(xml.ok());
    EXPECT_TRUE(hasPlace(xml.error().message)) << xml.error().message;
    // And cut in the middle.
    EXPECT_FALSE(ncclXml::parse(text.substr(0, text.size() / 2), "t.xml").ok());
  }
}

TEST(Hostile, NestingUpToTheLimitIsRead) {
  std::string text = "<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">";
  for (int i = 0; i < 250; i++)
    text += "<pci busid=\"" + std::to_string(i) + "\" class=\"0x060400\">";
  for (int i = 0; i < 250; i++)
    text += "</pci>";
  ASSERT_OK(xml, ncclXml::parse(text + "</cpu></system>", "t.xml"));
  const Outcome outcome = readIt(xml);
  EXPECT_FALSE(outcome.isRefused) << outcome.said;
}

TEST(Hostile, SwitchesWithOneBusIdAreTwoSwitches) {
  // Upper and lower part of a two-level switch share an id: neither is lost, nothing loops.
  const char* text = R"(<system version="1"><cpu numaid="0" arch="arm64">
    <pci busid="1" class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x0000">
      <pci busid="1" class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x1000">
        <pci busid="2" class="0x030000"><gpu dev="0" rank="0" sm="80" gdr="1"/></pci>
        <pci busid="1" class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x1000"/>
      </pci>
      <pcilink target="1"/>
    </pci></cpu></system>)";
  ASSERT_OK(xml, ncclXml::parse(text, "t.xml"));
  EXPECT_FALSE(readIt(xml).isRefused);
}

TEST(Hostile, FilesThatAreNoneAreRefused) {
  for (const char* path : {"/dev/null", "/", "/nonexistent"}) {
    const auto xml = ncclXml::readFile(path);
    ASSERT_FALSE(xml.ok()) << path;
    expectError(xml.error().message, path);
  }
  const TempFile empty("");
  EXPECT_FALSE(ncclXml::readFile(empty.path()).ok());
  const TempFile newer("<system version=\"2\"><cpu numaid=\"0\"/></system>");
  ASSERT_OK(xml, ncclXml::readFile(newer.path()));
  const auto loaded = ncclTopoGetSystemFromXml(xml);
  ASSERT_FALSE(loaded.ok());
  expectError(loaded.error().message, newer.path() + ":1:1: <system> has version 2, expected 1");
}

}  // namespace
}  // namespace nccom
