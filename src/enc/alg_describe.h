// Describes groups on known machines, so that selection can be asked about them.
#pragma once

#include <vector>

#include "enc/alg_situation.h"
#include "graph/platform.h"
#include "misc/result.h"

namespace nccom {

/// Hosts of one kind. Hosts of a pod have consecutive numbers.
struct encMachine {
  const NeuronPlatform* platform = nullptr;  // null: this machine
  int lnc = 1;
  NeuronPodShape shape = kNoPod;
  int hostDevices = 0;  // of this machine, a rank each
  bool operator==(const encMachine&) const = default;
};

/// The logical cores of a group that fills its nodes from core 0 on.
/// @return [node][rank of the node]
/// @error ncclInvalidArgument  ranks that nodes cannot share evenly, or that a node has no cores
/// for
Result<std::vector<std::vector<int>>> encDealtCores(const encMachine& machine, int nodes,
                                                    int ranks);

/// The machine and the group of a situation; the operation is AllReduce of nothing.
///
/// @param coresOf  [node][rank of the node] logical cores
/// @error ncclInvalidArgument  a core that a host does not have, or that is there twice; a node
///                             without ranks
Result<encSituation> encDescribe(const encMachine& machine,
                                 const std::vector<std::vector<int>>& coresOf);

}  // namespace nccom
