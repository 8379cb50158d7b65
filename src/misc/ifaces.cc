#include "misc/ifaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

#include "misc/fd.h"

namespace nccom {
namespace {

/// A parsed NCCL_SOCKET_IFNAME.
struct NameList {
  bool exclude = false;
  bool exact = false;
  std::vector<std::string> names;

  bool takes(const std::string& name) const {
    const bool listed = std::any_of(names.begin(), names.end(), [&](const std::string& entry) {
      return exact ? name == entry : name.starts_with(entry);
    });
    return listed != exclude;
  }
};

NameList parseNames(std::string_view text) {
  NameList list;
  if (text.starts_with('^')) {
    list.exclude = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('=')) {
    list.exact = true;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    if (!entry.empty()) list.names.emplace_back(entry);
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
  }
  return list;
}

Result<int> parseFamily(const std::string& text) {
  if (text.empty()) return AF_UNSPEC;
  if (text == "AF_INET") return AF_INET;
  if (text == "AF_INET6") return AF_INET6;
  return fail(ncclInvalidUsage, "NCCL_SOCKET_FAMILY is '%.80s'; expected AF_INET or AF_INET6",
              text.c_str());
}

/// Of two addresses of one interface the lower is preferred.
int addressRank(const SocketAddress& address) {
  if (address.family() == AF_INET) return 0;
  return address.isLinkLocal() ? 2 : 1;
}

std::vector<Interface> pick(const std::vector<Interface>& all, const NameList& names, int family,
                            size_t most) {
  std::vector<Interface> out;
  for (const Interface& candidate : all) {
    if (!names.takes(candidate.name)) continue;
    if (family != AF_UNSPEC && candidate.address.family() != family) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const Interface& chosen) {
      return chosen.name == candidate.name;
    });
    if (same == out.end()) {
      out.push_back(candidate);
    } else if (addressRank(candidate.address) < addressRank(same->address)) {
      *same = candidate;
    }
  }
  out.resize(std::min(out.size(), most));
  return out;
}

std::string listed(const std::vector<Interface>& all) {
  std::string out;
  for (const Interface& interface : all) {
    out += (out.empty() ? "" : ", ") + interface.name + " " + interface.address.hostText();
  }
  return out.empty() ? "none" : out;
}

Error noneMatches(const std::vector<Interface>& all, const InterfaceChoice& choice) {
  std::string asked;
  if (!choice.ifname.empty()) asked = "NCCL_SOCKET_IFNAME '" + choice.ifname.substr(0, 80) + "'";
  if (!choice.family.empty()) {
    asked += (asked.empty() ? "" : " with ") + ("NCCL_SOCKET_FAMILY " + choice.family);
  }
  if (asked.empty())
    asked = "no NCCL_SOCKET_IFNAME or NCCL_SOCKET_FAMILY given: the default choice";
  return fail(ncclInvalidUsage, "%s matches no network interface that is up; there are: %s",
              asked.c_str(), listed(all).c_str());
}

/// The address that the system would send from to reach `destination`; nothing is sent.
Result<SocketAddress> sourceToward(SocketAddress destination) {
  const UniqueFd fd(socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage raw{};
  socklen_t length = sizeof raw;
  if (!fd || ::connect(fd.get(), destination.raw(), destination.rawLength()) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&raw), &length) != 0) {
    return fail(ncclSystemError, "route to %s: %s", destination.text().c_str(), strerror(errno));
  }
  return SocketAddress::of(reinterpret_cast<const sockaddr*>(&raw), length);
}

}  // namespace

Result<std::vector<Interface>> listInterfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    return fail(ncclSystemError, "getifaddrs: %s", strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    all.push_back({entry->ifa_name, TRY(SocketAddress::of(entry->ifa_addr, length)),
                   if_nametoindex(entry->ifa_name)});
  }
  return all;
}

Result<std::vector<Interface>> chooseInterfaces(const std::vector<Interface>& all,
                                                const InterfaceChoice& choice, size_t most) {
  const int family = TRY(parseFamily(choice.family));
  if (!choice.ifname.empty()) {
    std::vector<Interface> named = pick(all, parseNames(choice.ifname), family, most);
    if (named.empty()) return noneMatches(all, choice);
    return named;
  }
  for (const char* group : {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"}) {
    std::vector<Interface> found = pick(all, parseNames(group), family, most);
    if (!found.empty()) return found;
  }
  return noneMatches(all, choice);
}

Result<std::vector<Interface>> findInterfaces(const InterfaceChoice& choice, size_t most) {
  return chooseInterfaces(TRY(listInterfaces()), choice, most);
}

Result<Interface> findInterfaceToward(const SocketAddress& destination,
                                      const InterfaceChoice& choice) {
  const std::vector<Interface> all = TRY(listInterfaces());
  const std::vector<Interface> chosen =
      TRY(chooseInterfaces(all, choice, std::numeric_limits<size_t>::max()));
  auto source = sourceToward(destination);
  if (source.ok()) {
    source.value().setPort(0);
    for (const Interface& interface : all) {
      const bool allowed = std::any_of(chosen.begin(), chosen.end(), [&](const Interface& other) {
        return other.name == interface.name;
      });
      const bool fallback = choice.ifname.empty();  // no names asked: routing knows best
      if ((allowed || fallback) && interface.address == source.value()) return interface;
    }
  }
  return chosen.front();
}

}  // namespace nccom
