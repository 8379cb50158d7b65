// Trainium2. One table row a device, as the driver numbers them; facts without a tag are published
// by AWS (Neuron documentation, driver tables, EC2 tables), "inferred" ones follow from them.
#include "graph/platform.h"

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

constexpr std::array<NeuronNuma, 2> kNumas = {{{0, "0-47,96-143"}, {1, "48-95,144-191"}}};
constexpr std::array<int, 2> kLncs = {2, 1};

}  // namespace

const NeuronPlatform kTrn2x48xlarge = {
    .name = "trn2.48xlarge",
    .coreName = "NCv3",
    .sm = 3,
    .devices = kDevices,
    .numas = kNumas,
    .lncs = kLncs,
    .defaultLnc = 2,
    .coresPerDevice = 8,
    .coresPerSeng = 2,
    .sengsPerDie = 2,
    .hbmStacks = 4,
    .hbmBytesPerStack = int64_t{24} << 30,
    .hbmGBps = 2900,
    .dmaEnginesPerCore = 16,
    .dmaQueuesPerEngine = 16,
    .dmaEngineGBps = 23,  // measured; the ceiling is 27.2
    .syncProcessors = 16,
    .semaphoreUs = 1.3F,
    .deviceLinkGBps = 128,  // inferred: 1024 GB/s a chip, both directions, four neighbours
    // Inferred: the 16 engines of a core move 368 GB/s, half of it to each of the two engine
    // groups next to its own.
    .d2dGBps = 184,
    .rmtvGBps = 184,
    .sharedGBps = 368,
    .netMbps = 200000,
    .netLatencyUs = 15,
    .pciVendor = "0x1d0f",
    .pciDevice = "0x7364",
    .pciLinkSpeed = "32.0 GT/s PCIe",  // inferred: carries the 25 GB/s of the NIC and more
    .pciLinkWidth = 16,
    .cpuVendor = "GenuineIntel",
    .cpuFamily = 6,
    .cpuModel = 143,  // Sapphire Rapids
};

}  // namespace nccom
