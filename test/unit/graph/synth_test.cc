// Documents of platforms and of this machine.
#include <map>

#include "graph/fabric.h"
#include "graph_test_util.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;

std::vector<LocalRank> allRanks(int n) {
  std::vector<LocalRank> ranks;
  for (int i = 0; i < n; i++)
    ranks.push_back({i, i});
  return ranks;
}

/// Calls function(platform, lnc) for all.
template <class Function>
void forAll(const Function& function) {
  for (const NeuronPlatform* platform : neuronPlatforms()) {
    for (const int lnc : platform->lncs) {
      SCOPED_TRACE(std::string(platform->name) + " lnc " + std::to_string(lnc));
      function(*platform, lnc);
    }
  }
}

void collectBusIds(pugi::xml_node node, std::multiset<std::string>& ids) {
  for (const pugi::xml_node child : node.children()) {
    if (child.name() == std::string("pci")) ids.insert(child.attribute("busid").value());
    collectBusIds(child, ids);
  }
}

TEST(Synth, AllPartsAreInTheirPlaces) {
  forAll([](const NeuronPlatform& platform, int lnc) {
    ASSERT_OK(xml, neuronTopoGetXml(platform, lnc));
    const int n = platform.logicalCores(lnc);
    ASSERT_TRUE(setRanks(xml, allRanks(n)).ok());
    ASSERT_OK(loaded, ncclTopoGetSystemFromXml(xml));
    EXPECT_EQ(loaded.notes, std::vector<std::string>());
    ncclTopoSystem& system = loaded.system;
    ASSERT_OK(fabric, neuronFabric(platform, lnc));
    std::set<int> efas;
    for (const FabricDevice& device : fabric.devices)
      efas.insert(device.efa);
    const bool hasEfas = !efas.contains(-1);
    EXPECT_EQ(system.count(Type::Gpu), n);
    EXPECT_EQ(system.count(Type::Dev), n);
    EXPECT_EQ(system.count(Type::Cpu), static_cast<int>(platform.numas.size()));
    EXPECT_EQ(system.count(Type::Net), hasEfas ? static_cast<int>(efas.size()) : 1);
    EXPECT_EQ(system.count(Type::Nvs), platform.isSwitched() ? 1 : 0);
    ncclTopoComputePaths(system);
    for (int g = 0; g < n; g++) {
      const int dev = system.nodes(Type::Gpu)[g].gpu.dev;
      const FabricDevice& device = fabric.devices[fabric.cores[dev].device];
      const int net = ncclTopoGetLocalNet(system, g, 0);
      ASSERT_GE(net, 0);
      EXPECT_EQ(system.nodes(Type::Net)[net].net.dev, hasEfas ? device.efa : 0);
      if (hasEfas) {
        EXPECT_LE(system.path(gpuRef(g), netRef(net)).type, ncclTopoPathType::Pxb);
      }
      const ncclTopoNode& cpu = system.nodes(Type::Cpu)[ncclGetLocalCpu(system, g)];
      EXPECT_EQ(localIdOf(cpu.id), std::max(device.numa, platform.numas[0].id));
    }
  });
}

TEST(Synth, EveryCoreReachesEveryOther) {
  forAll([](const NeuronPlatform& platform, int lnc) {
    ASSERT_OK(xml, neuronTopoGetXml(platform, lnc));
    const int n = platform.logicalCores(lnc);
    ASSERT_TRUE(setRanks(xml, allRanks(n)).ok());
    ASSERT_OK(loaded, ncclTopoGetSystemFromXml(xml));
    ncclTopoComputePaths(loaded.system);
    ASSERT_OK(fabric, neuronFabric(platform, lnc));
    for (int a = 0; a < n; a++) {
      for (int b = 0; b < n; b++) {
        const ncclTopoPath& path = loaded.system.path(gpuRef(a), gpuRef(b));
        ASSERT_NE(path.type, ncclTopoPathType::Dis);
        ASSERT_GT(path.bwGBps, 0);
        // Behind a switch all is one hop away.
        if (platform.isSwitched() && a != b) {
          ASSERT_LE(path.type, ncclTopoPathType::Nvl);
        }
      }
    }
    for (const NeuronEdge& edge : fabric.edges) {
      const auto indexOf = [&](int dev) { return ncclTopoRankToIndex(loaded.system, dev); };
      const ncclTopoPath& path =
          loaded.system.path(gpuRef(indexOf(edge.from)), gpuRef(indexOf(edge.to)));
      ASSERT_EQ(path.type, ncclTopoPathType::Nvl);
      // A switch may offer more than the link of a tray.
      ASSERT_GE(path.bwGBps, edge.bwGBps - 1e-3);
      if (!platform.isSwitched()) {
        ASSERT_NEAR(path.bwGBps, edge.bwGBps, 1e-3);
      }
    }
  });
}

TEST(Synth, BusIdsAreUnique) {
  forAll([](const NeuronPlatform& platform, int lnc) {
    ASSERT_OK(xml, neuronTopoGetXml(platform, lnc));
    std::multiset<std::string> ids;
    collectBusIds(xml.root(), ids);
    for (const std::string& id : ids)
      EXPECT_EQ(ids.count(id), 1U) << id;
    for (const NeuronDevice& device : platform.devices) {
      EXPECT_EQ(ids.count(std::string(device.busId)), 1U);
      if (!device.efaBusId.empty()) {
        EXPECT_EQ(ids.count(std::string(device.efaBusId)), 1U);
      }
    }
  });
}

TEST(Synth, TurnedHostsDifferOnlyInTheOrderOfCores) {
  ASSERT_OK(plain, neuronTopoGetXml(kTrn2ux48xlarge, 2));
  ASSERT_OK(turned, neuronTopoGetXml(kTrn2ux48xlarge, 2, 1));
  ASSERT_OK(diagonal, neuronTopoGetXml(kTrn2ux48xlarge, 2, 2));
  ASSERT_OK(trn2, neuronTopoGetXml(kTrn2x48xlarge, 2));
  EXPECT_NE(plain.toText(), turned.toText());
  EXPECT_EQ(plain.toText(), diagonal.toText());
  EXPECT_EQ(plain.toText(), trn2.toText());
}

TEST(Synth, TopologyCheckAcceptsWholeHosts) {
  forAll([](const NeuronPlatform& platform, int lnc) {
    ASSERT_OK(xml, neuronTopoGetXml(platform, lnc));
    ASSERT_OK(notes, verifyTopology(xml, allRanks(platform.logicalCores(lnc))));
    if (platform.deviceCount() != 6 && platform.deviceCount() != 12) {
      EXPECT_EQ(notes, std::vector<std::string>());
    }
  });
}

// ---- this machine --------------------------------------------------------------------------

TEST(Host, HasADeviceACoreInItsNumaNode) {
  ASSERT_OK(xml, hostTopoGetXml(0, "numa:2 core:4 pu:2"));
  ASSERT_TRUE(setRanks(xml, allRanks(8)).ok());
  ASSERT_OK(loaded, ncclTopoGetSystemFromXml(xml));
  ncclTopoSystem& system = loaded.system;
  EXPECT_EQ(system.count(Type::Cpu), 2);
  EXPECT_EQ(system.nodes(Type::Cpu)[1].cpu.affinity, "0000ff00");
  ASSERT_EQ(system.count(Type::Gpu), 8);
  ncclTopoComputePaths(system);
  EXPECT_EQ(system.path(gpuRef(0), gpuRef(3)).type, ncclTopoPathType::Phb);
  EXPECT_EQ(system.path(gpuRef(0), gpuRef(4)).type, ncclTopoPathType::Sys);
}

TEST(Host, OrADeviceANumaNode) {
  ASSERT_OK(xml, hostTopoGetXml(0, "numa:4 core:4 pu:2", HostUnit::Numa));
  ASSERT_TRUE(setRanks(xml, allRanks(4)).ok());
  EXPECT_FALSE(setRanks(xml, {{0, 4}}).ok());
  ASSERT_OK(again, hostTopoGetXml(6, "numa:4 core:4 pu:2", HostUnit::Numa));
  ASSERT_TRUE(setRanks(again, allRanks(6)).ok());
  ASSERT_OK(loaded, ncclTopoGetSystemFromXml(again));
  ncclTopoComputePaths(loaded.system);
  EXPECT_EQ(loaded.system.count(Type::Cpu), 4);
  for (int g = 0; g < 6; g++) {  // dealt in turn
    const int dev = loaded.system.nodes(Type::Gpu)[g].gpu.dev;
    const int cpu = ncclGetLocalCpu(loaded.system, g);
    EXPECT_EQ(loaded.system.nodes(Type::Cpu)[cpu].id, dev % 4);
  }
}

// Two CPUs with memory, memory without CPUs, a NIC below a bridge, one at the host bridge, and a
// disk.
constexpr const char* kMachine = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x7" complete_nodeset="0x7" allowed_nodeset="0x7" gp_index="1">
  <object type="NUMANode" os_index="2" cpuset="0x3" complete_cpuset="0x3" nodeset="0x4" complete_nodeset="0x4" gp_index="30" local_memory="1024"/>
  <object type="Package" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="2">
   <info name="CPUVendor" value="GenuineIntel"/><info name="CPUFamilyNumber" value="6"/><info name="CPUModelNumber" value="143"/>
   <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3" local_memory="1024"/>
   <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4">
    <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="5"/>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="6">
   <object type="NUMANode" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="7" local_memory="1024"/>
   <object type="Core" os_index="0" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="8">
    <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="9"/>
   </object>
   <object type="Bridge" gp_index="10" bridge_type="0-1" depth="0" bridge_pci="0000:[80-82]">
    <object type="PCIDev" gp_index="11" pci_busid="0000:80:05.0" pci_type="0200 [1d0f:ec20] [0000:0000] 00" pci_link_speed="0.000000">
     <object type="OSDev" gp_index="12" name="ens5" osdev_type="2"/>
    </object>
    <object type="Bridge" gp_index="13" bridge_type="1-1" depth="1" bridge_pci="0000:[81-81]" pci_busid="0000:80:01.0" pci_type="0604 [8086:352a] [0000:0000] 04" pci_link_speed="31.507692">
     <object type="PCIDev" gp_index="14" pci_busid="0000:81:00.0" pci_type="0207 [15b3:1021] [0000:0000] 00" pci_link_speed="31.507692">
      <object type="OSDev" gp_index="15" name="ib0" osdev_type="2"/>
      <object type="OSDev" gp_index="16" name="mlx5_0" osdev_type="3"/>
     </object>
     <object type="PCIDev" gp_index="17" pci_busid="0000:81:00.1" pci_type="0207 [15b3:1021] [0000:0000] 00" pci_link_speed="31.507692">
      <object type="OSDev" gp_index="18" name="mlx5_1" osdev_type="3"/>
     </object>
    </object>
   </object>
  </object>
 </object>
</topology>)";

TEST(Host, HasItsNetworkCardsBelowTheirBridges) {
  ASSERT_OK(xml, hostTopoGetXml(0, kMachine));
  ASSERT_TRUE(setRanks(xml, allRanks(2)).ok());
  attachNets(xml, {{.name = "mlx5_0", .speedMbps = 100000}, {.name = "mlx5_1"}, {.name = "ens5"}});
  ASSERT_OK(loaded, ncclTopoGetSystemFromXml(xml));
  ncclTopoSystem& system = loaded.system;
  EXPECT_EQ(system.count(Type::Cpu), 2);  // memory alone is no <cpu>
  EXPECT_EQ(system.nodes(Type::Cpu)[0].cpu.vendor, CpuVendor::Intel);
  ASSERT_EQ(system.count(Type::Net), 3);
  ASSERT_EQ(system.count(Type::Pci), 1);
  EXPECT_EQ(system.nodes(Type::Pci)[0].pci.busId, "0000:80:01.0");
  ncclTopoComputePaths(system);
  const auto typeOf = [&](int gpu, int dev) {
    const int net = ncclTopoIdToIndex(system, Type::Net, dev);
    return system.path(gpuRef(ncclTopoRankToIndex(system, gpu)), netRef(net)).type;
  };
  for (const int dev : {0, 1, 2}) {
    EXPECT_EQ(typeOf(1, dev), ncclTopoPathType::Phb) << dev;
    EXPECT_EQ(typeOf(0, dev), ncclTopoPathType::Sys) << dev;
  }
}

TEST(Host, MayHaveMoreDevicesThanCores) {
  GraphInput input = inputFor({0, 1, 2, 3, 4, 5, 6, 7, 8}, 0, 9);
  input.platform = "host";
  input.hostDevices = 9;
  ASSERT_OK(result, buildGraph(input));
  expectRings(result.ring, 9);
  input.platform = "host/numa";
  ASSERT_OK(numa, buildGraph(input));
  expectRings(numa.ring, 9);
  EXPECT_FALSE(hostTopoGetXml(-1).ok());
  EXPECT_FALSE(hostTopoGetXml(8193).ok());
  EXPECT_FALSE(hostTopoGetXml(0, "no such thing").ok());
  EXPECT_FALSE(hostTopoGetXml(0, "<no").ok());
}

}  // namespace
}  // namespace nccom
