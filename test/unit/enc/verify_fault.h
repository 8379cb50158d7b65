// Breaking good programs, to read what the verifier says of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "enc/verify.h"
#include "test/unit/enc/worlds.h"

namespace nccom::test {

using Match = std::function<bool(const encDesc&)>;

Match step(encDescType type, encStep wanted);
Match semaphore(encDescType type, uint32_t number);

/// A descriptor of a rank.
struct Found {
  encProgram* program = nullptr;
  size_t queue = 0, block = 0, index = 0;
  encDesc& desc() const { return program->queues[queue].blocks[block].descs[index]; }
  void drop() const;
};
/// The n-th that matches; the test fails if there is none.
Found find(encProgram& program, const Match& match, int n = 0);

using Fault = std::function<void(encOperation&)>;

/// What the verifier says of operations; "accepted" if nothing.
std::string verdict(const enc_comm_info& info, const std::vector<encOperation>& operations);
/// What it says of `times` equal operations with the same fault; the good one must pass.
std::string verdict(const World& world, const encOperation& good, const Fault& fault,
                    size_t times = 1);
std::string verdict(const World& world, const encTask& task, const Fault& fault, size_t times = 1);

}  // namespace nccom::test
