#include "tools/nccom/ring_groups.h"

#include <algorithm>

namespace nccom {
namespace {

std::vector<int> placesOf(const std::vector<int>& ranks, bool closed,
                          const std::vector<int>& placeOf) {
  if (placeOf.empty()) return ranks;
  std::vector<int> places;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= static_cast<int>(placeOf.size())) continue;
    if (places.empty() || places.back() != placeOf[rank]) places.push_back(placeOf[rank]);
  }
  if (closed && places.size() > 1 && places.front() == places.back()) places.pop_back();
  return places;
}

/// The rotation that comes first in lexical order.
std::vector<int> leastRotation(const std::vector<int>& order) {
  std::vector<int> best = order;
  std::vector<int> turned = order;
  for (size_t i = 1; i < order.size(); i++) {
    std::rotate(turned.begin(), turned.begin() + 1, turned.end());
    best = std::min(best, turned);
  }
  return best;
}

}  // namespace

std::string channelList(const std::vector<int>& channels) {
  std::string text;
  for (size_t i = 0; i < channels.size(); i++) {
    size_t last = i;
    while (last + 1 < channels.size() && channels[last + 1] == channels[last] + 1)
      last++;
    text += (text.empty() ? "" : ",") + std::to_string(channels[i]);
    if (last > i) text += (last == i + 1 ? "," : "-") + std::to_string(channels[last]);
    i = last;
  }
  return text;
}

std::string RingGroup::label() const {
  std::string text = (forward.size() == 1 ? "channel " : "channels ") + channelList(forward);
  if (!backward.empty()) text += ", backwards " + channelList(backward);
  return text;
}

std::vector<RingGroup> groupRings(const ncclTopoGraph& graph, bool closed,
                                  const std::vector<int>& placeOf) {
  std::vector<RingGroup> groups;
  std::vector<std::vector<int>> keys;
  for (int c = 0; c < graph.nChannels; c++) {
    const std::vector<int> order = placesOf(graph.intra[c], closed, placeOf);
    std::vector<int> reversed(order.rbegin(), order.rend());
    std::vector<int> ahead = closed ? leastRotation(order) : order;
    std::vector<int> back = closed ? leastRotation(reversed) : std::move(reversed);
    const auto find = [&](const std::vector<int>& key) {
      return static_cast<size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
    };
    if (const size_t known = find(ahead); known < keys.size()) {
      groups[known].forward.push_back(c);
    } else if (const size_t other = find(back); other < keys.size()) {
      groups[other].backward.push_back(c);
    } else {
      keys.push_back(std::move(ahead));
      groups.push_back({order, {c}, {}});
    }
  }
  return groups;
}

}  // namespace nccom
