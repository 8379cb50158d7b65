#include "tools/nccom/topo_diff.h"

#include <algorithm>
#include <map>
#include <set>

#include "tools/nccom/topo_tree.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;

constexpr size_t kMaxPairs = 12;  // paths of one kind that are listed

std::string hex(int64_t id) {
  return fail(ncclSuccess, "0x%llx", static_cast<unsigned long long>(id)).message;
}

/// "GPU rank 3", "PCI 0x3000": names that mean the same in both systems.
std::string nameOf(const ncclTopoSystem& system, ncclTopoNodeRef ref) {
  const ncclTopoNode& node = system.at(ref);
  if (node.type == Type::Gpu) return "GPU rank " + std::to_string(node.gpu.rank);
  return std::string(toText(node.type)) + " " + hex(node.id);
}

std::string join(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers)
    text += (text.empty() ? "" : " ") + std::to_string(number);
  return text;
}

class Differ {
 public:
  std::vector<std::string> lines;

  void text(const std::string& what, const std::string& a, const std::string& b) {
    if (a != b) lines.push_back(what + ": " + a + " | " + b);
  }
  void number(const std::string& what, int64_t a, int64_t b) {
    text(what, std::to_string(a), std::to_string(b));
  }
  void rate(const std::string& what, float a, float b) {
    text(what, rateText(a) + " GB/s", rateText(b) + " GB/s");
  }
  /// Members that only one of two sets has.
  void sets(const std::string& what, const std::multiset<std::string>& a,
            const std::multiset<std::string>& b) {
    std::vector<std::string> only;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(only));
    for (const std::string& member : only)
      lines.push_back(what + ": only the first has " + member);
    only.clear();
    std::set_difference(b.begin(), b.end(), a.begin(), a.end(), std::back_inserter(only));
    for (const std::string& member : only)
      lines.push_back(what + ": only the second has " + member);
  }
};

std::multiset<std::string> nodeNames(const ncclTopoSystem& system) {
  std::multiset<std::string> names;
  for (int t = 0; t < kTopoNodeTypes; t++) {
    for (int i = 0; i < system.count(static_cast<Type>(t)); i++)
      names.insert(nameOf(system, {static_cast<Type>(t), i}));
  }
  return names;
}

std::multiset<std::string> linkNames(const ncclTopoSystem& system,
                                     const std::multiset<std::string>& shared) {
  std::multiset<std::string> names;
  for (const std::vector<ncclTopoNode>& nodes : system.nodesOfType) {
    for (int i = 0; i < static_cast<int>(nodes.size()); i++) {
      const std::string from = nameOf(system, {nodes[i].type, i});
      for (const ncclTopoLink& link : nodes[i].links) {
        const std::string to = nameOf(system, link.remote);
        if (!shared.contains(from) || !shared.contains(to)) continue;
        names.insert(from + " to " + to + " by " + toText(link.type) + " of " +
                     rateText(link.bwGBps) + " GB/s");
      }
    }
  }
  return names;
}

void diffSystems(Differ& differ, const ncclTopoSystem& a, const ncclTopoSystem& b) {
  differ.rate("widest channel", a.maxBw, b.maxBw);
  differ.rate("bandwidth of a rank", a.totalBw, b.totalBw);
  differ.number("hosts", static_cast<int64_t>(a.hostHashes.size()),
                static_cast<int64_t>(b.hostHashes.size()));
  const std::multiset<std::string> nodesA = nodeNames(a);
  const std::multiset<std::string> nodesB = nodeNames(b);
  differ.sets("nodes", nodesA, nodesB);
  std::multiset<std::string> shared;
  std::set_intersection(nodesA.begin(), nodesA.end(), nodesB.begin(), nodesB.end(),
                        std::inserter(shared, shared.end()));
  differ.sets("links", linkNames(a, shared), linkNames(b, shared));
}

using PathNames = std::map<std::pair<std::string, std::string>, std::string>;

PathNames pathNames(const ncclTopoSystem& system) {
  PathNames names;
  for (int g = 0; g < system.count(Type::Gpu); g++) {
    for (const Type type : {Type::Gpu, Type::Net}) {
      for (int i = 0; i < system.count(type); i++) {
        const ncclTopoPath& path = system.path(gpuRef(g), {type, i});
        names[{nameOf(system, gpuRef(g)), nameOf(system, {type, i})}] =
            std::string(toText(path.type)) + " " + rateText(path.bwGBps);
      }
    }
  }
  return names;
}

/// Pairs that both have, by what has become of their path.
void diffPaths(Differ& differ, const ncclTopoSystem& a, const ncclTopoSystem& b) {
  const PathNames pathsB = pathNames(b);
  std::map<std::string, std::vector<std::string>> changes;
  for (const auto& [pair, path] : pathNames(a)) {
    const auto other = pathsB.find(pair);
    if (other == pathsB.end() || other->second == path) continue;
    changes[path + " | " + other->second].push_back(pair.first + " to " + pair.second);
  }
  for (const auto& [change, pairs] : changes) {
    std::string line = std::to_string(pairs.size()) + " paths: " + change + ": ";
    for (size_t i = 0; i < std::min(pairs.size(), kMaxPairs); i++)
      line += (i == 0 ? "" : ", ") + pairs[i];
    differ.lines.push_back(line + (pairs.size() > kMaxPairs ? ", ..." : ""));
  }
}

void diffGraphs(Differ& differ, const std::string& name, const ncclTopoGraph& a,
                const ncclTopoGraph& b) {
  differ.number(name + " channels", a.nChannels, b.nChannels);
  differ.rate(name + " inside", a.bwIntra, b.bwIntra);
  differ.rate(name + " to the network", a.bwInter, b.bwInter);
  differ.text(name + " paths inside", toText(a.typeIntra), toText(b.typeIntra));
  differ.text(name + " paths to the network", toText(a.typeInter), toText(b.typeInter));
  differ.number(name + " sameChannels", a.sameChannels ? 1 : 0, b.sameChannels ? 1 : 0);
  differ.number(name + " crossNic", a.crossNic, b.crossNic);
  for (int c = 0; c < std::min(a.nChannels, b.nChannels); c++) {
    differ.text(name + " channel " + std::to_string(c), join(a.intra[c]), join(b.intra[c]));
    if (c >= static_cast<int>(std::min(a.inter.size(), b.inter.size()))) continue;
    differ.text(name + " channel " + std::to_string(c) + " NICs",
                hex(a.inter[c][0]) + " " + hex(a.inter[c][1]),
                hex(b.inter[c][0]) + " " + hex(b.inter[c][1]));
  }
}

void diffGlobal(Differ& differ, const PipelineResult& a, const PipelineResult& b) {
  differ.number("ranks", static_cast<int64_t>(a.nodeOf.size()),
                static_cast<int64_t>(b.nodeOf.size()));
  differ.text("nodes of the ranks", join(a.nodeOf), join(b.nodeOf));
  const auto& ringsA = a.global.rings;
  const auto& ringsB = b.global.rings;
  differ.number("rings", static_cast<int64_t>(ringsA.size()), static_cast<int64_t>(ringsB.size()));
  for (size_t c = 0; c < std::min(ringsA.size(), ringsB.size()); c++)
    differ.text("ring " + std::to_string(c), join(ringsA[c]), join(ringsB[c]));
  for (size_t c = 0; c < std::min(a.global.trees.size(), b.global.trees.size()); c++) {
    if (a.global.trees[c] != b.global.trees[c]) {
      differ.lines.push_back("tree " + std::to_string(c) + " differs");
    }
  }
}

}  // namespace

std::vector<std::string> diffAnswers(const TopoAnswer& a, const TopoAnswer& b) {
  Differ differ;
  const auto& domainsA = a.result.domains;
  const auto& domainsB = b.result.domains;
  differ.number("domains", static_cast<int64_t>(domainsA.size()),
                static_cast<int64_t>(domainsB.size()));
  for (size_t d = 0; d < std::min(domainsA.size(), domainsB.size()); d++) {
    diffSystems(differ, domainsA[d].system, domainsB[d].system);
    diffPaths(differ, domainsA[d].system, domainsB[d].system);
    diffGraphs(differ, "Ring", domainsA[d].ring, domainsB[d].ring);
    diffGraphs(differ, "Tree", domainsA[d].tree, domainsB[d].tree);
  }
  if (!a.isDirect()) diffGlobal(differ, a.result, b.result);
  return differ.lines;
}

}  // namespace nccom
