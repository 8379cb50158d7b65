// Internal to graph: lays channels like search_dfs.h, but sees early what cannot succeed.
#pragma once

#include <vector>

#include "graph/search_bound.h"
#include "graph/search_candidates.h"
#include "graph/search_finder.h"

namespace nccom {

/// A well mixed number for each input.
constexpr uint64_t mixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Same space and order as ChannelSearch. Attempts that a bound rules out, or that allow no link
/// that was not tried before, cost nothing; no state (what is booked, who is visited) is searched
/// twice in an attempt; what is left must have room for the channels that are still needed.
/// A graph is better if it has more bandwidth in all; else closer paths; else fewer links.
class ChannelPacker : public ChannelFinder {
 public:
  /// @param order  GPU indices in an order worth trying first (see search_order.h); may be empty
  ChannelPacker(const ncclTopoSystem& system, const ncclTopoGraph& wanted,
                SearchCandidates& candidates, std::vector<int> order);

  SearchTrial run(const ncclTopoGraph& asked, ncclTopoGraph& best, int budget) override;

 private:
  using Units = SearchModel::Units;
  using Edge = SearchModel::Edge;
  enum class Order : uint8_t { Free, Pci, Replay, Hint };
  struct Place {  // where a channel is being continued
    int gpu = -1;
    int step = 0;
    int backToNet = -1;  // step
    Order order = Order::Free;
  };
  struct Known {  // what was learned of the links that an attempt allows
    uint64_t key = 0;
    uint64_t fingerprint = 0;  // of the links, see SearchBound
    int atMost = 0;            // channels
    int boundingLink = -1;
  };
  struct Seen {  // an attempt that need not be made again
    uint64_t fingerprint = 0;
    int nNeeded = 0;
  };

  void listTypes();
  void setTask(const ncclTopoGraph& asked);
  Known learn();
  int neededChannels(const ncclTopoGraph& asked, const ncclTopoGraph& best) const;
  bool isRepeat(uint64_t fingerprint, int nNeeded);
  void search(int budget, bool closes, bool spreads = false);
  bool mayBeRing() const;
  bool book(const Edge& edge, const SearchModel::Costs& costs);
  void release(const Edge& edge, const SearchModel::Costs& costs, int nHops);
  void release(const Edge& edge, const SearchModel::Costs& costs) {
    release(edge, costs, edge.nHops);
  }
  bool isOver() const { return time_ <= 0 || isDone_; }

  void layChannel();
  void layFromNets();
  void layFromNet(int net);
  void shareNet(int net, Units units);
  void start(int net, int gpu, Order order);
  void visit(const Place& place);
  void visitNets(const Place& place);
  void goOn(const Place& place);
  void spread(int gpu, size_t begin);
  SearchModel::Units roomOf(const Edge& edge) const;
  void closeRing(int gpu);
  void channelDone();
  void save();
  bool isSeen(const Place& place);
  bool remember(uint64_t key);
  bool hasRoom() const;
  bool mayEndAt(int net, int step) const;
  int firstBackToNet() const;
  int freePciBandwidth(int gpu) const;
  int& at(int channel, int step) { return intra_[channel * nGpus_ + step]; }

  const ncclTopoSystem& system_;
  SearchCandidates& candidates_;
  const int nGpus_;
  const int nNets_;
  const bool hasSwitch_;
  uint32_t intraTypes_ = 0;     // bit a path type that occurs between GPUs
  uint32_t interTypes_ = 0;     // ... between GPUs and NETs
  std::vector<int> order_;      // tour of GPU indices
  std::vector<int> orderNext_;  // [gpu] successor in the tour
  SearchModel model_;
  SearchBound bound_;
  std::vector<Units> capacity_;  // [link] left
  std::vector<Units> netUnits_;  // [net] left

  // of the running attempt
  const ncclTopoGraph* asked_ = nullptr;
  ncclTopoGraph* best_ = nullptr;
  PackTask task_;
  int time_ = 0;
  bool closes_ = false;   // channels return to their first GPU
  bool spreads_ = false;  // next GPUs in the order of what their links have left
  int nSpreads_ = 0;      // attempts that were made so
  bool isDone_ = false;
  bool hasFound_ = false;
  int nNeeded_ = 0;      // channels that are better than the best
  int polishSteps_ = 0;  // left to look for fewer links after the most channels were found
  int nChannels_ = 0;
  int nMostChannels_ = 0;
  int nHops_ = 0;
  float latencyInter_ = 0;
  std::vector<int> intra_;  // [channel * nGpus + step] GPU index
  std::vector<int> netIn_;  // [channel] NET index
  std::vector<int> netOut_;
  std::vector<uint8_t> isUsed_;  // [gpu] in the channel being laid
  std::vector<int> stack_;       // candidates of all open steps
  std::vector<int> refusals_;    // [link] how often it had too little

  // states that were searched, by hash
  uint64_t usage_ = 0;    // of what is booked
  uint64_t visited_ = 0;  // of the GPUs in the channel being laid
  uint64_t salt_ = 0;     // of the attempt
  std::vector<uint64_t> seen_;
  std::vector<Seen> tried_;  // attempts at one bandwidth
  std::vector<Known> known_;
  uint64_t speed_ = 0;        // that they are of
  uint64_t preparedFor_ = 0;  // key of what bound_ has
};

}  // namespace nccom
