// Internal to graph: one depth-first attempt to lay channels, with fixed bandwidth and path types.
#pragma once

#include <utility>
#include <vector>

#include "graph/search_candidates.h"
#include "graph/search_finder.h"

namespace nccom {

/// Bandwidth is booked on links while channels are laid and given back on the way up, so that one
/// object serves all attempts on a system.
class ChannelSearch : public ChannelFinder {
 public:
  ChannelSearch(const ncclTopoSystem& system, SearchCandidates& candidates);

  SearchTrial run(const ncclTopoGraph& asked, ncclTopoGraph& best, int budget) override;

 private:
  enum class Order { Free, Pci, Replay };
  struct FlatPath {
    std::vector<int> links;  // in order from the source
    ncclTopoPathType type = ncclTopoPathType::Dis;
    ncclTopoPathType reverseType = ncclTopoPathType::Dis;  // of the way back
    bool isIntelDetour = false;  // device to device through an Intel CPU costs more PCI bandwidth
  };
  struct FlatLink {
    float bwGBps = 0;
    bool isPci = false;
    bool entersOldDevice = false;  // booking against the reverse direction, see reverseShare
    bool entersPowerCpu = false;
    int reverse = -1;
  };
  struct Shape {  // what does not change along one channel
    int backToNet = -1;
    int backToFirst = -1;
  };

  void indexLinks(const ncclTopoSystem& system);
  FlatLink flatten(const ncclTopoSystem& system, ncclTopoNodeRef node,
                   const ncclTopoLink& link) const;
  FlatPath flatten(ncclTopoNodeRef from, ncclTopoNodeRef to) const;
  const FlatPath& gpuToGpu(int a, int b) const { return gpuPaths_[a * nGpus_ + b]; }
  const FlatPath& netToGpu(int n, int g) const { return netGpuPaths_[n * nGpus_ + g]; }
  const FlatPath& gpuToNet(int g, int n) const { return gpuNetPaths_[g * nNets_ + n]; }

  bool book(const FlatPath& path, bool fromGpu, float bwGBps, size_t nLinks, size_t* booked);
  bool follow(const FlatPath& path, bool fromGpu, bool isIntra, float share = 1);
  void unfollow(const FlatPath& path, bool fromGpu, bool isIntra, float share = 1);

  void searchChannel(int* time);
  void searchFromNets(int* time);
  void searchFromNet(int net, const Shape& shape, int* time);
  void tryFirst(int net, int gpu, const Shape& shape, Order order, int* time);
  void tryNext(int from, int to, int step, const Shape& shape, Order order, int* time);
  void visit(int gpu, int step, const Shape& shape, Order order, int* time);
  void visitNets(int gpu, int step, const Shape& shape, Order order, int* time);
  void closeRing(int gpu, int* time);
  void channelDone(int* time);
  void nextGpus(int gpu, int step, const Shape& shape, Order order);
  int replayed(int step) const;
  bool mayEndAt(int net, int step) const;
  Shape shape() const;
  bool isTree() const { return wanted_.pattern != ncclTopoPattern::Ring; }
  void shareNet(int net, int bwGBps);
  void save(ncclTopoGraph& best) const;
  int freePciBandwidth(int gpu) const;
  int pciLinkOf(int gpu) const;

  const ncclTopoSystem& system_;
  SearchCandidates& candidates_;
  const int nGpus_;
  const int nNets_;
  std::array<std::vector<int>, kTopoNodeTypes> firstLink_;  // [type][index] of each node's links
  std::vector<FlatLink> links_;
  std::vector<FlatPath> gpuPaths_, netGpuPaths_, gpuNetPaths_;
  std::vector<float> netBw_;   // GB/s still free
  std::vector<int> pciLinks_;  // [gpu] of its device; -1: none

  // of the running attempt
  ncclTopoGraph wanted_;
  ncclTopoGraph* best_ = nullptr;
  int nChannels_ = 0;
  int nMostChannels_ = 0;
  bool hasFound_ = false;
  std::vector<int> refusals_;  // [link] how often it had too little
  int nHops_ = 0;
  float latencyInter_ = 0;
  std::vector<int> intra_;  // [channel * nGpus + step] GPU index
  std::vector<int> netIn_;  // [channel] NET index
  std::vector<int> netOut_;
  std::vector<uint64_t> used_;  // [gpu] bit a channel
  std::vector<int> stack_;      // stack of the candidate lists of all open steps
};

}  // namespace nccom
