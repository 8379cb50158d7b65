// Trainium3: hosts of 16 or 4 devices behind switches, and the torus that its driver knows too.
//
// Invented, because nothing of it is public: bus ids of devices (next to those of the EFAs, as on
// Trn2), NUMA nodes, CPU lists and models, and bus ids of the EFAs of 4-device hosts.
#include "graph/platform_pods.h"

namespace nccom {
namespace {

// As on Trn2. That logical cores are ordered as there is inferred.
constexpr std::array<NeuronDevice, 16> kTorusDevices = {{
    {0, 0, 0, "0000:c1:00.0", 1, "0000:be:00.0", {12, 1, 3, 4}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {8, 0, 1, "0000:aa:00.0", 1, "0000:a9:00.0", {0, 13, 5, 2}, {2, 3, 0, 1, 4, 5, 6, 7}},
    {9, 0, 2, "0000:ab:00.0", 1, "0000:a8:00.0", {14, 3, 1, 6}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {1, 0, 3, "0000:c0:00.0", 1, "0000:bf:00.0", {2, 15, 7, 0}, {2, 3, 0, 1, 4, 5, 6, 7}},
    {2, 1, 0, "0000:64:00.0", 0, "0000:61:00.0", {8, 5, 7, 0}, {0, 1, 2, 3, 6, 7, 4, 5}},
    {10, 1, 1, "0000:4d:00.0", 0, "0000:4c:00.0", {4, 9, 1, 6}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {11, 1, 2, "0000:4e:00.0", 0, "0000:4b:00.0", {10, 7, 5, 2}, {0, 1, 2, 3, 6, 7, 4, 5}},
    {3, 1, 3, "0000:63:00.0", 0, "0000:62:00.0", {6, 11, 3, 4}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {6, 2, 0, "0000:90:00.0", 0, "0000:8d:00.0", {4, 9, 11, 12}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {14, 2, 1, "0000:79:00.0", 0, "0000:78:00.0", {8, 5, 13, 10}, {2, 3, 0, 1, 4, 5, 6, 7}},
    {15, 2, 2, "0000:7a:00.0", 0, "0000:77:00.0", {6, 11, 9, 14}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {7, 2, 3, "0000:8f:00.0", 0, "0000:8e:00.0", {10, 7, 15, 8}, {2, 3, 0, 1, 4, 5, 6, 7}},
    {4, 3, 0, "0000:ed:00.0", 1, "0000:ea:00.0", {0, 13, 15, 8}, {0, 1, 2, 3, 6, 7, 4, 5}},
    {12, 3, 1, "0000:d6:00.0", 1, "0000:d5:00.0", {12, 1, 9, 14}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {13, 3, 2, "0000:d7:00.0", 1, "0000:d4:00.0", {2, 15, 13, 10}, {0, 1, 2, 3, 6, 7, 4, 5}},
    {5, 3, 3, "0000:ec:00.0", 1, "0000:eb:00.0", {14, 3, 11, 12}, {6, 7, 4, 5, 0, 1, 2, 3}},
}};

// Routing ids count through the pod: this one plus 16 a host. Core order: the newest driver's.
constexpr std::array<NeuronDevice, 16> kSwitchedDevices = {{
    {0, -1, -1, "0000:c1:00.0", 1, "0000:be:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {1, -1, -1, "0000:aa:00.0", 1, "0000:a9:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {2, -1, -1, "0000:ab:00.0", 1, "0000:a8:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {3, -1, -1, "0000:c0:00.0", 1, "0000:bf:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {4, -1, -1, "0000:64:00.0", 0, "0000:61:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {5, -1, -1, "0000:4d:00.0", 0, "0000:4c:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {6, -1, -1, "0000:4e:00.0", 0, "0000:4b:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {7, -1, -1, "0000:63:00.0", 0, "0000:62:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {8, -1, -1, "0000:90:00.0", 0, "0000:8d:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {9, -1, -1, "0000:79:00.0", 0, "0000:78:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {10, -1, -1, "0000:7a:00.0", 0, "0000:77:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {11, -1, -1, "0000:8f:00.0", 0, "0000:8e:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {12, -1, -1, "0000:ed:00.0", 1, "0000:ea:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {13, -1, -1, "0000:d6:00.0", 1, "0000:d5:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {14, -1, -1, "0000:d7:00.0", 1, "0000:d4:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {15, -1, -1, "0000:ec:00.0", 1, "0000:eb:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
}};

// The second EFA order that is public, of the names trn3-dev0 and trn3-dev1.
constexpr std::array<NeuronDevice, 16> kDevDevices = {{
    {0, -1, -1, "0000:aa:00.0", 1, "0000:a9:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {1, -1, -1, "0000:ab:00.0", 1, "0000:a8:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {2, -1, -1, "0000:c0:00.0", 1, "0000:bf:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {3, -1, -1, "0000:c1:00.0", 1, "0000:be:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {4, -1, -1, "0000:d6:00.0", 1, "0000:d5:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {5, -1, -1, "0000:d7:00.0", 1, "0000:d4:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {6, -1, -1, "0000:ec:00.0", 1, "0000:eb:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {7, -1, -1, "0000:ed:00.0", 1, "0000:ea:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {8, -1, -1, "0000:4d:00.0", 0, "0000:4c:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {9, -1, -1, "0000:4e:00.0", 0, "0000:4b:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {10, -1, -1, "0000:63:00.0", 0, "0000:62:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {11, -1, -1, "0000:64:00.0", 0, "0000:61:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {12, -1, -1, "0000:79:00.0", 0, "0000:78:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {13, -1, -1, "0000:7a:00.0", 0, "0000:77:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {14, -1, -1, "0000:8f:00.0", 0, "0000:8e:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {15, -1, -1, "0000:90:00.0", 0, "0000:8d:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
}};

constexpr std::array<NeuronDevice, 4> kFourDevices = {{
    {0, -1, -1, "0000:24:00.0", 0, "0000:21:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {1, -1, -1, "0000:39:00.0", 0, "0000:36:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {2, -1, -1, "0000:38:00.0", 0, "0000:37:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {3, -1, -1, "0000:23:00.0", 0, "0000:22:00.0", {-1, -1, -1, -1}, {6, 7, 4, 5, 0, 1, 2, 3}},
}};

// The driver's list for hosts of 16 devices, whatever their wiring.
constexpr std::array<std::array<int, 4>, 16> kReported = {{
    {12, 1, 3, 4},
    {0, 13, 5, 2},
    {14, 3, 1, 6},
    {2, 15, 7, 0},
    {8, 5, 7, 0},
    {4, 9, 1, 6},
    {10, 7, 5, 2},
    {6, 11, 3, 4},
    {4, 9, 11, 12},
    {8, 5, 13, 10},
    {6, 11, 9, 14},
    {10, 7, 15, 8},
    {0, 13, 15, 8},
    {12, 1, 9, 14},
    {2, 15, 13, 10},
    {14, 3, 11, 12},
}};

constexpr std::array<NeuronNuma, 2> kNumas = {{{0, "0-47,96-143"}, {1, "48-95,144-191"}}};
constexpr std::array<NeuronNuma, 1> k64Cpus = {{{0, "0-63"}}};
constexpr std::array<int, 2> kLncs = {2, 1};

// Hosts of a switched pod are not turned, nor cabled to each other in a ring.
constexpr std::array<NeuronPodShape, 3> kGen1Pods = {{
    {"X1", UltraServerMode::X1, NeuronPodType::None, 1, {}, {}},
    {"X2", UltraServerMode::None, NeuronPodType::Switch, 2, {}, {}},
    {"X4", UltraServerMode::X4, NeuronPodType::Switch, 4, {}, {}},
}};
constexpr std::array<NeuronPodShape, 3> kGen2Pods = {{
    {"X1", UltraServerMode::X1, NeuronPodType::None, 1, {}, {}},
    {"X18", UltraServerMode::None, NeuronPodType::Switch, 18, {}, {}},
    {"X36", UltraServerMode::None, NeuronPodType::Switch, 36, {}, {}},
}};

// A chip has 11 links of 32 GB/s each way: 4 within the sled, 5 within the rack, 2 across.
constexpr float kLinkGBps = 32;
// Inferred: without a sled switch, its links lead to the rack's.
constexpr NeuronSwitches kGen1 = {.devicesPerTray = 2,
                                  .trayGBps = 0,
                                  .sledGBps = 0,
                                  .rackGBps = 9 * kLinkGBps,
                                  .crossRackGBps = 2 * kLinkGBps,
                                  .hostsPerRack = 2};
// Inferred: the links of the sled join the two devices of a tray.
constexpr NeuronSwitches kGen1Pairs = {.devicesPerTray = 2,
                                       .trayGBps = 4 * kLinkGBps,
                                       .sledGBps = 0,
                                       .rackGBps = 5 * kLinkGBps,
                                       .crossRackGBps = 2 * kLinkGBps,
                                       .hostsPerRack = 2};
constexpr NeuronSwitches kGen2 = {.devicesPerTray = 4,
                                  .trayGBps = 0,
                                  .sledGBps = 4 * kLinkGBps,
                                  .rackGBps = 5 * kLinkGBps,
                                  .crossRackGBps = 2 * kLinkGBps,
                                  .hostsPerRack = 18};

constexpr NeuronPlatform kTorus = {
    .name = "trn3p.48xlarge",
    .coreName = "NCv4",
    .family = NeuronFamily::Mariana,
    .instanceFamily = NeuronInstanceFamily::Trn3,
    .instanceSize = NeuronInstanceSize::Xl48,
    .sm = 4,
    .devices = kTorusDevices,
    .numas = kNumas,
    .lncs = kLncs,
    .defaultLnc = 2,
    .coresPerDevice = 8,
    .coresPerSeng = 2,
    .sengsPerDie = 2,
    .portSengs = {0b0001, 0b0010, 0b0100, 0b1000},
    .pods = kTorusPods,
    .switches = {},
    .reportedNeighbours = {},
    .hbmStacks = 4,
    .hbmBytesPerStack = int64_t{36} << 30,
    .hbmGBps = 4900,
    .dmaEnginesPerCore = 16,
    .dmaQueuesPerEngine = 16,
    .dmaEngineGBps = 33,  // measured; the ceiling is 38.4
    .syncProcessors = 16,
    .semaphoreUs = 1.3F,
    .deviceLinkGBps = 256,  // inferred: NeuronLink-v4 is twice v3
    .podLinkGBps = 128,     // inferred: the same
    // Inferred as on Trn2: the 16 engines of a core move 528 GB/s.
    .d2dGBps = 264,
    .rmtvGBps = 264,
    .sharedGBps = 528,
    .netMbps = 200000,  // inferred: 12,800 Gbps for 64 devices, 28,800 for 144
    .netLatencyUs = 15,
    .hostNicBusId = "",
    .pciVendor = "0x1d0f",
    .pciDevice = "0x7564",
    .pciLinkSpeed = "32.0 GT/s PCIe",  // inferred: carries the 25 GB/s of the NIC and more
    .pciLinkWidth = 16,
    .cpuArch = "x86_64",
    .cpuVendor = "GenuineIntel",
    .cpuFamily = 6,
    .cpuModel = 143,
    .vcpus = 192,
};

constexpr NeuronPlatform makeSwitched(std::string_view name, std::span<const NeuronDevice> devices,
                                      const NeuronSwitches& switches) {
  NeuronPlatform platform = kTorus;
  platform.name = name;
  platform.family = NeuronFamily::SwitchV1;
  platform.instanceFamily = NeuronInstanceFamily::Trn3Pds98;
  platform.devices = devices;
  platform.pods = kGen1Pods;
  platform.switches = switches;
  platform.reportedNeighbours = kReported;
  platform.deviceLinkGBps = 0;
  platform.podLinkGBps = 0;
  platform.pciDevice = "0x7565";
  return platform;
}

constexpr NeuronPlatform makeGen2() {
  NeuronPlatform platform = makeSwitched("trn3e.24xlarge", kFourDevices, kGen2);
  platform.instanceSize = NeuronInstanceSize::Xl24;
  platform.pods = kGen2Pods;
  platform.numas = k64Cpus;
  platform.reportedNeighbours = {};
  platform.cpuArch = "arm64";  // Graviton
  platform.cpuVendor = "ARM";
  platform.cpuFamily = 0;
  platform.cpuModel = 0;
  platform.vcpus = 64;  // inferred: 2304 for 36 hosts
  return platform;
}

}  // namespace

const NeuronPlatform kTrn3px48xlarge = kTorus;
const NeuronPlatform kTrn3x48xlarge = makeSwitched("trn3.48xlarge", kSwitchedDevices, kGen1);
const NeuronPlatform kTrn3Pairsx48xlarge =
    makeSwitched("trn3.48xlarge/pairs", kSwitchedDevices, kGen1Pairs);
const NeuronPlatform kTrn3Dev0x48xlarge = makeSwitched("trn3-dev0.48xlarge", kDevDevices, kGen1);
const NeuronPlatform kTrn3ex24xlarge = makeGen2();

}  // namespace nccom
