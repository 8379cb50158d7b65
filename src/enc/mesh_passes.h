// Passes of a mesh over parts: as much of every part at a time as work areas hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "enc/builder.h"
#include "enc/stage.h"
#include "misc/check.h"

namespace nccom {

/// What a pass does of each part: `bytes` from `begin` on, as far as the part goes.
struct encMeshPass {
  uint64_t begin = 0, bytes = 0;
  bool operator==(const encMeshPass&) const = default;
};

inline encPart encMeshLane(const encPart& part, const encMeshPass& pass) {
  const uint64_t begin = std::min(part.bytes, pass.begin);
  return {part.begin + begin, std::min(part.bytes - begin, pass.bytes)};
}

/// Runs `body(pass)` over all of the parts, `step` bytes of each at a time, at most all of the
/// longest; passes that are alike are one loop of the program, if the stage may loop.
///
/// @param stage  that the body composes: in a loop, its addresses move
template <class Body>
void encMeshPasses(encBuilder& builder, encStage& stage, const std::vector<encPart>& parts,
                   uint64_t step, const Body& body) {
  uint64_t least = UINT64_MAX, most = 0;
  for (const encPart& part : parts) {
    least = std::min(least, part.bytes);
    most = std::max(most, part.bytes);
  }
  NCCL_CHECK(step > 0);
  step = std::min(step, std::max<uint64_t>(most, 1));
  const bool mayLoop = stage.mayLoop && stage.input.places.empty() && stage.output.places.empty();
  const uint64_t full = mayLoop ? least / step : 0;
  uint64_t done = 0;
  if (full > 1) {
    stage.input.stride = stage.output.stride = static_cast<int64_t>(step);
    builder.beginLoop(full);
    body(encMeshPass{0, step});
    builder.endLoop();
    stage.input.stride = stage.output.stride = 0;
    done = full * step;
  }
  for (; done < most; done += step)
    body(encMeshPass{done, std::min(step, most - done)});
}

}  // namespace nccom
