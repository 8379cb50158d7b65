// Trainium and Inferentia2: devices of two cores, either of which reaches every port. A chain or a
// ring of devices, or a 4x4 torus with two edge-disjoint tours; on a chain the ring goes out over
// one core of each device and back over the other. No dies, so no kangarings. The lanes of the
// eight or sixteen NICs are copies of the tours, turned.
#include "graph/neuron_builder.h"

namespace nccom {

Result<NeuronGraph> neuronTopoGetGraphTrn1(NeuronGraphBuilder builder) {
  constexpr int kTours = 2;  // four ports a device
  builder.findTours(kTours, 0);
  builder.addChannels();
  builder.addMlaCycles();
  return std::move(builder).finish();
}

}  // namespace nccom
