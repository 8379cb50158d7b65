// The links of a <system> document that do not follow from its nesting, and the final order.
#include "graph/topo_reader.h"
#include "graph/topo_schema.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using pugi::xml_node;

xml_node nextInDocument(xml_node node) {
  if (node.first_child()) return node.first_child();
  while (node && !node.next_sibling())
    node = node.parent();
  return node.next_sibling();
}

/// GB/s between CPUs of one host.
/// @source NCCL's constants for QPI/UPI, Infinity Fabric, X-Bus, ZPI
float interCpuGBps(const ncclTopoCpu& cpu) {
  switch (cpu.arch) {
    case CpuArch::Power:
      return 32;
    case CpuArch::Arm:
      return 6;
    case CpuArch::X86:
      break;
    case CpuArch::Unknown:
      return kLocalGBps;
  }
  switch (cpu.vendor) {
    case CpuVendor::Intel:
      if (cpu.family != 6) return 6;
      if (cpu.model >= 0xCF) return 40;   // Emerald Rapids
      if (cpu.model >= 0x8F) return 22;   // Sapphire Rapids
      return cpu.model >= 0x55 ? 10 : 6;  // Skylake : Broadwell
    case CpuVendor::Amd:
      return 16;
    case CpuVendor::Zhaoxin:
      return cpu.family == 7 && cpu.model == 0x5B ? 9 : 6;
    case CpuVendor::Unknown:
      return kLocalGBps;
  }
  return kLocalGBps;
}

/// Which generation of a two-level Broadcom switch this is at `level` (0 upper, 1 lower), or 0.
int broadcomGeneration(uint64_t device, uint64_t level) {
  if ((device & 0xfffffffffffff000) == 0x1000c0101000a000) return 4;
  if ((device & 0xfffffffffffff000) == (0x1000c03010000000 | level * 0x1000)) return 5;
  return 0;
}

}  // namespace

/// DEV nodes of one PCI function: one, or one a part of the chip, or none if no rank uses it.
std::vector<ncclTopoNodeRef> SystemReader::devsAt(int systemId, int64_t busId) const {
  std::vector<ncclTopoNodeRef> found;
  for (int d = 0; d < system_.count(Type::Dev); d++) {
    const ncclTopoNode& dev = system_.nodes(Type::Dev)[d];
    const int64_t own = dev.dev.mloPart == kTopoUndef ? dev.id : dev.id & ~kMloPartBits;
    if (own == topoIdOf(systemId, busId)) found.push_back({Type::Dev, d});
  }
  return found;
}

/// The CPU that a node's PCI tree hangs off.
std::optional<ncclTopoNodeRef> SystemReader::cpuAbove(ncclTopoNodeRef node,
                                                      const ncclTopoNodeRef* from) const {
  if (node.type == Type::Cpu) return node;
  for (const ncclTopoLink& link : system_.at(node).links) {
    const bool isUp = link.remote.type == Type::Pci || link.remote.type == Type::Cpu;
    if (link.type != Link::Pci || !isUp || (from != nullptr && link.remote == *from)) continue;
    if (const auto cpu = cpuAbove(link.remote, &node)) return cpu;
  }
  return std::nullopt;
}

Status SystemReader::addLinks(const char* kind) {
  int systemId = 0;
  for (xml_node node = xml_.root(); node; node = nextInDocument(node)) {
    if (isNamed(node, "cpu") && node.parent() == xml_.root()) {
      systemId = TRY(systemIdOfCpu(node));
    }
    if (!isNamed(node, kind)) continue;
    if (isNamed(node, "pcilink")) {
      TRY(addPciLink(node, systemId));
    } else {
      TRY(addDeviceLink(node, systemId));
    }
  }
  return Ok{};
}

/// <nvlink> and <c2c>: links of the chip, which the first of several ranks on it states.
Status SystemReader::addDeviceLink(xml_node xmlLink, int systemId) {
  const xml_node xmlGpu = xmlLink.parent();
  const xml_node xmlPci = xmlGpu.parent();
  if (!isNamed(xmlGpu, "gpu") || !isNamed(xmlPci, "pci")) return Ok{};  // not in the schema
  const int mloPart = TRY(int32Or(xmlGpu, "mlopart", kTopoUndef));
  for (const xml_node sibling : xmlPci.children("gpu")) {
    if (sibling == xmlGpu) break;
    if (TRY(int32Or(sibling, "mlopart", kTopoUndef)) == mloPart) return Ok{};
  }
  int64_t busId = TRY(busIdOf(xmlPci, "busid"));
  if (mloPart != kTopoUndef) busId |= mloPart << 1 | 1;
  const int dev = ncclTopoIdToIndex(system_, Type::Dev, topoIdOf(systemId, busId));
  if (dev == -1) return Ok{};  // no rank uses it
  if (isNamed(xmlLink, "nvlink")) return addNvLink(xmlLink, {Type::Dev, dev}, systemId);
  return addC2c(xmlLink, {Type::Dev, dev});
}

/// GB/s of all links that the element stands for, this part's share of them.
Result<float> SystemReader::nvLinkBandwidth(xml_node xmlLink, ncclTopoNodeRef dev) const {
  const int count = TRY(xmlInt32(xml_, xmlLink, "count"));
  // MB/s of one link, stated where a generation has links of several kinds. NCCL knows no such
  // attribute and takes its constant for the generation.
  const double statedMBps = TRY(xmlRealOr(xml_, xmlLink, "bw", 0));
  const bool hasRate = xmlLink.attribute("bw");
  if (count < 1 || (hasRate && !(statedMBps > 0))) {
    return fail(ncclInvalidUsage, "%s: <nvlink> has count %d and bw %g, expected more than 0",
                xml_.where(xmlLink).c_str(), count, statedMBps);
  }
  if (hasRate) return static_cast<float>(statedMBps * count / 1000);
  return static_cast<float>(count) * nvLinkGBps(system_.at(dev).dev.sm);
}

Status SystemReader::addNvLink(xml_node xmlLink, ncclTopoNodeRef dev, int systemId) {
  const float bwGBps = TRY(nvLinkBandwidth(xmlLink, dev));
  const int64_t ownBusId = TRY(busIdOf(xmlLink.parent().parent(), "busid"));
  const auto localParts = static_cast<float>(devsAt(systemId, ownBusId).size());
  if (!xmlLink.attribute("tclass")) note(xmlLink, "tclass", "another device");
  const Type target = nodeTypeOfClass(xmlLink.attribute("tclass").as_string("0x03"));
  if (target == Type::Gpu) {
    const auto remotes = devsAt(systemId, TRY(busIdOf(xmlLink, "target")));
    for (const ncclTopoNodeRef remote : remotes) {
      if (remote == dev) {
        return fail(ncclInvalidUsage, "%s: <nvlink> of a device to itself",
                    xml_.where(xmlLink).c_str());
      }
      const float share = bwGBps / static_cast<float>(remotes.size()) / localParts;
      ncclTopoConnectNodes(system_, dev, {Link::Nvl, share, remote});
    }
    return Ok{};
  }
  if (target == Type::Cpu) {
    const auto cpu = cpuAbove(dev, nullptr);
    if (cpu) connectBoth(dev, *cpu, Link::Nvl, bwGBps / localParts);
    return Ok{};
  }
  if (system_.nodes(Type::Nvs).empty()) create(Type::Nvs, 0);  // all switches act as one
  connectBoth(dev, {Type::Nvs, 0}, Link::Nvl, bwGBps / localParts);
  return Ok{};
}

Status SystemReader::addC2c(xml_node xmlLink, ncclTopoNodeRef dev) {
  const int count = TRY(xmlInt32(xml_, xmlLink, "count"));
  const int mbps = TRY(xmlInt32(xml_, xmlLink, "bw"));
  if (count < 1 || mbps < 1) {
    return fail(ncclInvalidUsage, "%s: <c2c> has count %d and bw %d, expected more than 0",
                xml_.where(xmlLink).c_str(), count, mbps);
  }
  const auto bwGBps = static_cast<float>(static_cast<double>(mbps) * count / 1000.0);
  const auto cpu = cpuAbove(dev, nullptr);
  if (!cpu) return Ok{};
  const int64_t id = system_.at(dev).id;
  const int64_t base = system_.at(dev).dev.mloPart == kTopoUndef ? id : id & ~kMloPartBits;
  if (devsAt(systemIdOf(id), base).size() < 2) {
    connectBoth(dev, *cpu, Link::C2c, bwGBps);
    return Ok{};
  }
  // Parts of one chip share its link through a bridge node.
  int bridge = ncclTopoIdToIndex(system_, Type::Cxb, base);
  if (bridge == -1) {
    bridge = create(Type::Cxb, base).index;
    connectBoth({Type::Cxb, bridge}, *cpu, Link::C2c, bwGBps);
  }
  connectBoth(dev, {Type::Cxb, bridge}, Link::C2c, bwGBps);
  return Ok{};
}

Status SystemReader::addPciLink(xml_node xmlLink, int systemId) {
  if (!isNamed(xmlLink.parent(), "pci")) return Ok{};  // not in the schema
  const int64_t own = TRY(busIdOf(xmlLink.parent(), "busid"));
  const int64_t target = TRY(busIdOf(xmlLink, "target"));
  const int pci = ncclTopoIdToIndex(system_, Type::Pci, topoIdOf(systemId, own));
  if (pci == -1) {
    return fail(ncclInvalidUsage, "%s: <pcilink> of %s, which is not a PCI switch",
                xml_.where(xmlLink).c_str(), xmlLink.parent().attribute("busid").value());
  }
  const int remote = ncclTopoIdToIndex(system_, Type::Pci, topoIdOf(systemId, target));
  if (remote == -1) {
    findings_.add(findingAt(xml_, xmlLink, LintSeverity::Warning,
                            "<pcilink> to " + std::string(xmlLink.attribute("target").value()) +
                                ", which is no PCI switch here",
                            "no link"));
  }
  if (remote != -1 && remote != pci) {
    ncclTopoConnectNodes(system_, {Type::Pci, pci}, {Link::Loc, kLocalGBps, {Type::Pci, remote}});
  }
  return Ok{};
}

void SystemReader::connectCpus() {
  const std::vector<ncclTopoNode>& cpus = system_.nodes(Type::Cpu);
  for (int a = 0; a < static_cast<int>(cpus.size()); a++) {
    for (int b = 0; b < static_cast<int>(cpus.size()); b++) {
      if (a == b || systemIdOf(cpus[a].id) != systemIdOf(cpus[b].id)) continue;
      // As ncclTopoConnectNodes, but there can be no such link yet: not worth a search.
      std::vector<ncclTopoLink>& links = system_.nodes(Type::Cpu)[a].links;
      links.push_back({Link::Sys, interCpuGBps(cpus[a].cpu), cpuRef(b)});
      for (size_t i = links.size() - 1; i > 0 && links[i - 1].bwGBps < links[i].bwGBps; i--)
        std::swap(links[i - 1], links[i]);
    }
  }
}

// Such a switch shows as two levels but carries full bandwidth between all its ports; the lower
// level would make paths look longer than they are.
void SystemReader::flattenSwitches() {
  for (int s = 0; s < system_.count(Type::Pci); s++) {
    const int generation = broadcomGeneration(system_.nodes(Type::Pci)[s].pci.device, 0);
    if (generation == 0) continue;
    flattenSwitch(s, generation);
    s = -1;  // indices have moved
  }
}

void SystemReader::flattenSwitch(int index, int generation) {
  std::vector<ncclTopoNode>& switches = system_.nodes(Type::Pci);
  const ncclTopoNodeRef upper = {Type::Pci, index};
  std::vector<int> lowers;
  std::erase_if(switches[index].links, [&](const ncclTopoLink& link) {
    if (link.remote.type != Type::Pci || link.remote == upper) return false;
    if (broadcomGeneration(system_.at(link.remote).pci.device, 1) != generation) return false;
    const bool isKnown = std::find(lowers.begin(), lowers.end(), link.remote.index) != lowers.end();
    if (!isKnown) lowers.push_back(link.remote.index);
    return true;
  });
  for (const int l : lowers) {
    const ncclTopoNodeRef lower = {Type::Pci, l};
    for (const ncclTopoLink& link : std::exchange(switches[l].links, {})) {
      if (link.remote == upper || link.remote == lower) continue;
      switches[index].links.push_back(link);
      for (ncclTopoLink& back : system_.at(link.remote).links) {
        if (back.remote != lower) continue;
        back.remote = upper;
        break;
      }
    }
  }
  switches[index].pci.device |= 0xffff;  // done
  std::sort(lowers.rbegin(), lowers.rend());
  for (const int l : lowers)
    ncclTopoRemoveNode(system_, {Type::Pci, l});
}

/// The element that states a link of a device or switch; a null one if none does.
xml_node SystemReader::elementOf(ncclTopoNodeRef from, ncclTopoNodeRef to) const {
  const auto busOf = [&](ncclTopoNodeRef ref) {
    return busIdToInt64(system_.at(ref).pci.busId).value_or(-1);
  };
  for (xml_node node = xml_.root(); node; node = nextInDocument(node)) {
    if (!isNamed(node, "nvlink") && !isNamed(node, "pcilink")) continue;
    const xml_node owner = isNamed(node, "nvlink") ? node.parent().parent() : node.parent();
    if (busIdToInt64(owner.attribute("busid").value()) != busOf(from)) continue;
    if (busIdToInt64(node.attribute("target").value()) == busOf(to)) return node;
  }
  return xml_node();
}

Status SystemReader::checkReverseLinks() const {
  for (const std::vector<ncclTopoNode>& nodes : system_.nodesOfType) {
    for (int i = 0; i < static_cast<int>(nodes.size()); i++) {
      const ncclTopoNodeRef self = {nodes[i].type, i};
      for (const ncclTopoLink& link : nodes[i].links) {
        if (reverseLinkIndex(system_, self, link) != -1) continue;
        const xml_node element = elementOf(self, link.remote);
        return fail(ncclInvalidUsage,
                    "%s: %s link from %s %llx to %s %llx has no link back; both ends must state it",
                    element ? xml_.where(element).c_str() : xml_.name().c_str(), toText(link.type),
                    toText(self.type), static_cast<unsigned long long>(nodes[i].id),
                    toText(link.remote.type),
                    static_cast<unsigned long long>(system_.at(link.remote).id));
      }
    }
  }
  return Ok{};
}

/// Fabric links come first, then PCI down, PCI up, and the links between CPUs.
void SystemReader::sortBelow(ncclTopoNodeRef node, const ncclTopoNodeRef* up) {
  std::vector<ncclTopoLink>& links = system_.at(node).links;
  if (up != nullptr) {
    const auto upLink = std::find_if(links.begin(), links.end(),
                                     [&](const ncclTopoLink& link) { return link.remote == *up; });
    std::rotate(upLink, upLink + 1, links.end());
  }
  for (const ncclTopoLink& link : links) {
    if (link.type != Link::Pci || (up != nullptr && link.remote == *up)) continue;
    sortBelow(link.remote, &node);
  }
}

}  // namespace nccom
