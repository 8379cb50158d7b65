// Trainium2: four engine groups a device, each with a port of its own, on a 4x4 torus. Tours are
// chosen so that they come and go at engine groups next to each other, and then every core of a
// device lies on a chain of direct ways between the two ports.
#include "graph/neuron_builder.h"

namespace nccom {

Result<NeuronGraph> neuronTopoCalculateGraphTrn2(NeuronGraphBuilder builder) {
  constexpr int kTours = 2;  // four ports a device
  TRY(builder.addPod());
  builder.findTours(kTours, 0);
  builder.addChannels();
  TRY(builder.addKangaring());
  builder.addMlaCycles();
  return std::move(builder).finish();
}

}  // namespace nccom
