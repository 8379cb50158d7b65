#include "enc/levels.h"

#include <algorithm>

namespace nccom {

std::vector<int> encLevels::inter() const {
  std::vector<int> ranks;
  ranks.reserve(servers.size());
  for (const std::vector<int>& members : servers)
    ranks.push_back(members[place]);
  return ranks;
}

encLevels encLevelsOf(const enc_comm_info& info) {
  encLevels levels;
  levels.servers.resize(static_cast<size_t>(info.situation.node_n));
  for (int rank = 0; rank < info.rank_n; rank++) {
    std::vector<int>& members = levels.servers[info.peers[rank].server];
    if (rank == info.rank) {
      levels.server = info.peers[rank].server;
      levels.place = static_cast<int>(members.size());
    }
    members.push_back(rank);
  }
  return levels;
}

std::vector<int> encLevelRing(const enc_comm_info& info, const encLevels& levels, encLevel level) {
  std::vector<int> order;
  if (level == encLevel::Intra) {
    const std::vector<int>& members = levels.intra();
    for (const int rank : info.rings[0]) {
      const auto found = std::lower_bound(members.begin(), members.end(), rank);
      if (found != members.end() && *found == rank) {
        order.push_back(static_cast<int>(found - members.begin()));
      }
    }
    return order;
  }
  std::vector<bool> seen(levels.servers.size(), false);
  for (const int rank : info.rings[0]) {
    const int server = info.peers[rank].server;
    if (!seen[server]) order.push_back(server);
    seen[server] = true;
  }
  return order;
}

}  // namespace nccom
