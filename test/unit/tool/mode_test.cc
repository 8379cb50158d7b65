#include "tool_test_util.h"
#include "tools/nccom/topo_mode.h"

namespace nccom {
namespace {

using Kind = TopoMode::Kind;

TEST(Mode, SaysWhatIsComputed) {
  const auto expect = [](const char* text, const TopoMode& wanted) {
    ASSERT_OK(mode, parseMode(text));
    EXPECT_TRUE(mode == wanted) << text;
  };
  expect("d0", {Kind::Direct, false, 1, {}});
  expect("d1", {Kind::Direct, true, 1, {}});
  expect("p1", {Kind::Pipeline, false, 1, {}});
  expect("p1024", {Kind::Pipeline, false, 1024, {}});
  expect("m18", {Kind::Clique, false, 18, {}});
  expect("g1n2", {Kind::Pipeline, false, 2, {0}});
  expect("g3n2", {Kind::Pipeline, false, 2, {0, 1, 5}});
  expect("g4en1", {Kind::Pipeline, false, 1, {0, 2, 4, 6}});
}

TEST(Mode, RefusesAllElse) {
  for (const char* text : {"", "d", "d2", "p", "p0", "p-1", "px", "p1x", "m0", "m65", "g", "g1",
                           "gn1", "g5n1", "g1n", "g1n0", "p99999999999", "q1", " p1"}) {
    EXPECT_FALSE(parseMode(text).ok()) << text;
  }
}

TEST(List, ReadsNumbersAndRanges) {
  ASSERT_OK(list, parseList("0,2,4-7"));
  EXPECT_EQ(list, (std::vector<int>{0, 2, 4, 5, 6, 7}));
  for (const char* text : {"", ",", "1,", "a", "1-", "-1", "3-2", "1,1", "1,0-2", "1;2"})
    EXPECT_FALSE(parseList(text).ok()) << text;
}

}  // namespace
}  // namespace nccom
