// The barriers before the first and after the last collective of a function, around a mesh's
// events: all members meet.
#pragma once

#include "enc/mesh.h"
#include "enc/mesh_walk.h"

namespace nccom {

/// Call both around the events of any collective whose end each member reaches only after all have
/// begun it: so nobody raises a barrier again that somebody still awaits. What has nothing to do
/// gives no such order; so before `isEmpty` ones the two barriers follow each other, if either is
/// asked for.
void encMeetFirst(encMeshWalk& walk, const encMeshOptions& options, bool isEmpty);
void encMeetLast(encMeshWalk& walk, const encMeshOptions& options, bool isEmpty);

}  // namespace nccom
