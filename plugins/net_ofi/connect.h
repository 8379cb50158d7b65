// How two processes meet: handles, greetings, and the steps of connect and accept.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "include/plugin/nccl_net.h"
#include "plugins/net_ofi/comm.h"
#include "plugins/net_ofi/control.h"
#include "plugins/net_ofi/endpoint.h"
#include "plugins/net_ofi/provider.h"

namespace nccom::ofi {

using Cookie = std::array<uint8_t, 16>;

/// What listen() writes into the caller's handle. The peer's copy also holds its own state.
struct Handle {
  uint64_t magic;
  Cookie cookie;         // whoever shows it has the handle
  sockaddr_in6 address;  // of the listener; may hold a sockaddr_in
  uint32_t reserved;
  uint64_t connecting;  // key of the connection under way; 0 as listen() made it
};
static_assert(sizeof(Handle) <= NCCL_NET_HANDLE_MAXSIZE);

/// The one message that each side sends first. Fixed size: both ends run the same build of it.
struct Greeting {
  uint64_t magic;
  Cookie cookie;
  uint32_t protocol;      // Protocol
  uint32_t connection;    // acceptor: the upper part of the tags
  uint32_t addressBytes;  // of the endpoint
  uint32_t refused;       // acceptor: the text says why
  char provider[64];
  std::array<std::byte, 256> address;
  char text[128];
};

/// Finds the endpoints of the devices: one for all connections of a device with Protocol::Tagged,
/// one for each with Protocol::Message. Thread-safe.
class Endpoints {
 public:
  /// An endpoint for a new connection.
  ncclResult_t get(const std::shared_ptr<const Device>& device, std::shared_ptr<Endpoint>& out);

 private:
  std::mutex mutex_;  // guards the maps
  std::map<const Device*, std::weak_ptr<Domain>> domains_;
  std::map<const Device*, std::weak_ptr<Endpoint>> shared_;
};

class ListenComm {
 public:
  static ncclResult_t open(const std::shared_ptr<const Device>& device, Endpoints& endpoints,
                           void* handle, std::unique_ptr<ListenComm>& out);
  /// `out` stays null: nobody yet.
  ncclResult_t accept(std::unique_ptr<RecvComm>& out);

 private:
  struct Stranger {  // a connection that has not yet greeted
    Control control;
    std::chrono::steady_clock::time_point since;
  };

  ListenComm(std::shared_ptr<const Device> device, Endpoints& endpoints)
      : device_(std::move(device)), endpoints_(endpoints) {}
  ncclResult_t welcome(Control control, const Greeting& greeting, std::unique_ptr<RecvComm>& out);

  const std::shared_ptr<const Device> device_;
  Endpoints& endpoints_;
  ControlListener listener_;
  Cookie cookie_{};
  std::vector<Stranger> strangers_;
};

/// The connections that have been begun and not finished. Thread-safe.
class Connector {
 public:
  /// One step; `raw` is the caller's handle. `out` stays null: not yet.
  ncclResult_t connect(const std::shared_ptr<const Device>& device, Endpoints& endpoints, void* raw,
                       std::unique_ptr<SendComm>& out);

 private:
  struct Attempt {
    Control control;
    std::shared_ptr<Endpoint> endpoint;
    sockaddr_in6 to{};
  };

  static ncclResult_t begin(const std::shared_ptr<const Device>& device, Endpoints& endpoints,
                            const Handle& handle, Attempt& attempt);
  static ncclResult_t finish(Attempt attempt, const Greeting& reply,
                             std::unique_ptr<SendComm>& out);

  std::mutex mutex_;  // guards the next two
  std::map<uint64_t, std::unique_ptr<Attempt>> attempts_;
  uint64_t last_ = 0;
};

}  // namespace nccom::ofi
