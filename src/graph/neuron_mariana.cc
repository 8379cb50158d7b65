// Trainium3 with links from device to device: Trainium2's geometry and its tours. Hosts of a pod
// continue each other's channels place by place over their Z links.
#include "graph/neuron_builder.h"

namespace nccom {

Result<NeuronGraph> neuronTopoCalculateGraphTrn3(NeuronGraphBuilder builder) {
  constexpr int kTours = 2;  // four ports a device
  TRY(builder.addPod());
  builder.findTours(kTours, 0);
  builder.addChannels();
  TRY(builder.addKangaring());
  builder.addMlaCycles();
  return std::move(builder).finish();
}

}  // namespace nccom
