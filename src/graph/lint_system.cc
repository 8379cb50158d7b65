// Lint of a <system> document.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/topo_lint.h"
#include "graph/topo_reader.h"
#include "graph/topo_schema.h"

namespace nccom {
namespace {

using pugi::xml_node;
using Severity = LintSeverity;
using Type = ncclTopoNodeType;

std::string textOf(xml_node node, const char* attribute) {
  return node.attribute(attribute).value();
}

/// Bits that two masks ("ff,00000000") share, from the right.
bool overlap(std::string a, std::string b) {
  for (std::string* mask : {&a, &b})
    std::erase(*mask, ',');
  const auto digit = [](const std::string& mask, size_t fromRight) {
    return hexToInt64(mask.substr(mask.size() - 1 - fromRight, 1)).value_or(0);
  };
  for (size_t i = 0; i < std::min(a.size(), b.size()); i++) {
    if ((digit(a, i) & digit(b, i)) != 0) return true;
  }
  return false;
}

/// One host of a document, by the host_hash of its CPUs.
struct Host {
  std::vector<xml_node> cpus;
  std::map<int64_t, xml_node> pcis;  // by bus id
  std::map<std::string, xml_node> gpuDevs;
  std::map<std::string, xml_node> netDevs;
  std::map<std::string, xml_node> netPorts;                 // by guid and port
  std::map<std::pair<int64_t, int64_t>, xml_node> nvlinks;  // by bus ids of the ends
  std::map<std::pair<int64_t, int64_t>, int64_t> nvlinkCounts;
  int nGpus = 0;
  int nNets = 0;
};

class SystemLint {
 public:
  SystemLint(const ncclXml& xml, Findings& findings) : xml_(xml), findings_(findings) {}

  void run() {
    for (const xml_node cpu : xml_.root().children("cpu")) {
      Host& host = hosts_[textOf(cpu, "host_hash")];
      host.cpus.push_back(cpu);
      lintCpu(cpu, host);
    }
    for (auto& [hash, host] : hosts_) {
      lintMasks(host);
      lintNvLinks(host);
      lintContents(host);
    }
    if (hosts_.size() > 1 && hosts_.contains("")) {
      say(hosts_[""].cpus[0], Severity::Warning,
          "<cpu> lacks the attribute host_hash, which others have", "a host of its own");
    }
    if (checkRoot(xml_, "system").ok()) read();
  }

 private:
  void say(xml_node node, Severity severity, std::string text, std::string assumed = "") {
    findings_.add(findingAt(xml_, node, severity, std::move(text), std::move(assumed)));
  }
  void sayOnce(xml_node node, Severity severity, const std::string& text,
               const std::string& assumed = "") {
    findings_.addOnce(text, findingAt(xml_, node, severity, text, assumed));
  }

  /// Remembers who has a key first, and says so of the others.
  void claim(std::map<std::string, xml_node>& owners, const std::string& key, xml_node node,
             const std::string& what) {
    const auto [owner, isNew] = owners.emplace(key, node);
    if (isNew) return;
    say(node, Severity::Warning,
        what + " is also that of the element at " + xml_.where(owner->second));
  }

  void lintCpu(xml_node cpu, Host& host) {
    if (!cpu.child("pci") && !cpu.child("nic"))
      sayOnce(cpu, Severity::Note, "<cpu> has no <pci> and no <nic>");
    for (const xml_node child : cpu.children()) {
      if (isNamed(child, "pci")) lintPci(child, host, 0);
      if (isNamed(child, "nic")) lintNic(child, host);
    }
  }

  void lintPci(xml_node pci, Host& host, int depth) {
    lintSlot(pci, host);
    const bool isLeaf = pci.child("gpu") || pci.child("nic");
    const bool isSwitch = nodeTypeOfClass(textOf(pci, "class")) == Type::Pci;
    if (pci.child("gpu") && pci.child("nic"))
      say(pci, Severity::Warning, "<pci> has a <gpu> and a <nic>; expected one of them");
    if (!isLeaf && !isSwitch) {
      sayOnce(pci, Severity::Note,
              "<pci> of a device class without <gpu> or <nic>; NCCL fills it in on that machine",
              "no device");
    }
    if (!isLeaf && isSwitch && !pci.child("pci"))
      sayOnce(pci, Severity::Note, "<pci> of a switch with nothing below it");
    for (const xml_node child : pci.children()) {
      if (isNamed(child, "gpu")) lintGpu(child, host);
      if (isNamed(child, "nic")) lintNic(child, host);
      if (!isNamed(child, "pci")) continue;
      if (isLeaf || !isSwitch) {
        say(child, Severity::Warning, "<pci> below a <pci> that is no switch", "it is not there");
      }
      if (depth < kMaxXmlDepth) lintPci(child, host, depth + 1);
    }
  }

  void lintSlot(xml_node pci, Host& host) {
    const auto busId = busIdToInt64(textOf(pci, "busid"));
    if (busId) {
      const auto [known, isNew] = host.pcis.emplace(*busId, pci);
      if (!isNew) {
        say(pci, Severity::Warning,
            "busid " + textOf(pci, "busid") + " is also that of the <pci> at " +
                xml_.where(known->second));
      }
    }
    for (const char* id : {"vendor", "device", "subsystem_vendor", "subsystem_device"}) {
      if (isStated(pci, id)) continue;
      sayOnce(pci, Severity::Note, "<pci> lacks the attribute " + std::string(id),
              "nothing of its maker");
    }
    const int width = pci.attribute("link_width").as_int();
    static const std::set<int> kWidths = {0, 1, 2, 4, 8, 12, 16, 32};
    if (width > 0 && !kWidths.contains(width)) {
      sayOnce(pci, Severity::Note,
              "link_width " + std::to_string(width) + " is none of 1, 2, 4, 8, 12, 16, 32 lanes");
    }
  }

  void lintGpu(xml_node gpu, Host& host) {
    host.nGpus++;
    (gpu.attribute("rank") ? nRanked_ : nUnranked_)++;
    if (!firstUnranked_ && !gpu.attribute("rank")) firstUnranked_ = gpu;
    const xml_node pci = gpu.parent();
    const auto owner = host.gpuDevs.emplace(textOf(gpu, "dev"), gpu);
    const bool isOther = !owner.second && owner.first->second.parent() != pci;
    if (isOther && isStated(gpu, "dev")) {
      say(gpu, Severity::Warning,
          "dev " + textOf(gpu, "dev") + " is also that of the <gpu> at " +
              xml_.where(owner.first->second));
    }
    const xml_node first = pci.child("gpu");
    if (textOf(gpu, "sm") != textOf(first, "sm")) {
      say(gpu, Severity::Warning,
          "sm " + textOf(gpu, "sm") + " of a <pci> whose first <gpu> has " + textOf(first, "sm"));
    }
    const auto from = busIdToInt64(textOf(pci, "busid"));
    for (const xml_node link : gpu.children("nvlink")) {
      if (from) collectNvLink(link, *from, host);
    }
  }

  void collectNvLink(xml_node link, int64_t from, Host& host) {
    if (nodeTypeOfClass(link.attribute("tclass").as_string("0x03")) != Type::Gpu) {
      if (!link.attribute("target"))
        sayOnce(link, Severity::Note, "<nvlink> lacks the attribute target", "that of its class");
      return;
    }
    const auto target = busIdToInt64(textOf(link, "target"));
    if (!target) return;  // the reader says so
    if (link.parent() != link.parent().parent().child("gpu") &&
        textOf(link.parent(), "mlopart").empty())
      return;  // the first of several ranks on a device states its links
    const auto [known, isNew] = host.nvlinks.emplace(std::pair(from, *target), link);
    host.nvlinkCounts[{from, *target}] += link.attribute("count").as_int();
    if (isNew || known->second.parent() != link.parent()) return;
    say(link, Severity::Note, "a second <nvlink> to " + textOf(link, "target"),
        "its links are further ones");
  }

  void lintNic(xml_node nic, Host& host) {
    if (!nic.child("net")) sayOnce(nic, Severity::Note, "<nic> has no <net>", "no network device");
    for (const xml_node net : nic.children("net")) {
      if (!isStated(net, "dev")) {
        sayOnce(net, Severity::Note, "<net> lacks the attribute dev: no plugin drives it",
                "it is not there");
        continue;
      }
      host.nNets++;
      lintNet(net, host);
    }
  }

  void lintNet(xml_node net, Host& host) {
    claim(host.netDevs, textOf(net, "dev"), net, "dev " + textOf(net, "dev"));
    if (isStated(net, "guid") && isStated(net, "port")) {
      claim(host.netPorts, textOf(net, "guid") + " " + textOf(net, "port"), net,
            "port " + textOf(net, "port") + " of guid " + textOf(net, "guid"));
    }
  }

  void lintMasks(const Host& host) {
    for (size_t a = 0; a < host.cpus.size() && a < kMaxCompared; a++) {
      const std::string mask = textOf(host.cpus[a], "affinity");
      if (!mask.empty() && mask.find_first_not_of("0,") == std::string::npos)
        sayOnce(host.cpus[a], Severity::Note, "<cpu> has an affinity without a core");
      for (size_t b = 0; b < a; b++) {
        if (!overlap(mask, textOf(host.cpus[b], "affinity"))) continue;
        sayOnce(host.cpus[a], Severity::Warning,
                "<cpu> shares cores with another one of its host (affinity)");
        break;
      }
    }
  }

  void lintNvLinks(const Host& host) {
    for (const auto& [ends, link] : host.nvlinks) {
      const auto target = host.pcis.find(ends.second);
      const std::string name = textOf(link, "target");
      if (target == host.pcis.end()) {
        say(link, Severity::Warning, "<nvlink> to " + name + ", which no <pci> is", "no link");
        continue;
      }
      if (!target->second.child("gpu")) {
        say(link, Severity::Warning, "<nvlink> to " + name + ", which has no <gpu>", "no link");
        continue;
      }
      if (nodeTypeOfClass(target->second.attribute("class").as_string("0x03")) != Type::Gpu) {
        say(link, Severity::Warning,
            "<nvlink> to " + name + " says class " + textOf(link, "tclass") + ", it has " +
                textOf(target->second, "class"));
      }
      const auto back = host.nvlinkCounts.find({ends.second, ends.first});
      const int64_t there = host.nvlinkCounts.at(ends);
      if (back == host.nvlinkCounts.end()) {
        say(link, Severity::Warning, "<nvlink> to " + name + ", which states none back");
      } else if (back->second != there && ends.first < ends.second) {
        say(link, Severity::Warning,
            "<nvlink> to " + name + " has count " + std::to_string(there) + ", the way back " +
                std::to_string(back->second),
            "each direction as it is stated");
      }
    }
  }

  void lintContents(const Host& host) {
    if (host.nGpus == 0) {
      say(host.cpus[0], Severity::Note,
          "no <gpu> on this host: a skeleton to which each process adds its device");
    }
    if (host.nNets == 0) {
      say(host.cpus[0], Severity::Note, "no <net> with a dev on this host: it stands alone");
    }
  }

  /// What the reader has to say; and with the system, which nodes have no way to each other.
  void read() {
    if (nRanked_ > 0 && nUnranked_ > 0) {
      say(firstUnranked_, Severity::Note,
          std::to_string(nUnranked_) + " <gpu> without a rank, beside " + std::to_string(nRanked_) +
              " with one",
          "no rank uses them");
    }
    // Files for NCCL_TOPO_FILE have no ranks; each process gives its device one. Here all have.
    std::vector<xml_node> lent;
    if (nRanked_ == 0) lent = lendRanks();
    const auto system = readSystem(xml_, std::nullopt, findings_);
    for (xml_node gpu : lent)
      gpu.remove_attribute("rank");
    if (system.ok()) {
      lintReach(system.value());
      return;
    }
    const std::string& message = system.error().message;
    const size_t end = message.starts_with(xml_.name() + ":")
                           ? message.find(": ", xml_.name().size())
                           : std::string::npos;
    if (end == std::string::npos) {
      findings_.add({Severity::Error, xml_.name(), message, ""});
    } else {
      findings_.add({Severity::Error, message.substr(0, end), message.substr(end + 2), ""});
    }
  }

  std::vector<xml_node> lendRanks() const {
    std::vector<xml_node> lent;
    std::vector<xml_node> open = {xml_.root()};
    while (!open.empty()) {
      const xml_node node = open.back();
      open.pop_back();
      for (const xml_node child : node.children())
        open.push_back(child);
      if (!isNamed(node, "gpu")) continue;
      setXml(node, "rank", lent.size());
      lent.push_back(node);
    }
    return lent;
  }

  void lintReach(const ncclTopoSystem& system) {
    std::array<int, kTopoNodeTypes + 1> start = {};
    for (int t = 0; t < kTopoNodeTypes; t++)
      start[t + 1] = start[t] + static_cast<int>(system.nodesOfType[t].size());
    const auto number = [&](ncclTopoNodeRef ref) {
      return start[static_cast<int>(ref.type)] + ref.index;
    };
    std::vector<int> group(start[kTopoNodeTypes]);
    std::iota(group.begin(), group.end(), 0);
    const auto find = [&](int node) {
      while (group[node] != node)
        node = group[node] = group[group[node]];
      return node;
    };
    for (int t = 0; t < kTopoNodeTypes; t++) {
      for (int i = 0; i < static_cast<int>(system.nodesOfType[t].size()); i++) {
        for (const ncclTopoLink& link : system.nodesOfType[t][i].links)
          group[find(start[t] + i)] = find(number(link.remote));
      }
    }
    std::set<int> groups;
    for (int node = 0; node < static_cast<int>(group.size()); node++)
      groups.insert(find(node));
    if (groups.size() < 2) return;
    findings_.add({Severity::Note, xml_.name(),
                   "the system falls into " + std::to_string(groups.size()) +
                       " parts without a link between them",
                   "only the network connects them"});
  }

  static constexpr size_t kMaxCompared = 256;  // CPUs of a host whose masks are compared

  const ncclXml& xml_;
  Findings& findings_;
  std::map<std::string, Host> hosts_;
  xml_node firstUnranked_;
  int nRanked_ = 0;
  int nUnranked_ = 0;
};

}  // namespace

void lintSystem(const ncclXml& xml, Findings& findings) {
  SystemLint(xml, findings).run();
}

}  // namespace nccom
