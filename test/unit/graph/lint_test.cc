#include <regex>

#include "graph/platform.h"
#include "graph/topo_lint.h"
#include "graph_test_util.h"

namespace nccom {
namespace {

constexpr const char* kClean = R"(<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
    <pci busid="0000:01:00.0" class="0x060400" vendor="0x1000" device="0xc010" subsystem_vendor="0x1" subsystem_device="0x2" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" vendor="0x1" device="0x2" subsystem_vendor="0x1" subsystem_device="0x2" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:03:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x030200" vendor="0x1" device="0x2" subsystem_vendor="0x1" subsystem_device="0x2" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1">
          <nvlink target="0000:02:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
      <pci busid="0000:04:00.0" class="0x020000" vendor="0x1" device="0x2" subsystem_vendor="0x1" subsystem_device="0x2" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx0" dev="0" latency="0" speed="200000" port="1" guid="0xabc" maxconn="64" gdr="1" coll="0"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
)";

constexpr const char* kGraphs = R"(<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="20" speedinter="12" latencyinter="0" typeintra="NVL" typeinter="PIX" samechannels="0">
    <channel><net dev="0"/><gpu dev="0" rank="0"/><gpu dev="1" rank="1"/><net dev="0"/></channel>
    <channel><net dev="0"/><gpu dev="1" rank="1"/><gpu dev="0" rank="0"/><net dev="0"/></channel>
  </graph>
</graphs>
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

std::vector<LintFinding> lint(const std::string& text) {
  const TempFile file(text);
  std::vector<LintFinding> findings = lintTopoFile(file.path());
  for (LintFinding& finding : findings) {
    EXPECT_TRUE(finding.where.starts_with(file.path())) << finding.where;
    finding.where.erase(0, file.path().size());
  }
  return findings;
}

std::string shown(const std::vector<LintFinding>& findings) {
  std::string text;
  for (const LintFinding& finding : findings)
    text += std::string(toText(finding.severity)) + " " + toText(finding) + "\n";
  return text;
}

/// One finding with this severity and text, at a line and column.
void expectFinding(const std::string& text, LintSeverity severity, const std::string& part) {
  const std::vector<LintFinding> findings = lint(text);
  for (const LintFinding& finding : findings) {
    if (toText(finding).find(part) == std::string::npos) continue;
    EXPECT_EQ(finding.severity, severity) << shown(findings);
    EXPECT_TRUE(std::regex_match(finding.where, std::regex(":[0-9]+:[0-9]+"))) << finding.where;
    return;
  }
  ADD_FAILURE() << "'" << part << "' is not in:\n" << shown(findings);
}

TEST(Lint, SaysNothingOfACleanFile) {
  EXPECT_EQ(shown(lint(kClean)), "");
  EXPECT_EQ(shown(lint(kGraphs)), "");
}

TEST(Lint, SaysNothingWrongOfPlatforms) {
  ASSERT_OK(platform, findPlatform(std::string(kDefaultPlatform)));
  ASSERT_OK(xml, neuronTopoGetXml(*platform, 0));
  for (const LintFinding& finding : lintTopo(xml))
    EXPECT_EQ(finding.severity, LintSeverity::Note) << toText(finding);
}

TEST(Lint, ChangesNothing) {
  const std::string noRanks = replaced(replaced(kClean, " rank=\"0\"", ""), " rank=\"1\"", "");
  ASSERT_OK(xml, ncclXml::parse(noRanks, "t.xml"));
  EXPECT_EQ(shown(lintTopo(xml)), "");
  EXPECT_EQ(xml.toText(), noRanks);
}

TEST(Lint, FindsWhatASchemaForbids) {
  using enum LintSeverity;
  expectFinding(replaced(kClean, "gdr=\"1\"", "gdr=\"1\" color=\"red\""), Note,
                "attribute color=\"red\" of <gpu> is not part of the schema");
  expectFinding(replaced(kClean, "  </cpu>", "  <fan/></cpu>"), Warning,
                "<fan> in <cpu> is not part of the schema");
  expectFinding(replaced(kClean, "  </cpu>", "  <gpu dev=\"3\"/></cpu>"), Warning,
                "<gpu> in <cpu>");
  expectFinding(replaced(kClean, "  </cpu>", "  words</cpu>"), Warning, "NCCL refuses the file");
  expectFinding(replaced(kClean, "port=\"1\"", "port=\"-3\""), Warning,
                "out of its range 0 to 255");
  expectFinding(replaced(kClean, "16.0 GT/s PCIe", "warp 9"), Warning, "assumed 8 GT/s");
  expectFinding(replaced(kClean, "x86_64", "z80"), Warning, "assumed an unknown CPU");
  expectFinding(replaced(kClean, "affinity=\"ff\"", "affinity=\"xx\""), Warning,
                "not a hexadecimal mask");
  expectFinding(replaced(kClean, "port=\"1\"", "port=\"\""), Warning, "port of <net> is empty");
}

TEST(Lint, FindsWhatIsMissing) {
  using enum LintSeverity;
  expectFinding(replaced(kClean, " arch=\"x86_64\"", ""), Warning,
                "<cpu> lacks the attribute arch; assumed an unknown CPU");
  expectFinding(replaced(kClean, " affinity=\"ff\"", ""), Note, "lacks the attribute affinity");
  expectFinding(replaced(kClean, " sm=\"80\"", ""), Warning, "assumed 80");
  expectFinding(replaced(kClean, " speed=\"200000\"", ""), Note, "assumed 10000 Mb/s");
  expectFinding(replaced(kClean, "speed=\"200000\"", "speed=\"0\""), Note, "assumed 10000 Mb/s");
  expectFinding(replaced(kClean, " dev=\"0\" latency", " latency"), Note, "no plugin drives it");
  expectFinding(replaced(kClean, " numaid=\"0\"", ""), Error, "lacks the attribute numaid");
  expectFinding(replaced(kGraphs, " nchannels=\"2\"", ""), Error, "lacks the attribute nchannels");
}

TEST(Lint, FindsWhatIsTwice) {
  using enum LintSeverity;
  expectFinding(replaced(kClean, "busid=\"0000:03:00.0\"", "busid=\"0000:02:00.0\""), Warning,
                "busid 0000:02:00.0 is also that of");
  expectFinding(replaced(kClean, "rank=\"1\"", "rank=\"0\""), Error, "a second <gpu> with rank 0");
  expectFinding(replaced(kClean, "dev=\"1\" sm", "dev=\"0\" sm"), Warning, "dev 0 is also that of");
  const std::string twoNets = replaced(kClean, "</nic>",
                                       "<net name=\"b\" dev=\"0\" latency=\"0\" speed=\"1\" "
                                       "port=\"1\" guid=\"0xabc\" maxconn=\"1\" gdr=\"0\"/></nic>");
  expectFinding(twoNets, Warning, "dev 0 is also that of");
  expectFinding(twoNets, Warning, "port 1 of guid 0xabc is also that of");
  expectFinding(replaced(kClean, "<cpu ", "<cpu numaid=\"1\" "), Error, "numaid");
  expectFinding(
      replaced(kClean, "</system>", "<cpu numaid=\"1\" affinity=\"f0\" arch=\"arm64\"/></system>"),
      Warning, "shares cores");
}

TEST(Lint, FindsLinksThatLeadNowhereOrDiffer) {
  using enum LintSeverity;
  expectFinding(replaced(kClean, "target=\"0000:03:00.0\"", "target=\"0000:09:00.0\""), Warning,
                "which no <pci> is");
  expectFinding(replaced(kClean, "target=\"0000:03:00.0\"", "target=\"0000:04:00.0\""), Warning,
                "which has no <gpu>");
  expectFinding(replaced(kClean, "count=\"4\"", "count=\"5\""), Warning,
                "has count 5, the way back 4");
  const std::string oneWay = replaced(
      kClean, "          <nvlink target=\"0000:03:00.0\" count=\"4\" tclass=\"0x030200\"/>\n", "");
  expectFinding(oneWay, Warning, "which states none back");
  expectFinding(oneWay, Error, "has no link back");
}

TEST(Lint, FindsDefectsOfGraphs) {
  using enum LintSeverity;
  expectFinding(replaced(kGraphs, "nchannels=\"2\"", "nchannels=\"3\""), Error, "2 <channel>");
  expectFinding(replaced(kGraphs, "dev=\"1\" rank=\"1\"", "dev=\"0\" rank=\"0\""), Error,
                "rank 0 is twice");
  expectFinding(replaced(kGraphs, "<net dev=\"0\"/><gpu", "<gpu"), Error, "1 <net>");
  expectFinding(replaced(kGraphs, "samechannels=\"0\"", "samechannels=\"1\""), Warning, "differ");
  expectFinding(replaced(kGraphs, "\"NVL\"", "\"XYZ\""), Warning, "no path type");
  expectFinding(replaced(kGraphs, "<gpu dev=\"1\" rank=\"1\"/>", ""), Error, "other devices");
}

TEST(Lint, FindsWhatNcclsParserRefuses) {
  using enum LintSeverity;
  expectFinding("<?xml version=\"1.0\"?>\n" + std::string(kClean), Warning, "prolog");
  expectFinding("\xEF\xBB\xBF" + std::string(kClean), Warning, "byte order mark");
  expectFinding(replaced(kClean, "  <cpu", "\t<cpu"), Warning, "a tab stands between elements");
  expectFinding(replaced(kClean, " gdr=\"1\"", "\n gdr=\"1\""), Warning, "a line break");
  expectFinding(replaced(kClean, "mlx0", std::string(254, 'x')), Warning, "longer than 253 bytes");
  expectFinding(replaced(kClean, "mlx0", "a&amp;b"), Warning, "entity");
  std::string many;
  for (int i = 0; i < 17; i++)
    many += " a" + std::to_string(i) + "=\"1\"";
  expectFinding(replaced(kClean, "<nic>", "<nic" + many + ">"), Warning, "more than 16 attributes");
  EXPECT_EQ(shown(lint(replaced(kClean, "mlx0", std::string(253, 'x')))), "");
}

TEST(Lint, SaysOnceWhatHoldsInManyPlaces) {
  std::string text = kClean;
  while (text.find(" gdr=\"1\"/>") != std::string::npos)
    text = replaced(text, " gdr=\"1\"", "");
  text = replaced(replaced(text, " gdr=\"1\"", " gcn=\"908\""), " gdr=\"1\"", " gcn=\"908\"");
  const std::vector<LintFinding> findings = lint(text);
  ASSERT_EQ(findings.size(), 2U) << shown(findings);
  expectError(shown(findings), "gcn=\"908\" of <gpu> is not part of the schema (the first of 2");
  expectError(shown(findings), "<gpu> lacks the attribute gdr (the first of 2");
}

TEST(Lint, UnreadableFilesAreErrors) {
  for (const std::string path : {"/nonexistent/topo.xml", "/tmp", "/dev/null"}) {
    const auto findings = lintTopoFile(path);
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings[0].severity, LintSeverity::Error);
    expectError(toText(findings[0]), path);
  }
  expectFinding("<system version=\"1\"><cpu></system>", LintSeverity::Error, "mismatch");
  expectFinding("<system version=\"2\"/>", LintSeverity::Error, "version 2");
  expectFinding("<machine version=\"1\"/>", LintSeverity::Error, "expected <system>");
}

}  // namespace
}  // namespace nccom
