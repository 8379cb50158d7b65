#include "graph/mla_cycle.h"

#include <algorithm>

#include "graph/neuron_search.h"

namespace nccom {

std::vector<std::vector<int>> mlaCycles(const NeuronFabric& fabric, std::vector<int> devices) {
  std::vector<std::vector<int>> cycles;
  if (devices.size() < 2) return cycles;
  std::sort(devices.begin(), devices.end());
  NeuronSearch search(fabric, devices);
  NeuronSearchRequest request;
  request.maxTours = std::clamp(search.maxDisjoint(), 1, kMaxMlaCycles);
  for (NeuronTour& tour : search.findPaths(request))
    cycles.push_back(std::move(tour.devices));
  return cycles;
}

}  // namespace nccom
