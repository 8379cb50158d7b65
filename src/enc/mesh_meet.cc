#include "enc/mesh_meet.h"

namespace nccom {

using Event = enc_mesh_event_type;

void encMeetFirst(encMeshWalk& walk, const encMeshOptions& options, bool isEmpty) {
  const bool both = isEmpty && (options.firstBarrier || options.lastBarrier);
  if (options.firstBarrier || both) walk.barrier(Event::EVT_FUNCTION_BARRIER_FIRST_COLL);
  if (both) walk.barrier(Event::EVT_FUNCTION_BARRIER_LAST_COLL);
}

void encMeetLast(encMeshWalk& walk, const encMeshOptions& options, bool isEmpty) {
  if (options.lastBarrier && !isEmpty) walk.barrier(Event::EVT_FUNCTION_BARRIER_LAST_COLL);
}

}  // namespace nccom
