// How long the searches take over many files.
#pragma once

#include <string>

#include "tools/nccom/topo_run.h"

namespace nccom {

/// A table: of each .xml file of `xmlDir` the least time of a few runs of ring and tree search,
/// without and with network leg, beside NCCL's; then median and worst of all.
///
/// @param timings  CSV with the columns file, ring0_ms, tree0_ms, ring1_ms, tree1_ms; empty: none
/// @error ncclSystemError   a folder or file cannot be read
/// @error ncclInvalidUsage  the CSV lacks a column
Result<std::string> benchTable(const std::string& xmlDir, const std::string& timings,
                               const TopoChoice& choice);

}  // namespace nccom
