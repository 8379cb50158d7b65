// An ncclTopoSystem as a <system> document, and as text for people.
#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "graph/topo.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using Link = ncclTopoLinkType;
using pugi::xml_node;

constexpr const char* kNvsTarget = "fffffff:ffff:ff";  // a switch has no bus id of its own

std::string hex(uint64_t value, const char* format) {
  std::array<char, 32> text = {};
  snprintf(text.data(), text.size(), format, static_cast<unsigned long long>(value));
  return text.data();
}

const char* archText(CpuArch arch) {
  switch (arch) {
    case CpuArch::X86:
      return "x86_64";
    case CpuArch::Power:
      return "ppc64";
    case CpuArch::Arm:
      return "arm64";
    case CpuArch::Unknown:
      return "unknown";
  }
  return "unknown";
}

const char* vendorText(CpuVendor vendor) {
  switch (vendor) {
    case CpuVendor::Intel:
      return "GenuineIntel";
    case CpuVendor::Amd:
      return "AuthenticAMD";
    case CpuVendor::Zhaoxin:
      return "CentaurHauls";
    case CpuVendor::Unknown:
      return "unknown";
  }
  return "unknown";
}

class SystemWriter {
 public:
  explicit SystemWriter(const ncclTopoSystem& system) : system_(system) {
    for (int t = 0; t < kTopoNodeTypes; t++)
      written_[t].resize(system.nodesOfType[t].size());
  }

  Result<ncclXml> write() {
    for (int c = 0; c < system_.count(Type::Cpu); c++)
      writeCpu(c);
    for (const Type type : {Type::Pci, Type::Dev, Type::Nic, Type::Gpu, Type::Net}) {
      const std::vector<bool>& done = written_[static_cast<int>(type)];
      const auto missing = std::find(done.begin(), done.end(), false);
      if (missing == done.end()) continue;
      return fail(ncclInvalidArgument, "%s %d hangs off no CPU", toText(type),
                  static_cast<int>(missing - done.begin()));
    }
    return std::move(xml_);
  }

 private:
  void writeCpu(int index) {
    const ncclTopoNode& node = system_.nodes(Type::Cpu)[index];
    xml_node xmlCpu = xml_.root().append_child("cpu");
    setXml(xmlCpu, "numaid", static_cast<int32_t>(localIdOf(node.id)));
    const uint64_t hash = system_.hostHashes[systemIdOf(node.id)];
    if (hash != 0) setXml(xmlCpu, "host_hash", hex(hash, "0x%llx"));
    if (!node.cpu.affinity.empty()) setXml(xmlCpu, "affinity", node.cpu.affinity);
    setXml(xmlCpu, "arch", std::string(archText(node.cpu.arch)));
    setXml(xmlCpu, "vendor", std::string(vendorText(node.cpu.vendor)));
    setXml(xmlCpu, "familyid", node.cpu.family);
    setXml(xmlCpu, "modelid", node.cpu.model);
    writeBelow(xmlCpu, cpuRef(index));
  }

  /// Lowest index of each type in the tree below a node.
  std::array<int, kTopoNodeTypes> firstBelow(ncclTopoNodeRef node) const {
    std::array<int, kTopoNodeTypes> first = {};
    first.fill(INT_MAX);
    first[static_cast<int>(node.type)] = node.index;
    if (node.type != Type::Pci) return first;
    for (const ncclTopoNodeRef child : childrenOf(node)) {
      const auto below = firstBelow(child);
      for (int t = 0; t < kTopoNodeTypes; t++)
        first[t] = std::min(first[t], below[t]);
    }
    return first;
  }

  /// What hangs off a CPU or switch, in the order of its links. A link to a lower number of the
  /// same type goes up: nodes are numbered on the way down.
  std::vector<ncclTopoNodeRef> childrenOf(ncclTopoNodeRef node) const {
    std::vector<ncclTopoNodeRef> children;
    for (const ncclTopoLink& link : system_.at(node).links) {
      const ncclTopoNodeRef remote = link.remote;
      const bool isDeviceOrNic = remote.type == Type::Dev || remote.type == Type::Nic;
      const bool isSwitchBelow =
          remote.type == Type::Pci && (node.type == Type::Cpu || remote.index > node.index);
      if (link.type == Link::Pci && (isDeviceOrNic || isSwitchBelow)) children.push_back(remote);
    }
    return children;
  }

  /// Children in an order in which reading numbers all nodes below as they are numbered now, and
  /// otherwise in the order of the links.
  std::vector<ncclTopoNodeRef> inDocumentOrder(ncclTopoNodeRef node) const {
    std::vector<ncclTopoNodeRef> left = childrenOf(node);
    std::vector<std::array<int, kTopoNodeTypes>> firsts;
    firsts.reserve(left.size());
    for (const ncclTopoNodeRef child : left)
      firsts.push_back(firstBelow(child));
    const auto precedes = [&](size_t a, size_t b) {
      for (int t = 0; t < kTopoNodeTypes; t++) {
        if (firsts[b][t] != INT_MAX && firsts[a][t] < firsts[b][t]) return true;
      }
      return false;
    };
    std::vector<ncclTopoNodeRef> ordered;
    while (!left.empty()) {
      const auto hasPredecessor = [&](size_t child) {
        for (size_t other = 0; other < left.size(); other++) {
          if (other != child && precedes(other, child)) return true;
        }
        return false;
      };
      size_t next = 0;
      while (next + 1 < left.size() && hasPredecessor(next))
        next++;
      ordered.push_back(left[next]);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
      firsts.erase(firsts.begin() + static_cast<std::ptrdiff_t>(next));
    }
    return ordered;
  }

  void writeBelow(xml_node parent, ncclTopoNodeRef node) {
    for (const ncclTopoNodeRef child : inDocumentOrder(node)) {
      written_[static_cast<int>(child.type)][child.index] = true;
      const ncclTopoNode& facts = system_.at(child);
      const bool isPciFunction = !facts.pci.busId.empty();
      xml_node xmlNode = isPciFunction ? parent.append_child("pci") : parent;
      if (isPciFunction) writePci(xmlNode, facts.pci);
      if (child.type == Type::Pci) writePciLinks(xmlNode, child);
      if (child.type == Type::Pci) writeBelow(xmlNode, child);
      if (child.type == Type::Dev) writeGpus(xmlNode, child);
      if (child.type == Type::Nic) writeNets(xmlNode.append_child("nic"), child);
    }
  }

  void writePci(xml_node xmlPci, const ncclTopoPci& pci) {
    setXml(xmlPci, "busid", pci.busId);
    if (!pci.pciClass.empty()) setXml(xmlPci, "class", pci.pciClass);
    int shift = 64;
    for (const char* part : {"vendor", "device", "subsystem_vendor", "subsystem_device"}) {
      shift -= 16;
      const uint64_t value = pci.device >> shift & 0xffff;
      if (value != 0) setXml(xmlPci, part, hex(value, "0x%04llx"));
    }
    if (!pci.linkSpeed.empty()) setXml(xmlPci, "link_speed", pci.linkSpeed);
    setXml(xmlPci, "link_width", pci.linkWidth);
  }

  void writePciLinks(xml_node xmlPci, ncclTopoNodeRef node) {
    for (const ncclTopoLink& link : system_.at(node).links) {
      if (link.type != Link::Loc || link.remote.type != Type::Pci) continue;
      setXml(xmlPci.append_child("pcilink"), "target", system_.at(link.remote).pci.busId);
    }
  }

  void writeGpus(xml_node xmlPci, ncclTopoNodeRef dev) {
    bool isFirst = true;
    std::vector<ncclTopoNodeRef> gpus;
    for (const ncclTopoLink& link : system_.at(dev).links) {
      if (link.remote.type == Type::Gpu) gpus.push_back(link.remote);
    }
    std::sort(gpus.begin(), gpus.end());
    for (const ncclTopoNodeRef ref : gpus) {
      written_[static_cast<int>(Type::Gpu)][ref.index] = true;
      const ncclTopoGpu& gpu = system_.at(ref).gpu;
      xml_node xmlGpu = xmlPci.append_child("gpu");
      setXml(xmlGpu, "dev", gpu.dev);
      setXml(xmlGpu, "sm", gpu.sm);
      if (gpu.mloPart != kTopoUndef) setXml(xmlGpu, "mlopart", gpu.mloPart);
      setXml(xmlGpu, "rank", gpu.rank);
      setXml(xmlGpu, "gdr", gpu.gdr ? 1 : 0);
      if (isFirst) writeDeviceLinks(xmlGpu, dev);
      isFirst = false;
    }
  }

  void writeDeviceLinks(xml_node xmlGpu, ncclTopoNodeRef dev) {
    const std::string& ownBus = system_.at(dev).pci.busId;
    const auto& devs = system_.nodes(Type::Dev);
    const auto parts = std::count_if(devs.begin(), devs.end(), [&](const ncclTopoNode& other) {
      return other.pci.busId == ownBus && systemIdOf(other.id) == systemIdOf(system_.at(dev).id);
    });
    std::vector<std::pair<ncclTopoNodeRef, float>> fabric;  // remotes (first part), GB/s in all
    for (const ncclTopoLink& link : system_.at(dev).links) {
      if (link.type == Link::C2c) {
        xml_node xmlLink = xmlGpu.append_child("c2c");
        setXml(xmlLink, "bw", std::lround(link.bwGBps * 1000));
        setXml(xmlLink, "count", 1);
      }
      if (link.type != Link::Nvl) continue;
      const float bwGBps = link.bwGBps * static_cast<float>(parts);
      const auto known = std::find_if(fabric.begin(), fabric.end(), [&](const auto& other) {
        return link.remote.type == Type::Dev && other.first.type == Type::Dev &&
               system_.at(other.first).pci.busId == system_.at(link.remote).pci.busId;
      });
      if (known == fabric.end()) {
        fabric.emplace_back(link.remote, bwGBps);
      } else {
        known->second += bwGBps;
      }
    }
    for (const auto& [remote, bwGBps] : fabric) {
      writeNvLink(xmlGpu.append_child("nvlink"), remote, bwGBps, system_.at(dev).dev.sm);
    }
  }

  void writeNvLink(xml_node xmlLink, ncclTopoNodeRef remote, float bwGBps, int sm) {
    const bool isDevice = remote.type == Type::Dev;
    const char* tclass = remote.type == Type::Cpu ? "0x068001" : "0x068000";
    setXml(xmlLink, "target", isDevice ? system_.at(remote).pci.busId : std::string(kNvsTarget));
    writeBandwidth(xmlLink, bwGBps, sm);
    setXml(xmlLink, "tclass", isDevice ? deviceClass(system_.at(remote)) : std::string(tclass));
  }

  /// The class of a device, whatever its own element says: a link must lead to one.
  static std::string deviceClass(const ncclTopoNode& dev) {
    return nodeTypeOfClass(dev.pci.pciClass) == Type::Gpu ? dev.pci.pciClass : "0x03";
  }

  /// As a number of standard links where it is one, else as one link that states its rate.
  static void writeBandwidth(xml_node xmlLink, float bwGBps, int sm) {
    const auto count = static_cast<int64_t>(std::lround(bwGBps / nvLinkGBps(sm)));
    const bool isWhole = count > 0 && static_cast<float>(count) * nvLinkGBps(sm) == bwGBps;
    setXml(xmlLink, "count", isWhole ? count : 1);
    if (!isWhole) setXml(xmlLink, "bw", static_cast<double>(bwGBps) * 1000);
  }

  void writeNets(xml_node xmlNic, ncclTopoNodeRef nic) {
    std::vector<ncclTopoNodeRef> nets;  // NETs first, by number, then what is only GIN or RMA
    for (const ncclTopoLink& link : system_.at(nic).links) {
      if (link.type == Link::Net) nets.push_back(link.remote);
    }
    std::sort(nets.begin(), nets.end());
    std::set<int64_t> ids;
    for (const ncclTopoNodeRef ref : nets) {
      const int64_t id = system_.at(ref).id;
      // Of nodes with one id, each NET has an element; GIN and RMA are attributes of the first.
      const bool isFirst = ids.insert(id).second;
      if (!isFirst && ref.type != Type::Net) continue;
      const int net = ref.type == Type::Net ? ref.index : -1;
      const int gin = ncclTopoIdToIndex(system_, Type::Gin, id);
      const int rma = ncclTopoIdToIndex(system_, Type::Rma, id);
      xml_node xmlNet = xmlNic.append_child("net");
      writeNet(xmlNet, system_.at(ref));
      if (net == -1) setXml(xmlNet, "net", 0);
      if (gin != -1 && isFirst) setXml(xmlNet, "gin", 1);
      if (rma != -1 && isFirst) setXml(xmlNet, "rma", 1);
      if (net != -1) written_[static_cast<int>(Type::Net)][net] = true;
    }
  }

  static void writeNet(xml_node xmlNet, const ncclTopoNode& node) {
    const ncclTopoNet& net = node.net;
    if (!net.name.empty()) setXml(xmlNet, "name", net.name);
    setXml(xmlNet, "dev", localIdOf(node.id));
    setXml(xmlNet, "latency", net.latencyUs);
    setXml(xmlNet, "speed", static_cast<int64_t>(std::lround(net.bwGBps * 8000)));
    setXml(xmlNet, "port", net.port);
    setXml(xmlNet, "guid", hex(net.asic, "0x%llx"));
    setXml(xmlNet, "maxconn", net.maxConn);
    setXml(xmlNet, "gdr", net.gdr ? 1 : 0);
    setXml(xmlNet, "coll", net.coll ? 1 : 0);
    if (net.rail != kTopoUndef) setXml(xmlNet, "rail", net.rail);
    if (net.plane != kTopoUndef) setXml(xmlNet, "plane", net.plane);
  }

  const ncclTopoSystem& system_;
  ncclXml xml_ = ncclXml::create("system");
  std::array<std::vector<bool>, kTopoNodeTypes> written_;
};

// ---- for people ---------------------------------------------------------------------------------

std::string name(const ncclTopoNode& node) {
  std::string out = std::string(toText(node.type)) + "/" +
                    hex(static_cast<uint64_t>(systemIdOf(node.id)), "%llx") + "-" +
                    hex(static_cast<uint64_t>(localIdOf(node.id)), "%llx");
  if (node.type == Type::Gpu) out += " (" + std::to_string(node.gpu.rank) + ")";
  if (node.type == Type::Pci) out += " (" + hex(node.pci.device, "%llx") + ")";
  if (node.type == Type::Net) out += " (" + node.net.name + ")";
  return out;
}

std::string rate(float bwGBps) {
  std::array<char, 32> text = {};
  snprintf(text.data(), text.size(), "%.1f", static_cast<double>(bwGBps));
  return text.data();
}

void printBelow(std::string& out, const ncclTopoSystem& system, ncclTopoNodeRef node,
                const ncclTopoNodeRef* from, size_t indent) {
  out += name(system.at(node)) + "\n";
  for (const ncclTopoLink& link : system.at(node).links) {
    const bool isDown = link.type == Link::Pci;
    if (isDown && from != nullptr && link.remote == *from) continue;
    const std::string head =
        std::string("+ ") + toText(link.type) + "[" + rate(link.bwGBps) + "] - ";
    out += std::string(indent, ' ') + head;
    if (isDown && link.remote.type != Type::Cpu) {
      printBelow(out, system, link.remote, &node, indent + head.size());
    } else {
      out += name(system.at(link.remote)) + "\n";
    }
  }
}

void printPaths(std::string& out, const ncclTopoSystem& system, ncclTopoNodeRef from) {
  out += name(system.at(from)) + " :";
  for (const Type type : {Type::Gpu, Type::Cpu, Type::Net}) {
    const auto& paths = system.at(from).paths[static_cast<int>(type)];
    for (int i = 0; i < static_cast<int>(paths.size()); i++) {
      out += " " + name(system.at({type, i})) + " (" + std::to_string(paths[i].hops.size()) + "/" +
             rate(paths[i].bwGBps) + "/" + toText(paths[i].type) + ")";
    }
  }
  out += '\n';
}

}  // namespace

Result<ncclXml> ncclTopoGetXmlFromSystem(const ncclTopoSystem& system) {
  return SystemWriter(system).write();
}

std::string ncclTopoPrint(const ncclTopoSystem& system) {
  std::string out =
      "=== System : maxBw " + rate(system.maxBw) + " totalBw " + rate(system.totalBw) + " ===\n";
  for (int c = 0; c < system.count(Type::Cpu); c++)
    printBelow(out, system, cpuRef(c), nullptr, 0);
  out += "==========================================\n";
  for (int g = 0; g < system.count(Type::Gpu); g++)
    printPaths(out, system, gpuRef(g));
  for (int n = 0; n < system.count(Type::Net); n++)
    printPaths(out, system, netRef(n));
  return out;
}

}  // namespace nccom
