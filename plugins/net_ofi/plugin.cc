// libnccom-net-ofi.so: a network plugin on libfabric. This file is its C face.
//
// Environment:
//   FI_PROVIDER         the provider of libfabric to use; default: the best that reaches other
//   hosts NCCL_SOCKET_IFNAME  interfaces to use, of an IP provider and for control connections
//   NET_OFI_PROTOCOL    tagged or message; default: tagged where the provider has it
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "include/plugin/nccl_net.h"
#include "plugins/net_ofi/comm.h"
#include "plugins/net_ofi/connect.h"
#include "plugins/net_ofi/log.h"
#include "plugins/net_ofi/provider.h"

namespace nccom::ofi {
namespace {

/// The state of the plugin: the ABI up to version 10 has one a process, and passes no context.
struct Plugin {
  std::mutex mutex;  // guards devices while init fills it; afterwards it does not change
  std::vector<std::shared_ptr<const Device>> devices;
  Endpoints endpoints;
  Connector connector;
};

Plugin& plugin() {
  static Plugin thePlugin;
  return thePlugin;
}

/// Runs the body of an entry point; C callers must not see an exception.
template <class Body>
ncclResult_t guarded(const char* call, Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return failed(ncclSystemError, "%s: out of memory", call);
  } catch (const std::exception& problem) {
    return failed(ncclInternalError, "%s: %s", call, problem.what());
  }
}

ncclResult_t deviceOf(int dev, std::shared_ptr<const Device>* out) {
  const auto& devices = plugin().devices;
  if (dev < 0 || static_cast<size_t>(dev) >= devices.size()) {
    return failed(ncclInvalidArgument, "device %d, there are %zu", dev, devices.size());
  }
  *out = devices[static_cast<size_t>(dev)];
  return ncclSuccess;
}

ncclResult_t init(ncclDebugLogger_t logger) {
  return guarded("init", [&] {
    setLogger(logger);
    const std::lock_guard lock(plugin().mutex);
    std::vector<std::shared_ptr<const Device>> devices;
    TRY(findDevices(Choice::fromEnvironment(), devices));
    const Device& first = *devices.front();
    inform("provider %s, %s messages, devices %zu, libfabric %u.%u", first.provider(),
           first.protocol == Protocol::Tagged ? "tagged" : "untagged", devices.size(),
           FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
    plugin().devices = std::move(devices);
    return ncclSuccess;
  });
}

ncclResult_t devices(int* nDevices) {
  *nDevices = static_cast<int>(plugin().devices.size());
  return ncclSuccess;
}

ncclResult_t getProperties(int dev, ncclNetProperties_v8_t* properties) {
  std::shared_ptr<const Device> device;
  TRY(deviceOf(dev, &device));
  *properties = {};
  properties->name = const_cast<char*>(device->name.c_str());  // NOLINT: C, and only read
  if (!device->pciPath.empty()) {
    properties->pciPath = const_cast<char*>(device->pciPath.c_str());  // NOLINT
  }
  properties->guid = device->guid;
  properties->ptrSupport = NCCL_PTR_HOST;
  properties->speed = device->speedMbps;
  properties->port = 1;
  properties->maxComms = 65536;
  properties->maxRecvs = maxRecvs(device->protocol);
  properties->netDeviceType = NCCL_NET_DEVICE_HOST;
  return ncclSuccess;
}

ncclResult_t listen(int dev, void* handle, void** listenComm) {
  return guarded("listen", [&] {
    std::shared_ptr<const Device> device;
    TRY(deviceOf(dev, &device));
    std::unique_ptr<ListenComm> comm;
    TRY(ListenComm::open(device, plugin().endpoints, handle, comm));
    *listenComm = comm.release();
    return ncclSuccess;
  });
}

ncclResult_t connect(int dev, void* handle, void** sendComm, ncclNetDeviceHandle_v8_t**) {
  return guarded("connect", [&] {
    *sendComm = nullptr;
    std::shared_ptr<const Device> device;
    TRY(deviceOf(dev, &device));
    std::unique_ptr<SendComm> comm;
    TRY(plugin().connector.connect(device, plugin().endpoints, handle, comm));
    *sendComm = static_cast<Comm*>(comm.release());
    return ncclSuccess;
  });
}

ncclResult_t accept(void* listenComm, void** recvComm, ncclNetDeviceHandle_v8_t**) {
  return guarded("accept", [&] {
    *recvComm = nullptr;
    std::unique_ptr<RecvComm> comm;
    TRY(static_cast<ListenComm*>(listenComm)->accept(comm));
    *recvComm = static_cast<Comm*>(comm.release());
    return ncclSuccess;
  });
}

ncclResult_t regMr(void* comm, void* data, size_t size, int type, void** mhandle) {
  return guarded("regMr", [&] {
    Memory* memory = nullptr;
    TRY(static_cast<Comm*>(comm)->registerMemory(data, size, type, &memory));
    *mhandle = memory;
    return ncclSuccess;
  });
}

ncclResult_t deregMr(void* comm, void* mhandle) {
  return guarded("deregMr", [&] {
    return static_cast<Comm*>(comm)->deregister(static_cast<Memory*>(mhandle));
  });
}

ncclResult_t isend(void* sendComm, void* data, int size, int tag, void* mhandle, void** request) {
  return guarded("isend", [&] {
    *request = nullptr;
    if (size < 0) return failed(ncclInvalidArgument, "isend of %d bytes", size);
    Request* made = nullptr;
    TRY(static_cast<SendComm*>(static_cast<Comm*>(sendComm))
            ->isend(data, static_cast<size_t>(size), tag, static_cast<const Memory*>(mhandle),
                    &made));
    *request = made;
    return ncclSuccess;
  });
}

// NOLINTNEXTLINE(readability-function-size): NCCL's signature
ncclResult_t irecv(void* recvComm, int n, void** data, int* sizes, int* tags, void** mhandles,
                   void** request) {
  return guarded("irecv", [&] {
    *request = nullptr;
    Request* made = nullptr;
    TRY(static_cast<RecvComm*>(static_cast<Comm*>(recvComm))
            ->irecv({n, data, sizes, tags, mhandles}, &made));
    *request = made;
    return ncclSuccess;
  });
}

ncclResult_t iflush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;  // all memory is host memory: what has arrived is visible
  return ncclSuccess;
}

ncclResult_t test(void* request, int* done, int* sizes) {
  return guarded("test", [&] { return static_cast<Request*>(request)->test(done, sizes); });
}

ncclResult_t closeSend(void* sendComm) {
  return guarded("closeSend", [&] {
    const std::unique_ptr<SendComm> owner(static_cast<SendComm*>(static_cast<Comm*>(sendComm)));
    return ncclSuccess;
  });
}

ncclResult_t closeRecv(void* recvComm) {
  return guarded("closeRecv", [&] {
    const std::unique_ptr<RecvComm> owner(static_cast<RecvComm*>(static_cast<Comm*>(recvComm)));
    return ncclSuccess;
  });
}

ncclResult_t closeListen(void* listenComm) {
  return guarded("closeListen", [&] {
    const std::unique_ptr<ListenComm> owner(static_cast<ListenComm*>(listenComm));
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace nccom::ofi

// Data, not a function; the only symbol of this library.
// NOLINTBEGIN(readability-identifier-naming): NCCL's name
extern "C" [[gnu::visibility("default")]] const ncclNet_v8_t ncclNetPlugin_v8;
const ncclNet_v8_t ncclNetPlugin_v8 = {
    .name = "ofi",
    .init = nccom::ofi::init,
    .devices = nccom::ofi::devices,
    .getProperties = nccom::ofi::getProperties,
    .listen = nccom::ofi::listen,
    .connect = nccom::ofi::connect,
    .accept = nccom::ofi::accept,
    .regMr = nccom::ofi::regMr,
    .regMrDmaBuf = nullptr,
    .deregMr = nccom::ofi::deregMr,
    .isend = nccom::ofi::isend,
    .irecv = nccom::ofi::irecv,
    .iflush = nccom::ofi::iflush,
    .test = nccom::ofi::test,
    .closeSend = nccom::ofi::closeSend,
    .closeRecv = nccom::ofi::closeRecv,
    .closeListen = nccom::ofi::closeListen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
};
// NOLINTEND(readability-identifier-naming)
