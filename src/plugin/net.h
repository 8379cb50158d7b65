// Net: what the core sees of a network, whatever version of the ABI its plugin speaks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "misc/log.h"
#include "misc/result.h"

namespace nccom {

// Objects of a net, opaque to the core; made and freed by the Net that they came from.
struct NetListenComm;
struct NetSendComm;
struct NetRecvComm;
struct NetMemory;   // a registration
struct NetRequest;  // a message, or a group of them, under way

/// An address as listen() fills it in: bytes without pointers, to be carried to the peer.
using NetHandle = std::array<std::byte, 128>;

enum class NetMemoryKind : uint8_t { Host, Device, Dmabuf };

struct NetProperties {
  std::string name;     // of the NIC
  std::string pciPath;  // its folder in sysfs; empty: not a PCI device
  uint64_t guid = 0;    // equal for the devices that are one physical NIC
  bool hostMemory = false;
  bool deviceMemory = false;
  bool dmabuf = false;
  bool registrationIsGlobal = false;
  bool forceFlush = false;
  int speedMbps = 0;  // 0: unknown
  int port = 0;
  float latencyUs = 0;  // 0: unknown
  int maxComms = 0;
  int maxRecvs = 1;         // largest group of irecv
  size_t maxP2pBytes = 0;   // largest message
  size_t maxCollBytes = 0;  // the same of an in-network collective
};

/// One message of a group.
struct NetBuffer {
  void* data = nullptr;
  size_t bytes = 0;
  int tag = 0;
  NetMemory* memory = nullptr;
};

/// A network. Calls on one comm object come from one thread at a time, on different objects from
/// any. Nothing blocks but open and the rare plugin whose accept() does. After an Error the comm
/// that it concerns is only good for closing. Errors: what the plugin returned, with the net's
/// name, the call and the plugin's own words.
class Net {
 public:
  virtual ~Net() = default;

  virtual const std::string& name() const = 0;
  /// Where it comes from, for the log: "ncclNetPlugin_v8 of /usr/lib/libnccl-net-x.so".
  virtual std::string origin() const = 0;

  virtual Result<int> devices() = 0;
  virtual Result<NetProperties> properties(int dev) = 0;

  /// Fills `handle` for the peer.
  virtual Result<NetListenComm*> listen(int dev, NetHandle& handle) = 0;
  /// Null: not yet, call again with the same handle, at the same place.
  virtual Result<NetSendComm*> connect(int dev, NetHandle& handle) = 0;
  /// Null: not yet, call again.
  virtual Result<NetRecvComm*> accept(NetListenComm* comm) = 0;

  virtual Result<NetMemory*> regMr(NetSendComm* comm, void* data, size_t bytes,
                                   NetMemoryKind kind) = 0;
  virtual Result<NetMemory*> regMr(NetRecvComm* comm, void* data, size_t bytes,
                                   NetMemoryKind kind) = 0;
  virtual Status deregMr(NetSendComm* comm, NetMemory* memory) = 0;
  virtual Status deregMr(NetRecvComm* comm, NetMemory* memory) = 0;

  /// Null: no room, try later. The buffer belongs to the net until the request is done.
  virtual Result<NetRequest*> isend(NetSendComm* comm, const NetBuffer& buffer) = 0;
  /// Receives one message into each of `buffers`, at most properties.maxRecvs of them. Null: no
  /// room, try later.
  virtual Result<NetRequest*> irecv(NetRecvComm* comm, std::span<const NetBuffer> buffers) = 0;
  /// Makes received data visible to the device; only for device memory. Null: nothing to wait for.
  virtual Result<NetRequest*> iflush(NetRecvComm* comm, std::span<const NetBuffer> buffers) = 0;
  /// Whether a request is done, and then, if `sizes` is not empty, the bytes of each of its
  /// messages (room for the whole group). A request that is done no longer exists.
  virtual Result<bool> test(NetRequest* request, std::span<int> sizes) = 0;

  virtual Status closeSend(NetSendComm* comm) = 0;
  virtual Status closeRecv(NetRecvComm* comm) = 0;
  virtual Status closeListen(NetListenComm* comm) = 0;
};

/// Owner of a comm object; the net outlives it. An error of closing is logged.
template <class Comm, Status (Net::*Close)(Comm*)>
class UniqueNetComm {
 public:
  UniqueNetComm() = default;
  UniqueNetComm(Net& net, Comm* comm) : net_(&net), comm_(comm) {}
  UniqueNetComm(UniqueNetComm&& other) noexcept
      : net_(other.net_), comm_(std::exchange(other.comm_, nullptr)) {}
  UniqueNetComm& operator=(UniqueNetComm&& other) noexcept {
    std::swap(net_, other.net_);
    std::swap(comm_, other.comm_);
    return *this;
  }
  UniqueNetComm(const UniqueNetComm&) = delete;
  UniqueNetComm& operator=(const UniqueNetComm&) = delete;
  ~UniqueNetComm() { reset(); }

  Comm* get() const { return comm_; }
  explicit operator bool() const { return comm_ != nullptr; }
  void reset() {
    if (comm_ == nullptr) return;
    const Status closed = (net_->*Close)(std::exchange(comm_, nullptr));
    if (!closed.ok()) WARN("%s", closed.error().message.c_str());
  }

 private:
  Net* net_ = nullptr;
  Comm* comm_ = nullptr;
};
using UniqueNetSend = UniqueNetComm<NetSendComm, &Net::closeSend>;
using UniqueNetRecv = UniqueNetComm<NetRecvComm, &Net::closeRecv>;
using UniqueNetListen = UniqueNetComm<NetListenComm, &Net::closeListen>;

/// What the user asks for.
struct NetChoice {
  std::string
      plugin;       // NCCL_NET_PLUGIN: names, tried in order; "none" or "socket": the builtin net
  std::string net;  // NCCL_NET: the net must have this name, in any case; empty: any
  std::string folder;  // searched before the loader's path; empty: where this library lies
};

/// Makes the net that is part of this library; given from above, as it lives in another layer.
using BuiltinNet = std::function<Result<std::unique_ptr<Net>>()>;

/// Opens the first net of the choice that has a device; without a plugin named, the builtin net.
/// Never another than was named.
///
/// @error  ncclInvalidUsage  none can be used; the text says for each what was tried and why not
Result<std::shared_ptr<Net>> openNet(const NetChoice& choice, const BuiltinNet& builtin);

/// The open nets of a process. A plugin's init may run only once in the life of a process, so a net
/// stays open as long as the registry, and who names it again gets the same one. Callable from any
/// thread.
class NetRegistry {
 public:
  explicit NetRegistry(BuiltinNet builtin) : builtin_(std::move(builtin)) {}

  /// As openNet(). The owners that share a net are the registry and the net's users.
  Result<std::shared_ptr<Net>> open(const NetChoice& choice);

 private:
  Result<std::shared_ptr<Net>> openEntry(const std::string& entry, const NetChoice& choice);

  const BuiltinNet builtin_;
  std::mutex mutex_;                                  // guards nets_
  std::map<std::string, std::shared_ptr<Net>> nets_;  // by the name that the user gives
};

}  // namespace nccom
