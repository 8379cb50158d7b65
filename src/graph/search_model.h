// Internal to graph: a system as arrays for a fast search: links with capacities in whole numbers,
// and for each pair that may be neighbours in a channel the links between them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/search.h"

namespace nccom {

class SearchModel {
 public:
  using Units = int32_t;  // 1/8 MB/s: all speeds, and the shares of them that are booked, are whole
  static constexpr Units kPerGBps = 8000;
  static Units toUnits(float gbps);

  /// What a path costs on one link, as parts of the channel's bandwidth: all of it; a sixth more
  /// for PCI packets between devices through Intel CPUs; an eighth the other way into devices
  /// that acknowledge; all of it the other way where a link has no second direction.
  static constexpr int kShares = 8;
  using Costs = std::array<Units, kShares>;
  static Costs costsOf(Units bandwidth);

  struct Hop {
    int link = 0;
    uint8_t share = 0;
  };
  struct Edge {
    ncclTopoPathType type = ncclTopoPathType::Dis;
    ncclTopoPathType reverseType = ncclTopoPathType::Dis;
    int firstHop = 0;
    int nHops = 0;       // booked ones
    int nLinks = 0;      // of the path
    int firstLink = -1;  // that it leaves over, and ...
    int lastLink = -1;   // that it arrives over; -1: no link of it can fill up
  };

  /// Links with more than `enoughGBps` never fill up, and are left out.
  SearchModel(const ncclTopoSystem& system, float enoughGBps);

  int nGpus() const { return nGpus_; }
  int nNets() const { return nNets_; }
  const Edge& gpuToGpu(int a, int b) const { return gpuToGpu_[a * nGpus_ + b]; }
  const Edge& netToGpu(int net, int gpu) const { return netToGpu_[net * nGpus_ + gpu]; }
  const Edge& gpuToNet(int gpu, int net) const { return gpuToNet_[gpu * nNets_ + net]; }
  std::span<const Hop> hops(const Edge& edge) const {
    return std::span(hops_).subspan(edge.firstHop, edge.nHops);
  }
  const std::vector<Units>& capacity() const { return capacity_; }  // [link]
  int reverseOf(int link) const { return reverse_[link]; }
  /// Link of a GPU's device to PCI; -1 if it has none.
  int pciLink(int gpu) const { return pciLinks_[gpu]; }
  /// NETs of one card and port share its bandwidth: the first of those with it.
  int portOf(int net) const { return ports_[net]; }

 private:
  struct LinkFacts {
    bool isPci = false;
    bool entersOldDevice = false;
    bool entersPowerCpu = false;
    bool isEndless = false;
  };

  void addLinks(float enoughGBps);
  Edge makeEdge(ncclTopoNodeRef from, ncclTopoNodeRef to);
  void addHops(int link, bool isDetour, bool fromGpu);
  int linkIndex(ncclTopoNodeRef node, int link) const {
    return firstLink_[static_cast<int>(node.type)][node.index] + link;
  }

  const ncclTopoSystem& system_;
  const int nGpus_;
  const int nNets_;
  std::array<std::vector<int>, kTopoNodeTypes> firstLink_;  // [type][index] of each node's links
  std::vector<Units> capacity_;
  std::vector<int> reverse_;
  std::vector<LinkFacts> facts_;
  std::vector<Hop> hops_;
  std::vector<Edge> gpuToGpu_, netToGpu_, gpuToNet_;
  std::vector<int> pciLinks_;
  std::vector<int> ports_;
};

}  // namespace nccom
