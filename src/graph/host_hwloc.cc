// This machine as a platform: hwloc says which cores, NUMA nodes and network cards there are.
#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "graph/platform.h"
#include "graph/topo.h"

namespace nccom {
namespace {

using pugi::xml_node;
using PciFacts = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

constexpr int kMaxHostDevices = 8192;  // 256 buses of 32
constexpr int kHostSm = 0;             // a CPU core; no NeuronCore version has this number

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

Status describe(hwloc_topology_t topology, const std::string& other) {
  if (other.empty()) return Ok{};
  const bool isXml = other.front() == '<';
  const int rc = isXml ? hwloc_topology_set_xmlbuffer(topology, other.c_str(),
                                                      static_cast<int>(other.size()) + 1)
                       : hwloc_topology_set_synthetic(topology, other.c_str());
  if (rc == 0) return Ok{};
  return fail(ncclInvalidArgument, "'%.80s' describes no machine to hwloc", other.c_str());
}

Result<Topology> loadTopology(const std::string& other, bool nics) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return fail(ncclSystemError, "hwloc cannot start: %s", strerror(errno));
  }
  Topology topology(raw);
  TRY(describe(raw, other));
  hwloc_topology_set_io_types_filter(
      raw, nics ? HWLOC_TYPE_FILTER_KEEP_IMPORTANT : HWLOC_TYPE_FILTER_KEEP_NONE);
  // Accelerators are not asked for, and sysfs knows PCI as well as libpciaccess does: these
  // libraries are slow to start and leave memory behind. (Absent ones are refused, harmlessly.)
  for (const char* component : {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl", "pci"}) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  if (hwloc_topology_load(raw) != 0) {
    return fail(ncclSystemError, "hwloc cannot read this machine: %s", strerror(errno));
  }
  return topology;
}

/// Cores and memory of this machine. Read once; and as long as hwloc has a topology it keeps its
/// plugins, which take longer to load than anything else.
Result<hwloc_topology_t> thisMachine() {
  static const auto& theMachine = *new Result<Topology>(loadTopology("", false));  // NOLINT: above
  if (!theMachine.ok()) return theMachine.error();
  return theMachine.value().get();
}

/// NUMA nodes with CPUs of their own: other memory has no devices, nor a <cpu> in the document.
std::vector<hwloc_obj_t> numasOf(hwloc_topology_t topology) {
  std::vector<hwloc_obj_t> numas;
  const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < count; i++) {
    const hwloc_obj_t numa =
        hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    const bool isSeen = std::any_of(numas.begin(), numas.end(), [&](hwloc_obj_t known) {
      return hwloc_bitmap_intersects(known->cpuset, numa->cpuset) != 0;
    });
    if (!isSeen && hwloc_bitmap_iszero(numa->cpuset) == 0) numas.push_back(numa);
  }
  return numas;
}

/// NUMA nodes, or cores; PUs where hwloc sees no cores.
std::vector<hwloc_obj_t> unitsOf(hwloc_topology_t topology, HostUnit unit) {
  std::vector<hwloc_obj_t> cores;
  if (unit == HostUnit::Numa) return numasOf(topology);
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_CORE, HWLOC_OBJ_PU}) {
    const int count = hwloc_get_nbobjs_by_type(topology, type);
    for (int i = 0; i < count; i++) {
      cores.push_back(hwloc_get_obj_by_type(topology, type, static_cast<unsigned>(i)));
    }
    if (!cores.empty()) break;
  }
  return cores;
}

std::string maskOf(hwloc_const_cpuset_t cpuset) {
  std::string list;
  for (int cpu = hwloc_bitmap_first(cpuset); cpu != -1; cpu = hwloc_bitmap_next(cpuset, cpu)) {
    list += (list.empty() ? "" : ",") + std::to_string(cpu);
  }
  return cpuMask(list);
}

/// Index among `numas` of the node that holds an object's CPUs; the first if none does.
size_t numaOf(const std::vector<hwloc_obj_t>& numas, hwloc_obj_t object) {
  while (object != nullptr && object->cpuset == nullptr)
    object = object->parent;
  for (size_t n = 0; object != nullptr && n < numas.size(); n++) {
    if (hwloc_bitmap_intersects(numas[n]->cpuset, object->cpuset) != 0) return n;
  }
  return 0;
}

class HostWriter {
 public:
  explicit HostWriter(hwloc_topology_t topology) : topology_(topology) {
    numas_ = numasOf(topology);
    for (const hwloc_obj_t numa : numas_)
      addCpu(numa);
  }

  void addDevices(const std::vector<hwloc_obj_t>& cores, int nDevices) {
    for (int dev = 0; dev < nDevices; dev++) {
      std::array<char, 32> busId = {};
      snprintf(busId.data(), busId.size(), "fffe:%02x:%02x.0", dev / 32, dev % 32);
      xml_node xmlPci = cpus_[numaOf(numas_, cores[dev % cores.size()])].append_child("pci");
      setXml(xmlPci, "busid", std::string(busId.data()));
      setXml(xmlPci, "class", std::string("0x030200"));
      // 12 GB/s: about what one core copies.
      setXml(xmlPci, "link_speed", std::string("8.0 GT/s PCIe"));
      setXml(xmlPci, "link_width", 16);
      xml_node xmlGpu = xmlPci.append_child("gpu");
      setXml(xmlGpu, "dev", dev);
      setXml(xmlGpu, "sm", kHostSm);
      setXml(xmlGpu, "gdr", 1);
    }
  }

  /// Network cards, without a device number: which plugin drives them is not known here.
  void addNics() {
    for (hwloc_obj_t pci = hwloc_get_next_pcidev(topology_, nullptr); pci != nullptr;
         pci = hwloc_get_next_pcidev(topology_, pci)) {
      if (pci->attr->pcidev.class_id >> 8 == 0x02) addNic(pci);
    }
  }

  ncclXml take() { return std::move(xml_); }

 private:
  void addCpu(hwloc_obj_t numa) {
    xml_node xmlCpu = xml_.root().append_child("cpu");
    cpus_.push_back(xmlCpu);
    setXml(xmlCpu, "numaid", static_cast<int>(numa->os_index));
    setXml(xmlCpu, "affinity", maskOf(numa->cpuset));
#if defined(__aarch64__)
    setXml(xmlCpu, "arch", std::string("arm64"));
#elif defined(__powerpc64__)
    setXml(xmlCpu, "arch", std::string("ppc64"));
#else
    setXml(xmlCpu, "arch", std::string("x86_64"));
#endif
    const hwloc_obj_t package = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_PACKAGE, nullptr);
    for (const auto& [attribute, info, otherwise] :
         {std::array{"vendor", "CPUVendor", "unknown"},
          std::array{"familyid", "CPUFamilyNumber", "0"},
          std::array{"modelid", "CPUModelNumber", "0"}}) {
      const char* known = package == nullptr ? nullptr : hwloc_obj_get_info_by_name(package, info);
      setXml(xmlCpu, attribute, std::string(known == nullptr ? otherwise : known));
    }
  }

  /// A <pci> element, without its link.
  xml_node addPci(xml_node parent, const PciFacts& facts) {
    std::array<char, 32> text = {};
    snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", static_cast<unsigned>(facts.domain),
             facts.bus, facts.dev, facts.func);
    xml_node xmlPci = parent.append_child("pci");
    setXml(xmlPci, "busid", std::string(text.data()));
    snprintf(text.data(), text.size(), "0x%04x00", facts.class_id);
    setXml(xmlPci, "class", std::string(text.data()));
    for (const auto& [attribute, value] :
         {std::pair{"vendor", facts.vendor_id}, std::pair{"device", facts.device_id}}) {
      snprintf(text.data(), text.size(), "0x%04x", value);
      setXml(xmlPci, attribute, std::string(text.data()));
    }
    // hwloc knows the rate in GB/s only: as lanes of 8 GT/s, 0.75 GB/s each.
    const auto lanes = static_cast<int>(std::lround(facts.linkspeed / 0.75F));
    setXml(xmlPci, "link_speed", std::string("8.0 GT/s PCIe"));
    setXml(xmlPci, "link_width", facts.linkspeed > 0 ? std::clamp(lanes, 1, 1024) : 16);
    return xmlPci;
  }

  /// The element that a PCI function hangs off: the bridge above it, or the CPU.
  xml_node parentOf(hwloc_obj_t pci) {
    const hwloc_obj_t up = pci->parent;
    const bool isBridge = up != nullptr && up->type == HWLOC_OBJ_BRIDGE &&
                          up->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
    if (!isBridge) return cpus_[numaOf(numas_, pci)];
    const auto known = bridges_.find(up);
    if (known != bridges_.end()) return known->second;
    return bridges_[up] = addPci(parentOf(up), up->attr->bridge.upstream.pci);
  }

  void addNic(hwloc_obj_t pci) {
    xml_node xmlPci = addPci(parentOf(pci), pci->attr->pcidev);
    xml_node xmlNic = xmlPci.append_child("nic");
    for (hwloc_obj_t os = pci->io_first_child; os != nullptr; os = os->next_sibling) {
      if (os->type != HWLOC_OBJ_OS_DEVICE || os->name == nullptr) continue;
      setXml(xmlNic.append_child("net"), "name", std::string(os->name));
    }
  }

  hwloc_topology_t topology_;
  std::vector<hwloc_obj_t> numas_;
  std::vector<xml_node> cpus_;
  std::map<hwloc_obj_t, xml_node> bridges_;
  ncclXml xml_ = ncclXml::create("system");
};

}  // namespace

Result<int> hostUnitCount(HostUnit unit) {
  return std::max(1, static_cast<int>(unitsOf(TRY(thisMachine()), unit).size()));
}

Result<ncclXml> hostTopoGetXml(int nDevices, const std::string& other, HostUnit unit, bool nics) {
  if (nDevices < 0 || nDevices > kMaxHostDevices) {
    return fail(ncclInvalidArgument, "%d host devices, expected 0 to %d", nDevices,
                kMaxHostDevices);
  }
  const bool isKnown = !nics && other.empty();
  const Topology loaded = isKnown ? Topology() : TRY(loadTopology(other, nics));
  hwloc_topology_t topology = isKnown ? TRY(thisMachine()) : loaded.get();
  const std::vector<hwloc_obj_t> cores = unitsOf(topology, unit);
  if (cores.empty() || hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) < 1) {
    return fail(ncclSystemError, "hwloc sees no core or no memory on this machine");
  }
  HostWriter writer(topology);
  writer.addDevices(cores, nDevices == 0 ? static_cast<int>(cores.size()) : nDevices);
  if (nics) writer.addNics();
  return writer.take();
}

}  // namespace nccom
