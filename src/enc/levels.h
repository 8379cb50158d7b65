// The two levels of a communicator: the ranks of each server, and those that share a place on
// their servers.
#pragma once

#include <vector>

#include "enc/comm_info.h"
#include "enc/stage.h"

namespace nccom {

struct encLevels {
  std::vector<std::vector<int>> servers;  // [server] ranks, by number
  int server = 0, place = 0;              // own

  const std::vector<int>& intra() const { return servers[server]; }
  std::vector<int> inter() const;
  int serverCount() const { return static_cast<int>(servers.size()); }
  int placeCount() const { return static_cast<int>(servers[server].size()); }
};

/// @param info  with peers
encLevels encLevelsOf(const enc_comm_info& info);

/// The order in which rings pass the members of a level: that of the first channel. Places of the
/// own server, or servers.
std::vector<int> encLevelRing(const enc_comm_info& info, const encLevels& levels, encLevel level);

}  // namespace nccom
