// The logger that the host library gave, and how a function of this plugin fails.
#pragma once

#include "include/plugin/nccl_net.h"

namespace nccom::ofi {

void setLogger(ncclDebugLogger_t logger);

/// Says why, at level WARN, and returns `code`: `return failed(ncclSystemError, "...")`.
[[gnu::format(printf, 2, 3)]] ncclResult_t failed(ncclResult_t code, const char* format, ...);

[[gnu::format(printf, 1, 2)]] void inform(const char* format, ...);

}  // namespace nccom::ofi

// Leaves the function if `call` fails; the callee has said why.
#define TRY(call)                                   \
  do {                                              \
    const ncclResult_t tryResult = (call);          \
    if (tryResult != ncclSuccess) return tryResult; \
  } while (0)
