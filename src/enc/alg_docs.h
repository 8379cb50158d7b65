// The tables of selection as a page: docs/algorithms.md.
#pragma once

#include <string>

namespace nccom {

std::string encAlgorithmsMarkdown();

}  // namespace nccom
