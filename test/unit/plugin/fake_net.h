/* The functions of a net that does nothing, for plugins that only have to be found and opened. */
#include <stddef.h>

#include "include/plugin/nccl_net.h"

static ncclDebugLogger_t fakeLogger;

static inline ncclResult_t fakeInit(ncclDebugLogger_t logger) {
  fakeLogger = logger;
  return ncclSuccess;
}
static inline ncclResult_t fakeDevices(int* count) {
  *count = 2;
  return ncclSuccess;
}
static inline ncclResult_t fakeNoDevices(int* count) {
  *count = 0;
  return ncclSuccess;
}
static inline ncclResult_t fakeProperties(int dev, ncclNetProperties_v8_t* properties) {
  static char name[] = "fake0";
  (void)dev;
  properties->name = name;
  properties->ptrSupport = NCCL_PTR_HOST;
  properties->maxComms = 1;
  properties->maxRecvs = 1;
  return ncclSuccess;
}
static inline ncclResult_t fakeListen(int dev, void* handle, void** comm) {
  (void)dev, (void)handle, (void)comm;
  fakeLogger(NCCL_LOG_WARN, NCCL_NET, "fake_net.h", __LINE__, "listening is %s", "not possible");
  return ncclSystemError;
}
static inline ncclResult_t fakeConnect(int dev, void* handle, void** comm,
                                       ncclNetDeviceHandle_v8_t** device) {
  (void)dev, (void)handle, (void)comm, (void)device;
  return ncclInternalError;
}
static inline ncclResult_t fakeAccept(void* listenComm, void** comm,
                                      ncclNetDeviceHandle_v8_t** device) {
  (void)listenComm, (void)comm, (void)device;
  return ncclInternalError;
}
static inline ncclResult_t fakeRegMr(void* comm, void* data, size_t size, int type, void** memory) {
  (void)comm, (void)data, (void)size, (void)type, (void)memory;
  return ncclInternalError;
}
static inline ncclResult_t fakeDeregMr(void* comm, void* memory) {
  (void)comm, (void)memory;
  return ncclInternalError;
}
static inline ncclResult_t fakeIsend(void* comm, void* data, int size, int tag, void* memory,
                                     void** request) {
  (void)comm, (void)data, (void)size, (void)tag, (void)memory, (void)request;
  return ncclInternalError;
}
static inline ncclResult_t fakeIrecv(void* comm, int n, void** data, int* sizes, int* tags,
                                     void** memories, void** request) {
  (void)comm, (void)n, (void)data, (void)sizes, (void)tags, (void)memories, (void)request;
  return ncclInternalError;
}
static inline ncclResult_t fakeTest(void* request, int* done, int* sizes) {
  (void)request, (void)done, (void)sizes;
  return ncclInternalError;
}
static inline ncclResult_t fakeClose(void* comm) {
  (void)comm;
  return ncclInternalError;
}

/* All that a net must have but its name, its init and its devices. */
#define FAKE_NET_REST                                                                   \
  .getProperties = fakeProperties, .listen = fakeListen, .connect = fakeConnect,        \
  .accept = fakeAccept, .regMr = fakeRegMr, .deregMr = fakeDeregMr, .isend = fakeIsend, \
  .irecv = fakeIrecv, .test = fakeTest, .closeSend = fakeClose, .closeRecv = fakeClose, \
  .closeListen = fakeClose
