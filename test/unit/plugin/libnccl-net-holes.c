/* Lacks functions that a net must have, and the optional ones. */
#include "fake_net.h"

const ncclNet_v8_t ncclNetPlugin_v8 = {.name = "Holes",
                                       .init = fakeInit,
                                       .devices = fakeDevices,
                                       .getProperties = fakeProperties,
                                       .listen = fakeListen,
                                       .connect = fakeConnect,
                                       .accept = fakeAccept,
                                       .regMr = fakeRegMr,
                                       .deregMr = fakeDeregMr,
                                       .irecv = fakeIrecv,
                                       .test = fakeTest,
                                       .closeSend = fakeClose,
                                       .closeRecv = fakeClose};
