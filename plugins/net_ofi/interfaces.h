// Network interfaces by name, as NCCL users choose them.
#pragma once

#include <netinet/in.h>

#include <string>
#include <vector>

namespace nccom::ofi {

struct Interface {
  std::string name;
  sockaddr_in6 address;  // may hold a sockaddr_in
};

/// Whether `name` is in a list as of NCCL_SOCKET_IFNAME; an empty list takes all but loopback and
/// container bridges.
bool interfaceListed(const std::string& list, const std::string& name);

/// The interfaces that are up, with an IPv4 or IPv6 address; listed ones, or if there is none and
/// the list is empty, all.
std::vector<Interface> interfaces(const std::string& list);

/// The name of the interface that has an address; empty: none has.
std::string interfaceOf(const sockaddr* address);

/// Speed from sysfs in Mbit/s; 10000 if it does not say, as NCCL assumes.
int interfaceSpeedMbps(const std::string& name);

/// The PCI folder in sysfs of an interface; empty: a virtual one.
std::string interfacePciPath(const std::string& name);

}  // namespace nccom::ofi
