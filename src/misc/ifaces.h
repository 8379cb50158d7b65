// Network interfaces of this host, and the choice among them as NCCL users know it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "misc/address.h"
#include "misc/result.h"

namespace nccom {

struct Interface {
  std::string name;
  SocketAddress address;  // port 0
  uint32_t index = 0;     // of the system; the scope of a link-local address

  bool operator==(const Interface&) const = default;
};

/// All addresses of interfaces that are up, in the system's order.
Result<std::vector<Interface>> listInterfaces();

/// What the user asks for.
struct InterfaceChoice {
  std::string ifname;  // NCCL_SOCKET_IFNAME: prefixes; "=" exact names; "^" or "^=" all but these
  std::string family;  // NCCL_SOCKET_FAMILY: AF_INET, AF_INET6, or empty: either
};

/// Up to `most` of `all`, one address each (IPv4, else global IPv6, else link-local IPv6), in
/// `all`'s order. With a name list those that match; without one the first group that is not empty
/// of: ib*; all but docker*, lo*, virbr*; docker*; lo*; virbr*.
///
/// @error  ncclInvalidUsage  the family is unknown, or nothing matches; the text names the variable
///                           and lists the interfaces there are
Result<std::vector<Interface>> chooseInterfaces(const std::vector<Interface>& all,
                                                const InterfaceChoice& choice, size_t most);

/// chooseInterfaces() over listInterfaces().
Result<std::vector<Interface>> findInterfaces(const InterfaceChoice& choice, size_t most);

/// The interface among chooseInterfaces() that the system's routing would use to reach
/// `destination`, or the first of them if it would use another; for peers whose address is known in
/// advance.
Result<Interface> findInterfaceToward(const SocketAddress& destination,
                                      const InterfaceChoice& choice);

}  // namespace nccom
