#include "plugins/net_ofi/provider.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <strings.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <set>

#include "plugins/net_ofi/interfaces.h"
#include "plugins/net_ofi/log.h"

namespace nccom::ofi {
namespace {

// What this plugin is written against; providers behave as of this version.
constexpr uint32_t kApiVersion = FI_VERSION(1, 14);
constexpr int kUnknownSpeedMbps = 10000;
constexpr size_t kSizeWordBytes = 4;   // of the remote word that carries a message's size
constexpr size_t kWholeBytes = 16384;  // about where providers change from eager to rendezvous

// Providers of software, slower than any hardware; in order of preference.
constexpr const char* kSoftware[] = {"tcp", "net", "sockets", "udp"};
constexpr const char* kHostOnly[] = {"shm", "lnx"};  // do not reach another host

std::string environment(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

/// The provider that does the work of a layered one: "tcp" of "tcp;ofi_rxm".
std::string coreName(const fi_info& info) {
  const std::string name = info.fabric_attr->prov_name;
  return name.substr(0, name.find(';'));
}

/// Lower is better; see findDevices().
int providerRank(const fi_info& info) {
  const std::string core = coreName(info);
  if (core == "efa") return 0;
  if (core == "verbs") return 1;
  for (size_t i = 0; i < std::size(kSoftware); ++i) {
    if (core == kSoftware[i]) return 3 + static_cast<int>(i);
  }
  const bool hostOnly = std::any_of(std::begin(kHostOnly), std::end(kHostOnly),
                                    [&](const char* name) { return core == name; });
  return hostOnly ? INT_MAX : 2;
}

/// Whether a value of FI_PROVIDER takes a provider: by its whole name or any of its layers.
bool providerListed(const std::string& list, const std::string& provider) {
  const bool exclude = list.starts_with('^');
  const std::string layers = ";" + provider + ";";
  bool found = false;
  for (size_t at = exclude ? 1 : 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    const std::string entry = list.substr(at, comma - at);
    found |= !entry.empty() && layers.find(";" + entry + ";") != std::string::npos;
    at = comma + 1;
  }
  return found != exclude;
}

Info makeHints(Protocol protocol) {
  Info hints(fi_allocinfo());
  if (!hints) return hints;
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = protocol == Protocol::Tagged ? FI_TAGGED : FI_MSG;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;  // Endpoint serialises all use of a domain
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  return hints;
}

/// All that libfabric offers for a protocol, null if nothing.
Info query(Protocol protocol) {
  const Info hints = makeHints(protocol);
  fi_info* found = nullptr;
  if (!hints || fi_getinfo(kApiVersion, nullptr, nullptr, 0, hints.get(), &found) != 0) return {};
  return Info(found);
}

/// Names of all providers that this libfabric was built with, whatever FI_PROVIDER filters.
std::string knownProviders() {
  fi_info* found = nullptr;
  if (fi_getinfo(kApiVersion, nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr, &found) != 0) {
    return "none";
  }
  const Info owner(found);
  std::string out;
  for (const fi_info* info = found; info != nullptr; info = info->next) {
    out += (out.empty() ? "" : ", ") + std::string(info->fabric_attr->prov_name);
  }
  return out;
}

ncclResult_t noneFound(const Choice& choice) {
  if (choice.provider.empty()) {
    return failed(
        ncclSystemError,
        "libfabric %u.%u has no provider with reliable datagram endpoints here; built in: %s",
        FI_MAJOR(fi_version()), FI_MINOR(fi_version()), knownProviders().c_str());
  }
  return failed(
      ncclInvalidUsage,
      "FI_PROVIDER '%s' gives no provider with reliable datagram endpoints and %s messages "
      "here; libfabric %u.%u has: %s",
      choice.provider.c_str(),
      choice.protocol.empty() ? "tagged or untagged" : choice.protocol.c_str(),
      FI_MAJOR(fi_version()), FI_MINOR(fi_version()), knownProviders().c_str());
}

bool isIp(const fi_info& info) {
  return info.src_addr != nullptr &&
         (info.addr_format == FI_SOCKADDR || info.addr_format == FI_SOCKADDR_IN ||
          info.addr_format == FI_SOCKADDR_IN6);
}

/// Of two addresses of one device the lower is used.
int addressRank(const fi_info& info) {
  if (!isIp(info)) return 0;
  const auto* address = static_cast<const sockaddr*>(info.src_addr);
  if (address->sa_family == AF_INET) return 0;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? 2 : 1;
}

std::string interfaceName(const fi_info& info) {
  return isIp(info) ? interfaceOf(static_cast<const sockaddr*>(info.src_addr)) : "";
}

std::string pciPathOf(const fi_info& info) {
  const fid_nic* nic = info.nic;
  if (nic == nullptr || nic->bus_attr == nullptr || nic->bus_attr->bus_type != FI_BUS_PCI) {
    return {};
  }
  const fi_pci_attr& pci = nic->bus_attr->attr.pci;
  char link[64];
  snprintf(link, sizeof link, "/sys/bus/pci/devices/%04x:%02x:%02x.%x", pci.domain_id, pci.bus_id,
           pci.device_id, pci.function_id);
  char resolved[PATH_MAX];
  return realpath(link, resolved) != nullptr ? resolved : "";
}

int speedOf(const fi_info& info, const std::string& interface) {
  if (info.nic != nullptr && info.nic->link_attr != nullptr && info.nic->link_attr->speed > 0) {
    return static_cast<int>(std::min<size_t>(info.nic->link_attr->speed / 1000000, INT_MAX));
  }
  return interface.empty() ? kUnknownSpeedMbps : interfaceSpeedMbps(interface);
}

/// Where the control connections of a device listen: at its own address, on the host only for what
/// does not leave it, else on the interface that the user would choose.
bool controlAddress(const fi_info& info, const Choice& choice, sockaddr_in6& out) {
  if (isIp(info)) {
    memcpy(&out, info.src_addr, std::min(info.src_addrlen, sizeof out));
    out.sin6_port = 0;
    return true;
  }
  if (providerRank(info) == INT_MAX) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(out);
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return true;
  }
  const std::vector<Interface> usable = interfaces(choice.ifname);
  if (usable.empty()) return false;
  out = usable.front().address;
  return true;
}

/// The infos of the best provider in `found`, one a device.
std::vector<const fi_info*> select(const fi_info* found, const Choice& choice) {
  std::vector<const fi_info*> out;
  const fi_info* best = nullptr;
  for (const fi_info* info = found; info != nullptr; info = info->next) {
    const std::string provider = info->fabric_attr->prov_name;
    if (!choice.provider.empty() && !providerListed(choice.provider, provider)) continue;
    const bool named = !choice.provider.empty() && !choice.provider.starts_with('^');
    if (!named && providerRank(*info) == INT_MAX) continue;
    if (best == nullptr || providerRank(*info) < providerRank(*best)) best = info;
  }
  for (const fi_info* info = found; best != nullptr && info != nullptr; info = info->next) {
    if (strcmp(info->fabric_attr->prov_name, best->fabric_attr->prov_name) != 0) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const fi_info* other) {
      return strcmp(other->domain_attr->name, info->domain_attr->name) == 0;
    });
    if (same == out.end()) {
      out.push_back(info);
    } else if (addressRank(*info) < addressRank(**same)) {
      *same = info;
    }
  }
  return out;
}

/// Keeps the devices on interfaces that the user lists; without a list those that are not loopback
/// or a bridge, if there are any.
void filterInterfaces(const Choice& choice, std::vector<const fi_info*>& infos) {
  std::vector<const fi_info*> listed;
  std::copy_if(infos.begin(), infos.end(), std::back_inserter(listed), [&](const fi_info* info) {
    const std::string name = interfaceName(*info);
    return name.empty() || interfaceListed(choice.ifname, name);
  });
  if (!listed.empty() || !choice.ifname.empty()) infos = listed;
}

size_t wholeBytes(const fi_info& info, Protocol protocol) {
  if (protocol == Protocol::Message || info.domain_attr->cq_data_size < kSizeWordBytes) {
    return SIZE_MAX;
  }
  // What goes through memory shared by two processes is copied by the receiver; beyond the inject
  // size the copy of a message that is larger than its receive may never end (libfabric 1.17, shm).
  return providerRank(info) == INT_MAX ? info.tx_attr->inject_size : kWholeBytes;
}

ncclResult_t makeDevice(const fi_info& info, Protocol protocol, const Choice& choice,
                        std::vector<std::shared_ptr<const Device>>& devices) {
  auto device = std::make_shared<Device>();
  const std::string interface = interfaceName(info);
  device->index = static_cast<int>(devices.size());
  device->info.reset(fi_dupinfo(&info));
  if (!device->info) return failed(ncclSystemError, "fi_dupinfo: out of memory");
  device->protocol = protocol;
  device->name = info.domain_attr->name != nullptr ? info.domain_attr->name : "unnamed";
  device->pciPath = pciPathOf(info);
  if (device->pciPath.empty() && !interface.empty()) {
    device->pciPath = interfacePciPath(interface);
  }
  device->guid = static_cast<uint64_t>(device->index);
  device->wholeBytes = wholeBytes(info, protocol);
  device->speedMbps = speedOf(info, interface);
  if (!controlAddress(info, choice, device->controlAddress)) {
    return failed(ncclInvalidUsage, "NCCL_SOCKET_IFNAME '%s' matches no interface that is up",
                  choice.ifname.c_str());
  }
  devices.push_back(std::move(device));
  return ncclSuccess;
}

}  // namespace

Choice Choice::fromEnvironment() {
  return {environment("FI_PROVIDER"), environment("NCCL_SOCKET_IFNAME"),
          environment("NET_OFI_PROTOCOL")};
}

ncclResult_t findDevices(const Choice& choice,
                         std::vector<std::shared_ptr<const Device>>& devices) {
  std::vector<Protocol> protocols = {Protocol::Tagged, Protocol::Message};
  if (strcasecmp(choice.protocol.c_str(), "tagged") == 0) {
    protocols = {Protocol::Tagged};
  } else if (strcasecmp(choice.protocol.c_str(), "message") == 0) {
    protocols = {Protocol::Message};
  } else if (!choice.protocol.empty()) {
    return failed(ncclInvalidUsage, "NET_OFI_PROTOCOL is '%s', expected tagged or message",
                  choice.protocol.c_str());
  }
  for (const Protocol protocol : protocols) {
    const Info found = query(protocol);
    std::vector<const fi_info*> infos = select(found.get(), choice);
    if (infos.empty()) continue;
    filterInterfaces(choice, infos);
    if (infos.empty()) {
      return failed(ncclInvalidUsage, "NCCL_SOCKET_IFNAME '%s' matches no device of the provider",
                    choice.ifname.c_str());
    }
    for (const fi_info* info : infos)
      TRY(makeDevice(*info, protocol, choice, devices));
    return ncclSuccess;
  }
  return noneFound(choice);
}

}  // namespace nccom::ofi
