#include "misc/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

namespace nccom {
namespace {

constexpr size_t kMaxHostName = 253;  // RFC 1035: 255 octets with two length bytes
constexpr size_t kShownChars = 80;    // of a wrong address in a message

/// What a message shows of a text that may be of any length and content.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kShownChars))
    out += c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > kShownChars) out += "... (" + std::to_string(text.size()) + " characters)";
  return out;
}

Error wrong(std::string_view text, const std::string& why) {
  return fail(ncclInvalidArgument,
              "address '%s': %s; expected <ipv4>:<port>, [<ipv6>]:<port> or <host>:<port>",
              shown(text).c_str(), why.c_str());
}

template <class Integer>
std::optional<Integer> parseDecimal(std::string_view digits) {
  Integer value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc{} || stop != end || digits.empty()) return std::nullopt;
  return value;
}

/// The index of an interface given by name or by number; 0: there is none.
uint32_t interfaceIndex(std::string_view scope) {
  if (scope.size() < IF_NAMESIZE) {
    if (const unsigned index = if_nametoindex(std::string(scope).c_str())) return index;
  }
  char name[IF_NAMESIZE];
  const auto number = parseDecimal<uint32_t>(scope);
  return number && if_indextoname(*number, name) != nullptr ? *number : 0;
}

Result<SocketAddress> parseBracketed(std::string_view text, std::string_view inside) {
  const size_t percent = inside.find('%');
  const std::string host(inside.substr(0, percent));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) {
    return wrong(text, "'" + shown(host) + "' is no IPv6 address");
  }
  if (percent != std::string_view::npos) {
    const std::string_view scope = inside.substr(percent + 1);
    v6.sin6_scope_id = interfaceIndex(scope);
    if (v6.sin6_scope_id == 0) {
      return wrong(text, "scope '" + shown(scope) + "' is no interface of this host");
    }
  }
  return SocketAddress::of(reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
}

bool isHostName(std::string_view host) {
  for (const char c : host) {
    if (!isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.' && c != '_') return false;
  }
  return !host.empty() && host.size() <= kMaxHostName && host.front() != '-';
}

Result<SocketAddress> resolve(std::string_view text, const std::string& host, int family) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    const char* why = error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
    return wrong(text, "host name '" + shown(host) + "' does not resolve: " + why);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  return SocketAddress::of(found->ai_addr, found->ai_addrlen);
}

Result<SocketAddress> parseHost(std::string_view text, std::string_view host, int family) {
  if (host.empty()) return wrong(text, "no host before the ':'");
  if (host.find(':') != std::string_view::npos) {
    return wrong(text, "more than one ':' (an IPv6 address stands in brackets)");
  }
  const std::string name(host);
  if (host.find_first_not_of("0123456789.") == std::string_view::npos) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    if (inet_pton(AF_INET, name.c_str(), &v4.sin_addr) != 1) {
      return wrong(text, "'" + shown(host) + "' is no IPv4 address");
    }
    return SocketAddress::of(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  }
  if (!isHostName(host)) {
    return wrong(text, "'" + shown(host) +
                           "' is no host name (letters, digits, '-', '.'; at most " +
                           std::to_string(kMaxHostName) + " characters)");
  }
  return resolve(text, name, family);
}

}  // namespace

Result<SocketAddress> SocketAddress::of(const sockaddr* address, socklen_t length) {
  SocketAddress out;
  const int family = length >= sizeof(sa_family_t) ? address->sa_family : AF_UNSPEC;
  if (family == AF_INET && length >= sizeof out.v4_) {
    memcpy(&out.v4_, address, sizeof out.v4_);
    memset(out.v4_.sin_zero, 0, sizeof out.v4_.sin_zero);
    return out;
  }
  if (family == AF_INET6 && length >= sizeof out.v6_) {
    memcpy(&out.v6_, address, sizeof out.v6_);
    return out;
  }
  return fail(ncclInvalidArgument, "socket address of family %d, %u bytes: neither IPv4 nor IPv6",
              family, length);
}

Result<SocketAddress> SocketAddress::parse(std::string_view text, int family) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong(text, "no ':' with a port");
  const std::string_view host = text.substr(0, colon);
  const std::string_view portText = text.substr(colon + 1);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (!bracketed && text.find_first_of("[]") != std::string_view::npos) {
    return wrong(text, "brackets do not stand around an IPv6 address before the port");
  }
  const auto port = parseDecimal<uint16_t>(portText);
  if (!port || *port == 0) {
    return wrong(text, "port '" + shown(portText) + "' is not a number from 1 to 65535");
  }
  SocketAddress out = bracketed ? TRY(parseBracketed(text, host.substr(1, host.size() - 2)))
                                : TRY(parseHost(text, host, family));
  out.setPort(*port);
  return out;
}

SocketAddress SocketAddress::loopback(int family, uint16_t port) {
  SocketAddress out;
  if (family == AF_INET) {
    out.v4_.sin_family = AF_INET;
    out.v4_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    out.v6_.sin6_family = AF_INET6;
    out.v6_.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  }
  out.setPort(port);
  return out;
}

bool SocketAddress::isLoopback() const {
  if (family() == AF_INET) return ntohl(v4_.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6_.sin6_addr);
}

bool SocketAddress::isLinkLocal() const {
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6_.sin6_addr);
}

void SocketAddress::setScope(uint32_t interfaceIndex) {
  if (family() == AF_INET6) v6_.sin6_scope_id = interfaceIndex;
}

std::string SocketAddress::hostText() const {
  char host[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) inet_ntop(AF_INET, &v4_.sin_addr, host, sizeof host);
  if (family() == AF_INET6) inet_ntop(AF_INET6, &v6_.sin6_addr, host, sizeof host);
  if (!valid()) return "(no address)";
  std::string out = host;
  if (scope() != 0) {
    char name[IF_NAMESIZE];
    out += "%";
    out += if_indextoname(scope(), name) != nullptr ? name : std::to_string(scope());
  }
  return out;
}

std::string SocketAddress::text() const {
  if (!valid()) return "(no address)";
  const std::string host = family() == AF_INET6 ? "[" + hostText() + "]" : hostText();
  return host + ":" + std::to_string(port());
}

bool SocketAddress::operator==(const SocketAddress& other) const {
  if (family() != other.family() || port() != other.port()) return false;
  if (family() == AF_INET) return v4_.sin_addr.s_addr == other.v4_.sin_addr.s_addr;
  if (family() != AF_INET6) return true;
  return memcmp(&v6_.sin6_addr, &other.v6_.sin6_addr, sizeof v6_.sin6_addr) == 0 &&
         scope() == other.scope();
}

}  // namespace nccom
