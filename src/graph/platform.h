// The machines that can be synthesised: what is known of each generation, as tables.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/xml.h"
#include "misc/result.h"

namespace nccom {

constexpr int kMaxSengsPerDevice = 4;
constexpr int kMaxCoresPerDevice = 8;

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
  int seng = 0;   // engine group: owner of an HBM stack and of the device link of that number
  int index = 0;  // among the logical cores of the engine group
  bool operator==(const NeuronCore&) const = default;
};

/// One accelerator device (MLA) of an instance.
struct NeuronDevice {
  int routingId;
  int row, col;  // place in the grid
  std::string_view busId;
  int numa;
  std::string_view efaBusId;  // NIC next to it
  /// Device at the far end of the link of each engine group.
  std::array<int, kMaxSengsPerDevice> neighbours;
  /// Physical core of each logical slot at LNC 1.
  std::array<int, kMaxCoresPerDevice> physicalCores;
};

struct NeuronNuma {
  int id;
  std::string_view cpus;  // "0-47,96-143"
};

/// One instance type. Rates are GB/s in one direction, per what the name says.
struct NeuronPlatform {
  std::string_view name;
  std::string_view coreName;  // "NCv3"
  int sm;                     // generation number in topology files: of NCv<sm>
  std::span<const NeuronDevice> devices;
  std::span<const NeuronNuma> numas;
  std::span<const int> lncs;  // logical core sizes on offer (physical cores a logical one)
  int defaultLnc;
  int coresPerDevice;  // physical
  int coresPerSeng;
  int sengsPerDie;

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
  float deviceLinkGBps;  // to a neighbouring device
  float d2dGBps;         // between the dies of a device, of a physical core
  float rmtvGBps;        // between engine groups of a die, of a physical core
  float sharedGBps;      // within an engine group, of a physical core
  int netMbps;           // of a NIC
  float netLatencyUs;
  std::string_view pciVendor, pciDevice;
  std::string_view pciLinkSpeed;
  int pciLinkWidth;
  std::string_view cpuVendor;
  int cpuFamily, cpuModel;

  int sengsPerDevice() const { return coresPerDevice / coresPerSeng; }
  int logicalPerDevice(int lnc) const { return coresPerDevice / lnc; }
  int logicalCores(int lnc) const {
    return static_cast<int>(devices.size()) * logicalPerDevice(lnc);
  }
  /// HBM that a logical core calls its own.
  int64_t hbmBytesPerCore(int lnc) const {
    return hbmBytesPerStack * hbmStacks / logicalPerDevice(lnc);
  }
  NeuronCore coreAt(int logicalCore, int lnc) const;
  /// Logical core with an engine group and index on a device.
  int coreOf(int device, int seng, int index, int lnc) const;
  /// All links between logical cores, sorted by (from, to).
  std::vector<NeuronEdge> edges(int lnc) const;
};

extern const NeuronPlatform kTrn2x48xlarge;

constexpr std::string_view kHostPlatform = "host";
constexpr std::string_view kDefaultPlatform = "trn2.48xlarge";

/// Names accepted for NCCOM_PLATFORM, the default first.
std::vector<std::string> platformNames();

/// @error ncclInvalidArgument  an unknown name; the message lists the known ones
Result<const NeuronPlatform*> findPlatform(const std::string& name);

/// The logical core size to use: `lnc`, or the platform's own if 0.
/// @error ncclInvalidArgument  the platform has no such size
Result<int> checkLnc(const NeuronPlatform& platform, int lnc);

/// Devices that a rank can use: logical cores, or cores of this machine for "host".
/// @param hostDevices  for "host": how many to offer, 0: one a core
/// @error ncclInvalidArgument  unknown platform, or a logical core size that it does not have
Result<int> deviceCount(const std::string& platform, int lnc, int hostDevices = 0);

/// The <system> document of a platform: one <gpu> a logical core (dev = its number, own bus id),
/// <nvlink> for device links and paths within a device, a <nic> next to each device. No ranks.
Result<ncclXml> neuronTopoGetXml(const NeuronPlatform& platform, int lnc);

/// This machine through hwloc: one device a core, the CPUs (NUMA nodes), and its network cards.
///
/// @param nDevices   number of devices, dealt over the cores in turn; 0: one a core
/// @param synthetic  hwloc's description of another machine ("numa:2 core:4 pu:2"), for tests;
///                   empty: this one
/// @error ncclInvalidArgument  negative, or more devices than bus ids; a bad description
/// @error ncclSystemError      hwloc cannot read the machine
Result<ncclXml> hostTopoGetXml(int nDevices, const std::string& synthetic = "");

/// Cores of this machine.
Result<int> hostCoreCount();

/// "0-3,8" as hexadecimal words of 32 bits, highest first: "00000000,0000010f" (at least as many
/// words as the highest CPU needs).
std::string cpuMask(std::string_view cpuList);

}  // namespace nccom
