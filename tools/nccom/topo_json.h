// What was computed, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "graph/pipeline.h"

namespace nccom {

using Json = nlohmann::ordered_json;

/// {system, paths, graphs} of a domain. Rates are GB/s to nine digits, node ids hexadecimal text.
Json domainJson(const TopoDomain& domain);

/// {nRanks, nNodes, rankToNode, nChannels, rings, trees} of a communicator.
Json globalJson(const PipelineResult& result);

}  // namespace nccom
