// The Neuron search: from a host's fabric to its channels, beside the inherited search on
// ncclTopoSystem (search.h). Both end in an ncclTopoGraph.
#pragma once

#include <string>
#include <vector>

#include "graph/fabric.h"
#include "graph/kangaring.h"
#include "graph/neuron_cores.h"
#include "graph/neuron_search.h"
#include "graph/search.h"
#include "graph/topo.h"

namespace nccom {

struct NeuronGraphOptions {
  int minChannels = 1;
  int maxChannels = 16;  // of the search; joining hosts doubles them
  int crossNic = 2;      // as ncclTopoGraph's
  int host = 0;          // of the fabric, if that is a pod's
  /// Nodes of the pod that take part, this host among them; empty: hosts join over the network.
  std::vector<int> podNodes = {};
  bool operator==(const NeuronGraphOptions&) const = default;
};

struct NeuronGraph {
  ncclTopoGraph ring;
  std::vector<std::vector<NeuronHop>> hops;  // [channel], the closing one too on a host alone
  std::vector<NeuronTour> tours;             // of the devices, that the channels follow
  NeuronKangaring kangaring;                 // none unless all cores of two or more devices are in
  std::vector<std::vector<int>> mlaCycles;   // device numbers within the host
  std::vector<std::string> why;              // decisions, in order
  bool operator==(const NeuronGraph&) const = default;
};

/// The calculator for a machine, by the order in which families are told apart: switched Trainium3
/// before other Trainium3, Trainium2, then all else.
const char* neuronCalculator(NeuronFamily family);

/// Channels over the cores that have a rank in `system` (a <gpu>'s dev is the number of a logical
/// core of the host):
/// - each is an order of all local ranks; on one host, and as a rule on several, a ring over links
///   between devices, in which devices that lie apart are passed more than once, if they have
///   cores to spare, before a leg takes more than one link;
/// - tours of devices are edge-disjoint, as many as the family and the links allow; each is used
///   both ways;
/// - with several hosts they are repeated so that every NIC near a rank is used; see
///   duplicatePaths;
/// - the result has gone through the <graphs> document that the inherited search reads and writes.
/// A pure function: neither the order of GPUs in the system nor anything else but these values
/// counts, and all ranks of a host get the same. Paths of the system must have been computed.
///
/// @error ncclInvalidArgument  no rank; a device number that the fabric does not have, or two
///                             ranks on one; channel bounds; a host or pod node out of range
Result<NeuronGraph> neuronTopoGetGraph(const NeuronFabric& fabric, const ncclTopoSystem& system,
                                       const NeuronGraphOptions& options = {});

/// Whether the Neuron search finds the ring: always behind switches, whose lanes the inherited
/// search cannot express; elsewhere if the user asks for it (NCCL_GRAPH_USE_NEW_ALGORITHM).
bool neuronTopoUseNewAlgorithm(NeuronFamily family, bool requested);

/// The channels for people: a line a hop, with its locality and links.
std::string neuronGraphText(const NeuronFabric& fabric, const NeuronGraph& graph);

}  // namespace nccom
