// A <system> document becomes an ncclTopoSystem: here the CPUs and the PCI tree below them.
#include <array>
#include <utility>

#include "graph/topo_reader.h"
#include "graph/topo_schema.h"

namespace nccom {
namespace {

constexpr int kMaxMloParts = 2;
constexpr float kMloPartGBps = 2618;  // between the parts of one chip; NCCL's value
constexpr int kMaxCpus = 1024;        // NUMA nodes that Linux can have; each has a link to each
constexpr size_t kMaxHosts = 256;     // a host index has 8 bits of a node id

}  // namespace

ncclTopoNodeRef SystemReader::create(Type type, int64_t id) {
  std::vector<ncclTopoNode>& nodes = system_.nodes(type);
  nodes.emplace_back();
  nodes.back().type = type;
  nodes.back().id = id;
  return {type, static_cast<int>(nodes.size()) - 1};
}

void SystemReader::connectBoth(ncclTopoNodeRef a, ncclTopoNodeRef b, Link type, float bwGBps) {
  ncclTopoConnectNodes(system_, a, {type, bwGBps, b});
  ncclTopoConnectNodes(system_, b, {type, bwGBps, a});
}

void SystemReader::note(xml_node node, const char* attribute, const char* assumed,
                        LintSeverity severity) {
  const std::string text =
      "<" + std::string(node.name()) + "> lacks the attribute " + std::string(attribute);
  findings_.addOnce(text, findingAt(xml_, node, severity, text, assumed));
}

Result<int> SystemReader::int32Or(xml_node node, const char* attribute, int absent) const {
  if (!isStated(node, attribute)) return absent;
  return xmlInt32(xml_, node, attribute);
}

Result<int64_t> SystemReader::busIdOf(xml_node node, const char* attribute) const {
  const std::string text = TRY(xmlText(xml_, node, attribute));
  const std::optional<int64_t> busId = busIdToInt64(text);
  if (!busId) {
    return fail(ncclInvalidUsage, "%s: attribute %s=\"%.80s\" of <%s> is not a PCI bus id",
                xml_.where(node).c_str(), attribute, text.c_str(), node.name());
  }
  return *busId;
}

Result<int> SystemReader::systemIdOfCpu(xml_node xmlCpu) {
  const std::string text = xmlCpu.attribute("host_hash").value();
  const std::optional<int64_t> hash = text.empty() ? 0 : hexToInt64(text);
  if (!hash) {
    return fail(ncclInvalidUsage, "%s: attribute host_hash=\"%.80s\" of <cpu> is not hexadecimal",
                xml_.where(xmlCpu).c_str(), text.c_str());
  }
  std::vector<uint64_t>& known = system_.hostHashes;
  const auto found = std::find(known.begin(), known.end(), static_cast<uint64_t>(*hash));
  if (found != known.end()) return static_cast<int>(found - known.begin());
  if (known.size() == kMaxHosts) {
    return fail(ncclInvalidUsage, "%s: more than %zu different host_hash values",
                xml_.where(xmlCpu).c_str(), kMaxHosts);
  }
  known.push_back(static_cast<uint64_t>(*hash));
  return static_cast<int>(known.size()) - 1;
}

Status SystemReader::read(std::optional<uint64_t> localHostHash) {
  TRY(checkRoot(xml_, "system"));
  checkSchema(xml_, findings_);
  for (const xml_node node : xml_.root().children("cpu"))
    TRY(addCpu(node));
  if (system_.nodes(Type::Cpu).empty()) {
    return fail(ncclInvalidUsage, "%s: <system> has no <cpu>", xml_.where(xml_.root()).c_str());
  }
  if (localHostHash) {
    const auto& known = system_.hostHashes;
    const auto found = std::find(known.begin(), known.end(), *localHostHash);
    if (found == known.end()) {
      return fail(ncclInvalidArgument, "%s: no <cpu> has this host's host_hash 0x%llx",
                  xml_.name().c_str(), static_cast<unsigned long long>(*localHostHash));
    }
    system_.systemId = static_cast<int>(found - known.begin());
  }
  // All fabric links first, then chip-to-chip, then switch links: the order in which links come
  // decides between equally wide ones.
  for (const char* kind : {"nvlink", "c2c", "pcilink"})
    TRY(addLinks(kind));
  flattenSwitches();
  connectCpus();
  TRY(checkReverseLinks());
  for (int c = 0; c < system_.count(Type::Cpu); c++)
    sortBelow(cpuRef(c), nullptr);
  return Ok{};
}

Status SystemReader::addCpu(xml_node xmlCpu) {
  const int numaId = TRY(xmlInt32(xml_, xmlCpu, "numaid"));
  const int systemId = TRY(systemIdOfCpu(xmlCpu));
  const int64_t id = topoIdOf(systemId, numaId);
  if (ncclTopoIdToIndex(system_, Type::Cpu, id) != -1) {
    return fail(ncclInvalidUsage, "%s: a second <cpu> with numaid %d", xml_.where(xmlCpu).c_str(),
                numaId);
  }
  if (system_.count(Type::Cpu) == kMaxCpus) {
    return fail(ncclInvalidUsage, "%s: more than %d <cpu>", xml_.where(xmlCpu).c_str(), kMaxCpus);
  }
  const ncclTopoNodeRef cpu = create(Type::Cpu, id);
  TRY(readCpu(xmlCpu, system_.at(cpu).cpu));
  for (const xml_node child : xmlCpu.children()) {
    if (isNamed(child, "pci")) TRY(addPci(child, {systemId, cpu}));
    if (!isNamed(child, "nic")) continue;
    // NICs that are no PCI function share one node, on the first CPU that has one.
    int nic = ncclTopoIdToIndex(system_, Type::Nic, topoIdOf(systemId, 0));
    if (nic == -1) {
      nic = create(Type::Nic, topoIdOf(systemId, 0)).index;
      connectBoth(cpu, {Type::Nic, nic}, Link::Pci, kLocalGBps);
    }
    TRY(addNic(child, {Type::Nic, nic}, systemId));
  }
  return Ok{};
}

Status SystemReader::readCpu(xml_node xmlCpu, ncclTopoCpu& cpu) {
  cpu.affinity = xmlCpu.attribute("affinity").value();
  if (!xmlCpu.attribute("affinity")) {
    note(xmlCpu, "affinity", "no cores of its own", LintSeverity::Note);
  }
  const std::string_view arch = xmlCpu.attribute("arch").value();
  const std::string_view vendor = xmlCpu.attribute("vendor").value();
  if (arch.empty()) note(xmlCpu, "arch", "an unknown CPU");
  if (arch == "x86_64") cpu.arch = CpuArch::X86;
  if (arch == "ppc64") cpu.arch = CpuArch::Power;
  if (arch == "arm64") cpu.arch = CpuArch::Arm;
  cpu.family = TRY(int32Or(xmlCpu, "familyid", 0));
  cpu.model = TRY(int32Or(xmlCpu, "modelid", 0));
  if (cpu.arch != CpuArch::X86) return Ok{};
  if (vendor.empty()) note(xmlCpu, "vendor", "an unknown vendor");
  if (vendor == "GenuineIntel") cpu.vendor = CpuVendor::Intel;
  if (vendor == "AuthenticAMD") cpu.vendor = CpuVendor::Amd;
  if (vendor == "CentaurHauls" || vendor == "  Shanghai  ") cpu.vendor = CpuVendor::Zhaoxin;
  if (cpu.vendor == CpuVendor::Intel || cpu.vendor == CpuVendor::Zhaoxin) {
    if (!isStated(xmlCpu, "familyid")) note(xmlCpu, "familyid", "an old model");
    if (!isStated(xmlCpu, "modelid")) note(xmlCpu, "modelid", "an old model");
  }
  return Ok{};
}

Result<ncclTopoPci> SystemReader::readPci(xml_node xmlPci) {
  ncclTopoPci pci;
  pci.busId = TRY(xmlText(xml_, xmlPci, "busid"));
  pci.pciClass = xmlPci.attribute("class").value();
  pci.linkSpeed = xmlPci.attribute("link_speed").value();
  pci.linkWidth = TRY(int32Or(xmlPci, "link_width", 0));
  if (pci.linkWidth < 0 || pci.linkWidth > 1024) {
    return fail(ncclInvalidUsage, "%s: link_width is %d, expected 0 to 1024 lanes",
                xml_.where(xmlPci).c_str(), pci.linkWidth);
  }
  for (const char* part : {"vendor", "device", "subsystem_vendor", "subsystem_device"}) {
    const int64_t value = isStated(xmlPci, part) ? TRY(xmlInt(xml_, xmlPci, part)) : 0;
    pci.device = pci.device << 16 | (static_cast<uint64_t>(value) & 0xffff);
  }
  if (pci.pciClass.empty() && !xmlPci.child("gpu") && !xmlPci.child("nic")) {
    note(xmlPci, "class", "a PCI switch");
  } else if (pci.pciClass.empty()) {
    note(xmlPci, "class", "that of what it has", LintSeverity::Note);
  }
  if (pci.linkSpeed.empty()) note(xmlPci, "link_speed", "8 GT/s");
  if (!isStated(xmlPci, "link_width")) note(xmlPci, "link_width", "16");
  return pci;
}

Status SystemReader::addPci(xml_node xmlPci, const Place& place) {
  const int64_t busId = TRY(busIdOf(xmlPci, "busid"));
  for (const xml_node xmlGpu : xmlPci.children("gpu")) {
    if (!xmlGpu.attribute("rank")) return Ok{};  // a device that no rank uses
  }
  const ncclTopoPci pci = TRY(readPci(xmlPci));
  const float bwGBps = pciLinkGBps(pci.linkSpeed, pci.linkWidth);
  for (const xml_node xmlGpu : xmlPci.children("gpu")) {
    TRY(addGpu(xmlPci, xmlGpu, place, bwGBps));
  }
  const int64_t id = topoIdOf(place.systemId, busId);
  if (const xml_node xmlNic = xmlPci.child("nic")) {
    int nic = ncclTopoIdToIndex(system_, Type::Nic, id);  // the ports of one card share a node
    const bool isNew = nic == -1;
    if (isNew) nic = create(Type::Nic, id).index;
    system_.nodes(Type::Nic)[nic].pci = pci;
    TRY(addNic(xmlNic, {Type::Nic, nic}, place.systemId));
    if (isNew) connectBoth({Type::Nic, nic}, place.parent, Link::Pci, bwGBps);
  } else if (!xmlPci.child("gpu") && nodeTypeOfClass(pci.pciClass) == Type::Pci) {
    if (ncclTopoIdToIndex(system_, Type::Pci, id) != -1) {
      findings_.add(findingAt(xml_, xmlPci, LintSeverity::Warning,
                              "a second <pci> with busid " + pci.busId, "it is another switch"));
    }
    const ncclTopoNodeRef node = create(Type::Pci, id);
    system_.at(node).pci = pci;
    for (const xml_node child : xmlPci.children("pci"))
      TRY(addPci(child, {place.systemId, node}));
    connectBoth(node, place.parent, Link::Pci, bwGBps);
  }
  return Ok{};
}

Result<ncclTopoGpu> SystemReader::readGpu(xml_node xmlPci, xml_node xmlGpu) {
  ncclTopoGpu gpu;
  gpu.dev = TRY(xmlInt32(xml_, xmlGpu, "dev"));
  gpu.rank = TRY(xmlInt32(xml_, xmlGpu, "rank"));
  if (gpu.dev < 0 || gpu.rank < 0) {
    return fail(ncclInvalidUsage, "%s: <gpu> has dev %d and rank %d, expected 0 or more",
                xml_.where(xmlGpu).c_str(), gpu.dev, gpu.rank);
  }
  if (ncclTopoRankToIndex(system_, gpu.rank) != -1) {
    return fail(ncclInvalidUsage, "%s: a second <gpu> with rank %d", xml_.where(xmlGpu).c_str(),
                gpu.rank);
  }
  if (!isStated(xmlGpu, "sm")) note(xmlGpu, "sm", "80");
  gpu.sm = TRY(int32Or(xmlGpu, "sm", 80));
  if (gpu.sm < 0) {
    return fail(ncclInvalidUsage, "%s: <gpu> has sm %d, expected 0 or more",
                xml_.where(xmlGpu).c_str(), gpu.sm);
  }
  if (!isStated(xmlGpu, "gdr")) note(xmlGpu, "gdr", "0");
  gpu.gdr = TRY(int32Or(xmlGpu, "gdr", 0)) != 0;
  gpu.mloPart = TRY(int32Or(xmlGpu, "mlopart", kTopoUndef));
  if (gpu.mloPart == kTopoUndef) return gpu;
  const int64_t busId = TRY(busIdOf(xmlPci, "busid"));
  if (gpu.mloPart < 0 || gpu.mloPart >= kMaxMloParts || (busId & kMloPartBits) != 0) {
    return fail(ncclInvalidUsage, "%s: mlopart %d of bus %s; expected 0..%d of a function 0 or 4",
                xml_.where(xmlGpu).c_str(), gpu.mloPart, xmlPci.attribute("busid").value(),
                kMaxMloParts - 1);
  }
  return gpu;
}

/// The DEV node of a rank's place, made when this is its first.
Result<ncclTopoNodeRef> SystemReader::devFor(xml_node xmlPci, const ncclTopoGpu& gpu,
                                             const Place& place, float bwGBps) {
  int64_t busId = TRY(busIdOf(xmlPci, "busid"));
  if (gpu.mloPart != kTopoUndef) busId |= gpu.mloPart << 1 | 1;
  const int64_t id = topoIdOf(place.systemId, busId);
  const int known = ncclTopoIdToIndex(system_, Type::Dev, id);
  if (known != -1) return ncclTopoNodeRef{Type::Dev, known};
  const ncclTopoNodeRef dev = create(Type::Dev, id);
  system_.at(dev).pci = TRY(readPci(xmlPci));
  system_.at(dev).dev = {.dev = gpu.dev, .sm = gpu.sm, .mloPart = gpu.mloPart, .nGpus = 0};
  connectBoth(dev, place.parent, Link::Pci, bwGBps);
  if (gpu.mloPart == kTopoUndef) return dev;
  for (const ncclTopoNodeRef part : devsAt(place.systemId, busId & ~kMloPartBits)) {
    if (part != dev) connectBoth(dev, part, Link::Loc, kMloPartGBps);
  }
  return dev;
}

Status SystemReader::addGpu(xml_node xmlPci, xml_node xmlGpu, const Place& place, float bwGBps) {
  ncclTopoGpu gpu = TRY(readGpu(xmlPci, xmlGpu));
  const ncclTopoNodeRef dev = TRY(devFor(xmlPci, gpu, place, bwGBps));
  gpu.parent = dev.index;
  const int nth = system_.at(dev).dev.nGpus++;
  const int64_t localId = static_cast<int64_t>(nth) << 40 | (system_.at(dev).id & 0xffffffffff);
  const ncclTopoNodeRef ref = create(Type::Gpu, topoIdOf(place.systemId, localId));
  system_.at(ref).gpu = gpu;
  connectBoth(dev, ref, Link::Loc, kLocalGBps);
  return Ok{};
}

Status SystemReader::addNic(xml_node xmlNic, ncclTopoNodeRef nic, int systemId) {
  for (const xml_node xmlNet : xmlNic.children("net")) {
    if (!xmlNet.attribute("dev")) continue;  // a port that no plugin drives
    if (TRY(int32Or(xmlNet, "net", 1)) != 0) {
      TRY(addNet(xmlNet, Type::Net, nic, systemId));
    }
    if (TRY(int32Or(xmlNet, "gin", 0)) != 0) {
      TRY(addNet(xmlNet, Type::Gin, nic, systemId));
    }
    if (TRY(int32Or(xmlNet, "rma", 0)) != 0) {
      TRY(addNet(xmlNet, Type::Rma, nic, systemId));
    }
  }
  return Ok{};
}

Status SystemReader::addNet(xml_node xmlNet, Type type, ncclTopoNodeRef nic, int systemId) {
  const int dev = TRY(xmlInt32(xml_, xmlNet, "dev"));
  const int64_t id = topoIdOf(systemId, dev);
  if (dev < 0) {
    return fail(ncclInvalidUsage, "%s: <net> has dev %d, expected 0 or more",
                xml_.where(xmlNet).c_str(), dev);
  }
  if (ncclTopoIdToIndex(system_, type, id) != -1) {
    findings_.add(findingAt(xml_, xmlNet, LintSeverity::Warning,
                            "a second <net> with dev " + std::to_string(dev), "it is another one"));
  }
  const ncclTopoNodeRef net = create(type, id);
  TRY(readNet(xmlNet, system_.at(net)));
  connectBoth(nic, net, Link::Net, system_.at(net).net.bwGBps);
  return Ok{};
}

Status SystemReader::readNet(xml_node xmlNet, ncclTopoNode& node) {
  ncclTopoNet& net = node.net;
  static constexpr std::array<std::pair<const char*, const char*>, 6> kDefaults = {
      {{"name", "none"},
       {"port", "0"},
       {"latency", "0"},
       {"guid", "one of its own"},
       {"gdr", "0"},
       {"maxconn", "64"}}};
  for (const auto& [attribute, assumed] : kDefaults) {
    if (!xmlNet.attribute(attribute)) note(xmlNet, attribute, assumed, LintSeverity::Note);
  }
  net.name = xmlNet.attribute("name").value();
  net.dev = static_cast<int>(localIdOf(node.id));
  int mbps = TRY(int32Or(xmlNet, "speed", 0));
  if (mbps <= 0) {  // some drivers say -1
    const std::string speed = xmlNet.attribute("speed").value();
    const std::string text = "<net> has speed " + (speed.empty() ? "(none)" : speed);
    findings_.addOnce(text, findingAt(xml_, xmlNet, LintSeverity::Note, text, "10000 Mb/s"));
    mbps = 10000;
  }
  net.bwGBps = static_cast<float>(mbps / 8000.0);
  net.asic = static_cast<uint64_t>(node.id);
  const std::string guid = xmlNet.attribute("guid").value();
  if (!guid.empty()) {
    const auto asic = hexToInt64(guid);
    if (!asic) {
      return fail(ncclInvalidUsage, "%s: attribute guid=\"%.80s\" of <net> is not hexadecimal",
                  xml_.where(xmlNet).c_str(), guid.c_str());
    }
    net.asic = static_cast<uint64_t>(*asic);
  }
  if (isStated(xmlNet, "latency")) {
    net.latencyUs = static_cast<float>(TRY(xmlReal(xml_, xmlNet, "latency")));
  }
  net.port = TRY(int32Or(xmlNet, "port", 0));
  net.gdr = TRY(int32Or(xmlNet, "gdr", 0)) != 0;
  net.maxConn = TRY(int32Or(xmlNet, "maxconn", kMaxConnections));
  net.coll = TRY(int32Or(xmlNet, "coll", 0)) != 0;
  net.rail = TRY(int32Or(xmlNet, "rail", kTopoUndef));
  net.plane = TRY(int32Or(xmlNet, "plane", kTopoUndef));
  net.pciId = net.asic;
  for (xml_node up = xmlNet.parent(); up; up = up.parent()) {
    if (!isNamed(up, "pci")) continue;
    net.pciId = static_cast<uint64_t>(TRY(busIdOf(up, "busid")));
    break;
  }
  return Ok{};
}

Result<ncclTopoSystem> readSystem(const ncclXml& xml, std::optional<uint64_t> localHostHash,
                                  Findings& findings) {
  SystemReader reader(xml, findings);
  TRY(reader.read(localHostHash));
  return reader.take();
}

Result<LoadedTopo> ncclTopoGetSystemFromXml(const ncclXml& xml,
                                            std::optional<uint64_t> localHostHash) {
  Findings findings;
  LoadedTopo loaded;
  loaded.system = TRY(readSystem(xml, localHostHash, findings));
  for (const LintFinding& finding : findings.take())
    loaded.notes.push_back(toText(finding));
  return loaded;
}

}  // namespace nccom
