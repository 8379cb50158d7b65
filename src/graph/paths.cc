#include "graph/paths.h"

#include <algorithm>
#include <array>

#include "misc/check.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using Link = ncclTopoLinkType;
using Path = ncclTopoPathType;

constexpr int kChannelsTried = 64;  // NCCL's MAXCHANNELS: how many channels' NETs are looked at

// Switches and NICs are on paths, but no path leads to one.
constexpr std::array kPathTargets = {Type::Cpu, Type::Dev, Type::Gpu, Type::Net,
                                     Type::Gin, Type::Rma, Type::Nvs};

/// Finds all paths to one target, breadth first from the target.
class PathFinder {
 public:
  PathFinder(ncclTopoSystem& system, const ncclTopoPathOptions& options, ncclTopoNodeRef target)
      : system_(system),
        options_(options),
        target_(target),
        slot_(ncclTopoIdToIndex(system, target.type, system.at(target).id)) {
    const bool isGpu = target.type == Type::Gpu;
    targetDev_ = isGpu ? ncclTopoNodeRef{Type::Dev, system.at(target).gpu.parent} : target;
    maxFabricHops_ = isGpu ? 2 : 1;  // a GPU's path to its own DEV is a hop too
  }

  void run() {
    pathOf(target_) = {{}, kLocalGBps, Path::Loc};
    std::vector<ncclTopoNodeRef> level = {target_};
    while (!level.empty()) {
      std::vector<ncclTopoNodeRef> nextLevel;
      for (const ncclTopoNodeRef node : level) {
        for (const ncclTopoLink& link : system_.at(node).links) {
          const bool isFirst = pathOf(link.remote).type == Path::Dis;
          if (!mayExtend(node, link) || !improve(node, link)) continue;
          const bool isNew = isFirst || std::find(nextLevel.begin(), nextLevel.end(),
                                                  link.remote) == nextLevel.end();
          if (isNew) nextLevel.push_back(link.remote);
        }
      }
      level = std::move(nextLevel);
    }
  }

 private:
  ncclTopoPath& pathOf(ncclTopoNodeRef node) {
    return system_.at(node).paths[static_cast<int>(target_.type)][slot_];
  }

  /// Traffic passes through a device only to its own GPUs, or as NVB.
  bool mayExtend(ncclTopoNodeRef node, const ncclTopoLink& link) {
    if (node.type != Type::Dev || node == targetDev_) return true;
    if (link.type == Link::Loc && link.remote.type == Type::Gpu) return true;
    const bool isNvb = link.type == Link::Nvl && link.remote.type == Type::Dev;
    return options_.nvb && isNvb && static_cast<int>(pathOf(node).hops.size()) <= maxFabricHops_;
  }

  /// Type of the path to `link.remote` that goes on from the path to `node`.
  Path typeThrough(ncclTopoNodeRef node, const ncclTopoLink& link) {
    const ncclTopoPath& path = pathOf(node);
    // A NET link counts as nothing: only the way between NIC and device matters.
    Path type = link.type == Link::Net ? Path::Loc : static_cast<Path>(link.type);
    if (node.type == Type::Pci && link.remote.type == Type::Pci) type = Path::Pxb;
    const bool touchesCpu = node.type == Type::Cpu || link.remote.type == Type::Cpu;
    if (link.type == Link::Pci && touchesCpu) type = Path::Phb;
    const bool isSecondFabricHop = node.type == Type::Dev && path.type == Path::Nvl &&
                                   static_cast<int>(path.hops.size()) == maxFabricHops_;
    if (isSecondFabricHop && type == Path::Nvl) type = Path::Nvb;
    return std::max(path.type, type);
  }

  /// Takes the path over `node` for `link.remote` if it is better than the one known.
  bool improve(ncclTopoNodeRef node, const ncclTopoLink& link) {
    const ncclTopoPath& path = pathOf(node);
    ncclTopoPath& known = pathOf(link.remote);
    const Path type = typeThrough(node, link);
    const float bwGBps = std::min(path.bwGBps, link.bwGBps);
    const size_t nHops = path.hops.size() + 1;
    const bool isBetter =
        type < known.type || (type == known.type && known.bwGBps < bwGBps) ||
        (type == known.type && known.bwGBps == bwGBps && known.hops.size() > nHops);
    if (!isBetter) return false;
    const int reverse = reverseLinkIndex(system_, node, link);
    NCCL_CHECK(reverse != -1);  // reading a system has made sure of it
    std::vector<ncclTopoHop> hops = {{link.remote, reverse}};
    hops.insert(hops.end(), path.hops.begin(), path.hops.end());
    known = {std::move(hops), bwGBps, type};
    return true;
  }

  ncclTopoSystem& system_;
  const ncclTopoPathOptions& options_;
  const ncclTopoNodeRef target_;
  const int slot_;  // nodes of one type and id (two NETs of one device number) are one target
  ncclTopoNodeRef targetDev_;
  int maxFabricHops_ = 1;
};

void clearPaths(ncclTopoSystem& system) {
  for (std::vector<ncclTopoNode>& nodes : system.nodesOfType) {
    for (ncclTopoNode& node : nodes) {
      for (int t = 0; t < kTopoNodeTypes; t++)
        node.paths[t].clear();
      for (const Type type : kPathTargets) {
        node.paths[static_cast<int>(type)].assign(system.nodes(type).size(), ncclTopoPath{});
      }
    }
  }
}

ncclTopoPath& mutablePath(ncclTopoSystem& system, ncclTopoNodeRef from, ncclTopoNodeRef to) {
  return system.at(from).paths[static_cast<int>(to.type)][to.index];
}

/// Makes the path from `from` to `to` go through `via`.
void addInterStep(ncclTopoSystem& system, ncclTopoNodeRef via, ncclTopoNodeRef from,
                  ncclTopoNodeRef to) {
  const ncclTopoPath& first = system.path(from, via);
  const ncclTopoPath& second = system.path(via, to);
  ncclTopoPath joined;
  joined.hops = first.hops;
  joined.hops.insert(joined.hops.end(), second.hops.begin(), second.hops.end());
  joined.bwGBps = std::min(first.bwGBps, second.bwGBps);
  joined.type = std::max(first.type, second.type);
  const Path closer = std::min(first.type, second.type);
  if (joined.type == Path::Phb && closer == Path::C2c) joined.type = Path::P2c;
  if (via.type == Type::Gpu) joined.type = Path::Pxn;
  mutablePath(system, from, to) = std::move(joined);
}

/// Distance up to which devices talk directly.
Path p2pLevel(const ncclTopoSystem& system, const ncclTopoPathOptions& options) {
  const ncclTopoCpu& cpu = system.nodes(Type::Cpu)[0].cpu;
  const bool isAmdPair =
      cpu.arch == CpuArch::X86 && cpu.vendor == CpuVendor::Amd && system.count(Type::Dev) <= 2;
  return options.p2pLevel.value_or(isAmdPair ? Path::Sys : Path::Pxb);
}

/// Pairs of devices that are too far apart for direct traffic go through the CPU of the receiver.
void divertDistantPairs(ncclTopoSystem& system, const ncclTopoPathOptions& options) {
  const Path level = p2pLevel(system, options);
  for (int to = 0; to < system.count(Type::Gpu); to++) {
    for (int from = 0; from < system.count(Type::Gpu); from++) {
      const Path type = system.path(gpuRef(from), gpuRef(to)).type;
      if (type <= level || type == Path::Dis) continue;
      addInterStep(system, cpuRef(ncclGetLocalCpu(system, to)), gpuRef(from), gpuRef(to));
    }
  }
}

/// Rate at which a device reaches a NIC without passing a CPU; 0: none.
float nearNetGBps(const ncclTopoSystem& system, int gpu) {
  float best = 0;
  for (int n = 0; n < system.count(Type::Net); n++) {
    const ncclTopoPath& path = system.path(gpuRef(gpu), netRef(n));
    if (path.type <= Path::Pxb) best = std::max(best, path.bwGBps);
  }
  return best;
}

/// Whether the path goes through exactly one other device.
bool isRelayed(const ncclTopoSystem& system, const ncclTopoPath& path) {
  return path.hops.size() == 4 && hopTarget(system, path.hops[1]).type == Type::Dev;
}

/// Pairs of devices that use the network between them, see ncclTopoPathOptions::netIntra.
void markNetPairs(ncclTopoSystem& system, const ncclTopoPathOptions& options) {
  const Path level = p2pLevel(system, options);
  const int nGpus = system.count(Type::Gpu);
  std::vector<float> netGBps(nGpus);
  for (int g = 0; g < nGpus; g++)
    netGBps[g] = nearNetGBps(system, g);
  const auto hostOf = [&](int gpu) { return systemIdOf(system.nodes(Type::Gpu)[gpu].id); };
  for (int from = 0; from < nGpus; from++) {
    for (int to = 0; to < nGpus; to++) {
      ncclTopoPath& path = mutablePath(system, gpuRef(from), gpuRef(to));
      if (from == to || path.type == Path::Dis) continue;
      const bool netIsFaster = std::min(netGBps[from], netGBps[to]) > path.bwGBps;
      const bool direct = path.type <= level && (!netIsFaster || isRelayed(system, path));
      if (!direct && (netIsFaster || hostOf(from) != hostOf(to))) path.type = Path::Net;
    }
  }
}

/// A NIC of the CPU that a device has a C2C link to is closer than "through a CPU" says.
void markP2c(ncclTopoSystem& system) {
  for (int g = 0; g < system.count(Type::Gpu); g++) {
    const ncclTopoNodeRef cpu = cpuRef(ncclGetLocalCpu(system, g));
    for (const int n : ncclTopoGetLocal(system, gpuRef(g), Type::Net)) {
      const Path toGpu = system.path(gpuRef(g), cpu).type;
      const Path toNet = system.path(netRef(n), cpu).type;
      if (std::max(toGpu, toNet) != Path::Phb || std::min(toGpu, toNet) != Path::C2c) continue;
      for (ncclTopoPath* path : {&mutablePath(system, gpuRef(g), netRef(n)),
                                 &mutablePath(system, netRef(n), gpuRef(g))}) {
        path->type = std::min(path->type, Path::P2c);
      }
    }
  }
}

/// Whether NIC `net` may read (`read`: for sends) or write the memory of `gpu`.
bool hasGdr(const ncclTopoSystem& system, int gpu, int net, bool read,
            const ncclTopoPathOptions& options) {
  const ncclTopoGpu& device = system.nodes(Type::Gpu)[gpu].gpu;
  if (!system.nodes(Type::Net)[net].net.gdr || !device.gdr) return false;
  if (device.mloPart != kTopoUndef) return false;
  if (read && device.sm < 80 && !isNeuronSm(device.sm)) {
    // Reads through PCI disturb other PCI traffic on these generations; fine with a fabric.
    bool hasFabric = system.count(Type::Gpu) == 1;
    for (int other = 0; other < system.count(Type::Gpu); other++) {
      if (other == gpu) continue;
      hasFabric |= system.path(gpuRef(gpu), gpuRef(other)).type == Path::Nvl;
    }
    if (!hasFabric) return false;
  }
  Path distance = system.path(gpuRef(gpu), netRef(net)).type;
  if (distance == Path::Pxn) {
    const int via = ncclTopoRankToIndex(system, ncclTopoGetIntermediateRank(system, gpu, net));
    distance = system.path(gpuRef(via), netRef(net)).type;
  }
  return distance <= options.gdrLevel;
}

/// Whether the device `local`, next to the NIC, serves `gpu` better than its own way to the NIC.
bool prefersPxn(const ncclTopoSystem& system, const ncclTopoPathOptions& options, int local,
                int gpu, int net) {
  if (local == -1 || local == gpu || !hasGdr(system, local, net, true, options)) return false;
  const ncclTopoPath& localToNet = system.path(gpuRef(local), netRef(net));
  const ncclTopoPath& own = system.path(gpuRef(gpu), netRef(net));
  const bool isSameHost =
      systemIdOf(system.nodes(Type::Gpu)[local].id) == systemIdOf(system.nodes(Type::Gpu)[gpu].id);
  const bool isBetter = localToNet.bwGBps > own.bwGBps || own.type > Path::Pxn;
  const bool hasFabric = system.path(gpuRef(local), gpuRef(gpu)).type <= Path::Nvl;
  return localToNet.type <= Path::P2c && hasFabric && isSameHost && isBetter;
}

/// PXN where it helps, the CPU where the NIC cannot reach the device.
void updateNetPaths(ncclTopoSystem& system, const ncclTopoPathOptions& options, int net) {
  int local = ncclTopoGetLocalGpu(system, net);
  for (int gpu = 0; gpu < system.count(Type::Gpu); gpu++) {
    bool changed = false;
    if (options.pxn && prefersPxn(system, options, local, gpu, net)) {
      addInterStep(system, gpuRef(local), gpuRef(gpu), netRef(net));
      changed = true;
    }
    const bool isNear = system.path(gpuRef(gpu), netRef(net)).type < Path::Phb;
    if (isNear && !hasGdr(system, gpu, net, false, options)) {
      const ncclTopoNodeRef cpu = cpuRef(ncclGetLocalCpu(system, gpu));
      addInterStep(system, cpu, netRef(net), gpuRef(gpu));
      addInterStep(system, cpu, gpuRef(gpu), netRef(net));
      changed = true;
    }
    if (changed) local = ncclTopoGetLocalGpu(system, net);
  }
}

}  // namespace

void ncclTopoComputePaths(ncclTopoSystem& system, const ncclTopoPathOptions& options) {
  clearPaths(system);
  for (const Type type : kPathTargets) {
    for (int i = 0; i < system.count(type); i++)
      PathFinder(system, options, {type, i}).run();
  }
  divertDistantPairs(system, options);
  if (options.netIntra) markNetPairs(system, options);
  markP2c(system);
  for (int n = 0; n < system.count(Type::Net); n++)
    updateNetPaths(system, options, n);
  for (int n = 0; n < system.count(Type::Net); n++) {
    system.nodes(Type::Net)[n].net.localGpu = ncclTopoGetLocalGpu(system, n);
  }
}

void ncclTopoTrimSystem(ncclTopoSystem& system, int rank, int nRanks) {
  const int nGpus = system.count(Type::Gpu);
  std::vector<int> domain(nGpus);
  int ownDomain = 0;
  for (int g = 0; g < nGpus; g++) {
    domain[g] = g;
    for (int p = 0; p < g; p++) {
      if (system.path(gpuRef(g), gpuRef(p)).type < Path::Net) {
        domain[g] = std::min(domain[g], domain[p]);
      }
    }
    if (system.nodes(Type::Gpu)[g].gpu.rank == rank) ownDomain = domain[g];
  }
  for (int g = nGpus - 1; g >= 0; g--) {
    if (domain[g] != ownDomain) ncclTopoRemoveNode(system, gpuRef(g));
  }
  system.inter = system.count(Type::Gpu) != nRanks;
}

std::vector<int> ncclTopoGetLocal(const ncclTopoSystem& system, ncclTopoNodeRef from,
                                  ncclTopoNodeType type) {
  const std::vector<ncclTopoPath>& paths = system.at(from).paths[static_cast<int>(type)];
  Path closest = Path::Dis;
  float widest = 0;
  std::vector<int> locals;
  for (int i = 0; i < static_cast<int>(paths.size()); i++) {
    const ncclTopoPath& path = paths[i];
    if (path.type == Path::Dis) continue;
    if (path.bwGBps > widest || (path.bwGBps == widest && path.type < closest)) {
      widest = path.bwGBps;
      closest = path.type;
      locals.clear();
    }
    if (path.bwGBps == widest && path.type == closest) locals.push_back(i);
  }
  return locals;
}

int ncclGetLocalCpu(const ncclTopoSystem& system, int gpu) {
  const std::vector<int> cpus = ncclTopoGetLocal(system, gpuRef(gpu), Type::Cpu);
  NCCL_CHECK(!cpus.empty());  // every device hangs off a CPU
  return *std::min_element(cpus.begin(), cpus.end(), [&](int a, int b) {
    return system.path(gpuRef(gpu), cpuRef(a)).hops.size() <
           system.path(gpuRef(gpu), cpuRef(b)).hops.size();
  });
}

int ncclTopoGetLocalNet(const ncclTopoSystem& system, int gpu, int channel) {
  const std::vector<int> nets = ncclTopoGetLocal(system, gpuRef(gpu), Type::Net);
  if (nets.empty()) return -1;
  const auto nNets = static_cast<int>(nets.size());
  const auto sharing =
      static_cast<int>(ncclTopoGetLocal(system, netRef(nets[0]), Type::Gpu).size());
  const int netsPerGpu = (nNets + sharing - 1) / sharing;
  int net = system.nodes(Type::Gpu)[gpu].gpu.dev % sharing;
  if (isPow2(nNets)) net = mirrorBits(net, nNets);
  net += channel % netsPerGpu;
  return nets[net % nNets];
}

int ncclTopoGetLocalGpu(const ncclTopoSystem& system, int net) {
  const std::vector<int> gpus = ncclTopoGetLocal(system, netRef(net), Type::Gpu);
  // A GPU's NETs repeat after as many channels as there are NETs.
  const int nChannels = std::min(kChannelsTried, system.count(Type::Net));
  for (int channel = 0; channel < nChannels; channel++) {
    for (const int gpu : gpus) {
      if (ncclTopoGetLocalNet(system, gpu, channel) == net) return gpu;
    }
  }
  return -1;
}

int ncclTopoGetIntermediateRank(const ncclTopoSystem& system, int gpu, int net) {
  const ncclTopoPath& path = system.path(gpuRef(gpu), netRef(net));
  const int ownRank = system.nodes(Type::Gpu)[gpu].gpu.rank;
  if (path.type != Path::Pxn) return ownRank;
  // GPU, own DEV, perhaps switches, then the DEV of the device in between.
  for (size_t i = 1; i < path.hops.size(); i++) {
    const ncclTopoNodeRef node = hopTarget(system, path.hops[i]);
    if (node.type != Type::Dev) continue;
    for (const ncclTopoLink& link : system.at(node).links) {
      if (link.remote.type == Type::Gpu) return system.at(link.remote).gpu.rank;
    }
  }
  return ownRank;
}

ncclTopoPathRange ncclTopoGetGpuPathRange(const ncclTopoSystem& system, ncclTopoNodeType type) {
  ncclTopoPathRange range;
  for (int g = 0; g < system.count(Type::Gpu); g++) {
    for (int i = 0; i < system.count(type); i++) {
      if (type == Type::Gpu && i == g) continue;
      const Path distance = system.path(gpuRef(g), {type, i}).type;
      range.min = std::min(range.min, distance);
      range.max = std::max(range.max, distance);
    }
  }
  return range;
}

int mirrorBits(int value, int pow2) {
  int mirrored = 0;
  for (int bit = 1, mirror = pow2 >> 1; bit < pow2; bit <<= 1, mirror >>= 1) {
    if ((value & bit) != 0) mirrored |= mirror;
  }
  return mirrored;
}

}  // namespace nccom
