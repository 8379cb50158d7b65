// Trainium2: a 4x4 torus of devices of four engine groups, each with a port of its own; the trn2u
// hosts of an UltraServer join theirs to a 4x4x4 torus.
#include "graph/platform_pods.h"

namespace nccom {
namespace {

// neighbours[s]: the device at the far end of the link that engine group s owns (driver order).
// routingId is a coordinate in a 4-cube: neighbours differ in one bit.
constexpr std::array<NeuronDevice, 16> kDevices = {{
    {0, 0, 0, "0000:cc:00.0", 1, "0000:c9:00.0", {12, 1, 3, 4}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {8, 0, 1, "0000:b5:00.0", 1, "0000:b4:00.0", {0, 13, 5, 2}, {2, 3, 0, 1, 4, 5, 6, 7}},
    {9, 0, 2, "0000:b6:00.0", 1, "0000:b3:00.0", {14, 3, 1, 6}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {1, 0, 3, "0000:cb:00.0", 1, "0000:ca:00.0", {2, 15, 7, 0}, {2, 3, 0, 1, 4, 5, 6, 7}},
    {2, 1, 0, "0000:6f:00.0", 0, "0000:6c:00.0", {8, 5, 7, 0}, {0, 1, 2, 3, 6, 7, 4, 5}},
    {10, 1, 1, "0000:58:00.0", 0, "0000:57:00.0", {4, 9, 1, 6}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {11, 1, 2, "0000:59:00.0", 0, "0000:56:00.0", {10, 7, 5, 2}, {0, 1, 2, 3, 6, 7, 4, 5}},
    {3, 1, 3, "0000:6e:00.0", 0, "0000:6d:00.0", {6, 11, 3, 4}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {6, 2, 0, "0000:9b:00.0", 0, "0000:98:00.0", {4, 9, 11, 12}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {14, 2, 1, "0000:84:00.0", 0, "0000:83:00.0", {8, 5, 13, 10}, {2, 3, 0, 1, 4, 5, 6, 7}},
    {15, 2, 2, "0000:85:00.0", 0, "0000:82:00.0", {6, 11, 9, 14}, {4, 5, 6, 7, 2, 3, 0, 1}},
    {7, 2, 3, "0000:9a:00.0", 0, "0000:99:00.0", {10, 7, 15, 8}, {2, 3, 0, 1, 4, 5, 6, 7}},
    {4, 3, 0, "0000:f8:00.0", 1, "0000:f5:00.0", {0, 13, 15, 8}, {0, 1, 2, 3, 6, 7, 4, 5}},
    {12, 3, 1, "0000:e1:00.0", 1, "0000:e0:00.0", {12, 1, 9, 14}, {6, 7, 4, 5, 0, 1, 2, 3}},
    {13, 3, 2, "0000:e2:00.0", 1, "0000:df:00.0", {2, 15, 13, 10}, {0, 1, 2, 3, 6, 7, 4, 5}},
    {5, 3, 3, "0000:f7:00.0", 1, "0000:f6:00.0", {14, 3, 11, 12}, {6, 7, 4, 5, 0, 1, 2, 3}},
}};

// The bus of the EFA is not public: invented, as the neighbour of the device's.
constexpr std::array<NeuronDevice, 1> kOneDevice = {{
    {0, -1, -1, "0000:33:00.0", 0, "0000:32:00.0", {-1, -1, -1, -1}, {4, 5, 6, 7, 2, 3, 0, 1}},
}};

// Up, left, down, right, as the neuron-ls guide prints them.
constexpr std::array<std::array<int, 4>, 16> kDocumentedOrder = {{
    {12, 3, 4, 1},
    {13, 0, 5, 2},
    {14, 1, 6, 3},
    {15, 2, 7, 0},
    {0, 7, 8, 5},
    {1, 4, 9, 6},
    {2, 5, 10, 7},
    {3, 6, 11, 4},
    {4, 11, 12, 9},
    {5, 8, 13, 10},
    {6, 9, 14, 11},
    {7, 10, 15, 8},
    {8, 15, 0, 13},
    {9, 12, 1, 14},
    {10, 13, 2, 15},
    {11, 14, 3, 12},
}};

constexpr std::array<NeuronNuma, 2> kNumas = {{{0, "0-47,96-143"}, {1, "48-95,144-191"}}};
constexpr std::array<NeuronNuma, 1> k12Cpus = {{{0, "0-11"}}};
constexpr std::array<int, 2> kLncs = {2, 1};

constexpr NeuronPlatform kTrn2 = {
    .name = "trn2.48xlarge",
    .coreName = "NCv3",
    .family = NeuronFamily::Cayman,
    .instanceFamily = NeuronInstanceFamily::Trn2,
    .instanceSize = NeuronInstanceSize::Xl48,
    .sm = 3,
    .devices = kDevices,
    .numas = kNumas,
    .lncs = kLncs,
    .defaultLnc = 2,
    .coresPerDevice = 8,
    .coresPerSeng = 2,
    .sengsPerDie = 2,
    .portSengs = {0b0001, 0b0010, 0b0100, 0b1000},
    .pods = {},
    .switches = {},
    .reportedNeighbours = {},
    .hbmStacks = 4,
    .hbmBytesPerStack = int64_t{24} << 30,
    .hbmGBps = 2900,
    .dmaEnginesPerCore = 16,
    .dmaQueuesPerEngine = 16,
    .dmaEngineGBps = 23,  // measured; the ceiling is 27.2
    .syncProcessors = 16,
    .semaphoreUs = 1.3F,
    .deviceLinkGBps = 128,  // inferred: 1024 GB/s a chip, both directions, four neighbours
    .podLinkGBps = 64,      // inferred: 256 GB/s a chip, both directions, two hosts
    // Inferred: the 16 engines of a core move 368 GB/s, half of it to each of the two engine
    // groups next to its own.
    .d2dGBps = 184,
    .rmtvGBps = 184,
    .sharedGBps = 368,
    .netMbps = 200000,
    .netLatencyUs = 15,
    .hostNicBusId = "",
    .pciVendor = "0x1d0f",
    .pciDevice = "0x7364",
    .pciLinkSpeed = "32.0 GT/s PCIe",  // inferred: carries the 25 GB/s of the NIC and more
    .pciLinkWidth = 16,
    .cpuArch = "x86_64",
    .cpuVendor = "GenuineIntel",
    .cpuFamily = 6,
    .cpuModel = 143,  // Sapphire Rapids
    .vcpus = 192,
};

constexpr NeuronPlatform makeSmall() {
  NeuronPlatform platform = kTrn2;
  platform.name = "trn2.3xlarge";
  platform.instanceSize = NeuronInstanceSize::Xl3;
  platform.devices = kOneDevice;
  platform.numas = k12Cpus;
  platform.vcpus = 12;
  return platform;
}

constexpr NeuronPlatform makeUltra() {
  NeuronPlatform platform = kTrn2;
  platform.name = "trn2u.48xlarge";
  platform.instanceFamily = NeuronInstanceFamily::Trn2u;
  platform.pods = kTorusPods;
  return platform;
}

constexpr NeuronPlatform makeDocOrder() {
  NeuronPlatform platform = kTrn2;
  platform.name = "trn2.48xlarge/doc-order";
  platform.reportedNeighbours = kDocumentedOrder;
  return platform;
}

}  // namespace

const NeuronPlatform kTrn2x3xlarge = makeSmall();
const NeuronPlatform kTrn2x48xlarge = kTrn2;
const NeuronPlatform kTrn2ux48xlarge = makeUltra();
const NeuronPlatform kTrn2DocOrderx48xlarge = makeDocOrder();

}  // namespace nccom
