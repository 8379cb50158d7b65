// Internal to graph: a good first guess at a ring through many devices.
#pragma once

#include <vector>

#include "graph/topo.h"

namespace nccom {

/// GPU indices in the order of a short closed tour: few far path types, then few hops. Found by
/// local improvement from a nearest-neighbour tour; a bounded effort, equal for equal systems.
std::vector<int> searchOrder(const ncclTopoSystem& system);

}  // namespace nccom
