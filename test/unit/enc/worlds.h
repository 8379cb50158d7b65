// Communicators and tasks for tests, in a few words.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "enc/comm_info.h"
#include "enc/program.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom::test {

/// `nodes[i]` ranks on host i, in order; `rings` rings: the first in rank order, the second
/// reversed, the others shuffled by their number (hosts stay in one piece unless `scattered`).
struct World {
  std::vector<int> nodes{2};
  int rings = 1;
  encSizes sizes = {};
  bool scattered = false;
  /// Instead of all that: a communicator, as any of its ranks knows it.
  std::optional<enc_comm_info> comm = std::nullopt;

  int rank_n() const;
  enc_comm_info info(int rank) const;
  std::string text() const;
};

encTask collective(encOp op, uint64_t count, ncclDataType_t type = ncclFloat32,
                   ncclRedOp_t redOp = ncclSum, int root = 0);

/// As encCompose, and the entry points of single algorithms.
using Composer = std::function<Result<encProgram>(const enc_comm_info&, const encTask&)>;

/// Programs of all ranks; a failed composition fails the test and gives none.
std::vector<encProgram> composeAll(const World& world, const encTask& task);
/// The same for groups of sends and receives: one task a rank.
std::vector<encProgram> composeAll(const World& world, const std::vector<encTask>& tasks);
std::vector<encProgram> composeAll(const World& world, const encTask& task,
                                   const Composer& composer);

extern const std::vector<encOp> kCollectives;  // all but SendRecv

}  // namespace nccom::test
