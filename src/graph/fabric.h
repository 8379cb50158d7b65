// How the devices of a host, or of a pod of hosts, are wired to each other: a plain value that the
// Neuron path search, the pod graph and the tools read.
#pragma once

#include <string>
#include <vector>

#include "graph/platform.h"

namespace nccom {

/// Ports of a device. Those of torus hosts come first and are the engine group's number on
/// Trainium2 and later, the place in the printed list before.
enum NeuronPort : int {
  kPortZLeft = 4,   // to the next host of a P2p pod: the rack mate's side
  kPortZRight = 5,  // the other side
  kPortTray = 6,    // to the other device of the tray
  kPortSled = 7,    // into the switch of the host
  kPortRack = 8,    // into the switch of the rack
  kPortCrossRack = 9,
  kPortCount = 10,
};

// Engine groups that drive the ports between hosts, both ends alike.
constexpr uint8_t kLeftSengs = 0b0110;
constexpr uint8_t kRightSengs = 0b1001;

enum class FabricLinkKind : uint8_t {
  NeuronLink,  // between neighbours of a host
  PodZ,        // between hosts of a P2p pod
  Tray,        // between the devices of a tray
  SledSwitch,  // through the switch of the host
  RackSwitch,  // through the switch of the rack
  CrossRack,   // between racks, direct
};
const char* toText(FabricLinkKind kind);

/// Devices are numbered host * devicesPerHost + device throughout.
struct FabricDevice {
  int host = 0;
  int device = 0;     // within its host
  int routingId = 0;  // within its host; behind switches, within the pod
  int row = -1, col = -1;
  int rack = 0;
  int tray = -1;  // board within its host, -1 where there are none
  int numa = 0;
  int efa = -1;  // number of the NIC next to it, within its host; -1: none
  std::string busId, efaBusId;
  bool operator==(const FabricDevice&) const = default;
};

/// One direction of a link. Links through a switch stand for the path from one device to another;
/// the rate is then that of the device's port, which all paths of that port share.
struct FabricLink {
  int from = 0, to = 0;
  int fromPort = 0, toPort = 0;
  uint8_t fromSengs = 0, toSengs = 0;  // bit s set: engine group s drives the port
  FabricLinkKind kind = FabricLinkKind::NeuronLink;
  int group = -1;    // switch group whose switch is crossed; -1: direct
  float bwGBps = 0;  // one direction
  bool operator==(const FabricLink&) const = default;
};

enum class SwitchLevel : uint8_t {
  Server,  // the devices of a host, without a switch of their own
  Sled,    // the devices of a host, with one
  Rack,
};

/// Consecutive devices that belong together.
struct SwitchGroup {
  std::string name;  // "rack-switch-0"
  SwitchLevel level = SwitchLevel::Server;
  int firstDevice = 0, lastDevice = 0;  // inclusive
  float bwGBps = 0;                     // of a device into the switch, one direction; 0: no switch
  bool operator==(const SwitchGroup&) const = default;
};

struct NeuronFabric {
  const NeuronPlatform* platform = nullptr;
  NeuronFamily family = NeuronFamily::Sunda;
  int lnc = 1;
  NeuronPodType podType = NeuronPodType::None;
  UltraServerMode mode = UltraServerMode::None;
  int nHosts = 1;
  int devicesPerHost = 1;
  int coresPerDevice = 1;       // logical
  std::vector<int> podNodeIds;  // of each host; -1: on its own
  std::vector<FabricDevice> devices;
  std::vector<FabricLink> links;    // sorted by (from, to)
  std::vector<SwitchGroup> groups;  // empty on torus hosts
  std::vector<NeuronCore> cores;    // of all hosts; `device` counts through the pod
  /// Between logical cores, sorted by (from, to): within devices, and over direct links, whose rate
  /// the cores of their engine groups share. Paths through switches are not among them.
  std::vector<NeuronEdge> edges;

  int deviceCount() const { return static_cast<int>(devices.size()); }
  int coreCount() const { return static_cast<int>(cores.size()); }
  /// The device at the far end of a port; -1: nothing there, or a switch.
  int peer(int device, int port) const;
  std::span<const FabricLink> linksFrom(int device) const;
  /// The link from one device to another; null: they are the same or not joined.
  const FabricLink* link(int from, int to) const;
  bool operator==(const NeuronFabric&) const = default;
};

/// @param shape  from findPodShape(): hosts of the pod; the fabric of one host has nHosts 1
/// @param lnc    logical core size; 0: the platform's own
/// @error ncclInvalidArgument  the platform has no such core size
Result<NeuronFabric> neuronFabric(const NeuronPlatform& platform, const NeuronPodShape& shape,
                                  int lnc);

/// A host on its own.
Result<NeuronFabric> neuronFabric(const NeuronPlatform& platform, int lnc);

}  // namespace nccom
