// Trainium3 behind switches: any device reaches any other, over its own port into the switch or,
// on a board of two, over a link of their own. Links do not limit the number of tours, so there
// are as many as kangaring lanes go around in: a first that prefers the boards' own links, a
// second that goes by other pairs where it can. Each rank reports its piece of the lanes
// (kangaringRows), and lanes that cross racks enter and leave a host at the same place.
#include "graph/neuron_builder.h"

namespace nccom {

Result<NeuronGraph> neuronTopoCalculateGraphTrn3SwitchV1(NeuronGraphBuilder builder) {
  constexpr int kTours = kMaxKangaPaths / 2;
  constexpr int kMaxShare = 1;  // four devices have one tour whose pairs no other uses
  TRY(builder.addPod());
  builder.findTours(kTours, kMaxShare);
  builder.addChannels();
  TRY(builder.addKangaring());
  builder.addMlaCycles();
  return std::move(builder).finish();
}

}  // namespace nccom
