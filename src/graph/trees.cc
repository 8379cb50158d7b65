#include "graph/trees.h"

namespace nccom {
namespace {

/// The place of a tree in which every place x is named rename(x).
template <class Rename>
TreePlace renamed(TreePlace place, Rename rename) {
  for (int* const other : {&place.up, &place.down[0], &place.down[1]}) {
    if (*other != -1) *other = rename(*other);
  }
  return place;
}

}  // namespace

TreePlace ncclGetBtree(int n, int place) {
  TreePlace tree;
  int bit = 1;  // lowest set bit of the place; of place 0 the first power of two not below n
  while (bit < n && (place & bit) == 0)
    bit *= 2;
  if (place == 0) {
    tree.down[1] = n > 1 ? bit / 2 : -1;
    return tree;
  }
  tree.up = (place ^ bit) | (2 * bit);
  if (tree.up >= n) tree.up = place ^ bit;
  tree.childSlot = place < tree.up ? 0 : 1;
  if (bit == 1) return tree;
  tree.down[0] = place - bit / 2;
  for (int step = bit / 2; step > 0 && tree.down[1] == -1; step /= 2) {
    if (place + step < n) tree.down[1] = place + step;
  }
  return tree;
}

std::array<TreePlace, 2> ncclGetDtree(int n, int place) {
  const TreePlace first = ncclGetBtree(n, place);
  if (n % 2 == 0) {
    const auto mirror = [n](int x) { return n - 1 - x; };
    return {first, renamed(ncclGetBtree(n, mirror(place)), mirror)};
  }
  const TreePlace before = ncclGetBtree(n, (place + n - 1) % n);
  return {first, renamed(before, [n](int x) { return (x + 1) % n; })};
}

}  // namespace nccom
