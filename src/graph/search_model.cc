#include "graph/search_model.h"

#include <cmath>

#include "misc/check.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using Path = ncclTopoPathType;

// Shares in fortieths: forward whole or detour, then the other way: an eighth, all, or both.
constexpr int kPartsOfShare = 40;
constexpr std::array<int, SearchModel::kShares> kShareParts = {40, 48, 5, 6, 40, 48, 45, 54};
constexpr uint8_t kForward = 0;
constexpr uint8_t kAcknowledge = 2;
constexpr uint8_t kHalfDuplex = 4;
constexpr uint8_t kBoth = 6;

}  // namespace

SearchModel::Units SearchModel::toUnits(float gbps) {
  return static_cast<Units>(std::lround(static_cast<double>(gbps) * kPerGBps));
}

SearchModel::Costs SearchModel::costsOf(Units bandwidth) {
  Costs costs{};
  for (int i = 0; i < kShares; i++) {
    costs[i] = static_cast<Units>(int64_t{bandwidth} * kShareParts[i] / kPartsOfShare);
  }
  return costs;
}

SearchModel::SearchModel(const ncclTopoSystem& system, float enoughGBps)
    : system_(system), nGpus_(system.count(Type::Gpu)), nNets_(system.count(Type::Net)) {
  addLinks(enoughGBps);
  for (int a = 0; a < nGpus_; a++) {
    for (int b = 0; b < nGpus_; b++)
      gpuToGpu_.push_back(makeEdge(gpuRef(a), gpuRef(b)));
  }
  for (const ncclTopoNode& gpu : system.nodes(Type::Gpu)) {
    const std::vector<ncclTopoLink>& links = system.nodes(Type::Dev)[gpu.gpu.parent].links;
    int pci = 0;
    while (pci < static_cast<int>(links.size()) && links[pci].type != ncclTopoLinkType::Pci)
      pci++;
    const bool hasPci = pci < static_cast<int>(links.size());
    pciLinks_.push_back(hasPci ? linkIndex({Type::Dev, gpu.gpu.parent}, pci) : -1);
  }
  if (!system.inter) return;
  for (int n = 0; n < nNets_; n++) {
    for (int g = 0; g < nGpus_; g++)
      netToGpu_.push_back(makeEdge(netRef(n), gpuRef(g)));
  }
  for (int g = 0; g < nGpus_; g++) {
    for (int n = 0; n < nNets_; n++)
      gpuToNet_.push_back(makeEdge(gpuRef(g), netRef(n)));
  }
  for (int n = 0; n < nNets_; n++) {
    const ncclTopoNet& net = system.nodes(Type::Net)[n].net;
    int first = 0;
    const auto sharesPort = [&](const ncclTopoNet& other) {
      return other.asic == net.asic && other.port == net.port;
    };
    while (!sharesPort(system.nodes(Type::Net)[first].net))
      first++;
    ports_.push_back(first);
  }
}

void SearchModel::addLinks(float enoughGBps) {
  int nLinks = 0;
  for (int t = 0; t < kTopoNodeTypes; t++) {
    for (const ncclTopoNode& node : system_.nodesOfType[t]) {
      firstLink_[t].push_back(nLinks);
      nLinks += static_cast<int>(node.links.size());
    }
  }
  for (const std::vector<ncclTopoNode>& nodes : system_.nodesOfType) {
    for (int i = 0; i < static_cast<int>(nodes.size()); i++) {
      for (const ncclTopoLink& link : nodes[i].links) {
        const ncclTopoNode& remote = system_.at(link.remote);
        const int back = reverseLinkIndex(system_, {nodes[i].type, i}, link);
        NCCL_CHECK(back != -1);  // reading a system has made sure of it
        reverse_.push_back(linkIndex(link.remote, back));
        capacity_.push_back(toUnits(link.bwGBps));
        facts_.push_back({.isPci = link.type == ncclTopoLinkType::Pci,
                          .entersOldDevice = remote.type == Type::Dev && remote.dev.sm < 80 &&
                                             !isNeuronSm(remote.dev.sm),
                          .entersPowerCpu = remote.type == Type::Cpu &&
                                            remote.cpu.arch == CpuArch::Power &&
                                            link.type == ncclTopoLinkType::Nvl,
                          .isEndless = link.bwGBps >= enoughGBps});
      }
    }
  }
}

void SearchModel::addHops(int link, bool isDetour, bool fromGpu) {
  const LinkFacts& facts = facts_[link];
  const auto detour = static_cast<uint8_t>(isDetour && facts.isPci ? 1 : 0);
  const auto add = [&](int onLink, uint8_t share) {
    hops_.push_back({onLink, static_cast<uint8_t>(share + detour)});
  };
  if (!facts.isEndless) add(link, kForward);
  const bool acknowledges = facts.entersOldDevice && !fromGpu;
  if (facts_[reverse_[link]].isEndless) return;
  if (acknowledges && facts.entersPowerCpu) {
    add(reverse_[link], kBoth);
  } else if (acknowledges) {
    add(reverse_[link], kAcknowledge);
  } else if (facts.entersPowerCpu) {
    add(reverse_[link], kHalfDuplex);
  }
}

SearchModel::Edge SearchModel::makeEdge(ncclTopoNodeRef from, ncclTopoNodeRef to) {
  const ncclTopoPath& path = system_.path(from, to);
  Edge edge;
  edge.type = path.type;
  edge.reverseType = system_.path(to, from).type;
  edge.firstHop = static_cast<int>(hops_.size());
  edge.nLinks = static_cast<int>(path.hops.size());
  bool isDetour = false;
  if (from.type == Type::Gpu && path.type == Path::Phb) {
    for (const ncclTopoHop& hop : path.hops) {
      const ncclTopoNodeRef next = system_.at(hop.from).links[hop.link].remote;
      if (next.type != Type::Cpu) continue;
      const ncclTopoCpu& cpu = system_.at(next).cpu;
      isDetour |= cpu.arch == CpuArch::X86 && cpu.vendor == CpuVendor::Intel;
    }
  }
  for (const ncclTopoHop& hop : path.hops) {
    const int link = linkIndex(hop.from, hop.link);
    addHops(link, isDetour, from.type == Type::Gpu);
    if (facts_[link].isEndless) continue;
    if (edge.firstLink == -1) edge.firstLink = link;
    edge.lastLink = link;
  }
  edge.nHops = static_cast<int>(hops_.size()) - edge.firstHop;
  return edge;
}

}  // namespace nccom
