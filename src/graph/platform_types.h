// What a platform's tables are made of.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace nccom {

constexpr int kMaxSengsPerDevice = 4;
constexpr int kMaxCoresPerDevice = 8;
constexpr int kMaxDevicePorts = 4;  // device links that stay inside a host

/// How two logical cores are joined; the numeric order is the search preference of the Neuron
/// collectives library.
enum class EdgeLocality : uint8_t {
  SharedMemory,  // cores of one engine group: the same HBM stack
  RemoteMla,     // another device, over its link
  D2d,           // the other die of the device
  Rmtv,          // the other engine group of the die
  Local,         // elsewhere in the device
};

/// A directed link between logical cores.
struct NeuronEdge {
  int from = 0;
  int to = 0;
  EdgeLocality locality = EdgeLocality::Local;
  float bwGBps = 0;  // one direction
  bool operator==(const NeuronEdge&) const = default;
};

/// Where a logical core is.
struct NeuronCore {
  int device = 0;
  int slot = 0;   // logical core within the device
  int seng = 0;   // engine group: owner of an HBM stack and of device links
  int index = 0;  // among the logical cores of the engine group
  bool operator==(const NeuronCore&) const = default;
};

/// Generations as the path search tells them apart.
enum class NeuronFamily : uint8_t {
  Sunda,     // Trainium, Inferentia2
  Cayman,    // Trainium2
  Mariana,   // Trainium3 with device-to-device links
  SwitchV1,  // Trainium3 behind switches
};

/// Values of the runtime's instance info (`family`).
enum class NeuronInstanceFamily : uint8_t {
  Unknown = 0,
  Inf1 = 1,
  Trn1 = 2,
  Trn1n = 3,
  Inf2 = 4,
  Trn2 = 5,
  Trn2n = 6,
  Inf2e = 7,
  Trn2p = 8,
  Trn2u = 9,
  Trn2e = 10,
  Trn2eu = 11,
  Trn2ac = 12,
  Trn2uac = 13,
  Trn3 = 14,
  Trn3Pds98 = 15,
};

/// Values of the runtime's instance info (`size`).
enum class NeuronInstanceSize : uint8_t {
  Xl1 = 0,
  Xl2 = 1,
  Xl4 = 2,
  Xl6 = 3,
  Xl8 = 4,
  Xl24 = 5,
  Xl32 = 6,
  Xl48 = 7,
  Xl3 = 8,
  Unknown = 9,
};

/// How the hosts of a pod (UltraServer) are joined; the runtime's values.
enum class NeuronPodType : uint8_t { None = 0, P2p = 1, Switch = 2 };

/// Configuration of an UltraServer; the driver's values.
enum class UltraServerMode : uint8_t { None = 0, X4 = 1, X2h = 2, X2v = 3, X1 = 4 };

/// A cable between the devices of equal number of two hosts of a pod; both ends use one side.
struct PodCable {
  int hostA, hostB;
  bool isLeft;  // the side on which rack mates are; else the right side
};

/// A way to group hosts into a pod.
struct NeuronPodShape {
  std::string_view name;  // "X4"
  UltraServerMode mode;
  NeuronPodType type;
  int nHosts;
  std::span<const PodCable> cables;  // of a P2p pod
  /// Place of each host of a P2p pod in the election among four; hosts 1 and 3 are mounted turned.
  std::span<const int> electedNodes;

  int electedNode(int host) const { return electedNodes.empty() ? 0 : electedNodes[host]; }
  bool operator==(const NeuronPodShape& other) const {
    return name == other.name && mode == other.mode && type == other.type && nHosts == other.nHosts;
  }
};

/// A host on its own, of any platform.
constexpr NeuronPodShape kNoPod = {"", UltraServerMode::None, NeuronPodType::None, 1, {}, {}};

/// One accelerator device (MLA) of an instance.
struct NeuronDevice {
  int routingId;
  int row, col;  // place in the grid; -1: there is none
  std::string_view busId;
  int numa;                   // as the driver reports it; -1: unknown, the first node's
  std::string_view efaBusId;  // NIC next to it, which devices may share; empty: none
  /// Device at the far end of each port; -1: nothing there. The driver prints them in this order.
  std::array<int, kMaxDevicePorts> neighbours;
  /// Physical core of each logical slot at LNC 1.
  std::array<int, kMaxCoresPerDevice> physicalCores;
};

struct NeuronNuma {
  int id;
  std::string_view cpus;  // "0-47,96-143"
};

/// What joins devices beyond their ports on Trainium3 hosts that have switches. Rates are GB/s of
/// one device, one direction; 0: there is no such level.
struct NeuronSwitches {
  int devicesPerTray;   // consecutive devices on one board (JBOG)
  float trayGBps;       // to each other device of the tray, by a link of its own
  float sledGBps;       // into the switch of the host
  float rackGBps;       // into the switch of the rack
  float crossRackGBps;  // to the device in the same place of the other rack
  int hostsPerRack;
};

}  // namespace nccom
