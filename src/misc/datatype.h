// NCCL's element types and operators: sizes and names.
#pragma once

#include <cstddef>

#include "include/nccl.h"

namespace nccom {

/// Bytes of an element; 0: not a type.
size_t ncclTypeSize(ncclDataType_t type);

/// "float", "half", ... as nccl-tests print them; "?" for what is not a type.
const char* ncclTypeName(ncclDataType_t type);

bool ncclTypeIsFloat(ncclDataType_t type);

/// "sum", "prod", ...; "mulsum" for a user-made operator.
const char* ncclOpName(ncclRedOp_t op);

}  // namespace nccom
