/* Its init fails, and says why. */
#include "fake_net.h"

static ncclResult_t init(ncclDebugLogger_t logger) {
  logger(NCCL_LOG_WARN, NCCL_INIT | NCCL_NET, __FILE__, __LINE__, "no cable in port %d", 7);
  return ncclSystemError;
}

const ncclNet_v8_t ncclNetPlugin_v8 = {
    .name = "Failing", .init = init, .devices = fakeDevices, FAKE_NET_REST};
