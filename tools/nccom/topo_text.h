// Answers as text for people.
#pragma once

#include <string>

#include "tools/nccom/topo_run.h"

namespace nccom {

/// The system as a tree, the paths as a table, the graphs, and the rings and trees of all ranks.
std::string answerText(const TopoAnswer& answer);

/// What each search tried, what it found, and why it gave up the rest.
std::string explainText(const TopoAnswer& answer);

}  // namespace nccom
