#include "graph/pipeline.h"

#include <iterator>
#include <utility>

namespace nccom {

Result<TopoDomain> topoDirect(const ncclXml& xml, bool inter, const PipelineOptions& options,
                              std::vector<std::string>& notes) {
  LoadedTopo loaded = TRY(ncclTopoGetSystemFromXml(xml));
  std::move(loaded.notes.begin(), loaded.notes.end(), std::back_inserter(notes));
  TopoDomain domain;
  domain.system = std::move(loaded.system);
  if (domain.system.count(ncclTopoNodeType::Gpu) == 0) {
    return fail(ncclInvalidUsage, "%s: no <gpu> has a rank", xml.name().c_str());
  }
  for (const ncclTopoNode& gpu : domain.system.nodes(ncclTopoNodeType::Gpu))
    domain.ranks.push_back(gpu.gpu.rank);
  domain.system.inter = inter;
  ncclTopoComputePaths(domain.system, options.paths);
  ncclTopoSearchInit(domain.system);
  return domain;
}

Status searchGraphs(TopoDomain& domain, const PipelineOptions& options) {
  ncclTopoGraph ring;
  ring.crossNic = options.crossNic;
  ring.minChannels = options.minChannels;
  ring.maxChannels = options.maxChannels;
  domain.ring = TRY(ncclTopoCompute(domain.system, ring, options.search));
  ncclTopoGraph tree;
  tree.id = 1;
  tree.pattern = ncclTopoPattern::BalancedTree;
  tree.crossNic = options.crossNic;
  tree.minChannels = tree.maxChannels = domain.ring.nChannels;
  domain.tree = TRY(ncclTopoCompute(domain.system, tree, options.search));
  return Ok{};
}

}  // namespace nccom
