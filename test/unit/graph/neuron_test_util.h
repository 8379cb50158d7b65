// What the tests of the Neuron search share: a host of a platform with some of its cores in use.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "graph/fabric.h"
#include "graph/graph.h"
#include "graph/neuron_graph.h"
#include "graph/paths.h"
#include "graph_test_util.h"

namespace nccom {

struct NeuronHost {
  NeuronFabric fabric;
  ncclTopoSystem system;
};

struct NeuronHostSpec {
  const NeuronPlatform* platform = nullptr;
  int lnc = 1;
  std::string pod = {};         // shape's name; empty: a host on its own
  int host = 0;                 // of the pod
  std::vector<int> cores = {};  // logical, of the host: rank firstRank + i is on cores[i]
  int firstRank = 0;
  int nHosts = 1;              // of the communicator, all alike
  bool cpusBackwards = false;  // the document's CPUs in the other order
};

inline std::string nameOf(const NeuronHostSpec& spec) {
  return std::string(spec.platform->name) + " lnc " + std::to_string(spec.lnc) + " cores " +
         std::to_string(spec.cores.size()) + " hosts " + std::to_string(spec.nHosts);
}

inline Result<NeuronHost> neuronHost(const NeuronHostSpec& spec) {
  const NeuronPodShape shape = TRY(findPodShape(*spec.platform, spec.pod));
  NeuronHost host;
  host.fabric = TRY(neuronFabric(*spec.platform, shape, spec.lnc));
  const ncclXml xml = TRY(neuronTopoGetXml(*spec.platform, spec.lnc, shape.electedNode(spec.host)));
  std::vector<LocalRank> ranks;
  for (size_t i = 0; i < spec.cores.size(); i++)
    ranks.push_back({spec.firstRank + static_cast<int>(i), spec.cores[i]});
  TRY(setRanks(xml, ranks));
  if (spec.cpusBackwards) {
    pugi::xml_node root = xml.root();
    root.prepend_move(root.last_child());
  }
  LoadedTopo loaded = TRY(ncclTopoGetSystemFromXml(xml));
  host.system = std::move(loaded.system);
  ncclTopoComputePaths(host.system);
  ncclTopoTrimSystem(host.system, spec.firstRank,
                     spec.nHosts * static_cast<int>(spec.cores.size()));
  ncclTopoComputePaths(host.system);
  return host;
}

inline std::vector<int> coresOf(const NeuronPlatform& platform, int lnc,
                                const std::vector<int>& devices) {
  const int perDevice = platform.logicalPerDevice(lnc);
  std::vector<int> cores;
  for (const int device : devices) {
    for (int slot = 0; slot < perDevice; slot++)
      cores.push_back(device * perDevice + slot);
  }
  return cores;
}

inline std::vector<int> firstDevices(int n) {
  std::vector<int> devices(n);
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

/// Sets of devices that a communicator may have, as far as the platform has so many.
inline std::vector<std::vector<int>> deviceSets(const NeuronPlatform& platform) {
  const int all = platform.deviceCount();
  std::vector<std::vector<int>> sets = {firstDevices(all)};
  for (const int n : {1, 2, 3, 4, 5, 7, 8, 12, 15}) {
    if (n < all) sets.push_back(firstDevices(n));
  }
  if (all == 16) {
    sets.push_back({0, 1, 4, 5});
    sets.push_back({0, 4, 8, 12});
    sets.push_back({0, 5, 10, 15});
    sets.push_back({8, 9, 10, 11, 12, 13, 14, 15});
    sets.push_back({1, 3, 4, 6, 9, 11, 12, 14});
    sets.push_back({0, 2, 8, 9, 15});
    sets.push_back({3, 6, 7, 11, 13});
  }
  return sets;
}

/// Sets of cores to try: all cores of the sets of devices, one core a device, and some at random.
/// With many cores to a device, every third of them: its devices are the same.
inline std::vector<std::vector<int>> coreSets(const NeuronPlatform& platform, int lnc) {
  const int perDevice = platform.logicalPerDevice(lnc);
  std::vector<std::vector<int>> sets;
  for (const std::vector<int>& devices : deviceSets(platform)) {
    sets.push_back(coresOf(platform, lnc, devices));
    std::vector<int> single;
    for (const int device : devices)
      single.push_back(device * perDevice + device % perDevice);
    sets.push_back(single);
  }
  std::mt19937 random(static_cast<unsigned>(platform.deviceCount() * lnc));
  std::vector<int> cores = coresOf(platform, lnc, firstDevices(platform.deviceCount()));
  for (int round = 0; round < 6; round++) {
    std::shuffle(cores.begin(), cores.end(), random);
    const auto n = 1 + static_cast<int>(random() % cores.size());
    sets.emplace_back(cores.begin(), cores.begin() + n);
  }
  if (perDevice <= 4 || platform.deviceCount() < 16) return sets;
  std::vector<std::vector<int>> some;
  for (size_t i = 0; i < sets.size(); i += 3)
    some.push_back(sets[i]);
  return some;
}

/// Platforms that differ in what the search sees.
inline std::vector<const NeuronPlatform*> distinctPlatforms() {
  return {&kInf2x1xlarge,  &kInf2x24xlarge,  &kInf2x48xlarge,     &kTrn1x2xlarge,
          &kTrn1x32xlarge, &kTrn2x3xlarge,   &kTrn2x48xlarge,     &kTrn3px48xlarge,
          &kTrn3x48xlarge, &kTrn3ex24xlarge, &kTrn3Pairsx48xlarge};
}

}  // namespace nccom
