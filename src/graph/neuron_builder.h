// What the calculators of all families share: steps from devices to channels.
#pragma once

#include <string>
#include <vector>

#include "graph/neuron_graph.h"
#include "graph/neuron_lanes.h"

namespace nccom {

class NeuronGraphBuilder {
 public:
  /// @error as neuronTopoGetGraph
  static Result<NeuronGraphBuilder> open(const NeuronFabric& fabric, const ncclTopoSystem& system,
                                         const NeuronGraphOptions& options);

  /// Tours that pass each device once; if there are none, the one tour of the fewest long legs.
  /// @param wanted    at most so many
  /// @param maxShare  0: no two share a link; else a link may be in so many more
  void findTours(int wanted, int maxShare);

  /// Cores for devices, copies for NICs.
  void addChannels();

  /// If all cores of the devices have ranks, and a tour takes links only.
  Status addKangaring();

  void addMlaCycles();

  /// The pod's order says whether racks are crossed.
  Status addPod();

  /// Through the <channel> document and back.
  Result<NeuronGraph> finish() &&;

  int deviceCount() const { return static_cast<int>(devices_.size()); }
  void say(std::string reason) { graph_.why.push_back(std::move(reason)); }

 private:
  NeuronGraphBuilder(const NeuronFabric& fabric, const ncclTopoSystem& system,
                     const NeuronGraphOptions& options)
      : fabric_(fabric), system_(system), options_(options) {}

  Status placeRanks();
  NeuronTour findOneTour(NeuronSearch& search) const;
  NeuronNets findNets() const;
  bool hasNetworkLeg() const { return system_.inter && system_.count(ncclTopoNodeType::Net) > 0; }
  void rate(ncclTopoGraph& ring) const;
  ncclTopoGraph draft() const;

  const NeuronFabric& fabric_;
  const ncclTopoSystem& system_;
  const NeuronGraphOptions& options_;
  std::vector<int> rankOf_;   // [core of the fabric], -1: none
  std::vector<int> cores_;    // with a rank, sorted
  std::vector<int> devices_;  // of these, sorted
  std::vector<NeuronChannel> channels_;
  NeuronGraph graph_;
};

// The families.
Result<NeuronGraph> neuronTopoCalculateGraphTrn3SwitchV1(NeuronGraphBuilder builder);
Result<NeuronGraph> neuronTopoCalculateGraphTrn3(NeuronGraphBuilder builder);
Result<NeuronGraph> neuronTopoCalculateGraphTrn2(NeuronGraphBuilder builder);
Result<NeuronGraph> neuronTopoGetGraphTrn1(NeuronGraphBuilder builder);

}  // namespace nccom
