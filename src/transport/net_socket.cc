#include "transport/net_socket.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "misc/log.h"
#include "transport/net_socket_comm.h"

namespace nccom {
namespace {

constexpr size_t kMaxDevices = 16;
constexpr int kUnknownSpeedMbps = 10000;  // what NCCL assumes where sysfs has no speed
constexpr uint64_t kHandleMagic = 0x31544b434f534d43ULL;  // "CMSOCKT1"
constexpr size_t kMaxStrangers = 64;  // connections that have not yet said who they are
constexpr std::chrono::seconds kStrangerPatience(30);

using Cookie = std::array<uint8_t, 16>;

/// The first bytes of a connection: proof that it comes from a holder of the handle.
struct Hello {
  uint64_t magic;
  Cookie cookie;

  bool operator==(const Hello&) const = default;
};

/// NetHandle as this net fills it in.
struct Handle {
  Hello hello;
  SocketAddress address;
  uint32_t reserved;
  uint64_t connecting;  // key of the connection under way; 0 as listen() made it
};
static_assert(sizeof(Handle) <= sizeof(NetHandle) && std::is_trivially_copyable_v<Handle>);

/// A connection that has been accepted and has not shown its Hello yet.
struct Stranger {
  Socket socket;
  Hello hello{};
  size_t received = 0;
  Deadline patience = Deadline::after(kStrangerPatience);
};

struct Listener {
  ListenSocket socket;
  Hello expected{};
  std::vector<Stranger> strangers;
};

std::string sysfsPath(const std::string& interface) {
  const std::string link = "/sys/class/net/" + interface + "/device";
  char resolved[PATH_MAX];
  return realpath(link.c_str(), resolved) != nullptr ? resolved : "";
}

int sysfsSpeedMbps(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/speed");
  int speed = 0;
  return file >> speed && speed > 0 ? speed : kUnknownSpeedMbps;
}

class NetSocket : public Net {
 public:
  explicit NetSocket(std::vector<Interface> interfaces) : interfaces_(std::move(interfaces)) {}

  const std::string& name() const override { return name_; }
  std::string origin() const override { return "builtin"; }
  Result<int> devices() override { return static_cast<int>(interfaces_.size()); }
  Result<NetProperties> properties(int dev) override;

  Result<NetListenComm*> listen(int dev, NetHandle& handle) override;
  Result<NetSendComm*> connect(int dev, NetHandle& handle) override;
  Result<NetRecvComm*> accept(NetListenComm* comm) override;

  Result<NetMemory*> regMr(NetSendComm* comm, void*, size_t, NetMemoryKind kind) override {
    return memoryOf(comm, kind);
  }
  Result<NetMemory*> regMr(NetRecvComm* comm, void*, size_t, NetMemoryKind kind) override {
    return memoryOf(comm, kind);
  }
  Status deregMr(NetSendComm*, NetMemory*) override { return Ok{}; }
  Status deregMr(NetRecvComm*, NetMemory*) override { return Ok{}; }

  Result<NetRequest*> isend(NetSendComm* comm, const NetBuffer& buffer) override {
    return opaque(reinterpret_cast<SocketSendComm*>(comm)->isend(buffer));
  }
  Result<NetRequest*> irecv(NetRecvComm* comm, std::span<const NetBuffer> buffers) override {
    return opaque(reinterpret_cast<SocketRecvComm*>(comm)->irecv(buffers));
  }
  Result<NetRequest*> iflush(NetRecvComm*, std::span<const NetBuffer>) override {
    return static_cast<NetRequest*>(nullptr);  // all memory is host memory
  }
  Result<bool> test(NetRequest* request, std::span<int> sizes) override {
    return reinterpret_cast<SocketRequest*>(request)->test(sizes);
  }

  Status closeSend(NetSendComm* comm) override {
    const std::unique_ptr<SocketSendComm> owner(reinterpret_cast<SocketSendComm*>(comm));
    return Ok{};
  }
  Status closeRecv(NetRecvComm* comm) override {
    const std::unique_ptr<SocketRecvComm> owner(reinterpret_cast<SocketRecvComm*>(comm));
    return Ok{};
  }
  Status closeListen(NetListenComm* comm) override {
    const std::unique_ptr<Listener> owner(reinterpret_cast<Listener*>(comm));
    return Ok{};
  }

 private:
  static Result<NetRequest*> opaque(Result<SocketRequest*> request) {
    return reinterpret_cast<NetRequest*>(TRY(std::move(request)));
  }

  /// Sockets need no registration: any pointer that is not null stands for one.
  template <class Comm>
  Result<NetMemory*> memoryOf(Comm* comm, NetMemoryKind kind) {
    if (kind == NetMemoryKind::Host) return reinterpret_cast<NetMemory*>(comm);
    return fail(ncclInvalidUsage, "net Socket: regMr of memory that is not the host's");
  }

  Result<const Interface*> interfaceOf(int dev) const {
    if (dev >= 0 && static_cast<size_t>(dev) < interfaces_.size()) {
      return &interfaces_[static_cast<size_t>(dev)];
    }
    return fail(ncclInvalidArgument, "net Socket: device %d, expected 0 to %zu", dev,
                interfaces_.size() - 1);
  }

  Result<Socket> startConnecting(int dev, const Handle& handle) const;

  const std::string name_ = "Socket";
  const std::vector<Interface> interfaces_;
  std::mutex mutex_;                       // guards the next two
  std::map<uint64_t, Socket> connecting_;  // of handles whose connect() has not ended
  uint64_t lastConnecting_ = 0;
};

Result<NetProperties> NetSocket::properties(int dev) {
  const Interface& interface = *TRY(interfaceOf(dev));
  NetProperties out;
  out.name = interface.name;
  out.pciPath = sysfsPath(interface.name);
  out.guid = static_cast<uint64_t>(dev);
  out.hostMemory = true;
  out.speedMbps = sysfsSpeedMbps(interface.name);
  out.maxComms = 65536;
  out.maxRecvs = kSocketMaxRecvs;
  out.maxP2pBytes = kSocketMaxBytes;
  out.maxCollBytes = kSocketMaxBytes;
  return out;
}

Result<NetListenComm*> NetSocket::listen(int dev, NetHandle& handle) {
  const Interface& interface = *TRY(interfaceOf(dev));
  auto listener = std::make_unique<Listener>();
  listener->socket = TRY(ListenSocket::open(interface.address));
  listener->expected.magic = kHandleMagic;
  if (getrandom(listener->expected.cookie.data(), sizeof(Cookie), 0) != sizeof(Cookie)) {
    return fail(ncclSystemError, "net Socket: getrandom: %s", strerror(errno));
  }
  const Handle filled{listener->expected, listener->socket.address(), 0, 0};
  handle.fill(std::byte{0});
  memcpy(handle.data(), &filled, sizeof filled);
  return reinterpret_cast<NetListenComm*>(listener.release());
}

Result<Socket> NetSocket::startConnecting(int dev, const Handle& handle) const {
  const Interface& interface = *TRY(interfaceOf(dev));
  if (handle.hello.magic != kHandleMagic || !handle.address.valid()) {
    return fail(ncclInvalidArgument, "net Socket: the peer's handle is not of this net: 0x%016llx",
                static_cast<unsigned long long>(handle.hello.magic));
  }
  SocketAddress address = handle.address;
  if (address.isLinkLocal()) address.setScope(interface.index);  // the peer's means nothing here
  return Socket::startConnect(address);
}

Result<NetSendComm*> NetSocket::connect(int dev, NetHandle& raw) {
  Handle handle;
  memcpy(&handle, raw.data(), sizeof handle);
  Socket socket;
  {
    const std::lock_guard lock(mutex_);
    const auto known = connecting_.find(handle.connecting);
    if (known != connecting_.end()) {
      socket = std::move(known->second);
      connecting_.erase(known);
    }
  }
  if (!socket) socket = TRY(startConnecting(dev, handle));
  const auto connected = socket.connected();
  if (!connected.ok()) {
    return fail(connected.error().code, "net Socket: %s", connected.error().message.c_str());
  }
  if (connected.value()) {
    // A fresh connection has room for so few bytes: all go at once.
    const size_t sent = TRY(socket.trySend(&handle.hello, sizeof handle.hello));
    if (sent != sizeof handle.hello) {
      return fail(ncclSystemError, "net Socket: no room for %zu bytes in a fresh connection to %s",
                  sizeof handle.hello, socket.peer().text().c_str());
    }
    return reinterpret_cast<NetSendComm*>(
        std::make_unique<SocketSendComm>(std::move(socket)).release());
  }
  const std::lock_guard lock(mutex_);
  if (handle.connecting == 0) handle.connecting = ++lastConnecting_;
  connecting_.emplace(handle.connecting, std::move(socket));
  memcpy(raw.data(), &handle, sizeof handle);
  return static_cast<NetSendComm*>(nullptr);
}

/// Reads on; true when the whole Hello is there, an Error when the connection is of no use.
Result<bool> readHello(Stranger& stranger) {
  const size_t more =
      TRY(stranger.socket.tryRecv(reinterpret_cast<std::byte*>(&stranger.hello) + stranger.received,
                                  sizeof stranger.hello - stranger.received));
  stranger.received += more;
  if (stranger.received < sizeof stranger.hello && stranger.patience.passed()) {
    return fail(ncclRemoteError, "%zu of %zu bytes of greeting within %lld s", stranger.received,
                sizeof stranger.hello, static_cast<long long>(kStrangerPatience.count()));
  }
  return stranger.received == sizeof stranger.hello;
}

void dropStranger(const Stranger& stranger, const char* why) {
  INFO(kLogNet, "NET Socket: dropped a connection from %s: %s",
       stranger.socket.peer().text().c_str(), why);
}

Result<NetRecvComm*> NetSocket::accept(NetListenComm* comm) {
  Listener& listener = *reinterpret_cast<Listener*>(comm);
  std::vector<Stranger>& strangers = listener.strangers;
  while (Socket socket = TRY(listener.socket.tryAccept())) {
    if (strangers.size() == kMaxStrangers) {
      dropStranger(strangers.front(), "too many connections that say nothing");
      strangers.erase(strangers.begin());
    }
    strangers.emplace_back().socket = std::move(socket);
  }
  for (auto stranger = strangers.begin(); stranger != strangers.end();) {
    const auto complete = readHello(*stranger);
    if (complete.ok() && !complete.value()) {
      ++stranger;
      continue;
    }
    const bool known = complete.ok() && stranger->hello == listener.expected;
    if (!known) {
      dropStranger(*stranger, complete.ok() ? "not a peer" : complete.error().message.c_str());
    }
    Socket socket = std::move(stranger->socket);
    stranger = strangers.erase(stranger);
    if (known) {
      return reinterpret_cast<NetRecvComm*>(
          std::make_unique<SocketRecvComm>(std::move(socket)).release());
    }
  }
  return static_cast<NetRecvComm*>(nullptr);
}

}  // namespace

Result<std::unique_ptr<Net>> openSocketNet(const InterfaceChoice& choice) {
  std::vector<Interface> interfaces = TRY(findInterfaces(choice, kMaxDevices));
  return std::unique_ptr<Net>(std::make_unique<NetSocket>(std::move(interfaces)));
}

}  // namespace nccom
