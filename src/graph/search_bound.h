// Internal to graph: how many channels can fit at most, however they are laid.
#pragma once

#include <vector>

#include "graph/search_model.h"

namespace nccom {

/// What one attempt asks for, in the model's terms.
struct PackTask {
  ncclTopoPattern pattern = ncclTopoPattern::Ring;
  ncclTopoPathType typeIntra = ncclTopoPathType::Sys;
  ncclTopoPathType typeInter = ncclTopoPathType::Sys;
  SearchModel::Costs intra{};      // between GPUs
  SearchModel::Costs inter{};      // from a NET
  SearchModel::Costs toNet{};      // to a NET: half of it from each of two GPUs of a balanced tree
  SearchModel::Units netCost = 0;  // of a NET's own bandwidth: whole GB/s, as in NCCL
  bool hasNets = false;

  bool isTree() const { return pattern != ncclTopoPattern::Ring; }
  bool allowsIntra(const SearchModel::Edge& edge) const { return allows(edge, typeIntra); }
  bool allowsInter(const SearchModel::Edge& edge) const { return allows(edge, typeInter); }

 private:
  bool allows(const SearchModel::Edge& edge, ncclTopoPathType limit) const {
    if (edge.type == ncclTopoPathType::Dis || edge.type > limit) return false;
    return !isTree() || edge.reverseType <= limit;  // a tree is used both ways
  }
};

/// Every channel enters and leaves each GPU once, so the links around a GPU bound the number of
/// channels; so do links without which no channel can reach all GPUs, and the NICs.
class SearchBound {
 public:
  explicit SearchBound(const SearchModel& model) : model_(model) {}

  /// @param netGBps  [net] units that NETs have
  void prepare(const PackTask& task, const std::vector<SearchModel::Units>& netUnits);

  /// Equal for tasks that allow the same links.
  uint64_t fingerprint() const { return fingerprint_; }

  /// Channels that fit at most, with all capacity free; and the link that bounds them, perhaps with
  /// others beside it; -1: none does.
  int atMost() const { return atMost_; }
  int boundingLink() const { return boundingLink_; }

  /// Channels that fit at most in what is left. May stop early with any number below `enough`.
  int atMost(const std::vector<SearchModel::Units>& capacity,
             const std::vector<SearchModel::Units>& netUnits, int enough) const;

 private:
  struct Gate {  // a link, and the least that a channel costs on it
    int link = -1;
    SearchModel::Units cost = 1;
  };
  struct Gates {
    std::vector<Gate> gates;
    bool isEndless = false;  // a path that no link limits
  };
  struct NetCut {  // a link that every way from or to these NETs uses
    Gate gate;     // link -1: the port that they share
    std::vector<int> nets;
  };
  struct NetSide {
    // Smaller sets first; of any two sets, one holds the other or they share nothing.
    std::vector<NetCut> cuts;
    std::vector<uint8_t> hasWay;  // [net]
    void add(NetCut cut);
  };
  static constexpr int kMany = 1 << 10;

  bool fits(const SearchModel::Edge& edge, const SearchModel::Costs& costs) const;
  void addGate(Gates& gates, const SearchModel::Edge& edge, bool atStart,
               const SearchModel::Costs& costs);
  void addEdges();
  void addNetEdges(const std::vector<SearchModel::Units>& netUnits);
  std::vector<Gate> narrowLinks() const;
  bool isEssential(int link) const;
  void addEssentials();
  void findBoundingLink();
  std::vector<Gate> commonGates(int net, bool isIn, bool* hasWay) const;
  NetSide netSide(bool isIn, const std::vector<SearchModel::Units>& netUnits) const;
  bool spans(const std::vector<uint64_t>& neighbours) const;
  uint64_t reach(const std::vector<uint64_t>& neighbours, int from) const;
  static int through(const Gates& gates, const std::vector<SearchModel::Units>& capacity);
  int throughAll(const std::vector<Gates>& gates, const std::vector<SearchModel::Units>& capacity,
                 int limit, bool mayEnd) const;
  int throughNets(const NetSide& side, const std::vector<SearchModel::Units>& capacity,
                  const std::vector<SearchModel::Units>& netUnits) const;
  void note(uint64_t value) { fingerprint_ = (fingerprint_ ^ value) * 0x9e3779b97f4a7c15U + 1; }

  const SearchModel& model_;
  PackTask task_;
  std::vector<uint64_t> next_;   // [gpu] bit a GPU that may follow; of up to 64 GPUs
  std::vector<Gates> out_, in_;  // [gpu]
  NetSide netIn_, netOut_;
  mutable std::vector<int> netShare_;  // [net] scratch
  std::vector<Gate> essentials_;
  uint64_t fingerprint_ = 0;
  int atMost_ = 0;
  int boundingLink_ = -1;
};

}  // namespace nccom
