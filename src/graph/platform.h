// The machines that can be synthesised: what is known of each instance type, as tables.
//
// Facts without a tag are published by AWS (Neuron documentation, driver tables, EFA maps, EC2
// tables). "Inferred" ones follow from published ones, "invented" ones fill in what is not public
// and only promise to be consistent; docs/platforms.md lists which is which.
#pragma once

#include <string>
#include <vector>

#include "graph/platform_types.h"
#include "graph/xml.h"
#include "misc/result.h"

namespace nccom {

/// One instance type. Rates are GB/s in one direction, per what the name says.
struct NeuronPlatform {
  std::string_view name;
  std::string_view coreName;  // "NCv3"
  NeuronFamily family;
  NeuronInstanceFamily instanceFamily;
  NeuronInstanceSize instanceSize;
  int sm;  // generation number in topology files: of NCv<sm>
  std::span<const NeuronDevice> devices;
  std::span<const NeuronNuma> numas;
  std::span<const int> lncs;  // logical core sizes on offer (physical cores a logical one)
  int defaultLnc;
  int coresPerDevice;  // physical
  int coresPerSeng;
  int sengsPerDie;
  /// Bit s set: engine group s drives the port.
  std::array<uint8_t, kMaxDevicePorts> portSengs;
  std::span<const NeuronPodShape> pods;  // empty: hosts are on their own
  NeuronSwitches switches;
  /// What the driver prints where that is not the wiring; empty: NeuronDevice::neighbours.
  std::span<const std::array<int, kMaxDevicePorts>> reportedNeighbours;

  // memory and engines of a device
  int hbmStacks;
  int64_t hbmBytesPerStack;
  float hbmGBps;  // a device
  int dmaEnginesPerCore;
  int dmaQueuesPerEngine;
  float dmaEngineGBps;  // measured
  int syncProcessors;
  float semaphoreUs;  // before a dependent transfer begins

  // links
  float deviceLinkGBps;  // to the device at a port
  float podLinkGBps;     // to the device of the same number in the next host of a P2p pod
  float d2dGBps;         // between the dies of a device, of a physical core
  float rmtvGBps;        // between engine groups of a die, of a physical core
  float sharedGBps;      // within an engine group, of a physical core
  int netMbps;           // of a NIC
  float netLatencyUs;
  std::string_view hostNicBusId;  // the only NIC of a host without EFA; else empty
  std::string_view pciVendor, pciDevice;
  std::string_view pciLinkSpeed;
  int pciLinkWidth;
  std::string_view cpuArch, cpuVendor;
  int cpuFamily, cpuModel;
  int vcpus;

  int deviceCount() const { return static_cast<int>(devices.size()); }
  int sengsPerDevice() const { return coresPerDevice / coresPerSeng; }
  int logicalPerDevice(int lnc) const { return coresPerDevice / lnc; }
  int logicalCores(int lnc) const { return deviceCount() * logicalPerDevice(lnc); }
  /// HBM that a logical core calls its own.
  int64_t hbmBytesPerCore(int lnc) const {
    return hbmBytesPerStack * hbmStacks / logicalPerDevice(lnc);
  }
  bool isSwitched() const { return switches.rackGBps > 0; }

  // `electedNode` is the host's place in its pod: in a P2p pod, hosts 1 and 3 are mounted turned,
  // and number their cores from the other die.
  NeuronCore coreAt(int logicalCore, int lnc, int electedNode = 0) const;
  /// Logical core with an engine group and index on a device.
  int coreOf(int device, int seng, int index, int lnc, int electedNode = 0) const;
  /// All links between logical cores of a host, sorted by (from, to). Those through a switch are
  /// not among them.
  std::vector<NeuronEdge> edges(int lnc, int electedNode = 0) const;
  /// Port of `device` that leads to `neighbour`; -1: none.
  int portTo(int device, int neighbour) const;
  /// Engine group at the far end of a link that several groups drive at each end: they are paired
  /// in order.
  int remoteSeng(int seng, uint8_t ownSengs, uint8_t remoteSengs) const;
};

extern const NeuronPlatform kInf2x1xlarge, kInf2x8xlarge, kInf2x24xlarge, kInf2x48xlarge;
extern const NeuronPlatform kTrn1x2xlarge, kTrn1x32xlarge, kTrn1nx32xlarge;
extern const NeuronPlatform kTrn2x3xlarge, kTrn2x48xlarge, kTrn2ux48xlarge;
/// Trn2 with neighbours listed as the neuron-ls guide shows them, not as the driver does.
extern const NeuronPlatform kTrn2DocOrderx48xlarge;
extern const NeuronPlatform kTrn3px48xlarge, kTrn3x48xlarge, kTrn3Dev0x48xlarge;
extern const NeuronPlatform kTrn3ex24xlarge;
/// Trn3 with the boards of two directly linked devices that a drawing shows.
extern const NeuronPlatform kTrn3Pairsx48xlarge;

constexpr std::string_view kHostPlatform = "host";
constexpr std::string_view kHostNumaPlatform = "host/numa";
constexpr std::string_view kDefaultPlatform = "trn2.48xlarge";

/// What counts as a device of this machine.
enum class HostUnit : uint8_t { Core, Numa };

inline bool isHostPlatform(std::string_view name) {
  return name == kHostPlatform || name == kHostNumaPlatform;
}
inline HostUnit hostUnit(std::string_view name) {
  return name == kHostNumaPlatform ? HostUnit::Numa : HostUnit::Core;
}

/// All instance types, oldest generation first.
std::span<const NeuronPlatform* const> neuronPlatforms();

/// Names accepted for NCCOM_PLATFORM, the default first.
std::vector<std::string> platformNames();

/// @error ncclInvalidArgument  an unknown name; the message lists the known ones
Result<const NeuronPlatform*> findPlatform(const std::string& name);

/// The logical core size to use: `lnc`, or the platform's own if 0.
/// @error ncclInvalidArgument  the platform has no such size
Result<int> checkLnc(const NeuronPlatform& platform, int lnc);

/// A pod shape of the platform; the empty name is a host on its own, whatever the platform.
/// @error ncclInvalidArgument  the platform has no such shape; the message lists those it has
Result<NeuronPodShape> findPodShape(const NeuronPlatform& platform, const std::string& name);

/// Devices that a rank can use: logical cores, or cores or NUMA nodes of this machine for "host"
/// and "host/numa".
/// @param hostDevices  for those: how many to offer, 0: one a core or node
/// @error ncclInvalidArgument  unknown platform, or a logical core size that it does not have
Result<int> deviceCount(const std::string& platform, int lnc, int hostDevices = 0);

/// What a device listing says is connected to a device, in its order. On Trainium3 hosts with
/// switches that is not the wiring: the driver prints a torus there, or nothing.
std::vector<int> printedNeighbours(const NeuronPlatform& platform, int device);

/// The <system> document of a platform: one <gpu> a logical core (dev = its number, own bus id),
/// <nvlink> for device links and paths within a device, a <nic> next to each device. No ranks.
/// @param electedNode  the host's place in its pod, see NeuronPlatform
Result<ncclXml> neuronTopoGetXml(const NeuronPlatform& platform, int lnc, int electedNode = 0);

/// This machine through hwloc: one device a core (or NUMA node), the CPUs (NUMA nodes), and its
/// network cards below the PCI bridges that lead to them.
///
/// @param nDevices   number of devices, dealt over the units in turn; 0: one a unit
/// @param other      hwloc's description of another machine, its XML or a synthetic one
///                   ("numa:2 core:4 pu:2"); empty: this one
/// @param nics       whether to look for network cards: that takes ten times as long
/// @error ncclInvalidArgument  negative, or more devices than bus ids; a bad description
/// @error ncclSystemError      hwloc cannot read the machine
Result<ncclXml> hostTopoGetXml(int nDevices, const std::string& other = "",
                               HostUnit unit = HostUnit::Core, bool nics = true);

/// Cores (or NUMA nodes) of this machine.
Result<int> hostUnitCount(HostUnit unit);

/// "0-3,8" as hexadecimal words of 32 bits, highest first: "00000000,0000010f" (at least as many
/// words as the highest CPU needs).
std::string cpuMask(std::string_view cpuList);

}  // namespace nccom
