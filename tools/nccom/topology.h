// The hosts that a command is about: from a file, or from the name of a platform or cluster.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/fabric.h"
#include "graph/pipeline.h"

namespace nccom {

/// Where a topology comes from.
struct TopoSource {
  std::string file;      // a <system> document
  std::string platform;  // or a platform or cluster, as for NCCOM_CLUSTER
  int lnc = 0;           // logical core size of the platform; 0: its own
};

/// Documents and fabrics, and the hosts made of them.
struct Topology {
  std::string name;  // of the file or the platform
  std::vector<std::unique_ptr<ncclXml>> documents;
  std::vector<std::unique_ptr<NeuronFabric>> fabrics;
  std::vector<PipelineHost> hosts;  // point into the two above
  std::vector<int> hostOrder;       // in which rings pass the hosts; empty: by index
  bool fromFile = false;

  const ncclXml& document() const { return *hosts[0].xml; }
  const NeuronFabric* fabric() const { return hosts[0].fabric; }
};

/// @param nHosts  copies of the host that the source names; a cluster of several says itself
/// @error ncclInvalidArgument  an unknown platform; nHosts > 1 for a cluster
/// @error ncclInvalidUsage     a file that is no topology
Result<Topology> loadTopology(const TopoSource& source, int nHosts);

/// The source that `text` names: a file if there is one of that name, else a platform.
TopoSource sourceNamed(const std::string& text, int lnc);

}  // namespace nccom
