// From a command line to an answer: which topology, what is computed of it.
#pragma once

#include <string>
#include <vector>

#include "graph/pipeline.h"
#include "tools/nccom/topo_json.h"
#include "tools/nccom/topo_mode.h"

namespace nccom {

/// Where a topology comes from: a file, or a platform's name.
struct TopoSource {
  std::string file;
  std::string platform;  // of no file
  int lnc = 0;           // logical core size of the platform; 0: its own
};

struct TopoAnswer {
  std::string name;  // of the file or the platform
  TopoMode mode;
  int nGpus = 0;  // of one host's document
  int nNets = 0;
  std::string gpuSelection;  // "0,1,5"; empty: all
  PipelineResult result;     // of a direct run: one domain, nothing global
};

/// @error as the readers of files and platforms
Result<ncclXml> loadTopology(const TopoSource& source);

/// @error as the readers, the pipeline and the search
Result<TopoAnswer> runTopo(const TopoSource& source, const TopoMode& mode,
                           const PipelineOptions& options);

/// The answer with the keys of a golden file: those of a domain at the top for a direct run,
/// domains and global otherwise.
Json answerJson(const TopoAnswer& answer);

}  // namespace nccom
