// Inputs, and what every rank must have in its outputs, computed element by element from the
// definitions of NCCL's functions.
#pragma once

#include <string>

#include "test/unit/enc/interpret.h"

namespace nccom::test {

/// A launch with filled inputs, and outputs full of rubbish.
Launch makeLaunch(const World& world, const std::vector<encProgram>& programs, bool inPlace);

/// Runs one task in one order; empty if every rank ends with the right values, else what is wrong.
std::string check(const World& world, const encTask& task, uint64_t seed, bool inPlace = false);
/// The same of programs that were composed in another way.
std::string check(const World& world, const std::vector<encProgram>& programs, uint64_t seed,
                  bool inPlace = false);

/// What is wrong with the outputs of a launch that has been interpreted; empty: nothing.
/// @param before  the launch as makeLaunch made it
std::string compare(const World& world, const Launch& before, const Launch& after);

}  // namespace nccom::test
