// Double binary trees: two trees over the same places, in which whoever forwards in the one is, as
// far as can be, a leaf of the other, so that both together use every place's bandwidth both ways.
#pragma once

#include <array>
#include <vector>

namespace nccom {

/// One place in a tree over places 0 .. n-1. -1 where there is none.
struct TreePlace {
  int up = -1;
  std::array<int, 2> down = {-1, -1};  // in front of the place, behind it
  int childSlot = 0;                   // which of its parent's `down` this place is
  bool operator==(const TreePlace&) const = default;
};

/// The binary tree with root 0 whose odd places are leaves; its depth is at most 1 + log2(n).
/// @param n      number of places, at least 1
/// @param place  0 .. n-1
/// @source NCCL's ncclGetBtree: the parent of a place has the next higher bit as its lowest set one
TreePlace ncclGetBtree(int n, int place);

/// The tree of ncclGetBtree, and a second one: the same mirrored (n even; no place forwards in
/// both) or shifted by one (n odd).
std::array<TreePlace, 2> ncclGetDtree(int n, int place);

}  // namespace nccom
