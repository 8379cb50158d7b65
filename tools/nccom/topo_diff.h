// What differs between two answers.
#pragma once

#include <string>
#include <vector>

#include "tools/nccom/topo_run.h"

namespace nccom {

/// One line a difference: nodes and links, paths, graphs, rings. Empty: none.
std::vector<std::string> diffAnswers(const TopoAnswer& a, const TopoAnswer& b);

}  // namespace nccom
