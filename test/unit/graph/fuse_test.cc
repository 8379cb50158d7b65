#include "graph/fuse.h"

#include "graph_test_util.h"

namespace nccom {
namespace {

ncclXml parsed(const std::string& body) {
  return ncclXml::parse("<system version=\"1\">" + body + "</system>", "t.xml").value();
}

/// The fused document, without its root.
std::string fused(const std::vector<std::string>& bodies) {
  const ncclXml into = ncclXml::create("system");
  for (const std::string& body : bodies) {
    const Status status = ncclTopoFuseXml(into, parsed(body));
    if (!status.ok()) return status.error().message;
  }
  std::string text;
  struct Writer : pugi::xml_writer {
    std::string out;
    void write(const void* data, size_t size) override {
      out.append(static_cast<const char*>(data), size);
    }
  };
  for (const pugi::xml_node child : into.root().children()) {
    Writer writer;
    child.print(writer, "", pugi::format_raw);
    text += writer.out;
  }
  return text;
}

TEST(Fuse, AppendsWhatIsMissingAndDescendsIntoWhatIsEqual) {
  EXPECT_EQ(fused({R"(<cpu numaid="0"><pci busid="1"/></cpu>)",
                   R"(<cpu numaid="0"><pci busid="2"/></cpu><cpu numaid="1"/>)"}),
            R"(<cpu numaid="0"><pci busid="1"/><pci busid="2"/></cpu><cpu numaid="1"/>)");
}

TEST(Fuse, TheOrderOfAttributesDoesNotMatter) {
  EXPECT_EQ(fused({R"(<cpu numaid="0" arch="x"/>)", R"(<cpu arch="x" numaid="0"/>)"}),
            R"(<cpu numaid="0" arch="x"/>)");
}

TEST(Fuse, AnAttributeThatOneDocumentLacksDuplicatesTheSubtree) {
  EXPECT_EQ(fused({R"(<cpu numaid="0" arch="x"><pci busid="1"/></cpu>)",
                   R"(<cpu numaid="0"><pci busid="1"/></cpu>)"}),
            R"(<cpu numaid="0" arch="x"><pci busid="1"/></cpu>)"
            R"(<cpu numaid="0"><pci busid="1"/></cpu>)");
}

TEST(Fuse, FusingTheSameAgainChangesNothing) {
  const std::string body =
      R"(<cpu numaid="0"><pci busid="1"><gpu dev="0"/></pci><nic><net name="a"/></nic></cpu>)";
  EXPECT_EQ(fused({body, body, body}), body);
}

TEST(Fuse, NamesDocumentsWithDifferentRoots) {
  const ncclXml graphs = ncclXml::parse("<graphs version=\"1\"/>", "g.xml").value();
  const Status status = ncclTopoFuseXml(parsed(""), graphs);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ncclInvalidArgument);
  expectError(status.error().message, "g.xml cannot be fused into t.xml");
}

}  // namespace
}  // namespace nccom
