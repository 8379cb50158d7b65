// MLA cycles: Hamiltonian cycles of devices, from which rings of one rank a device are made.
#pragma once

#include <vector>

#include "graph/fabric.h"

namespace nccom {

constexpr int kMaxMlaCycles = 4;

/// Cycles over links only, no two of which share a link: as many as a bounded search finds, at
/// most kMaxMlaCycles; two on a 4x4 torus, one on a ring or a 4x2 torus, none where the links do
/// not make one. Behind switches there is a link between any two devices.
/// @param devices  distinct devices of the fabric, in any order; fewer than two have no cycle
std::vector<std::vector<int>> mlaCycles(const NeuronFabric& fabric, std::vector<int> devices);

}  // namespace nccom
