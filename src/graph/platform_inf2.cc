// Inferentia2: devices in a chain or a ring, and no EFA.
#include "graph/platform.h"

namespace nccom {
namespace {

// Bus id and NUMA node of the one-device sizes are not public: invented.
constexpr std::array<NeuronDevice, 1> kOneDevice = {{
    {0, -1, -1, "0000:00:1f.0", -1, "", {-1, -1, -1, -1}, {0, 1}},
}};

constexpr std::array<NeuronDevice, 6> kSixDevices = {{
    {0, -1, -1, "0000:20:1e.0", 1, "", {1, -1, -1, -1}, {0, 1}},
    {1, -1, -1, "0000:20:1f.0", 1, "", {0, 2, -1, -1}, {0, 1}},
    {2, -1, -1, "0000:10:1e.0", 0, "", {1, 3, -1, -1}, {0, 1}},
    {3, -1, -1, "0000:10:1f.0", 0, "", {2, 4, -1, -1}, {0, 1}},
    {4, -1, -1, "0000:10:1d.0", 0, "", {3, 5, -1, -1}, {0, 1}},
    {5, -1, -1, "0000:20:1d.0", 1, "", {4, -1, -1, -1}, {0, 1}},
}};

constexpr std::array<NeuronDevice, 12> kTwelveDevices = {{
    {0, -1, -1, "0000:80:1e.0", 2, "", {11, 1, -1, -1}, {0, 1}},
    {1, -1, -1, "0000:90:1e.0", 3, "", {0, 2, -1, -1}, {0, 1}},
    {2, -1, -1, "0000:80:1d.0", 2, "", {1, 3, -1, -1}, {0, 1}},
    {3, -1, -1, "0000:90:1f.0", 3, "", {2, 4, -1, -1}, {0, 1}},
    {4, -1, -1, "0000:80:1f.0", 2, "", {3, 5, -1, -1}, {0, 1}},
    {5, -1, -1, "0000:90:1d.0", 3, "", {4, 6, -1, -1}, {0, 1}},
    {6, -1, -1, "0000:20:1e.0", 1, "", {5, 7, -1, -1}, {0, 1}},
    {7, -1, -1, "0000:20:1f.0", 1, "", {6, 8, -1, -1}, {0, 1}},
    {8, -1, -1, "0000:10:1e.0", 0, "", {7, 9, -1, -1}, {0, 1}},
    {9, -1, -1, "0000:10:1f.0", 0, "", {8, 10, -1, -1}, {0, 1}},
    {10, -1, -1, "0000:10:1d.0", 0, "", {9, 11, -1, -1}, {0, 1}},
    {11, -1, -1, "0000:20:1d.0", 1, "", {10, 0, -1, -1}, {0, 1}},
}};

constexpr std::array<NeuronNuma, 1> k4Cpus = {{{0, "0-3"}}};
constexpr std::array<NeuronNuma, 1> k32Cpus = {{{0, "0-31"}}};
constexpr std::array<NeuronNuma, 2> k96Cpus = {{{0, "0-23,48-71"}, {1, "24-47,72-95"}}};
constexpr std::array<NeuronNuma, 4> k192Cpus = {
    {{0, "0-23,96-119"}, {1, "24-47,120-143"}, {2, "48-71,144-167"}, {3, "72-95,168-191"}}};
constexpr std::array<int, 1> kLncs = {1};

constexpr NeuronPlatform kInf2 = {
    .name = "",
    .coreName = "NCv2",
    .family = NeuronFamily::Sunda,
    .instanceFamily = NeuronInstanceFamily::Inf2,
    .instanceSize = NeuronInstanceSize::Unknown,
    .sm = 2,
    .devices = {},
    .numas = {},
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
    .deviceLinkGBps = 51.5F,  // inferred: 192 GiB/s a chip, both directions, two neighbours
    .podLinkGBps = 0,
    .d2dGBps = 0,
    .rmtvGBps = 272,  // the 16 engines of a core
    .sharedGBps = 272,
    .netMbps = 0,
    .netLatencyUs = 75,              // what the libfabric plugin's tuning assumes for the family
    .hostNicBusId = "0000:00:05.0",  // invented; where instances with one NIC have it
    .pciVendor = "0x1d0f",
    .pciDevice = "0x7264",
    .pciLinkSpeed = "16.0 GT/s PCIe",  // inferred
    .pciLinkWidth = 16,
    .cpuArch = "x86_64",
    .cpuVendor = "AuthenticAMD",
    .cpuFamily = 25,
    .cpuModel = 1,  // Milan
    .vcpus = 0,
};

constexpr NeuronPlatform sized(std::string_view name, NeuronInstanceSize size,
                               std::span<const NeuronDevice> devices,
                               std::span<const NeuronNuma> numas, int netMbps, int vcpus) {
  NeuronPlatform platform = kInf2;
  platform.name = name;
  platform.instanceSize = size;
  platform.devices = devices;
  platform.numas = numas;
  platform.netMbps = netMbps;
  platform.vcpus = vcpus;
  return platform;
}

}  // namespace

// Rates of the two smaller ones' NIC are the sustained ones.
const NeuronPlatform kInf2x1xlarge =
    sized("inf2.xlarge", NeuronInstanceSize::Xl1, kOneDevice, k4Cpus, 2083, 4);
const NeuronPlatform kInf2x8xlarge =
    sized("inf2.8xlarge", NeuronInstanceSize::Xl8, kOneDevice, k32Cpus, 16667, 32);
const NeuronPlatform kInf2x24xlarge =
    sized("inf2.24xlarge", NeuronInstanceSize::Xl24, kSixDevices, k96Cpus, 50000, 96);
const NeuronPlatform kInf2x48xlarge =
    sized("inf2.48xlarge", NeuronInstanceSize::Xl48, kTwelveDevices, k192Cpus, 100000, 192);

}  // namespace nccom
