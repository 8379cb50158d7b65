#include "plugins/net_ofi/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>

namespace nccom::ofi {
namespace {

constexpr int kUnknownSpeedMbps = 10000;
constexpr const char* kDefaultList = "^docker,lo,virbr";

size_t lengthOf(const sockaddr* address) {
  return address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

/// IPv4, then global IPv6, then link-local.
int addressRank(const sockaddr_in6& address) {
  if (address.sin6_family == AF_INET) return 0;
  return IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr) ? 2 : 1;
}

bool sameHost(const sockaddr* a, const sockaddr* b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

template <class Visit>
void forEachAddress(Visit visit) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) visit(*entry);
  }
}

}  // namespace

bool interfaceListed(const std::string& list, const std::string& name) {
  std::string_view rest = list.empty() ? kDefaultList : std::string_view(list);
  const bool exclude = rest.starts_with('^');
  if (exclude) rest.remove_prefix(1);
  const bool exact = rest.starts_with('=');
  if (exact) rest.remove_prefix(1);
  bool found = false;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    if (!entry.empty()) found |= exact ? name == entry : name.starts_with(entry);
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
  return found != exclude;
}

std::vector<Interface> interfaces(const std::string& list) {
  std::vector<Interface> all;
  forEachAddress([&](const ifaddrs& entry) {
    Interface one{entry.ifa_name, {}};
    memcpy(&one.address, entry.ifa_addr, lengthOf(entry.ifa_addr));
    all.push_back(one);
  });
  std::stable_sort(all.begin(), all.end(), [](const Interface& a, const Interface& b) {
    return addressRank(a.address) < addressRank(b.address);
  });
  std::vector<Interface> listed;
  std::copy_if(all.begin(), all.end(), std::back_inserter(listed),
               [&](const Interface& one) { return interfaceListed(list, one.name); });
  return listed.empty() && list.empty() ? all : listed;
}

std::string interfaceOf(const sockaddr* address) {
  std::string name;
  forEachAddress([&](const ifaddrs& entry) {
    if (name.empty() && sameHost(entry.ifa_addr, address)) name = entry.ifa_name;
  });
  return name;
}

int interfaceSpeedMbps(const std::string& name) {
  std::ifstream file("/sys/class/net/" + name + "/speed");
  int speed = 0;
  return file >> speed && speed > 0 ? speed : kUnknownSpeedMbps;
}

std::string interfacePciPath(const std::string& name) {
  char resolved[PATH_MAX];
  const std::string link = "/sys/class/net/" + name + "/device";
  return realpath(link.c_str(), resolved) != nullptr ? resolved : "";
}

}  // namespace nccom::ofi
