// Fits a <system> document to a communicator: ranks, NICs, and nothing that they do not need.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "graph/graph.h"

namespace nccom {
namespace {

using pugi::xml_node;

template <class Function>
void forEach(xml_node root, std::string_view name, const Function& function) {
  for (const xml_node child : root.children()) {
    if (child.name() == name) function(child);
    forEach(child, name, function);
  }
}

std::vector<xml_node> findAll(const ncclXml& xml, std::string_view name) {
  std::vector<xml_node> found;
  forEach(xml.root(), name, [&](xml_node node) { found.push_back(node); });
  return found;
}

std::string range(const std::set<int64_t>& devs) {
  if (devs.empty()) return "none";
  return std::to_string(devs.size()) + " devices, " + std::to_string(*devs.begin()) + " to " +
         std::to_string(*devs.rbegin());
}

xml_node pciWithBusId(const ncclXml& xml, const std::string& busId) {
  const auto wanted = busIdToInt64(busId);
  for (const xml_node xmlPci : findAll(xml, "pci")) {
    if (wanted && busIdToInt64(xmlPci.attribute("busid").value()) == wanted) return xmlPci;
  }
  return {};
}

/// A plugin's device that the document does not have: at its PCI function, else at the first CPU.
void addNet(const ncclXml& xml, const NetDevice& net, int dev) {
  const std::string busId = net.pciPath.substr(net.pciPath.rfind('/') + 1);
  xml_node parent = busId.empty() ? xml_node() : pciWithBusId(xml, busId);
  const bool isSwitchOrDevice = parent.child("pci") || parent.child("gpu");
  if (!parent || isSwitchOrDevice) parent = xml.root().child("cpu");
  xml_node xmlNic = parent.child("nic");
  if (!xmlNic) xmlNic = parent.append_child("nic");
  xml_node xmlNet = xmlNic.append_child("net");
  setXml(xmlNet, "name", net.name);
  setXml(xmlNet, "dev", dev);
}

/// What the plugin says, where the document is silent.
void describeNet(xml_node xmlNet, const NetDevice& net, int dev) {
  setXml(xmlNet, "dev", dev);
  setXml(xmlNet, "keep", 1);
  const auto init = [&](const char* attribute, auto value) {
    if (!xmlNet.attribute(attribute)) setXml(xmlNet, attribute, value);
  };
  init("latency", net.latencyUs);
  init("speed", net.speedMbps);
  init("port", net.port);
  if (net.guid != 0) {
    std::array<char, 32> text = {};
    snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(net.guid));
    init("guid", std::string(text.data()));
  }
  init("maxconn", net.maxComms);
  init("gdr", net.gdr ? 1 : 0);
}

/// Whether anything below needs `node`; takes out what nothing needs.
bool trimBelow(xml_node node) {
  bool isNeeded = std::string_view(node.attribute("keep").value()) == "1";
  node.remove_attribute("keep");
  xml_node next;
  for (xml_node child = node.first_child(); child; child = next) {
    next = child.next_sibling();
    const bool childIsNeeded = trimBelow(child);
    isNeeded |= childIsNeeded;
    const std::string_view name = child.name();
    const bool isTrimmable =
        name == "pci" || name == "cpu" || name == "nic" || name == "net" || name == "gpu";
    if (!childIsNeeded && isTrimmable) node.remove_child(child);
  }
  return isNeeded;
}

}  // namespace

Status setRanks(const ncclXml& xml, const std::vector<LocalRank>& localRanks) {
  std::map<int64_t, xml_node> byDev;
  std::set<int64_t> devs;
  for (xml_node xmlGpu : findAll(xml, "gpu")) {
    xmlGpu.remove_attribute("rank");
    xmlGpu.remove_attribute("keep");
    const int64_t dev = TRY(xmlInt(xml, xmlGpu, "dev"));
    byDev.try_emplace(dev, xmlGpu);
    devs.insert(dev);
  }
  for (const LocalRank& local : localRanks) {
    const auto found = byDev.find(local.dev);
    if (found == byDev.end()) {
      return fail(ncclInvalidArgument, "rank %d uses device %d, which %s does not have (%s)",
                  local.rank, local.dev, xml.name().c_str(), range(devs).c_str());
    }
    if (const pugi::xml_attribute taken = found->second.attribute("rank")) {
      return fail(ncclInvalidArgument, "ranks %s and %d both use device %d", taken.value(),
                  local.rank, local.dev);
    }
    setXml(found->second, "rank", local.rank);
    setXml(found->second, "keep", 1);
  }
  return Ok{};
}

Result<int> topoFileDeviceCount(const std::string& path) {
  const ncclXml xml = TRY(ncclXml::readFile(path));
  TRY(checkRoot(xml, "system"));
  int count = 0;
  for (const xml_node xmlGpu : findAll(xml, "gpu")) {
    const int dev = TRY(xmlInt32(xml, xmlGpu, "dev"));
    if (dev < 0 || dev >= kMaxTopoDevices) {
      return fail(ncclInvalidUsage, "%s: dev is %d: expected 0 to %d", xml.where(xmlGpu).c_str(),
                  dev, kMaxTopoDevices - 1);
    }
    count = std::max(count, dev + 1);
  }
  if (count == 0) return fail(ncclInvalidUsage, "%s has no <gpu>", path.c_str());
  return count;
}

bool attachNets(const ncclXml& xml, const std::vector<NetDevice>& nets) {
  std::map<std::string, xml_node> byName;
  bool hasDriven = false;  // NICs with a device number: part of a topology
  for (xml_node xmlNet : findAll(xml, "net")) {
    byName.try_emplace(xmlNet.attribute("name").value(), xmlNet);
    hasDriven |= static_cast<bool>(xmlNet.attribute("dev"));
    xmlNet.remove_attribute("keep");
  }
  const bool hasMatch = std::any_of(
      nets.begin(), nets.end(), [&](const NetDevice& net) { return byName.contains(net.name); });
  if (nets.empty() || (hasDriven && !hasMatch)) {
    for (xml_node xmlNet : findAll(xml, "net")) {
      if (xmlNet.attribute("dev")) setXml(xmlNet, "keep", 1);
    }
    return !nets.empty();
  }
  for (int dev = 0; dev < static_cast<int>(nets.size()); dev++) {
    if (!byName.contains(nets[dev].name)) addNet(xml, nets[dev], dev);
  }
  for (xml_node xmlNet : findAll(xml, "net")) {
    for (int dev = 0; dev < static_cast<int>(nets.size()); dev++) {
      if (nets[dev].name == xmlNet.attribute("name").value()) describeNet(xmlNet, nets[dev], dev);
    }
  }
  return false;
}

void ncclTopoTrimXml(const ncclXml& xml) {
  trimBelow(xml.root());
  std::set<int64_t> present;
  for (const xml_node xmlPci : findAll(xml, "pci")) {
    if (const auto id = busIdToInt64(xmlPci.attribute("busid").value())) present.insert(*id);
  }
  for (xml_node xmlLink : findAll(xml, "nvlink")) {
    const std::string tclass = xmlLink.attribute("tclass").as_string("0x03");
    const auto target = busIdToInt64(xmlLink.attribute("target").value());
    const bool isToDevice = nodeTypeOfClass(tclass) == ncclTopoNodeType::Gpu;
    if (isToDevice && target && !present.contains(*target)) xmlLink.parent().remove_child(xmlLink);
  }
}

constexpr int64_t kInferentia2 = 0x7264;  // PCI device

Result<std::vector<std::string>> verifyTopology(const ncclXml& xml,
                                                const std::vector<LocalRank>& localRanks) {
  std::vector<std::string> notes;
  bool isNeuron = false;
  bool isInferentia = false;   // any run of its devices may be used
  std::set<std::string> used;  // bus ids of the physical devices: the cores' common parent
  std::set<int64_t> present;
  for (const xml_node xmlPci : findAll(xml, "pci")) {
    if (const auto id = busIdToInt64(xmlPci.attribute("busid").value())) present.insert(*id);
  }
  for (const xml_node xmlGpu : findAll(xml, "gpu")) {
    const int sm = TRY(xmlInt32Or(xml, xmlGpu, "sm", kFirstNvidiaSm));
    isNeuron |= isNeuronSm(sm) && sm > 0;
    const int64_t dev = TRY(xmlInt(xml, xmlGpu, "dev"));
    const bool isUsed = std::any_of(localRanks.begin(), localRanks.end(),
                                    [&](const LocalRank& local) { return local.dev == dev; });
    const xml_node xmlDevice = xmlGpu.parent().parent();
    isInferentia |= hexToInt64(xmlDevice.attribute("device").value()) == kInferentia2;
    if (isUsed) used.insert(xmlDevice.attribute("busid").value());
    for (const xml_node xmlLink : xmlGpu.children("nvlink")) {
      if (nodeTypeOfClass(xmlLink.attribute("tclass").as_string("0x03")) != ncclTopoNodeType::Gpu) {
        continue;
      }
      const std::string target = xmlLink.attribute("target").value();
      if (const auto id = busIdToInt64(target); id && present.contains(*id)) continue;
      std::string text = xml.where(xmlLink) + ": link of device " + std::to_string(dev) + " to " +
                         target + ", which is not in the topology";
      if (isNeuron) return fail(ncclInvalidUsage, "%s", text.c_str());
      notes.push_back(std::move(text));
    }
  }
  const size_t n = used.size();
  if (isNeuron && !isInferentia && n != 1 && n != 4 && n != 8 && n != 16) {
    notes.push_back("the ranks of this host use " + std::to_string(n) +
                    " physical devices; Trainium hosts support 1, 4, 8 or 16");
  }
  return notes;
}

}  // namespace nccom
