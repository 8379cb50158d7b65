#include "graph/neuron_graph.h"

#include "graph/neuron_builder.h"

namespace nccom {

const char* neuronCalculator(NeuronFamily family) {
  switch (family) {
    case NeuronFamily::SwitchV1:
      return "TRN3SwitchV1";
    case NeuronFamily::Mariana:
      return "TRN3";
    case NeuronFamily::Cayman:
      return "TRN2";
    case NeuronFamily::Sunda:
      return "Trn1";
  }
  return "?";
}

bool neuronTopoUseNewAlgorithm(NeuronFamily family, bool requested) {
  return requested || family == NeuronFamily::SwitchV1;
}

Result<NeuronGraph> neuronTopoGetGraph(const NeuronFabric& fabric, const ncclTopoSystem& system,
                                       const NeuronGraphOptions& options) {
  NeuronGraphBuilder builder = TRY(NeuronGraphBuilder::open(fabric, system, options));
  builder.say(std::string("Neuron search, calculator ") + neuronCalculator(fabric.family));
  switch (fabric.family) {
    case NeuronFamily::SwitchV1:
      return neuronTopoCalculateGraphTrn3SwitchV1(std::move(builder));
    case NeuronFamily::Mariana:
      return neuronTopoCalculateGraphTrn3(std::move(builder));
    case NeuronFamily::Cayman:
      return neuronTopoCalculateGraphTrn2(std::move(builder));
    case NeuronFamily::Sunda:
      break;
  }
  return neuronTopoGetGraphTrn1(std::move(builder));
}

std::string neuronGraphText(const NeuronFabric& fabric, const NeuronGraph& graph) {
  std::string out;
  for (const std::string& reason : graph.why)
    out += "# " + reason + '\n';
  for (size_t c = 0; c < graph.hops.size(); c++)
    out += "channel " + std::to_string(c) + '\n' + neuronHopsText(fabric, graph.hops[c]);
  for (size_t k = 0; k < graph.kangaring.paths.size(); k++) {
    out += "kangaring path[" + std::to_string(k) + "]=";
    for (const int rank : graph.kangaring.paths[k].ranks())
      out += " " + std::to_string(rank);
    out += '\n';
  }
  for (size_t k = 0; k < graph.mlaCycles.size(); k++) {
    out += "mla cycle[" + std::to_string(k) + "]=";
    for (const int device : graph.mlaCycles[k])
      out += " " + std::to_string(device);
    out += '\n';
  }
  return out;
}

}  // namespace nccom
