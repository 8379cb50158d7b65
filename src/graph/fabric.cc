#include "graph/fabric.h"

#include <algorithm>
#include <bit>

#include "misc/check.h"

namespace nccom {
namespace {

class FabricBuilder {
 public:
  FabricBuilder(const NeuronPlatform& platform, const NeuronPodShape& shape, int lnc)
      : platform_(platform), shape_(shape) {
    fabric_.platform = &platform;
    fabric_.family = platform.family;
    fabric_.lnc = lnc;
    fabric_.podType = shape.type;
    fabric_.mode = shape.mode;
    fabric_.nHosts = shape.nHosts;
    fabric_.devicesPerHost = platform.deviceCount();
    fabric_.coresPerDevice = platform.logicalPerDevice(lnc);
  }

  NeuronFabric make() {
    for (int host = 0; host < shape_.nHosts; host++) {
      fabric_.podNodeIds.push_back(shape_.type == NeuronPodType::None ? -1 : host);
      addDevices(host);
      addCores(host);
    }
    if (platform_.isSwitched()) addGroups();
    addHostLinks();
    addCableLinks();
    if (platform_.isSwitched()) addSwitchLinks();
    std::sort(fabric_.links.begin(), fabric_.links.end(),
              [](const FabricLink& a, const FabricLink& b) {
                return std::pair(a.from, a.to) < std::pair(b.from, b.to);
              });
    addDirectEdges();
    return std::move(fabric_);
  }

 private:
  int perHost() const { return fabric_.devicesPerHost; }

  int rackOf(int host) const {
    return platform_.isSwitched() ? host / platform_.switches.hostsPerRack : 0;
  }

  void addDevices(int host) {
    std::vector<std::string_view> efas;
    for (int d = 0; d < perHost(); d++) {
      const NeuronDevice& facts = platform_.devices[d];
      FabricDevice device;
      device.host = host;
      device.device = d;
      device.routingId = facts.routingId + (platform_.isSwitched() ? host * perHost() : 0);
      device.row = facts.row;
      device.col = facts.col;
      device.rack = rackOf(host);
      if (platform_.isSwitched()) device.tray = d / platform_.switches.devicesPerTray;
      device.numa = facts.numa;
      device.busId = facts.busId;
      device.efaBusId = facts.efaBusId;
      if (!facts.efaBusId.empty()) {
        const auto known = std::find(efas.begin(), efas.end(), facts.efaBusId);
        device.efa = static_cast<int>(known - efas.begin());
        if (known == efas.end()) efas.push_back(facts.efaBusId);
      }
      fabric_.devices.push_back(std::move(device));
    }
  }

  void addCores(int host) {
    const int elected = shape_.electedNode(host);
    const int perHostCores = platform_.logicalCores(fabric_.lnc);
    for (int c = 0; c < perHostCores; c++) {
      NeuronCore core = platform_.coreAt(c, fabric_.lnc, elected);
      core.device += host * perHost();
      fabric_.cores.push_back(core);
    }
    for (NeuronEdge edge : platform_.edges(fabric_.lnc, elected)) {
      edge.from += host * perHostCores;
      edge.to += host * perHostCores;
      fabric_.edges.push_back(edge);
    }
  }

  void addGroup(const char* name, int number, SwitchLevel level, int first, int last,
                float bwGBps) {
    fabric_.groups.push_back({.name = name + std::to_string(number),
                              .level = level,
                              .firstDevice = first,
                              .lastDevice = last,
                              .bwGBps = bwGBps});
  }

  void addGroups() {
    const NeuronSwitches& switches = platform_.switches;
    const bool hasSleds = switches.sledGBps > 0;
    for (int host = 0; host < shape_.nHosts; host++) {
      addGroup(hasSleds ? "sled-switch-" : "server-", host,
               hasSleds ? SwitchLevel::Sled : SwitchLevel::Server, host * perHost(),
               (host + 1) * perHost() - 1, switches.sledGBps);
    }
    const int perRack = switches.hostsPerRack * perHost();
    for (int first = 0; first < fabric_.deviceCount(); first += perRack) {
      addGroup("rack-switch-", first / perRack, SwitchLevel::Rack, first,
               std::min(first + perRack, fabric_.deviceCount()) - 1, switches.rackGBps);
    }
  }

  uint8_t allSengs() const { return static_cast<uint8_t>((1U << platform_.sengsPerDevice()) - 1); }

  void addHostLinks() {
    for (int from = 0; from < fabric_.deviceCount(); from++) {
      const int base = fabric_.devices[from].host * perHost();
      for (int port = 0; port < kMaxDevicePorts; port++) {
        const int neighbour = platform_.devices[from - base].neighbours[port];
        if (neighbour < 0) continue;
        const int back = platform_.portTo(neighbour, from - base);
        NCCL_CHECK(back >= 0);  // tables are symmetric
        fabric_.links.push_back({.from = from,
                                 .to = base + neighbour,
                                 .fromPort = port,
                                 .toPort = back,
                                 .fromSengs = platform_.portSengs[port],
                                 .toSengs = platform_.portSengs[back],
                                 .kind = FabricLinkKind::NeuronLink,
                                 .bwGBps = platform_.deviceLinkGBps});
      }
    }
  }

  void addBoth(FabricLink link) {
    fabric_.links.push_back(link);
    std::swap(link.from, link.to);
    fabric_.links.push_back(link);
  }

  void addCableLinks() {
    for (const PodCable& cable : shape_.cables) {
      const int port = cable.isLeft ? kPortZLeft : kPortZRight;
      const uint8_t sengs = cable.isLeft ? kLeftSengs : kRightSengs;
      for (int d = 0; d < perHost(); d++) {
        addBoth({.from = cable.hostA * perHost() + d,
                 .to = cable.hostB * perHost() + d,
                 .fromPort = port,
                 .toPort = port,
                 .fromSengs = sengs,
                 .toSengs = sengs,
                 .kind = FabricLinkKind::PodZ,
                 .bwGBps = platform_.podLinkGBps});
      }
    }
  }

  int rackGroup(int rack) const { return shape_.nHosts + rack; }

  /// The shortest way between two devices of a switched pod; none between racks but to the device
  /// in the same place.
  void addSwitchLink(int a, int b) {
    const NeuronSwitches& switches = platform_.switches;
    const FabricDevice& from = fabric_.devices[a];
    const FabricDevice& to = fabric_.devices[b];
    FabricLink link = {.from = a, .to = b, .fromSengs = allSengs(), .toSengs = allSengs()};
    const bool sameTray = from.host == to.host && from.tray == to.tray;
    if (sameTray && switches.trayGBps > 0) {
      link.kind = FabricLinkKind::Tray;
      link.fromPort = kPortTray;
      link.bwGBps = switches.trayGBps;
    } else if (from.host == to.host && switches.sledGBps > 0) {
      link.kind = FabricLinkKind::SledSwitch;
      link.fromPort = kPortSled;
      link.group = from.host;
      link.bwGBps = switches.sledGBps;
    } else if (from.rack == to.rack) {
      link.kind = FabricLinkKind::RackSwitch;
      link.fromPort = kPortRack;
      link.group = rackGroup(from.rack);
      link.bwGBps = switches.rackGBps;
    } else if (b - a == switches.hostsPerRack * perHost()) {
      link.kind = FabricLinkKind::CrossRack;
      link.fromPort = kPortCrossRack;
      link.bwGBps = switches.crossRackGBps;
    } else {
      return;
    }
    link.toPort = link.fromPort;
    addBoth(link);
  }

  void addSwitchLinks() {
    for (int a = 0; a < fabric_.deviceCount(); a++) {
      for (int b = a + 1; b < fabric_.deviceCount(); b++)
        addSwitchLink(a, b);
    }
  }

  int coreIn(int device, int seng, int index) const {
    const int first = device * fabric_.coresPerDevice;
    for (int core = first; core < first + fabric_.coresPerDevice; core++) {
      if (fabric_.cores[core].seng == seng && fabric_.cores[core].index == index) return core;
    }
    NCCL_CHECK(false);  // every engine group has its cores
  }

  /// Edges between cores for the direct links that the platform's own edges do not cover.
  void addDirectEdges() {
    const int perSeng = platform_.coresPerSeng / fabric_.lnc;
    for (const FabricLink& link : fabric_.links) {
      if (link.kind == FabricLinkKind::NeuronLink || link.group != -1) continue;
      const auto sharers = static_cast<float>(std::popcount(link.fromSengs) * perSeng);
      for (int seng = 0; seng < platform_.sengsPerDevice(); seng++) {
        if ((link.fromSengs >> seng & 1) == 0) continue;
        const int remote = platform_.remoteSeng(seng, link.fromSengs, link.toSengs);
        for (int index = 0; index < perSeng; index++) {
          fabric_.edges.push_back({.from = coreIn(link.from, seng, index),
                                   .to = coreIn(link.to, remote, index),
                                   .locality = EdgeLocality::RemoteMla,
                                   .bwGBps = link.bwGBps / sharers});
        }
      }
    }
    std::sort(fabric_.edges.begin(), fabric_.edges.end(),
              [](const NeuronEdge& a, const NeuronEdge& b) {
                return std::pair(a.from, a.to) < std::pair(b.from, b.to);
              });
  }

  const NeuronPlatform& platform_;
  const NeuronPodShape& shape_;
  NeuronFabric fabric_;
};

}  // namespace

const char* toText(FabricLinkKind kind) {
  switch (kind) {
    case FabricLinkKind::NeuronLink:
      return "NeuronLink";
    case FabricLinkKind::PodZ:
      return "pod Z";
    case FabricLinkKind::Tray:
      return "tray";
    case FabricLinkKind::SledSwitch:
      return "sled switch";
    case FabricLinkKind::RackSwitch:
      return "rack switch";
    case FabricLinkKind::CrossRack:
      return "cross-rack";
  }
  return "?";
}

int NeuronFabric::peer(int device, int port) const {
  for (const FabricLink& link : linksFrom(device)) {
    if (link.fromPort == port && link.group == -1) return link.to;
  }
  return -1;
}

std::span<const FabricLink> NeuronFabric::linksFrom(int device) const {
  const auto first = std::partition_point(links.begin(), links.end(),
                                          [&](const FabricLink& l) { return l.from < device; });
  const auto last = std::partition_point(first, links.end(),
                                         [&](const FabricLink& l) { return l.from == device; });
  return {first, last};
}

const FabricLink* NeuronFabric::link(int from, int to) const {
  const auto own = linksFrom(from);
  const auto found =
      std::partition_point(own.begin(), own.end(), [&](const FabricLink& l) { return l.to < to; });
  return found != own.end() && found->to == to ? &*found : nullptr;
}

Result<NeuronFabric> neuronFabric(const NeuronPlatform& platform, const NeuronPodShape& shape,
                                  int lnc) {
  return FabricBuilder(platform, shape, TRY(checkLnc(platform, lnc))).make();
}

Result<NeuronFabric> neuronFabric(const NeuronPlatform& platform, int lnc) {
  return neuronFabric(platform, kNoPod, lnc);
}

}  // namespace nccom
