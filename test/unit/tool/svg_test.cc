#include "tools/nccom/svg.h"

#include <map>
#include <set>

#include <pugixml.hpp>

#include "tool_test_util.h"
#include "tools/nccom/ring_groups.h"
#include "tools/nccom/topo_svg.h"

namespace nccom {
namespace {

/// A picture as XML, and all texts in it.
struct Picture {
  pugi::xml_document document;
  std::multiset<std::string> texts;
  std::multiset<std::string> strokes;

  bool hasTextWith(const std::string& part) const {
    for (const std::string& text : texts) {
      if (text.find(part) != std::string::npos) return true;
    }
    return false;
  }
};

void read(const std::string& svg, Picture& picture) {
  ASSERT_TRUE(picture.document.load_string(svg.c_str())) << svg.substr(0, 400);
  const pugi::xml_node root = picture.document.document_element();
  ASSERT_STREQ(root.name(), "svg");
  const double width = root.attribute("width").as_double();
  const double height = root.attribute("height").as_double();
  for (const pugi::xml_node node : root.children()) {
    const std::string name = node.name();
    if (name == "text") picture.texts.insert(node.text().get());
    if (name == "path" || name == "line") picture.strokes.insert(node.attribute("stroke").value());
    if (name != "rect") continue;
    const double right = node.attribute("x").as_double() + node.attribute("width").as_double();
    const double bottom = node.attribute("y").as_double() + node.attribute("height").as_double();
    EXPECT_GE(node.attribute("x").as_double(), 0);
    EXPECT_LE(right, width + 0.1);
    EXPECT_LE(bottom, height + 0.1);
  }
}

TEST(Svg, ASystemShowsItsBoxesAndOneArcARingLeg) {
  for (const char* mode : {"d0", "d1", "p2"}) {
    ASSERT_OK(answer, smallAnswer(mode));
    Picture picture;
    read(answerSvg(answer), picture);
    for (const char* text : {"CPU 0", "CPU 1", "GPU 0", "GPU 3", "rank 0", "rank 3"})
      EXPECT_EQ(picture.texts.count(text), 1) << text;
    EXPECT_TRUE(picture.hasTextWith("NET 0 net<0>"));
    const TopoDomain& domain = answer.result.domains[0];
    const bool closed = domain.ring.inter.empty();
    const auto groups = groupRings(domain.ring, closed);
    for (int g = 0; g < static_cast<int>(groups.size()); g++) {
      const size_t legs = closed ? 4 : 3 + 2;  // the ends lead to the NIC
      EXPECT_EQ(picture.strokes.count(svgColour(g)), legs);
    }
  }
}

TEST(Svg, ATrainiumHostShowsEveryRankAndEveryTourOfItsDevices) {
  for (const char* name : {"trn2.48xlarge", "trn1.32xlarge", "inf2.48xlarge"}) {
    SCOPED_TRACE(name);
    ASSERT_OK(answer, platformAnswer(name));
    Picture picture;
    read(answerSvg(answer), picture);
    for (const int rank : answer.result.domains[0].ranks)
      EXPECT_TRUE(picture.texts.contains(std::to_string(rank))) << rank;
    EXPECT_TRUE(picture.hasTextWith("device 0"));
    EXPECT_TRUE(picture.hasTextWith("tour 0"));
    EXPECT_TRUE(picture.strokes.contains(svgColour(0)));
  }
}

TEST(Svg, AnyPlatformCanBeDrawn) {
  for (const std::string& name : platformNames()) {
    SCOPED_TRACE(name);
    ASSERT_OK(answer, platformAnswer(name));
    Picture picture;
    read(answerSvg(answer), picture);
    EXPECT_FALSE(picture.texts.empty());
  }
}

TEST(Svg, NamesOfAnyBytesGiveADocument) {
  Svg svg;
  svg.text({0, 0}, "caf\u00e9 <&\"\x01>");
  svg.text({0, 0}, "\xff\xfe \xc3 \xe2\x82");
  Picture picture;
  read(svg.finish(), picture);
  EXPECT_TRUE(picture.hasTextWith("caf\u00e9 <&\" >"));
  EXPECT_TRUE(picture.hasTextWith("?? ? ??"));
}

TEST(RingGroups, JoinWhatGoesTheSameWay) {
  ncclTopoGraph graph;
  graph.nChannels = 5;
  graph.intra = {{0, 1, 2, 3}, {1, 2, 3, 0}, {3, 2, 1, 0}, {0, 2, 1, 3}, {0, 1, 2, 3}};
  const auto closed = groupRings(graph, true);
  ASSERT_EQ(closed.size(), 2);
  EXPECT_EQ(closed[0].forward, (std::vector<int>{0, 1, 4}));
  EXPECT_EQ(closed[0].backward, (std::vector<int>{2}));
  EXPECT_EQ(closed[0].label(), "channels 0,1,4, backwards 2");
  const auto open = groupRings(graph, false);  // where an order starts matters
  ASSERT_EQ(open.size(), 3);
  EXPECT_EQ(open[0].forward, (std::vector<int>{0, 4}));
  EXPECT_EQ(open[0].backward, (std::vector<int>{2}));
}

TEST(RingGroups, DrawCoresAsTheirDevice) {
  ncclTopoGraph graph;
  graph.nChannels = 1;
  graph.intra = {{1, 2, 3, 4, 5, 0}};
  const auto groups = groupRings(graph, true, {0, 0, 1, 1, 2, 2});
  ASSERT_EQ(groups.size(), 1);
  EXPECT_EQ(groups[0].order, (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace nccom
