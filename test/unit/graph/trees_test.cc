#include "graph/trees.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <vector>

namespace nccom {
namespace {

using PlaceOf = std::function<TreePlace(int)>;

/// Parents and children agree, one root, everyone is below it. Returns the depth.
int expectTree(int n, const PlaceOf& placeOf) {
  std::vector<int> depth(n, -1);
  std::vector<int> reached;
  for (int x = 0; x < n; x++) {
    if (placeOf(x).up == -1) reached.push_back(x);
  }
  EXPECT_EQ(reached.size(), 1U);
  if (reached.empty()) return -1;
  depth[reached[0]] = 0;
  for (size_t i = 0; i < reached.size() && reached.size() <= static_cast<size_t>(n); i++) {
    const TreePlace place = placeOf(reached[i]);
    for (const int slot : {0, 1}) {
      const int child = place.down[slot];
      if (child == -1) continue;
      EXPECT_EQ(placeOf(child).up, reached[i]) << child;
      EXPECT_EQ(placeOf(child).childSlot, slot) << child;
      depth[child] = depth[reached[i]] + 1;
      reached.push_back(child);
    }
  }
  EXPECT_EQ(reached.size(), static_cast<size_t>(n));
  return *std::max_element(depth.begin(), depth.end());
}

TEST(Trees, AreTreesOfLogarithmicDepth) {
  for (int n = 1; n <= 300; n++) {
    SCOPED_TRACE("n " + std::to_string(n));
    const int log2 = std::bit_width(static_cast<unsigned>(n)) - 1;
    EXPECT_LE(expectTree(n, [n](int x) { return ncclGetBtree(n, x); }), 1 + log2);
    for (const size_t which : {0U, 1U}) {
      EXPECT_LE(expectTree(n, [&](int x) { return ncclGetDtree(n, x)[which]; }), 1 + log2);
    }
    if (HasFailure()) return;
  }
}

TEST(Trees, WhoForwardsInOneIsALeafOfTheOther) {
  const auto isLeaf = [](const TreePlace& place) {
    return place.down == std::array<int, 2>{-1, -1};
  };
  for (int n = 2; n <= 300; n++) {
    for (int x = 0; x < n; x++) {
      const auto [first, second] = ncclGetDtree(n, x);
      EXPECT_EQ(first, ncclGetBtree(n, x));
      // An odd number cannot be dealt out: place 0, the root of the first, is the one exception.
      const bool isException = n % 2 == 1 && x == 0;
      EXPECT_TRUE(isLeaf(first) || isLeaf(second) || isException) << n << " " << x;
    }
  }
}

TEST(Trees, ChildrenStandOnBothSidesOfTheirParent) {
  for (int n = 1; n <= 100; n++) {
    for (int x = 1; x < n; x++) {
      const TreePlace place = ncclGetBtree(n, x);
      EXPECT_LT(place.down[0], x);
      EXPECT_TRUE(place.down[1] == -1 || place.down[1] > x);
    }
  }
}

TEST(Trees, FourteenPlacesAsPublished) {
  // The parents that NCCL's description of its tree shows.
  const std::vector<int> up = {-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12};
  for (int x = 0; x < 14; x++)
    EXPECT_EQ(ncclGetBtree(14, x).up, up[x]) << x;
}

}  // namespace
}  // namespace nccom
