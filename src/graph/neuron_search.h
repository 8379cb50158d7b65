// The Neuron path search: tours of a host's devices over real links, found depth first by price.
//
// Devices are nodes, links are edges. An edge's locality and its price, how many tours took it
// before, say which is tried first: (locality, price, direct before switched, turn cost, index).
// A finished tour raises the price of its links in both directions, since each tour is used both
// ways; later tours therefore take other links where there are any. The published facts end
// there; that prices count use, that a ceiling on them makes tours edge-disjoint, and what a turn
// costs, is this library's design.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/fabric.h"

namespace nccom {

/// An edge of a search node.
struct NeuronSearchEdge {
  int target = 0;  // node
  EdgeLocality locality = EdgeLocality::RemoteMla;
  int link = -1;      // of the fabric; -1: no direct link
  int extraHops = 0;  // devices in between
  bool switched = false;
  uint8_t outSengs = 0;  // engine groups that drive the port here, and there; 0: not one link
  uint8_t inSengs = 0;
  bool operator==(const NeuronSearchEdge&) const = default;
};

/// A device, with its edges by kind: links first, then what takes several.
struct NeuronNode {
  struct EdgeSet {
    std::vector<NeuronSearchEdge> remote;  // by target
    std::vector<NeuronSearchEdge> far;     // by target
    bool operator==(const EdgeSet&) const = default;
  };
  int device = 0;
  EdgeSet edges;
  bool operator==(const NeuronNode&) const = default;
};

/// What it costs a path to enter a device at one port and leave it at another.
enum class TurnRule : uint8_t {
  Ring,       // the two engine groups should be next to each other
  Kangaring,  // they should be on different dies, at best opposite each other
};

/// @param inSengs, outSengs  engine groups that drive the ports; 0: any
int turnCost(const NeuronPlatform& platform, TurnRule rule, uint8_t inSengs, uint8_t outSengs);

/// An order of devices. A closed tour returns from the last to the first.
struct NeuronTour {
  std::vector<int> devices;  // a folded tour (foldTour) may pass one several times
  bool closed = true;
  int extraHops = 0;  // over all legs: devices passed that are not in the tour; 0: links only
  int turnCost = 0;
  bool operator==(const NeuronTour&) const = default;
};

struct NeuronSearchRequest {
  TurnRule rule = TurnRule::Ring;
  bool closed = true;
  int maxTours = 1;
  int priceCeiling = 0;  // an edge is free while at most so many tours have taken it
  int steps = 40000;     // bound of the depth-first search, a count so that equal inputs agree
};

/// Nodes for these devices.
/// @param devices  sorted, of one host or of a pod; far edges pass through any device of the fabric
std::vector<NeuronNode> constructNodes(const NeuronFabric& fabric, const std::vector<int>& devices);

class NeuronSearch {
 public:
  /// @param devices  sorted, without repetition, at least one
  NeuronSearch(const NeuronFabric& fabric, const std::vector<int>& devices);

  /// Tours over links only that visit every device once: as many as there are up to maxTours,
  /// among equally many those with the least turn cost that the steps suffice to find. Prices of
  /// earlier calls count, and those of the result are raised. Empty: there is none.
  std::vector<NeuronTour> findPaths(const NeuronSearchRequest& request);

  /// The tour with as few extra hops as the steps suffice to find; always finds one. Prices say
  /// what is tried first, but bar nothing.
  NeuronTour findCheapest(const NeuronSearchRequest& request);

  /// Bound on edge-disjoint closed tours: half the links of the device that has the fewest.
  int maxDisjoint() const;

  const std::vector<NeuronNode>& nodes() const { return nodes_; }

 private:
  struct Leg {
    int node = 0;
    NeuronSearchEdge edge;  // that led here; of the first node: the closing one
  };

  void setRequest(const NeuronSearchRequest& request);
  void findPathRec();
  void finishTour(const NeuronSearchEdge* closing);
  void searchLevel();
  void orderEdges(int node, std::vector<NeuronSearchEdge>& out) const;
  bool isClosingCycle(int target) const { return visited_[target]; }
  bool isDeadEnd(int left) const;
  bool hasRoomFor(const NeuronSearchEdge& edge) const;
  bool tryIncreasePrice(const NeuronSearchEdge& edge);
  void decreasePrice(const NeuronSearchEdge& edge);
  void changePrices(const NeuronTour& tour, int by);
  int edgePrice(const NeuronSearchEdge& edge) const;
  int turnAt(const NeuronSearchEdge& in, const NeuronSearchEdge& out) const;
  const NeuronSearchEdge* edgeTo(int node, int target) const;
  int openUses(int node) const;
  int fewestExtraHops() const;
  void improve(NeuronTour& tour) const;
  int extraHopsBetween(int deviceNode, int otherNode) const;
  bool isDone() const;

  const NeuronFabric& fabric_;
  std::vector<NeuronNode> nodes_;
  std::vector<int> nodeOf_;  // [device] or -1
  std::vector<int> price_;   // [link]

  // state of one search
  NeuronSearchRequest request_;
  std::vector<int> turnCosts_;  // of request_.rule: [engine groups in][engine groups out]
  int extraHopsLeft_ = 0;
  int stepsLeft_ = 0;
  std::vector<Leg> path_;
  std::vector<bool> visited_;
  int turns_ = 0;
  std::vector<NeuronTour> current_, best_;
  int currentTurns_ = 0, bestTurns_ = 0;
};

/// Replaces legs that pass foreign devices, or several, by visits of devices of the tour that have
/// cores to spare: hop by hop over links.
/// @param spare  [device of the fabric] visits beyond the first that it can take
void foldTour(const NeuronFabric& fabric, NeuronTour& tour, std::vector<int> spare);

/// The devices that the shortest way between two devices passes: `from`, ..., `to`; the first by
/// device number among equals. Empty: there is no way.
/// @param allowed  [device of the fabric] whether the way may pass it; empty: all
std::vector<int> shortestWay(const NeuronFabric& fabric, int from, int to,
                             const std::vector<bool>& allowed = {});

}  // namespace nccom
