// A deterministic device: executes the programs of all ranks on real bytes, in one thread, in an
// order that a seed decides. Increments arrive late, networks deliver when the seed says, and a
// rank's buffers turn to rubbish as soon as its program has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "test/unit/enc/worlds.h"

namespace nccom::test {

using Bytes = std::vector<unsigned char>;

/// One operation on all ranks: programs, and buffers [rank][index].
struct Launch {
  std::vector<encProgram> programs;
  std::vector<std::vector<Bytes>> inputs, outputs;
  bool inPlace = false;        // OUTPUT and INPUT share memory as NCCL's rules say
  std::vector<double> scales;  // [rank]
  int64_t divisor = 1;
};

struct RunResult {
  std::string error;              // empty: all ranks ended
  uint64_t sentBetweenRanks = 0;  // bytes written into or read from another rank, and networks
};

/// Runs the launches in order on every rank; a rank may be ahead of others. Leaves what each rank
/// had in OUTPUT when its program ended.
RunResult interpret(const World& world, std::vector<Launch>& launches, uint64_t seed);

}  // namespace nccom::test
