#include "graph/xml.h"

#include "graph_test_util.h"

namespace nccom {
namespace {

constexpr const char* kSmall = R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" affinity="ff">
    <pci busid="0000:01:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="80" rank="0" gdr="1"/>
    </pci>
  </cpu>
</system>
)";

std::string errorOf(std::string text) {
  auto parsed = ncclXml::parse(std::move(text), "t.xml");
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(Xml, WritesWhatItRead) {
  ASSERT_OK(xml, ncclXml::parse(kSmall, "t.xml"));
  EXPECT_EQ(xml.toText(), kSmall);
}

TEST(Xml, TextWithSpecialCharactersSurvives) {
  ncclXml xml = ncclXml::create("system");
  const std::string odd = "a<b>&\"'\t\n\r é";
  setXml(xml.root(), "odd", odd);
  ASSERT_OK(again, ncclXml::parse(xml.toText(), "t.xml"));
  EXPECT_EQ(std::string(again.root().attribute("odd").value()), odd);
  EXPECT_TRUE(sameXml(xml.root(), again.root()));
}

TEST(Xml, RealsReadBackEqual) {
  ncclXml xml = ncclXml::create("system");
  for (const float value : {0.24F, 20.6F, 370.8F, 1e-7F, 1.0F / 3}) {
    setXml(xml.root(), "f", value);
    ASSERT_OK(read, xmlReal(xml, xml.root(), "f"));
    EXPECT_EQ(static_cast<float>(read), value);
  }
}

TEST(Xml, AcceptsBomPrologCommentsQuotesAndCrlf) {
  const std::string text =
      "\xEF\xBB\xBF<?xml version=\"1.0\"?>\r\n<!-- c -->\r\n<system\tversion='1'\r\n  a=\"&amp;\">"
      "</system>\r\n";
  ASSERT_OK(xml, ncclXml::parse(text, "t.xml"));
  EXPECT_STREQ(xml.root().attribute("a").value(), "&");
}

TEST(Xml, LongValuesAndManyAttributesAreFine) {
  for (const size_t length : {254, 255, 256, 70000}) {
    const std::string value(length, 'x');
    ASSERT_OK(xml, ncclXml::parse("<system version=\"1\" a=\"" + value + "\"/>", "t.xml"));
    EXPECT_EQ(std::string(xml.root().attribute("a").value()), value);
  }
  std::string many = "<system version=\"1\"";
  for (int i = 0; i < 1000; i++)
    many += " a" + std::to_string(i) + "=\"1\"";
  EXPECT_EQ(errorOf(many + "/>"), "");
}

TEST(Xml, ErrorsSayFileLineAndColumn) {
  expectError(errorOf("<system version=\"1\">\n  <cpu numaid=0/>\n</system>"), "t.xml:2:");
  expectError(errorOf("<system version=\"1\">\n  <cpu a=\"1\" a=\"2\"/>\n</system>"),
              "t.xml:2:3: ");
  expectError(errorOf("<system/>\n <system/>"), "t.xml:2:2: a second root element");
  ASSERT_OK(xml,
            ncclXml::parse("<system version=\"1\">\n\n   <cpu numaid=\"x\"/></system>", "t.xml"));
  const auto value = xmlInt(xml, xml.root().child("cpu"), "numaid");
  ASSERT_FALSE(value.ok());
  expectError(value.error().message,
              "t.xml:3:4: attribute numaid=\"x\" of <cpu> is not an integer");
  const auto missing = xmlInt(xml, xml.root().child("cpu"), "nothing");
  ASSERT_FALSE(missing.ok());
  expectError(missing.error().message, "t.xml:3:4: <cpu> lacks the attribute nothing");
}

TEST(Xml, RejectsWhatIsNotWellFormed) {
  for (const char* text : {"", " \n", "x", "<", "<system", "<system>", "<system></sys>",
                           "<a b></a>", "<a b='1></a>", "<?xml", "<!--", "<a/><b/>"}) {
    EXPECT_NE(errorOf(text), "") << text;
  }
  EXPECT_NE(errorOf(std::string("<a\0b/>", 6)), "");
}

TEST(Xml, RejectsDeepNestingWithoutRecursion) {
  std::string deep;
  for (int i = 0; i < 100000; i++)
    deep += "<a>";
  for (int i = 0; i < 100000; i++)
    deep += "</a>";
  expectError(errorOf(deep), "nested more than 256 levels");
}

TEST(Xml, NumbersMustBeWhole) {
  ASSERT_OK(
      xml, ncclXml::parse("<s a='12' b='0x1F' c='-1' d='12x' e='' f='1.5' g='99999999999'/>", "t"));
  EXPECT_EQ(xmlInt(xml, xml.root(), "a").value(), 12);
  EXPECT_EQ(xmlInt(xml, xml.root(), "b").value(), 31);
  EXPECT_EQ(xmlInt(xml, xml.root(), "c").value(), -1);
  EXPECT_FALSE(xmlInt(xml, xml.root(), "d").ok());
  EXPECT_FALSE(xmlInt(xml, xml.root(), "e").ok());
  EXPECT_FALSE(xmlInt(xml, xml.root(), "f").ok());
  EXPECT_FALSE(xmlInt32(xml, xml.root(), "g").ok());
  EXPECT_EQ(xmlReal(xml, xml.root(), "f").value(), 1.5);
  EXPECT_FALSE(xmlReal(xml, xml.root(), "d").ok());
  EXPECT_EQ(xmlInt32Or(xml, xml.root(), "z", 7).value(), 7);
}

TEST(Xml, FilesThatAreNone) {
  const auto missing = ncclXml::readFile("/nonexistent/x.xml");
  ASSERT_FALSE(missing.ok());
  expectError(missing.error().message, "cannot open /nonexistent/x.xml: No such file");
  const auto directory = ncclXml::readFile(std::filesystem::temp_directory_path().string());
  ASSERT_FALSE(directory.ok());
  expectError(directory.error().message, "is a directory");
  const auto null = ncclXml::readFile("/dev/null");
  ASSERT_FALSE(null.ok());
  expectError(null.error().message, "is empty");
}

TEST(Xml, WritesFilesItCanRead) {
  ASSERT_OK(xml, ncclXml::parse(kSmall, "t.xml"));
  const TempFile file("");
  ASSERT_TRUE(xml.writeFile(file.path()).ok());
  ASSERT_OK(again, ncclXml::readFile(file.path()));
  EXPECT_TRUE(sameXml(xml.root(), again.root()));
  const auto refused = xml.writeFile("/nonexistent/x.xml");
  ASSERT_FALSE(refused.ok());
  expectError(refused.error().message, "cannot open /nonexistent/x.xml for writing");
}

TEST(Xml, RootAndVersionAreChecked) {
  ASSERT_OK(graphs, ncclXml::parse("<graphs version=\"1\"/>", "t.xml"));
  EXPECT_TRUE(checkRoot(graphs, "graphs").ok());
  const auto wrong = checkRoot(graphs, "system");
  ASSERT_FALSE(wrong.ok());
  expectError(wrong.error().message, "t.xml:1:1: found <graphs>, expected <system>");
  ASSERT_OK(two, ncclXml::parse("<system version=\"2\"/>", "t.xml"));
  const auto version = checkRoot(two, "system");
  ASSERT_FALSE(version.ok());
  expectError(version.error().message, "has version 2, expected 1");
}

}  // namespace
}  // namespace nccom
