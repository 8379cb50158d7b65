// The connected components of an undirected graph that is given by its edges.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "enc/disjoint_set.h"

namespace nccom {

template <class T, bool kByRank>
struct connected_components {
  disjoint_set<T, kByRank> ds;
  std::vector<std::vector<T>> edges;  // two vertices each; both may be the same
  std::vector<T> universe;            // all vertices, in the order in which the edges name them
  size_t num_vertices = 0;            // NOLINT(readability-identifier-naming): the field's name

  explicit connected_components(std::vector<std::vector<T>> pairs) : edges(std::move(pairs)) {
    for (const std::vector<T>& edge : edges) {
      for (const T vertex : edge) {
        if (ds.contains(vertex)) continue;
        ds.makeSet(vertex);
        universe.push_back(vertex);
      }
    }
    num_vertices = universe.size();
    for (const std::vector<T>& edge : edges) {
      ds.unite(edge.front(), edge.back());
    }
  }

  bool contains(T vertex) const { return ds.contains(vertex); }

  /// All components, each by its root, its vertices in the order of the universe; and the root of
  /// the vertex's own.
  /// @param vertex  one that contains() knows: there is no component of another
  std::pair<std::unordered_map<T, std::vector<T>>, T> getConnected(T vertex) {
    std::unordered_map<T, std::vector<T>> components;
    for (const T member : universe) {
      components[ds.findSet(member)].push_back(member);
    }
    return {std::move(components), ds.findSet(vertex)};
  }
};

}  // namespace nccom
