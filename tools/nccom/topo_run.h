// From a command line to an answer: which topology, what is computed of it.
#pragma once

#include <string>
#include <vector>

#include "graph/pipeline.h"
#include "tools/nccom/topo_json.h"
#include "tools/nccom/topo_mode.h"
#include "tools/nccom/topology.h"

namespace nccom {

/// What a user may choose of the searches.
struct TopoChoice {
  ncclTopoSearch search = ncclTopoSearch::Best;
  bool neuronSearch = false;  // rings of Trainium hosts from the Neuron search
};

struct TopoAnswer {
  TopoMode mode;
  Topology topology;  // what the rest was computed of
  int nGpus = 0;      // of the first host
  int nNets = 0;
  PipelineResult result;  // of a direct run: one domain, nothing global

  bool isDirect() const { return mode.kind == TopoMode::Kind::Direct; }
};

/// @error as the readers, the pipeline and the search
Result<TopoAnswer> runTopo(const TopoSource& source, const TopoMode& mode,
                           const TopoChoice& choice);

/// The options that communicators on this topology use.
PipelineOptions optionsFor(const Topology& topology, const TopoMode& mode,
                           const TopoChoice& choice);

/// The answer with the keys of a golden file: those of a domain at the top for a direct run,
/// domains and global otherwise.
Json answerJson(const TopoAnswer& answer);

}  // namespace nccom
