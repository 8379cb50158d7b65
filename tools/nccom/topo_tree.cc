#include "tools/nccom/topo_tree.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <set>

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using Link = ncclTopoLinkType;

const char* cpuName(const ncclTopoCpu& cpu) {
  switch (cpu.vendor) {
    case CpuVendor::Intel:
      return "Intel";
    case CpuVendor::Amd:
      return "AMD";
    case CpuVendor::Zhaoxin:
      return "Zhaoxin";
    case CpuVendor::Unknown:
      break;
  }
  if (cpu.arch == CpuArch::Arm) return "Arm";
  return cpu.arch == CpuArch::Power ? "Power" : "";
}

class TreeMaker {
 public:
  explicit TreeMaker(const ncclTopoSystem& system) : system_(system) {}

  std::vector<TopoBox> make() {
    std::vector<TopoBox> roots;
    for (int c = 0; c < system_.count(Type::Cpu); c++)
      seen_.insert(cpuRef(c));
    for (int c = 0; c < system_.count(Type::Cpu); c++)
      roots.push_back(boxOf(cpuRef(c), 0));
    return roots;
  }

 private:
  TopoBox boxOf(ncclTopoNodeRef ref, float upGBps) {
    seen_.insert(ref);
    const ncclTopoNode& node = system_.at(ref);
    TopoBox box;
    box.node = ref;
    box.upGBps = upGBps;
    name(node, box);
    for (const ncclTopoLink& link : node.links) {
      const bool isPciDown = link.type == Link::Pci && !seen_.contains(link.remote);
      if (isPciDown) box.children.push_back(boxOf(link.remote, link.bwGBps));
      if (!isPciDown && ref.type != Type::Nic) addFabric(link, box);
    }
    return box;
  }

  void name(const ncclTopoNode& node, TopoBox& box) const {
    const int host = systemIdOf(node.id);
    switch (node.type) {
      case Type::Cpu:
        box.title = "CPU " + std::to_string(static_cast<int32_t>(localIdOf(node.id)));
        box.facts = cpuName(node.cpu);
        break;
      case Type::Dev:
        nameDevice(node, box);
        break;
      case Type::Nic:
        nameNic(node, box);
        break;
      default:
        box.title = std::string(toText(node.type)) + " " + node.pci.busId;
    }
    if (system_.hostHashes.size() > 1) box.facts += " host " + std::to_string(host);
  }

  void nameDevice(const ncclTopoNode& node, TopoBox& box) const {
    std::string devs;
    std::string ranks;
    bool gdr = false;
    for (const ncclTopoLink& link : node.links) {
      if (link.remote.type != Type::Gpu) continue;
      const ncclTopoGpu& gpu = system_.at(link.remote).gpu;
      box.ranks.push_back(gpu.rank);
      ranks += (ranks.empty() ? "" : ",") + std::to_string(gpu.rank);
      devs = std::to_string(gpu.dev);
      gdr |= gpu.gdr;
    }
    box.title = "GPU " + (devs.empty() ? std::to_string(node.dev.dev) : devs);
    box.facts = "rank " + (ranks.empty() ? std::string("-") : ranks) + ", " + node.pci.busId +
                ", sm " + std::to_string(node.dev.sm) + (gdr ? ", GDR" : "");
  }

  void nameNic(const ncclTopoNode& node, TopoBox& box) const {
    std::string nets;
    for (const ncclTopoLink& link : node.links) {
      if (link.remote.type != Type::Net) continue;
      const ncclTopoNode& net = system_.at(link.remote);
      nets += (nets.empty() ? "" : "; ") + std::string("NET ") + std::to_string(localIdOf(net.id)) +
              " " + net.net.name + " " + rateText(net.net.bwGBps) + " GB/s" +
              (net.net.gdr ? " GDR" : "");
    }
    box.title = "NIC" + (node.pci.busId.empty() ? "" : " " + node.pci.busId);
    box.facts = nets;
  }

  /// Links that are no part of the tree.
  void addFabric(const ncclTopoLink& link, TopoBox& box) const {
    const bool isFabric = link.type == Link::Nvl || link.type == Link::C2c ||
                          link.type == Link::Sys ||
                          (link.type == Link::Loc && link.remote.type != Type::Gpu);
    if (!isFabric) return;
    const ncclTopoNode& remote = system_.at(link.remote);
    TopoBox other;
    if (remote.type == Type::Nvs) {
      other.title = "switch";
    } else if (remote.type == Type::Cxb) {
      other.title = "chip bus";
    } else {
      name(remote, other);
      if (remote.type == Type::Dev && !other.ranks.empty()) {
        other.title = "rank " + std::to_string(other.ranks[0]);
      }
    }
    box.fabric.push_back(std::string(toText(link.type)) + " " + rateText(link.bwGBps) + " to " +
                         other.title);
  }

  const ncclTopoSystem& system_;
  std::set<ncclTopoNodeRef> seen_;
};

}  // namespace

std::vector<TopoBox> topoTree(const ncclTopoSystem& system) {
  return TreeMaker(system).make();
}

std::string rateText(float gbps) {
  std::array<char, 32> text = {};
  const double rounded = std::round(static_cast<double>(gbps) * 1000) / 1000;
  snprintf(text.data(), text.size(), "%.*g", rounded >= 1000 ? 6 : 5, rounded);
  return text.data();
}

}  // namespace nccom
