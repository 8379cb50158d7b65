// What is computed of a topology: the document alone, or a communicator on it.
#pragma once

#include <string>
#include <vector>

#include "misc/result.h"

namespace nccom {

struct TopoMode {
  enum class Kind : uint8_t {
    Direct,    // the document as it stands
    Pipeline,  // as initialisation of a communicator does it, on identical hosts
    Clique     // the same, and the device fabric spans the hosts
  };
  Kind kind = Kind::Pipeline;
  bool inter = false;  // Direct: with the network leg
  int nHosts = 1;
  std::vector<int> gpus;  // by position in the order of ranks; empty: all
  bool operator==(const TopoMode&) const = default;
};

/// d0, d1, p<hosts>, m<hosts>, and g<set>n<hosts> with the sets 1 {0}, 2 {0,1}, 3 {0,1,5} and
/// 4e {0,2,4,6}.
/// @error ncclInvalidArgument  any other text
Result<TopoMode> parseMode(const std::string& text);

/// "0,2,4-7" as numbers.
/// @error ncclInvalidArgument  any other text, or a number twice
Result<std::vector<int>> parseList(const std::string& text);

}  // namespace nccom
