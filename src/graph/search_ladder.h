// Internal to graph: relaxes what is asked for, one thing at a time, until a search finds enough.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/search_candidates.h"
#include "graph/search_finder.h"

namespace nccom {

/// Steps that a search may spend: never time, so that equal inputs give equal graphs.
struct SearchBudgets {
  int attempt = 1 << 14;
  int sameChannels = 1 << 8;
  int64_t global = 1 << 19;
};

/// GB/s of one channel that are tried, the highest first.
std::span<const float> searchSpeeds(const ncclTopoSystem& system);

/// Generation of the oldest device.
int minSm(const ncclTopoSystem& system);

class SearchLadder {
 public:
  SearchLadder(const ncclTopoSystem& system, const ncclTopoGraph& wanted,
               const SearchBudgets& budgets, SearchCandidates& candidates, ChannelFinder& finder);

  /// The best graph found, with `why`; else one channel in the order of the system.
  ncclTopoGraph climb();

  /// What was the best on the way up, in order.
  const std::vector<ncclTopoGraph>& incumbents() const { return incumbents_; }
  /// What climb() would have made of an incumbent, had it ended there.
  ncclTopoGraph finish(const ncclTopoGraph& incumbent);

 private:
  struct Rung {  // an attempt, for `why`
    float bwIntra, bwInter;
    ncclTopoPathType typeIntra, typeInter;
    ncclTopoPattern pattern;
    int crossNic;
    bool sameChannels;
    SearchTrial trial;
  };

  void setBounds(const ncclTopoGraph& wanted);
  void setSpeed() { asked_.bwIntra = asked_.bwInter = speeds_[speed_]; }
  bool hasSlower() const { return speed_ + 1 < static_cast<int>(speeds_.size()); }
  void startSpeed();
  void attempt();
  bool isOptimal() const;
  bool relax();
  bool relaxPattern();
  bool relaxTypes(bool found);
  bool relaxCrossNic();
  bool relaxSpeed(bool found);
  void duplicateChannels();
  void raiseBandwidth();
  bool mayRaise() const;
  void fallBack();
  void explain();
  std::string explain(const std::vector<size_t>& rungs) const;
  std::string explainTrial(const SearchTrial& trial) const;

  const ncclTopoSystem& system_;
  const int sm_;
  const std::span<const float> speeds_;
  const SearchBudgets budgets_;
  int64_t globalBudget_;
  SearchCandidates& candidates_;
  ChannelFinder& finder_;
  ncclTopoGraph best_;
  ncclTopoGraph asked_;
  ncclTopoPathType minTypeIntra_ = ncclTopoPathType::Loc;
  ncclTopoPathType maxTypeIntra_ = ncclTopoPathType::Sys;
  ncclTopoPathType minTypeInter_ = ncclTopoPathType::Pix;
  ncclTopoPathType maxTypeInter_ = ncclTopoPathType::Sys;
  int crossNic_ = 0;
  int speed_ = 0;  // index into speeds_
  int time_ = 0;   // of the last attempt, see SearchTrial
  bool isAmd_ = false;
  bool isClimbing_ = true;
  std::vector<ncclTopoGraph> incumbents_;
  std::vector<Rung> rungs_;
  size_t nFirstRungs_ = 0;  // before the bandwidth was raised again
  std::string duplicated_;  // a sentence, or empty
};

}  // namespace nccom
