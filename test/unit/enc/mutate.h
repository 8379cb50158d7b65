// Random faults in good programs: one change each, of many kinds.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "enc/verify.h"

namespace nccom::test {

/// One way to break programs.
struct Mutation {
  const char* name;
  /// Changes one program of the operation, and says where; nullopt: it has nothing to change.
  std::optional<std::string> (*apply)(encOperation& operation, std::mt19937_64& random);
  /// Mutants, out of a hundred, that may do the same as the good programs.
  int mayBeEquivalent;
};

const std::vector<Mutation>& mutations();

}  // namespace nccom::test
