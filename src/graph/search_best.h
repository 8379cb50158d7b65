// Internal to graph: the two searches, whole.
#pragma once

#include "graph/search.h"

namespace nccom {

/// NCCL's ladder over NCCL's depth-first search.
ncclTopoGraph searchAsNccl(const ncclTopoSystem& system, const ncclTopoGraph& wanted);

/// The same ladder over ChannelPacker. As a tree must have as many channels as the ring, a ring
/// whose tree would be narrower than that of an earlier ring is held against NCCL's: neither the
/// ring nor the tree that follows from it may be worse.
ncclTopoGraph searchBest(const ncclTopoSystem& system, const ncclTopoGraph& wanted);

}  // namespace nccom
