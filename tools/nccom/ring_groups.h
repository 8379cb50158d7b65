// Channels that go the same way, for drawing.
#pragma once

#include <string>
#include <vector>

#include "graph/search.h"

namespace nccom {

/// Channels of one order, up to where a ring starts and which way it goes.
struct RingGroup {
  std::vector<int> order;     // of ranks, or what `placeOf` made of them, as the first channel goes
  std::vector<int> forward;   // channels that go this way
  std::vector<int> backward;  // channels that go the other way

  /// "channels 0-3, backwards 4"
  std::string label() const;
};

/// @param closed   the order returns from its end to its start, so that any start is as good
/// @param placeOf  [rank] what a rank is drawn as (its device), equal neighbours as one; empty: the
///                 rank itself. Ranks beyond it are left out.
std::vector<RingGroup> groupRings(const ncclTopoGraph& graph, bool closed,
                                  const std::vector<int>& placeOf = {});

/// "0-3,7"
std::string channelList(const std::vector<int>& channels);

}  // namespace nccom
