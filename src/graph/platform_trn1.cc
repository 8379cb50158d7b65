// Trainium: a 4x4 torus, with an EFA for two devices (trn1) or one (trn1n).
#include "graph/platform.h"

namespace nccom {
namespace {

constexpr std::array<NeuronDevice, 1> kOneDevice = {{
    {0, -1, -1, "0000:00:1e.0", -1, "", {-1, -1, -1, -1}, {0, 1}},
}};

// Ports lead up, left, down, right. routingId is a coordinate in a 4-cube: neighbours differ in one
// bit.
constexpr std::array<NeuronDevice, 16> kTrn1Devices = {{
    {0, 0, 0, "0000:10:1c.0", 0, "0000:10:1a.0", {12, 3, 4, 1}, {0, 1}},
    {2, 0, 1, "0000:10:1d.0", 0, "0000:10:1a.0", {13, 0, 5, 2}, {0, 1}},
    {6, 0, 2, "0000:a0:1c.0", 1, "0000:a0:1a.0", {14, 1, 6, 3}, {0, 1}},
    {4, 0, 3, "0000:a0:1d.0", 1, "0000:a0:1a.0", {15, 2, 7, 0}, {0, 1}},
    {1, 1, 0, "0000:20:1b.0", 0, "0000:20:19.0", {0, 7, 8, 5}, {0, 1}},
    {3, 1, 1, "0000:20:1c.0", 0, "0000:20:19.0", {1, 4, 9, 6}, {0, 1}},
    {7, 1, 2, "0000:90:1b.0", 1, "0000:90:19.0", {2, 5, 10, 7}, {0, 1}},
    {5, 1, 3, "0000:90:1c.0", 1, "0000:90:19.0", {3, 6, 11, 4}, {0, 1}},
    {9, 2, 0, "0000:20:1d.0", 0, "0000:20:1a.0", {4, 11, 12, 9}, {0, 1}},
    {11, 2, 1, "0000:20:1e.0", 0, "0000:20:1a.0", {5, 8, 13, 10}, {0, 1}},
    {15, 2, 2, "0000:90:1d.0", 1, "0000:90:1a.0", {6, 9, 14, 11}, {0, 1}},
    {13, 2, 3, "0000:90:1e.0", 1, "0000:90:1a.0", {7, 10, 15, 8}, {0, 1}},
    {8, 3, 0, "0000:10:1e.0", 0, "0000:10:19.0", {8, 15, 0, 13}, {0, 1}},
    {10, 3, 1, "0000:10:1b.0", 0, "0000:10:19.0", {9, 12, 1, 14}, {0, 1}},
    {14, 3, 2, "0000:a0:1e.0", 1, "0000:a0:19.0", {10, 13, 2, 15}, {0, 1}},
    {12, 3, 3, "0000:a0:1b.0", 1, "0000:a0:19.0", {11, 14, 3, 12}, {0, 1}},
}};

constexpr std::array<NeuronDevice, 16> kTrn1nDevices = {{
    {0, 0, 0, "0000:10:1c.0", 0, "0000:10:17.0", {12, 3, 4, 1}, {0, 1}},
    {2, 0, 1, "0000:10:1d.0", 0, "0000:10:1a.0", {13, 0, 5, 2}, {0, 1}},
    {6, 0, 2, "0000:a0:1c.0", 1, "0000:a0:17.0", {14, 1, 6, 3}, {0, 1}},
    {4, 0, 3, "0000:a0:1d.0", 1, "0000:a0:1a.0", {15, 2, 7, 0}, {0, 1}},
    {1, 1, 0, "0000:20:1b.0", 0, "0000:20:19.0", {0, 7, 8, 5}, {0, 1}},
    {3, 1, 1, "0000:20:1c.0", 0, "0000:20:18.0", {1, 4, 9, 6}, {0, 1}},
    {7, 1, 2, "0000:90:1b.0", 1, "0000:90:19.0", {2, 5, 10, 7}, {0, 1}},
    {5, 1, 3, "0000:90:1c.0", 1, "0000:90:18.0", {3, 6, 11, 4}, {0, 1}},
    {9, 2, 0, "0000:20:1d.0", 0, "0000:20:17.0", {4, 11, 12, 9}, {0, 1}},
    {11, 2, 1, "0000:20:1e.0", 0, "0000:20:1a.0", {5, 8, 13, 10}, {0, 1}},
    {15, 2, 2, "0000:90:1d.0", 1, "0000:90:17.0", {6, 9, 14, 11}, {0, 1}},
    {13, 2, 3, "0000:90:1e.0", 1, "0000:90:1a.0", {7, 10, 15, 8}, {0, 1}},
    {8, 3, 0, "0000:10:1e.0", 0, "0000:10:19.0", {8, 15, 0, 13}, {0, 1}},
    {10, 3, 1, "0000:10:1b.0", 0, "0000:10:18.0", {9, 12, 1, 14}, {0, 1}},
    {14, 3, 2, "0000:a0:1e.0", 1, "0000:a0:19.0", {10, 13, 2, 15}, {0, 1}},
    {12, 3, 3, "0000:a0:1b.0", 1, "0000:a0:18.0", {11, 14, 3, 12}, {0, 1}},
}};

constexpr std::array<NeuronNuma, 1> k8Cpus = {{{0, "0-7"}}};
constexpr std::array<NeuronNuma, 2> k128Cpus = {{{0, "0-31,64-95"}, {1, "32-63,96-127"}}};
constexpr std::array<int, 1> kLncs = {1};

constexpr NeuronPlatform kTrn1 = {
    .name = "trn1.32xlarge",
    .coreName = "NCv2",
    .family = NeuronFamily::Sunda,
    .instanceFamily = NeuronInstanceFamily::Trn1,
    .instanceSize = NeuronInstanceSize::Xl32,
    .sm = 2,
    .devices = kTrn1Devices,
    .numas = k128Cpus,
    .lncs = kLncs,
    .defaultLnc = 1,
    .coresPerDevice = 2,
    .coresPerSeng = 1,
    .sengsPerDie = 2,
    .portSengs = {0b11, 0b11, 0b11, 0b11},  // inferred: either core's engines reach every port
    .pods = {},
    .switches = {},
    .reportedNeighbours = {},
    .hbmStacks = 2,
    .hbmBytesPerStack = int64_t{16} << 30,
    .hbmGBps = 880.5F,  // 820 GiB/s
    .dmaEnginesPerCore = 16,
    .dmaQueuesPerEngine = 16,
    .dmaEngineGBps = 17,  // measured; the ceiling is 27.2
    .syncProcessors = 6,
    .semaphoreUs = 1.3F,
    .deviceLinkGBps = 51.5F,  // inferred: 384 GiB/s a chip, both directions, four neighbours
    .podLinkGBps = 0,
    .d2dGBps = 0,
    .rmtvGBps = 272,  // the 16 engines of a core
    .sharedGBps = 272,
    .netMbps = 100000,
    .netLatencyUs = 15,
    .hostNicBusId = "",
    .pciVendor = "0x1d0f",
    .pciDevice = "0x7164",
    .pciLinkSpeed = "16.0 GT/s PCIe",  // inferred: carries the 12.5 GB/s of the NIC and more
    .pciLinkWidth = 16,
    .cpuArch = "x86_64",
    .cpuVendor = "GenuineIntel",
    .cpuFamily = 6,
    .cpuModel = 106,  // Ice Lake
    .vcpus = 128,
};

constexpr NeuronPlatform makeTrn1n() {
  NeuronPlatform platform = kTrn1;
  platform.name = "trn1n.32xlarge";
  platform.instanceFamily = NeuronInstanceFamily::Trn1n;
  platform.devices = kTrn1nDevices;
  platform.deviceLinkGBps = 103.1F;  // inferred: 768 GiB/s a chip
  return platform;
}

constexpr NeuronPlatform makeSmall() {
  NeuronPlatform platform = kTrn1;
  platform.name = "trn1.2xlarge";
  platform.instanceSize = NeuronInstanceSize::Xl2;
  platform.devices = kOneDevice;
  platform.numas = k8Cpus;
  platform.netMbps = 3125;                 // sustained
  platform.hostNicBusId = "0000:00:05.0";  // invented; where instances with one NIC have it
  platform.vcpus = 8;
  return platform;
}

}  // namespace

const NeuronPlatform kTrn1x2xlarge = makeSmall();
const NeuronPlatform kTrn1x32xlarge = kTrn1;
const NeuronPlatform kTrn1nx32xlarge = makeTrn1n();

}  // namespace nccom
