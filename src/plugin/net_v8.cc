// Adapter of ncclNetPlugin_v8.
#include <array>

#include "plugin/net_adapter.h"
#include "plugin/net_versions.h"

namespace nccom {
namespace {

/// A group of buffers as the ABI takes it: parallel arrays.
struct Group {
  std::array<void*, kMaxNetGroup> data;
  std::array<int, kMaxNetGroup> sizes;
  std::array<int, kMaxNetGroup> tags;
  std::array<void*, kMaxNetGroup> memories;
};

class NetV8 : public NetAdapter<ncclNet_v8_t> {
 public:
  using NetAdapter::NetAdapter;

  Status start() {
    if (table_->init == nullptr) return lacks("init");
    forgetNetPluginWarning();
    TRY(called("init", table_->init(netPluginLog)));
    if (table_->name != nullptr) name_ = table_->name;
    const NetFunction needed[] = {
        {"devices", table_->devices != nullptr},
        {"getProperties", table_->getProperties != nullptr},
        {"listen", table_->listen != nullptr},
        {"connect", table_->connect != nullptr},
        {"accept", table_->accept != nullptr},
        {"regMr", table_->regMr != nullptr},
        {"deregMr", table_->deregMr != nullptr},
        {"isend", table_->isend != nullptr},
        {"irecv", table_->irecv != nullptr},
        {"test", table_->test != nullptr},
        {"closeSend", table_->closeSend != nullptr},
        {"closeRecv", table_->closeRecv != nullptr},
        {"closeListen", table_->closeListen != nullptr},
    };
    const std::string missing = missingFunctions(needed);
    return missing.empty() ? Status(Ok{}) : lacks(missing);
  }

  Result<NetProperties> properties(int dev) override {
    ncclNetProperties_v8_t raw{};
    TRY(called("getProperties", table_->getProperties(dev, &raw)));
    if (raw.maxRecvs < 1) {
      return fail(ncclInvalidUsage, "net %s: device %d has maxRecvs %d, expected 1 or more",
                  name_.c_str(), dev, raw.maxRecvs);
    }
    NetProperties out;
    out.name = raw.name != nullptr ? raw.name : "";
    out.pciPath = raw.pciPath != nullptr ? raw.pciPath : "";
    out.guid = raw.guid;
    out.hostMemory = (raw.ptrSupport & NCCL_PTR_HOST) != 0;
    out.deviceMemory = (raw.ptrSupport & NCCL_PTR_CUDA) != 0;
    out.dmabuf = (raw.ptrSupport & NCCL_PTR_DMABUF) != 0;
    out.registrationIsGlobal = raw.regIsGlobal != 0;
    out.speedMbps = std::max(raw.speed, 0);
    out.port = raw.port;
    out.latencyUs = std::max(raw.latency, 0.0F);
    out.maxComms = raw.maxComms;
    out.maxRecvs = std::min(raw.maxRecvs, kMaxNetGroup);
    out.maxP2pBytes = kMaxNetBytesV8;
    out.maxCollBytes = kMaxNetBytesV8;
    return out;
  }

  Result<NetSendComm*> connect(int dev, NetHandle& handle) override {
    void* comm = nullptr;
    ncclNetDeviceHandle_v8_t* device = nullptr;  // only of nets that a device drives
    TRY(called("connect", table_->connect(dev, handle.data(), &comm, &device)));
    return static_cast<NetSendComm*>(comm);
  }

  Result<NetRecvComm*> accept(NetListenComm* listener) override {
    void* comm = nullptr;
    ncclNetDeviceHandle_v8_t* device = nullptr;
    TRY(called("accept", table_->accept(listener, &comm, &device)));
    return static_cast<NetRecvComm*>(comm);
  }

  Result<NetMemory*> regMr(NetSendComm* comm, void* data, size_t bytes,
                           NetMemoryKind kind) override {
    return registerWith(comm, data, bytes, kind);
  }
  Result<NetMemory*> regMr(NetRecvComm* comm, void* data, size_t bytes,
                           NetMemoryKind kind) override {
    return registerWith(comm, data, bytes, kind);
  }

  Result<NetRequest*> isend(NetSendComm* comm, const NetBuffer& buffer) override {
    if (buffer.bytes > INT_MAX) return tooLong("isend", buffer.bytes);
    void* request = nullptr;
    TRY(called("isend", table_->isend(comm, buffer.data, static_cast<int>(buffer.bytes), buffer.tag,
                                      buffer.memory, &request)));
    return static_cast<NetRequest*>(request);
  }

  Result<NetRequest*> irecv(NetRecvComm* comm, std::span<const NetBuffer> buffers) override {
    Group group;  // NOLINT: filled as far as used
    const int n = TRY(fill(group, "irecv", buffers));
    void* request = nullptr;
    TRY(called("irecv", table_->irecv(comm, n, group.data.data(), group.sizes.data(),
                                      group.tags.data(), group.memories.data(), &request)));
    return static_cast<NetRequest*>(request);
  }

  Result<NetRequest*> iflush(NetRecvComm* comm, std::span<const NetBuffer> buffers) override {
    if (table_->iflush == nullptr) {
      return fail(ncclInvalidUsage, "net %s: iflush is not supported", name_.c_str());
    }
    Group group;  // NOLINT: filled as far as used
    const int n = TRY(fill(group, "iflush", buffers));
    void* request = nullptr;
    TRY(called("iflush", table_->iflush(comm, n, group.data.data(), group.sizes.data(),
                                        group.memories.data(), &request)));
    return static_cast<NetRequest*>(request);
  }

 private:
  Error lacks(const std::string& functions) const {
    return fail(ncclInvalidUsage, "net %s: its table %s lacks %s", name_.c_str(), origin().c_str(),
                functions.c_str());
  }

  Result<NetMemory*> registerWith(void* comm, void* data, size_t bytes, NetMemoryKind kind) {
    void* memory = nullptr;
    TRY(called("regMr", table_->regMr(comm, data, bytes, ncclPtrOf(kind), &memory)));
    return static_cast<NetMemory*>(memory);
  }

  Result<int> fill(Group& group, const char* call, std::span<const NetBuffer> buffers) const {
    if (buffers.size() > static_cast<size_t>(kMaxNetGroup)) return tooMany(call, buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i) {
      // A receive may be larger than its message, so a size beyond the ABI is cut to its largest.
      group.data[i] = buffers[i].data;
      group.sizes[i] = static_cast<int>(std::min<size_t>(buffers[i].bytes, INT_MAX));
      group.tags[i] = buffers[i].tag;
      group.memories[i] = buffers[i].memory;
    }
    return static_cast<int>(buffers.size());
  }
};

}  // namespace

Result<std::unique_ptr<Net>> openNetV8(Library library, const void* table) {
  auto net = std::make_unique<NetV8>(std::move(library), static_cast<const ncclNet_v8_t*>(table),
                                     "ncclNetPlugin_v8");
  TRY(net->start());
  return std::unique_ptr<Net>(std::move(net));
}

}  // namespace nccom
