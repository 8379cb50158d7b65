// Internal to graph: what the ladder asks of a search, and what it learns from each attempt.
#pragma once

#include <cstdint>

#include "graph/search.h"

namespace nccom {

/// What became of one attempt.
struct SearchTrial {
  enum class Verdict : uint8_t {
    Found,      // something better than before
    Repeats,    // the same links as an attempt before
    CannotFit,  // a bound says that too few channels fit
    Tried,      // all ways tried
    Spent,      // the steps went out first
  };
  Verdict verdict = Verdict::Tried;
  int timeLeft = 0;  // steps; 0: all spent, -1: the maximum number of channels was reached
  int nLaid = 0;     // most channels laid at once, or that a bound allows
  int nNeeded = 0;   // channels that would have been better
  int link = -1;     // that was full most often, or that bounds; numbered over all nodes in order
};

class ChannelFinder {
 public:
  virtual ~ChannelFinder() = default;

  /// Looks for channels of `asked` (its bandwidths, types, sameChannels, crossNic, min/max
  /// channels); replaces `best` whenever something better is found.
  /// @param budget  steps to spend
  virtual SearchTrial run(const ncclTopoGraph& asked, ncclTopoGraph& best, int budget) = 0;
};

}  // namespace nccom
