// A platform's tables as a <system> document. Each NIC shares a PCI bridge with the devices next to
// it; the logical cores of a device share its PCI link.
#include <cstdio>
#include <map>
#include <string>

#include "graph/fabric.h"
#include "graph/topo.h"

namespace nccom {
namespace {

using pugi::xml_node;

constexpr const char* kBridgeClass = "0x060400";
// The class of a "3D controller": what topology readers take for an accelerator.
constexpr const char* kDeviceClass = "0x030200";
constexpr const char* kNicClass = "0x020000";
constexpr const char* kSwitchClass = "0x068000";
constexpr const char* kSwitchBusId = "0000:ff:00.0";  // invented: all switches act as one
constexpr const char* kEnaDevice = "0xec20";

struct BusId {
  std::string bus;  // "0000:cc"
  int device;
  std::string at(int deviceNumber, int function) const {
    std::array<char, 16> text = {};
    snprintf(text.data(), text.size(), ":%02x.%x", deviceNumber, function);
    return bus + text.data();
  }
};

BusId parsed(std::string_view busId) {
  const int64_t number = busIdToInt64(std::string(busId)).value_or(0);
  return {std::string(busId.substr(0, busId.rfind(':'))), static_cast<int>(number >> 4 & 0xff)};
}

// Devices with a bus of their own sit at number 0 of it, and the numbers above are free for logical
// cores (from 1) and the bridge (31). Devices that share a bus leave their functions free.
std::string coreBusIdOf(std::string_view deviceBusId, int slot) {
  const BusId id = parsed(deviceBusId);
  return id.device == 0 ? id.at(slot + 1, 0) : id.at(id.device, slot + 1);
}
std::string bridgeBusIdOf(std::string_view deviceBusId) {
  const BusId id = parsed(deviceBusId);
  return id.device == 0 ? id.at(31, 0) : id.at(id.device, 7);
}

class Synthesiser {
 public:
  Synthesiser(const NeuronPlatform& platform, const NeuronFabric& fabric)
      : platform_(platform), fabric_(fabric) {}

  ncclXml make() {
    for (const NeuronNuma& numa : platform_.numas)
      addCpu(numa);
    return std::move(xml_);
  }

 private:
  void addCpu(const NeuronNuma& numa) {
    xml_node xmlCpu = xml_.root().append_child("cpu");
    setXml(xmlCpu, "numaid", numa.id);
    setXml(xmlCpu, "affinity", cpuMask(numa.cpus));
    setXml(xmlCpu, "arch", std::string(platform_.cpuArch));
    if (platform_.cpuArch == "x86_64") {  // NCCL asks for the model of no other
      setXml(xmlCpu, "vendor", std::string(platform_.cpuVendor));
      setXml(xmlCpu, "familyid", platform_.cpuFamily);
      setXml(xmlCpu, "modelid", platform_.cpuModel);
    }
    const bool isFirst = numa.id == platform_.numas[0].id;
    for (const FabricDevice& device : fabric_.devices) {
      if (device.numa == numa.id || (device.numa < 0 && isFirst)) addDevice(xmlCpu, device);
    }
    if (isFirst && !platform_.hostNicBusId.empty()) addHostNic(xmlCpu);
  }

  xml_node addPci(xml_node parent, const std::string& busId, const char* pciClass) {
    xml_node xmlPci = parent.append_child("pci");
    setXml(xmlPci, "busid", busId);
    setXml(xmlPci, "class", std::string(pciClass));
    setXml(xmlPci, "vendor", std::string(platform_.pciVendor));
    return xmlPci;
  }

  void addLinkRate(xml_node xmlPci) {
    setXml(xmlPci, "link_speed", std::string(platform_.pciLinkSpeed));
    setXml(xmlPci, "link_width", platform_.pciLinkWidth);
  }

  /// The bridge above a device: that of its NIC, or its own where it has none.
  xml_node bridgeOf(xml_node xmlCpu, const FabricDevice& device) {
    const auto known = bridges_.find(device.efa);
    if (device.efa != -1 && known != bridges_.end()) return known->second;
    xml_node xmlBridge = addPci(xmlCpu, bridgeBusIdOf(device.busId), kBridgeClass);
    addLinkRate(xmlBridge);
    bridges_[device.efa] = xmlBridge;
    return xmlBridge;
  }

  bool isLastAtItsNic(const FabricDevice& device) const {
    for (int d = device.device + 1; d < fabric_.deviceCount(); d++) {
      if (fabric_.devices[d].efa == device.efa) return false;
    }
    return device.efa != -1;
  }

  void addDevice(xml_node xmlCpu, const FabricDevice& device) {
    xml_node xmlBridge = bridgeOf(xmlCpu, device);
    // The device as its cores see it: a switch of one PCI link.
    xml_node xmlDevice = addPci(xmlBridge, device.busId, kBridgeClass);
    setXml(xmlDevice, "device", std::string(platform_.pciDevice));
    addLinkRate(xmlDevice);
    for (int slot = 0; slot < fabric_.coresPerDevice; slot++)
      addCore(xmlDevice, device.device * fabric_.coresPerDevice + slot);
    if (isLastAtItsNic(device)) addEfa(xmlBridge, device);
  }

  std::string coreBusId(int core) const {
    const NeuronCore& place = fabric_.cores[core];
    return coreBusIdOf(fabric_.devices[place.device].busId, place.slot);
  }

  void addLink(xml_node xmlGpu, const std::string& target, float bwGBps, const char* tclass) {
    xml_node xmlLink = xmlGpu.append_child("nvlink");
    setXml(xmlLink, "target", target);
    setXml(xmlLink, "count", 1);
    setXml(xmlLink, "bw", bwGBps * 1000);
    setXml(xmlLink, "tclass", std::string(tclass));
  }

  /// GB/s of a device into the switches that lead to other devices of its host.
  float switchGBps() const {
    const NeuronSwitches& switches = platform_.switches;
    return switches.sledGBps > 0 ? switches.sledGBps : switches.rackGBps;
  }

  void addCore(xml_node xmlDevice, int core) {
    xml_node xmlPci = addPci(xmlDevice, coreBusId(core), kDeviceClass);
    setXml(xmlPci, "device", std::string(platform_.pciDevice));
    addLinkRate(xmlPci);
    xml_node xmlGpu = xmlPci.append_child("gpu");
    setXml(xmlGpu, "dev", core);
    setXml(xmlGpu, "sm", platform_.sm);
    setXml(xmlGpu, "gdr", 1);
    for (const NeuronEdge& edge : fabric_.edges) {
      if (edge.from == core) addLink(xmlGpu, coreBusId(edge.to), edge.bwGBps, kDeviceClass);
    }
    if (platform_.isSwitched()) {
      addLink(xmlGpu, kSwitchBusId, switchGBps() / static_cast<float>(fabric_.coresPerDevice),
              kSwitchClass);
    }
  }

  void addNet(xml_node xmlPci, const std::string& busId, const std::string& name, int dev,
              bool gdr) {
    xml_node xmlNet = xmlPci.append_child("nic").append_child("net");
    const int64_t number = busIdToInt64(busId).value_or(0);
    std::array<char, 32> guid = {};
    snprintf(guid.data(), guid.size(), "0x%llx", static_cast<unsigned long long>(number));
    setXml(xmlNet, "name", name);
    setXml(xmlNet, "dev", dev);
    setXml(xmlNet, "latency", platform_.netLatencyUs);
    setXml(xmlNet, "speed", platform_.netMbps);
    setXml(xmlNet, "port", 1);
    setXml(xmlNet, "guid", std::string(guid.data()));
    setXml(xmlNet, "maxconn", kMaxConnections);
    setXml(xmlNet, "gdr", gdr ? 1 : 0);
  }

  void addEfa(xml_node xmlBridge, const FabricDevice& device) {
    xml_node xmlPci = addPci(xmlBridge, device.efaBusId, kNicClass);
    addLinkRate(xmlPci);
    // The kernel names a NIC's RDMA device after its bus and slot.
    const int64_t number = busIdToInt64(device.efaBusId).value_or(0);
    addNet(xmlPci, device.efaBusId,
           "rdmap" + std::to_string(number >> 12 & 0xff) + "s" + std::to_string(number >> 4 & 0xff),
           device.efa, true);
  }

  /// The network card of a host without EFA, at the CPU.
  void addHostNic(xml_node xmlCpu) {
    const std::string busId(platform_.hostNicBusId);
    xml_node xmlPci = addPci(xmlCpu, busId, kNicClass);
    setXml(xmlPci, "device", std::string(kEnaDevice));
    addLinkRate(xmlPci);
    addNet(xmlPci, busId, "ens" + std::to_string(parsed(busId).device), 0, false);
  }

  const NeuronPlatform& platform_;
  const NeuronFabric& fabric_;
  std::map<int, xml_node> bridges_;  // by NIC
  ncclXml xml_ = ncclXml::create("system");
};

}  // namespace

Result<ncclXml> neuronTopoGetXml(const NeuronPlatform& platform, int lnc, int electedNode) {
  const std::array<int, 1> place = {electedNode};
  NeuronPodShape shape = kNoPod;
  shape.electedNodes = place;
  const NeuronFabric fabric = TRY(neuronFabric(platform, shape, lnc));
  return Synthesiser(platform, fabric).make();
}

}  // namespace nccom
