// From orders of devices to orders of logical cores.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/fabric.h"
#include "graph/neuron_search.h"

namespace nccom {

/// How two different logical cores are joined. Cores of different devices: RemoteMla.
EdgeLocality coreLocality(const NeuronFabric& fabric, int from, int to);

/// An order of logical cores made from a tour of devices.
struct NeuronCorePath {
  std::vector<int> cores;
  std::vector<int> visits;  // where in `cores` each visit of a device begins; the first is 0
  bool operator==(const NeuronCorePath&) const = default;
};

/// Prices of the steps between the cores of a device: how many paths took (from, to).
using NeuronStepPrices = std::map<std::pair<int, int>, int>;

/// Gives every device of the tour its cores, shared out over its visits so that cores enter and
/// leave at the engine groups that drive the ports, and follow one another over short ways within
/// the device: (locality, price). Where a device has one core there is nothing to decide.
///
/// @param cores   sorted; exactly those of the devices in the tour, at least one a visit
/// @param prices  raised for the steps taken, both ways
NeuronCorePath convertDevicePathToCorePath(const NeuronFabric& fabric, const NeuronTour& tour,
                                           const std::vector<int>& cores, NeuronStepPrices& prices);

/// The same order backwards: each visit's cores too.
NeuronCorePath reversed(const NeuronCorePath& path);

/// The path with its first visit moved to visit `visit`. Only a closed tour's path may be turned.
/// (The published helper has the same name.)
NeuronCorePath rotatePath(const NeuronCorePath& path, int visit);

/// One step of a channel as it is laid over the fabric.
struct NeuronHop {
  int from = 0, to = 0;  // logical cores
  EdgeLocality locality = EdgeLocality::Local;
  /// Links of the fabric it takes, in order: none within a device, one between neighbours.
  std::vector<int> links;
  bool reachable = true;  // false: no links lead there; traffic goes through the host's memory
  bool operator==(const NeuronHop&) const = default;
};

/// The hops of an order of cores; `closed` adds the one from the last to the first.
std::vector<NeuronHop> neuronHops(const NeuronFabric& fabric, const std::vector<int>& cores,
                                  bool closed);

/// The hops of several channels that run at once: legs of several links take, of the shortest ways,
/// those whose links the others use least.
std::vector<std::vector<NeuronHop>> layChannels(const NeuronFabric& fabric,
                                                const std::vector<std::vector<int>>& channels,
                                                bool closed);

/// GB/s that each of these channels gets when all run at once and share what they have in common:
/// links in each direction, the ports of devices behind switches, paths within devices.
float channelGBps(const NeuronFabric& fabric, const std::vector<std::vector<NeuronHop>>& channels);

/// "12 -> 48  remote MLA, NeuronLink 0:0 -> 12:0, 128 GB/s": the hops for people, one a line.
std::string neuronHopsText(const NeuronFabric& fabric, const std::vector<NeuronHop>& hops);

const char* toText(EdgeLocality locality);

}  // namespace nccom
