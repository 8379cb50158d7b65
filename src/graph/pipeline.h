// The whole way from topology documents to channels, as the ranks of a communicator go it, for any
// number of hosts inside one process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/connect.h"
#include "graph/neuron_graph.h"
#include "graph/paths.h"
#include "graph/search.h"
#include "graph/topo.h"

namespace nccom {

struct PipelineOptions {
  ncclTopoSearch search = ncclTopoSearch::Best;
  bool neuronSearch = false;  // of hosts with a fabric, see neuronTopoUseNewAlgorithm
  ncclTopoPathOptions paths;
  int crossNic = 2;  // as ncclTopoGraph's
  int minChannels = 1;
  int maxChannels = kMaxChannels;      // of the search
  int maxJoined = kMaxJoinedChannels;  // after joining the hosts
  bool trees = true;                   // else the ring's order serves as the trees' chain
  /// Each rank brings a document with its own device and all NICs, and these are fused in the
  /// order of ranks, as NCCL does. Else all ranks of a host share its whole document.
  bool fuse = true;
  /// The device fabric spans the hosts (an NVLink clique): their documents are fused too.
  bool clique = false;
  std::vector<int> hostOrder;  // in which rings pass the hosts; empty: by index
  bool operator==(const PipelineOptions&) const = default;
};

/// Ranks that see one another without the network, and what each of them computes.
struct TopoDomain {
  std::vector<int> ranks;  // in the order of the system
  ncclTopoSystem system;   // with paths
  ncclTopoGraph ring;
  ncclTopoGraph tree;
  std::optional<NeuronGraph> neuron;  // of a host with a fabric
  bool operator==(const TopoDomain&) const = default;
};

struct PipelineHost {
  /// Several hosts may share one. Its ranks and the device numbers of its NICs are replaced.
  const ncclXml* xml = nullptr;
  /// Devices that have a rank, by position in topoGpus(*xml); empty: all. The ranks of a host
  /// follow on those of the host before, in this order.
  std::vector<int> gpus;
  /// How the devices are wired, if that is known: the host is then searched by the Neuron search
  /// too, and its ring is that one's where neuronTopoUseNewAlgorithm says so.
  const NeuronFabric* fabric = nullptr;
  int fabricHost = 0;         // its place in the fabric, if that is a pod's
  std::vector<int> podNodes;  // as NeuronGraphOptions'
};

struct PipelineResult {
  std::vector<TopoDomain> domains;  // of the first host of each kind
  std::vector<int> nodeOf;  // [nRanks] index of the domain that a rank is in, over all hosts
  ncclGlobalChannels global;
  std::vector<std::string> notes;
  bool operator==(const PipelineResult&) const = default;
};

/// The <gpu> elements of a document in the order in which they get ranks: by `dev`, then
/// `mlopart`, then as they stand.
/// @error ncclInvalidUsage  a <gpu> without a valid `dev`
Result<std::vector<pugi::xml_node>> topoGpus(const ncclXml& xml);

/// Loads, trims, computes paths, searches ring and tree, and joins the hosts. Equal hosts are
/// computed once.
///
/// @error ncclInvalidArgument  no host, a host without devices, a device that it does not have, or
///                             a clique of hosts with fabrics
/// @error ncclInvalidUsage     as ncclTopoGetSystemFromXml; the search's and the postset's errors
Result<PipelineResult> runPipeline(const std::vector<PipelineHost>& hosts,
                                   const PipelineOptions& options);

/// The system of one document as it stands: its ranks and order, paths and search limits
/// computed, nothing trimmed. No graphs yet.
///
/// @param inter  whether channels shall have a network leg
/// @param notes  gets what the document left out
/// @error ncclInvalidUsage  as ncclTopoGetSystemFromXml, or no <gpu> has a rank
Result<TopoDomain> topoDirect(const ncclXml& xml, bool inter, const PipelineOptions& options,
                              std::vector<std::string>& notes);

/// Searches the ring of a domain, unless it has one, and the tree.
/// @error as ncclTopoCompute
Status searchGraphs(TopoDomain& domain, const PipelineOptions& options);

}  // namespace nccom
