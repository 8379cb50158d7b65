#include "test/perf/size.h"

#include <gtest/gtest.h>

#include <limits>

namespace nccom::perf {
namespace {

struct Written {
  const char* text;
  size_t bytes;
};

TEST(Size, IsBytesWithAnOptionalUnit) {
  for (const Written& size : {Written{"0", 0},
                              {"8", 8},
                              {"8B", 8},
                              {"1K", 1024},
                              {"1k", 1024},
                              {"1KB", 1024},
                              {"1KiB", 1024},
                              {"1Ki", 1024},
                              {"32M", 32 << 20},
                              {"1G", 1 << 30},
                              {"1GiB", 1 << 30},
                              {"1 G", 1 << 30},
                              {"1gb", 1 << 30},
                              {"2T", size_t{2} << 40},
                              {"1.5K", 1536},
                              {"0.25M", 256 << 10},
                              {"7999999T", size_t{7999999} << 40}}) {
    const Result<size_t> parsed = parseSize(size.text);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed.value(), size.bytes) << size.text;
  }
}

TEST(Size, RejectsTheRestAndShowsIt) {
  for (const char* text : {"",
                           " ",
                           "K",
                           "1e3",
                           "0x10",
                           "nan",
                           "inf",
                           "-1",
                           "+1",
                           "1.3K",
                           "0.1",
                           "1.50",
                           "1.",
                           ".5K",
                           "1..5K",
                           "1KK",
                           "1iB",
                           "1i",
                           "1Kb1",
                           "8EB",
                           "1P",
                           "1G ",
                           " 1G",
                           "99999999999T",
                           "8388608T",
                           "9223372036854775808",
                           "99999999999999999999999999999999999999999999",
                           "1K\n",
                           "1,5K",
                           "0.00000000000000000000000000000000000001T"}) {
    const Result<size_t> parsed = parseSize(text);
    ASSERT_FALSE(parsed.ok()) << "'" << text << "' gave " << parsed.value();
    EXPECT_EQ(parsed.error().code, ncclInvalidArgument);
    EXPECT_NE(parsed.error().message.find("'" + std::string(text) + "'"), std::string::npos)
        << parsed.error().message;
  }
}

TEST(Size, LargestIsJustBelowTwoToThe63) {
  EXPECT_EQ(parseSize("9223372036854775807").value(), (size_t{1} << 63) - 1);
  EXPECT_TRUE(parseSize("8388607T").ok());
}

using Sizes = std::vector<size_t>;

TEST(Sizes, MultiplyUpToTheLast) {
  EXPECT_EQ(sizesOf({8, 64, 0, 2}, 4), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(sizesOf({1, 100, 0, 3}, 4), (Sizes{1, 3, 9, 27, 81}));
}

TEST(Sizes, AddIfThereIsNoFactor) {
  EXPECT_EQ(sizesOf({8, 16, 4, 1}, 4), (Sizes{8, 12, 16}));
  EXPECT_EQ(sizesOf({0, 10, 4, 1}, 4), (Sizes{0, 4, 8}));
}

TEST(Sizes, VisitZeroOnceAndThenOneElement) {
  EXPECT_EQ(sizesOf({0, 0, 1 << 20, 1}, 4), (Sizes{0}));
  EXPECT_EQ(sizesOf({0, 0, 0, 2}, 4), (Sizes{0}));
  EXPECT_EQ(sizesOf({0, 16, 0, 2}, 4), (Sizes{0, 4, 8, 16}));
  EXPECT_EQ(sizesOf({0, 16, 0, 2}, 8), (Sizes{0, 8, 16}));
  EXPECT_EQ(sizesOf({0, 3, 0, 2}, 4), (Sizes{0})) << "an element is beyond the last size";
}

TEST(Sizes, AreOneIfTheFirstIsTheLast) {
  EXPECT_EQ(sizesOf({32, 32, 0, 1}, 4), (Sizes{32}));
  EXPECT_EQ(sizesOf({32, 32, 0, 2}, 4), (Sizes{32}));
}

TEST(Sizes, EndWhereTheNumbersDo) {
  constexpr size_t kMost = std::numeric_limits<size_t>::max();
  EXPECT_EQ(sizesOf({kMost / 2, kMost, 0, 3}, 1), (Sizes{kMost / 2}));
  EXPECT_EQ(sizesOf({kMost - 1, kMost, 2, 1}, 1), (Sizes{kMost - 1}));
}

}  // namespace
}  // namespace nccom::perf
