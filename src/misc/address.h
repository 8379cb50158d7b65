// The address of a TCP endpoint: IPv4 or IPv6, a port, and a scope for link-local IPv6.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "misc/result.h"

namespace nccom {

/// A value of 28 bytes without pointers: may be sent to a peer of the same architecture as it is.
/// Bytes from outside need valid() before any other use. All zero: no address.
class SocketAddress {
 public:
  SocketAddress() : v6_{} {}

  /// Takes over an address of the system. `length` bytes are valid.
  ///
  /// @error  ncclInvalidArgument  neither IPv4 nor IPv6, or too short for its family
  static Result<SocketAddress> of(const sockaddr* address, socklen_t length);

  /// Reads "<ipv4>:<port>", "[<ipv6>]:<port>", "[<ipv6>%<scope>]:<port>" or "<host>:<port>". The
  /// port is 1 to 65535; a scope is an interface's name or index; a host name is resolved.
  /// `family` is AF_INET, AF_INET6 or AF_UNSPEC and limits what a host name may resolve to.
  ///
  /// @error  ncclInvalidArgument  anything else; the text says which part and what was expected
  static Result<SocketAddress> parse(std::string_view text, int family = AF_UNSPEC);

  /// 127.0.0.1 or ::1 with a port (0: any).
  static SocketAddress loopback(int family, uint16_t port = 0);

  /// Whether the family is one of the two.
  bool valid() const { return family() == AF_INET || family() == AF_INET6; }
  int family() const { return v4_.sin_family; }
  uint16_t port() const { return ntohs(v4_.sin_port); }  // at the same offset in both families
  void setPort(uint16_t port) { v4_.sin_port = htons(port); }

  bool isLoopback() const;
  /// Link-local IPv6: means something only together with an interface of this host.
  bool isLinkLocal() const;
  /// Index of the interface of a link-local address, 0: none. A peer's index is the peer's: a link-
  /// local address from elsewhere gets the index of the own interface that leads there.
  uint32_t scope() const { return family() == AF_INET6 ? v6_.sin6_scope_id : 0; }
  void setScope(uint32_t interfaceIndex);

  const sockaddr* raw() const { return &any_; }
  socklen_t rawLength() const { return family() == AF_INET ? sizeof v4_ : sizeof v6_; }

  /// "192.0.2.2:5000" or "[fe80::1%eth0]:5000", which parse() reads again; "(no address)".
  std::string text() const;
  /// The same without port and brackets.
  std::string hostText() const;

  /// Same host, port and scope.
  bool operator==(const SocketAddress& other) const;

 private:
  union {  // NOLINTBEGIN(readability-identifier-naming): members of the class, not of a type of
           // their own
    sockaddr any_;
    sockaddr_in v4_;
    sockaddr_in6 v6_;
  };  // NOLINTEND(readability-identifier-naming)
};
static_assert(sizeof(SocketAddress) == 28 && std::is_trivially_copyable_v<SocketAddress>);

}  // namespace nccom
