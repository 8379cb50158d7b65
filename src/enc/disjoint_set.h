// Disjoint sets as a forest of rooted trees: two elements are in one set if their trees have one
// root. The elements are sparse (global device ids), hence maps.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

namespace nccom {

/// @tparam kByRank  union by rank: the root of the higher tree stays a root
template <class T, bool kByRank>
struct disjoint_set {
  std::unordered_map<T, T> representative;  // parent; a root is its own
  std::unordered_map<T, T> rank;            // height of a root's tree; only unite() reads it

  /// Makes `element` a set of its own.
  void makeSet(T element) {
    representative[element] = element;
    rank[element] = 0;
  }

  bool contains(T element) const { return representative.contains(element); }

  /// The root of an element's tree. All elements on the way are linked to it directly, so that the
  /// next walk from any of them is one step.
  /// @param element  one that makeSet() was given
  T findSet(T element) {
    T root = element;
    for (T parent = representative.at(root); parent != root; parent = representative.at(root)) {
      root = parent;
    }
    while (element != root) {
      element = std::exchange(representative.at(element), root);
    }
    return root;
  }

  /// Joins the sets of two elements. Of two trees of one height, the root of a's stays a root.
  void unite(T a, T b) {
    const T rootA = findSet(a), rootB = findSet(b);
    if (rootA == rootB) return;
    if constexpr (kByRank) {
      T& heightA = rank.at(rootA);
      const T heightB = rank.at(rootB);
      if (heightA < heightB) {
        representative.at(rootA) = rootB;
        return;
      }
      if (heightA == heightB) heightA++;
    }
    representative.at(rootB) = rootA;
  }
};

}  // namespace nccom
