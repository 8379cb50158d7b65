// A platform's tables as a <system> document. Each device and the NIC next to it share a PCI
// bridge; the logical cores of a device share its PCI link.
#include <cstdio>
#include <string>

#include "graph/platform.h"
#include "graph/topo.h"

namespace nccom {
namespace {

using pugi::xml_node;

constexpr const char* kBridgeClass = "0x060400";
// The class of a "3D controller": what topology readers take for an accelerator.
constexpr const char* kDeviceClass = "0x030200";
constexpr const char* kNicClass = "0x020000";

/// "0000:cc:00.0" with another device number. Devices of the platform sit at number 0 of a bus of
/// their own; the numbers above are free for its logical cores (from 1) and its bridge (31).
std::string busIdAt(std::string_view busId, int deviceNumber) {
  std::array<char, 8> text = {};
  snprintf(text.data(), text.size(), "%02x.0", deviceNumber);
  return std::string(busId.substr(0, busId.rfind(':') + 1)) + text.data();
}

class Synthesiser {
 public:
  Synthesiser(const NeuronPlatform& platform, int lnc)
      : platform_(platform), lnc_(lnc), edges_(platform.edges(lnc)) {}

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
    setXml(xmlCpu, "arch", std::string("x86_64"));
    setXml(xmlCpu, "vendor", std::string(platform_.cpuVendor));
    setXml(xmlCpu, "familyid", platform_.cpuFamily);
    setXml(xmlCpu, "modelid", platform_.cpuModel);
    for (int d = 0; d < static_cast<int>(platform_.devices.size()); d++) {
      if (platform_.devices[d].numa == numa.id) addDevice(xmlCpu, d);
    }
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

  void addDevice(xml_node xmlCpu, int device) {
    const NeuronDevice& facts = platform_.devices[device];
    xml_node xmlBridge = addPci(xmlCpu, busIdAt(facts.busId, 31), kBridgeClass);
    addLinkRate(xmlBridge);
    // The device as its cores see it: a switch of one PCI link.
    xml_node xmlDevice = addPci(xmlBridge, std::string(facts.busId), kBridgeClass);
    setXml(xmlDevice, "device", std::string(platform_.pciDevice));
    addLinkRate(xmlDevice);
    const int perDevice = platform_.logicalPerDevice(lnc_);
    for (int slot = 0; slot < perDevice; slot++)
      addCore(xmlDevice, device * perDevice + slot);
    if (!facts.efaBusId.empty()) addNic(xmlBridge, device);
  }

  std::string coreBusId(int core) const {
    const NeuronCore place = platform_.coreAt(core, lnc_);
    return busIdAt(platform_.devices[place.device].busId, place.slot + 1);
  }

  void addCore(xml_node xmlDevice, int core) {
    xml_node xmlPci = addPci(xmlDevice, coreBusId(core), kDeviceClass);
    setXml(xmlPci, "device", std::string(platform_.pciDevice));
    addLinkRate(xmlPci);
    xml_node xmlGpu = xmlPci.append_child("gpu");
    setXml(xmlGpu, "dev", core);
    setXml(xmlGpu, "sm", platform_.sm);
    setXml(xmlGpu, "gdr", 1);
    for (const NeuronEdge& edge : edges_) {
      if (edge.from != core) continue;
      xml_node xmlLink = xmlGpu.append_child("nvlink");
      setXml(xmlLink, "target", coreBusId(edge.to));
      setXml(xmlLink, "count", 1);
      setXml(xmlLink, "bw", edge.bwGBps * 1000);
      setXml(xmlLink, "tclass", std::string(kDeviceClass));
    }
  }

  void addNic(xml_node xmlBridge, int device) {
    const std::string busId(platform_.devices[device].efaBusId);
    xml_node xmlPci = addPci(xmlBridge, busId, kNicClass);
    addLinkRate(xmlPci);
    xml_node xmlNet = xmlPci.append_child("nic").append_child("net");
    const int64_t number = busIdToInt64(busId).value_or(0);
    std::array<char, 32> guid = {};
    snprintf(guid.data(), guid.size(), "0x%llx", static_cast<unsigned long long>(number));
    const int64_t bus = number >> 12 & 0xff;  // the kernel names a NIC's RDMA device after its bus
    setXml(xmlNet, "name", "rdmap" + std::to_string(bus) + "s0");
    setXml(xmlNet, "dev", device);
    setXml(xmlNet, "latency", platform_.netLatencyUs);
    setXml(xmlNet, "speed", platform_.netMbps);
    setXml(xmlNet, "port", 1);
    setXml(xmlNet, "guid", std::string(guid.data()));
    setXml(xmlNet, "gdr", 1);
  }

  const NeuronPlatform& platform_;
  const int lnc_;
  const std::vector<NeuronEdge> edges_;
  ncclXml xml_ = ncclXml::create("system");
};

}  // namespace

Result<ncclXml> neuronTopoGetXml(const NeuronPlatform& platform, int lnc) {
  return Synthesiser(platform, TRY(checkLnc(platform, lnc))).make();
}

}  // namespace nccom
