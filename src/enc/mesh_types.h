// The vocabulary of meshes: types of events, and roles of ranks. Values are the runtime's (2.31).
#pragma once

#include <cstdint>

#include "enc/program.h"

namespace nccom {

/// Steps of a mesh. Within a subtype each type occurs at most once: it names the semaphore.
enum class enc_mesh_event_type : uint8_t {
  // NOLINTBEGIN(readability-identifier-naming): the field's names
  EVT_SYNC = 0,
  EVT_GLOBAL_HNDSHK = 1,
  EVT_LOCAL_HNDSHK = 2,
  EVT_INTER_GRP_BRDCST = 3,
  EVT_FUNCTION_BARRIER_FIRST_COLL = 4,
  EVT_FUNCTION_BARRIER_LAST_COLL = 5,
  EVT_REDUCE_LOCAL_HNDSHK = 6,
  EVT_INTRA_GRP_BRDCST = 7,
  ENC_COMMON_NUM_EVENT_TYPE = 8,
  ENC_MESH_NUM_EVENT_START = 8,
  EVT_REDUCE_COPY = 8,
  EVT_REDUCE_COPY_2 = 9,
  EVT_REDUCE_WRITE = 10,
  EVT_INTER_GRP_BRDCST_2 = 11,
  EVT_LOCAL_AND_POD_GRP_BRDCST = 12,
  EVT_LOCAL_AND_POD_GRP_BRDCST_2 = 13,
  ENC_MESH_NUM_EVENT_TYPE = 14,
  ENC_A2A_NUM_EVENT_START = 14,
  EVT_LOCAL_HNDSHK_1 = 14,
  EVT_LOCAL_HNDSHK_2 = 15,
  EVT_GLOBAL_HNDSHK_1 = 16,
  EVT_INTER_GRP_BRDCST_1 = 17,
  EVT_INTRA_GRP_BRDCST_1 = 18,
  EVT_A2A_UNNAMED = 19,  // 2.31 has one more in this band than is known by name; its place is ours
  EVT_2DEV_BRDCST = 20,
  EVT_2DEV_HNDSHK = 21,
  EVT_COPY_FROM_HOST = 22,
  ENC_A2A_NUM_EVENT_TYPE = 23,
  ENC_RDH_NUM_EVENT_START = 23,
  EVT_RH_STEP_0 = 23,
  EVT_RH_STEP_1 = 24,
  EVT_RH_STEP_2 = 25,
  EVT_RH_STEP_3 = 26,
  EVT_RH_STEP_4 = 27,
  EVT_RH_STEP_5 = 28,
  EVT_RH_STEP_6 = 29,
  EVT_RH_STEP_7 = 30,
  EVT_RH_STEP_8 = 31,
  EVT_RH_STEP_9 = 32,
  EVT_RDH_LOCAL_HANDSHAKE = 32,
  EVT_RDH_AXES_HANDSHAKE = 33,
  EVT_RD_STEP_0 = 34,
  EVT_RD_STEP_1 = 35,
  EVT_RD_STEP_2 = 36,
  EVT_RD_STEP_3 = 37,
  EVT_RD_STEP_4 = 38,
  EVT_RD_STEP_5 = 39,
  EVT_RD_STEP_6 = 40,
  EVT_RDH_AXES_HANDSHAKE_2 = 41,
  EVT_1DEV_RDH_STEP_1 = 42,
  EVT_1DEV_RDH_STEP_2 = 43,
  EVT_1DEV_RD_STEP_1 = 44,
  EVT_1DEV_RD_STEP_2 = 45,
  EVT_1DEV_RH_STEP_1 = 46,
  EVT_2DEV_RD_STEP_0 = 47,
  EVT_2DEV_RD_STEP_1 = 48,
  EVT_2DEV_RD_STEP_2 = 49,
  EVT_2DEV_RD_STEP_3 = 50,
  EVT_2DEV_RD_STEP_4 = 51,
  EVT_RDH_LOCAL_PEER_HANDSHAKE = 52,
  ENC_RDH_NUM_EVENT_TYPE = 53,
  // NOLINTEND(readability-identifier-naming)
};
constexpr int kMeshEventTypes = 53;
constexpr int kMaxMeshEvents = 64;    // of a subtype
constexpr int kMaxMeshSubtypes = 20;  // of a mesh
constexpr int kMaxMeshDevices = 128;  // logical cores that a mesh may join on a node

/// "EVT_SYNC"; of aliases the name of the event itself.
const char* encMeshEventName(enc_mesh_event_type type);

/// How descriptors of an event are tagged. Steps from kFirstMeshStep on are events.
constexpr encStep encMeshStep(enc_mesh_event_type type) {
  return static_cast<encStep>(kFirstMeshStep + static_cast<int>(type));
}

/// Roles that ranks have in a mesh, from the point of view of one of them.
enum class mesh_group_types : uint8_t {
  // NOLINTBEGIN(readability-identifier-naming): the field's names
  SELF = 0,                   // own rank
  INTRA_GROUP_ROOTS = 1,      // roots of the own group
  INTER_GROUP_ROOTS = 2,      // roots of other groups that this rank pairs with
  ALL_INTER_ROOTS = 3,        // those, and the own group's; over a network in rotated order
  INTRA_GROUP_NEIGHBORS = 4,  // directly linked: they get the handshake
  INTRA_GROUP_MEMBERS = 5,    // the whole group
  // NOLINTEND(readability-identifier-naming)
};
constexpr int kMeshRoles = 6;
const char* toText(mesh_group_types role);

}  // namespace nccom
