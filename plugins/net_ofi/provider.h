// Which provider of libfabric is used, and the devices that it has.
#pragma once

#include <netinet/in.h>
#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "include/plugin/nccl_net.h"

namespace nccom::ofi {

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

/// How messages of different connections and tags are told apart.
enum class Protocol : uint8_t {
  Tagged,  // by the provider's tag matching; all connections share one endpoint
  Message  // by an endpoint for each connection and the order of messages: one receive at a time
};

/// What the environment asks for.
struct Choice {
  std::string provider;  // FI_PROVIDER: names, or "^" and names to leave out; empty: the best
  std::string ifname;    // NCCL_SOCKET_IFNAME: prefixes; "=" exact names; "^" or "^=" all but these
  std::string protocol;  // NET_OFI_PROTOCOL: tagged, message, or empty: tagged where there is

  static Choice fromEnvironment();
};

/// One network device of the provider. Immutable, and shared by all that is open on it.
struct Device {
  int index = 0;
  Info info;
  Protocol protocol = Protocol::Tagged;
  std::string name;
  std::string pciPath;  // in sysfs; empty: not a PCI device
  uint64_t guid = 0;
  int speedMbps = 0;
  size_t wholeBytes = 0;          // larger messages are announced before they are sent; see comm.h
  sockaddr_in6 controlAddress{};  // where to listen for control connections; may hold a sockaddr_in

  const char* provider() const { return info->fabric_attr->prov_name; }
};

/// The devices of the provider chosen: the one named, else efa, verbs;ofi_rxm, any other hardware,
/// tcp, net, sockets, in this order. Of several addresses of a device IPv4 is preferred; loopback
/// and container bridges only count if there is nothing else or they are named.
///
/// @error  ncclInvalidUsage  the provider named cannot be used; the text lists those that could
/// @error  ncclSystemError   there is none at all
ncclResult_t findDevices(const Choice& choice, std::vector<std::shared_ptr<const Device>>& devices);

}  // namespace nccom::ofi
