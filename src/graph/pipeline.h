// The whole way from topology documents to channels, as every rank of a communicator goes it, for
// any number of hosts inside one process.
#pragma once

#include <string>
#include <vector>

#include "graph/connect.h"
#include "graph/paths.h"
#include "graph/search.h"
#include "graph/topo.h"

namespace nccom {

struct PipelineOptions {
  ncclTopoPathOptions paths;
  ncclTopoSearch search = ncclTopoSearch::Best;
  int crossNic = 2;  // as ncclTopoGraph's
  int minChannels = 1;
  int maxChannels = kMaxChannels;  // of the search
  bool operator==(const PipelineOptions&) const = default;
};

/// Ranks that see one another without the network, and what each of them computes.
struct TopoDomain {
  std::vector<int> ranks;  // in order
  ncclTopoSystem system;   // with paths
  ncclTopoGraph ring;
  ncclTopoGraph tree;
  bool operator==(const TopoDomain&) const = default;
};

/// The system of one document as it stands: its ranks and order, paths and search limits
/// computed, nothing trimmed. No graphs yet.
///
/// @param inter  whether channels shall have a network leg
/// @param notes  gets what the document left out
/// @error ncclInvalidUsage  as ncclTopoGetSystemFromXml, or no <gpu> has a rank
Result<TopoDomain> topoDirect(const ncclXml& xml, bool inter, const PipelineOptions& options,
                              std::vector<std::string>& notes);

/// Searches the ring and the tree graph of a domain.
/// @error as ncclTopoCompute
Status searchGraphs(TopoDomain& domain, const PipelineOptions& options);

}  // namespace nccom
