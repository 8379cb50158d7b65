// Ways to group the torus hosts of an UltraServer.
#pragma once

#include "graph/platform.h"

namespace nccom {

// Nodes in the order of the election: left cables join 0-1 and 2-3, right cables 1-2 and 3-0.
inline constexpr std::array<PodCable, 4> kRingOfFour = {
    {{0, 1, true}, {1, 2, false}, {2, 3, true}, {3, 0, false}}};
inline constexpr std::array<PodCable, 1> kRackMates = {{{0, 1, true}}};
inline constexpr std::array<PodCable, 1> kAcrossRacks = {{{0, 1, false}}};
inline constexpr std::array<int, 4> kAllNodes = {0, 1, 2, 3};
inline constexpr std::array<int, 2> kVerticalPair = {0, 1};
inline constexpr std::array<int, 2> kHorizontalPair = {0, 3};

inline constexpr std::array<NeuronPodShape, 4> kTorusPods = {{
    {"X1", UltraServerMode::X1, NeuronPodType::None, 1, {}, {}},
    {"X2H", UltraServerMode::X2h, NeuronPodType::P2p, 2, kAcrossRacks, kHorizontalPair},
    {"X2V", UltraServerMode::X2v, NeuronPodType::P2p, 2, kRackMates, kVerticalPair},
    {"X4", UltraServerMode::X4, NeuronPodType::P2p, 4, kRingOfFour, kAllNodes},
}};

}  // namespace nccom
