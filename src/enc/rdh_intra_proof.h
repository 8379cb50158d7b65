// Proves the plan of recursive halving and doubling within a server: runs the steps of all ranks
// on sets of contributors instead of data.
//
// A rank may have several copies of a chunk at once, each with a tag that says which way it came:
// v_output over the RMTV, d_output over the dies, local_peer from the core beside,
// pcie_chunk_<axis> from a linked device; step<n>_chunk0 is what it stored for others, output what
// it completed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "enc/rdh_intra_plan.h"

namespace nccom {

// NOLINTBEGIN(readability-identifier-naming): the runtime's names
struct rdh_chunk {
  int idx = 0;
  std::vector<int> reduced_dev;  // whose contributions are in it, ascending
  encRdhAddress addr;
  uint64_t size = 0;
  std::string tag;
  bool operator==(const rdh_chunk&) const = default;
};

/// A member: what it does, and what it gets.
struct rdh_device {
  int dev = 0;
  std::vector<encRdhStep> schedule;                  // [step]
  std::vector<std::vector<rdh_chunk>> received;      // [step]
  std::map<int, std::vector<rdh_chunk>> all_chunks;  // by idx
  /// The copy that came with a tag; nullptr: none did.
  const rdh_chunk* get_chunk(int idx, const std::string& tag) const;
};
// NOLINTEND(readability-identifier-naming)

/// The plan of all members in a window, proven.
/// @error as encScheduleRdh, encProveRdh
Result<std::vector<rdh_device>> encPlanRdh(const encRdhGeometry& geometry,
                                           const encRdhWindow& window);

/// Runs the schedules, and fills `received` and `all_chunks`: every source is there when it is
/// read, nothing is added twice or overwritten, both halves of a chunk arrive before it is passed
/// on, and in the end each member has in OUTPUT what the operation promises, with the contributions
/// of all.
///
/// @param devices  [member] with schedules, and nothing received
/// @error ncclInternalError  the first violation: member, step, chunk
Status encProveRdh(const encRdhGeometry& geometry, const encRdhWindow& window,
                   std::vector<rdh_device>& devices);

}  // namespace nccom
