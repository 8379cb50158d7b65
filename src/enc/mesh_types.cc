#include "enc/mesh_types.h"

#include <cstddef>

#include "misc/check.h"

namespace nccom {
namespace {

constexpr const char* kEventNames[kMeshEventTypes] = {
    "EVT_SYNC",
    "EVT_GLOBAL_HNDSHK",
    "EVT_LOCAL_HNDSHK",
    "EVT_INTER_GRP_BRDCST",
    "EVT_FUNCTION_BARRIER_FIRST_COLL",
    "EVT_FUNCTION_BARRIER_LAST_COLL",
    "EVT_REDUCE_LOCAL_HNDSHK",
    "EVT_INTRA_GRP_BRDCST",
    "EVT_REDUCE_COPY",
    "EVT_REDUCE_COPY_2",
    "EVT_REDUCE_WRITE",
    "EVT_INTER_GRP_BRDCST_2",
    "EVT_LOCAL_AND_POD_GRP_BRDCST",
    "EVT_LOCAL_AND_POD_GRP_BRDCST_2",
    "EVT_LOCAL_HNDSHK_1",
    "EVT_LOCAL_HNDSHK_2",
    "EVT_GLOBAL_HNDSHK_1",
    "EVT_INTER_GRP_BRDCST_1",
    "EVT_INTRA_GRP_BRDCST_1",
    "EVT_A2A_UNNAMED",
    "EVT_2DEV_BRDCST",
    "EVT_2DEV_HNDSHK",
    "EVT_COPY_FROM_HOST",
    "EVT_RH_STEP_0",
    "EVT_RH_STEP_1",
    "EVT_RH_STEP_2",
    "EVT_RH_STEP_3",
    "EVT_RH_STEP_4",
    "EVT_RH_STEP_5",
    "EVT_RH_STEP_6",
    "EVT_RH_STEP_7",
    "EVT_RH_STEP_8",
    "EVT_RH_STEP_9",
    "EVT_RDH_AXES_HANDSHAKE",
    "EVT_RD_STEP_0",
    "EVT_RD_STEP_1",
    "EVT_RD_STEP_2",
    "EVT_RD_STEP_3",
    "EVT_RD_STEP_4",
    "EVT_RD_STEP_5",
    "EVT_RD_STEP_6",
    "EVT_RDH_AXES_HANDSHAKE_2",
    "EVT_1DEV_RDH_STEP_1",
    "EVT_1DEV_RDH_STEP_2",
    "EVT_1DEV_RD_STEP_1",
    "EVT_1DEV_RD_STEP_2",
    "EVT_1DEV_RH_STEP_1",
    "EVT_2DEV_RD_STEP_0",
    "EVT_2DEV_RD_STEP_1",
    "EVT_2DEV_RD_STEP_2",
    "EVT_2DEV_RD_STEP_3",
    "EVT_2DEV_RD_STEP_4",
    "EVT_RDH_LOCAL_PEER_HANDSHAKE",
};
constexpr const char* kRoleNames[kMeshRoles] = {"SELF",
                                                "INTRA_GROUP_ROOTS",
                                                "INTER_GROUP_ROOTS",
                                                "ALL_INTER_ROOTS",
                                                "INTRA_GROUP_NEIGHBORS",
                                                "INTRA_GROUP_MEMBERS"};

}  // namespace

const char* encMeshEventName(enc_mesh_event_type type) {
  NCCL_CHECK(static_cast<int>(type) < kMeshEventTypes);
  return kEventNames[static_cast<size_t>(type)];
}

const char* toText(mesh_group_types role) {
  return kRoleNames[static_cast<size_t>(role)];
}

}  // namespace nccom
