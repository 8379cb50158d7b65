/* Has no device. */
#include "fake_net.h"

const ncclNet_v8_t ncclNetPlugin_v8 = {
    .name = "Empty", .init = fakeInit, .devices = fakeNoDevices, FAKE_NET_REST};
