#include "tools/nccom/topo_text.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>

#include "tools/nccom/topo_tree.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;

constexpr int kMaxColumns = 24;    // of a path table
constexpr size_t kMaxRanks = 128;  // of a ring that is printed whole

[[gnu::format(printf, 2, 3)]] void print(std::string& out, const char* format, ...) {
  va_list args;
  va_start(args, format);
  out += formatted(format, args);
  va_end(args);
}

// ---- the tree -----------------------------------------------------------------------------------

void printBox(std::string& out, const TopoBox& box, const std::string& indent,
              const std::string& stem) {
  out += indent + stem + box.title;
  if (box.upGBps > 0 && box.upGBps < kLocalGBps) out += "  " + rateText(box.upGBps) + " GB/s";
  if (!box.facts.empty()) out += "  (" + box.facts + ")";
  std::string fabric;
  for (const std::string& link : box.fabric)
    fabric += (fabric.empty() ? "  [" : ", ") + link;
  if (!fabric.empty()) out += fabric + "]";
  out += '\n';
  const std::string below = indent + (stem.empty()                 ? ""
                                      : stem.starts_with("\u2514") ? "   "
                                                                   : "\u2502  ");
  for (size_t i = 0; i < box.children.size(); i++) {
    const bool isLast = i + 1 == box.children.size();
    printBox(out, box.children[i], below, isLast ? "\u2514\u2500 " : "\u251c\u2500 ");
  }
}

// ---- paths --------------------------------------------------------------------------------------

struct Column {
  std::string name;
  ncclTopoNodeRef node;
};

std::vector<Column> columnsOf(const ncclTopoSystem& system) {
  std::vector<Column> columns;
  for (int g = 0; g < system.count(Type::Gpu); g++)
    columns.push_back({"r" + std::to_string(system.nodes(Type::Gpu)[g].gpu.rank), gpuRef(g)});
  for (int n = 0; n < system.count(Type::Net); n++)
    columns.push_back(
        {"net" + std::to_string(localIdOf(system.nodes(Type::Net)[n].id)), netRef(n)});
  return columns;
}

void printPathTable(std::string& out, const ncclTopoSystem& system) {
  const std::vector<Column> columns = columnsOf(system);
  print(out, "%-6s", "");
  for (const Column& column : columns)
    print(out, "%10s", column.name.c_str());
  out += '\n';
  for (int g = 0; g < system.count(Type::Gpu); g++) {
    print(out, "%-6s", columns[g].name.c_str());
    for (const Column& column : columns) {
      const ncclTopoPath& path = system.path(gpuRef(g), column.node);
      const std::string rate = path.type == ncclTopoPathType::Dis ? "" : rateText(path.bwGBps);
      const std::string cell =
          column.node == gpuRef(g) ? "-" : std::string(toText(path.type)) + " " + rate;
      print(out, "%10s", cell.c_str());
    }
    out += '\n';
  }
}

/// Of many devices: how many paths of each kind a device has.
void printPathCounts(std::string& out, const ncclTopoSystem& system) {
  std::map<std::string, std::vector<int>> ranksOf;  // by what they see
  for (int g = 0; g < system.count(Type::Gpu); g++) {
    std::map<std::pair<Type, ncclTopoPathType>, std::map<float, int>> counts;
    for (const Column& column : columnsOf(system)) {
      if (column.node == gpuRef(g)) continue;
      const ncclTopoPath& path = system.path(gpuRef(g), column.node);
      counts[{column.node.type, path.type}][path.bwGBps]++;
    }
    std::string line;
    for (const auto& [kind, rates] : counts) {
      for (const auto& [gbps, count] : rates) {
        print(line, "%s%d %s %s %s GB/s", line.empty() ? "" : ", ", count, toText(kind.first),
              toText(kind.second), rateText(gbps).c_str());
      }
    }
    ranksOf[line].push_back(system.nodes(Type::Gpu)[g].gpu.rank);
  }
  for (const auto& [line, ranks] : ranksOf) {
    print(out, "%zu ranks (%d%s) reach %s\n", ranks.size(), ranks[0],
          ranks.size() > 1 ? " ..." : "", line.c_str());
  }
}

// ---- graphs -------------------------------------------------------------------------------------

std::string rankList(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), kMaxRanks); i++)
    text += (i == 0 ? "" : " ") + std::to_string(ranks[i]);
  if (ranks.size() > kMaxRanks) text += " ... (" + std::to_string(ranks.size()) + " ranks)";
  return text;
}

void printGraph(std::string& out, const char* name, const ncclTopoGraph& graph) {
  print(out, "%s: %d channels of %s GB/s inside (%s)", name, graph.nChannels,
        rateText(graph.bwIntra).c_str(), toText(graph.typeIntra));
  if (!graph.inter.empty()) {
    print(out, ", %s GB/s to the network (%s)", rateText(graph.bwInter).c_str(),
          toText(graph.typeInter));
  }
  print(out, "%s%s\n", graph.sameChannels && graph.nChannels > 1 ? ", all in one order" : "",
        graph.crossNic > 0 ? ", NICs may differ" : "");
  for (int c = 0; c < graph.nChannels; c++) {
    int last = c;  // equal channels are printed once
    const bool hasNets = c < static_cast<int>(graph.inter.size());
    while (last + 1 < graph.nChannels && graph.intra[last + 1] == graph.intra[c] &&
           (!hasNets || graph.inter[last + 1] == graph.inter[c]))
      last++;
    print(out, last == c ? "  %d:  " : "  %d-%d:  ", c, last);
    if (hasNets) print(out, "NET %lld > ", static_cast<long long>(localIdOf(graph.inter[c][0])));
    out += rankList(graph.intra[c]);
    if (hasNets) print(out, " > NET %lld", static_cast<long long>(localIdOf(graph.inter[c][1])));
    out += '\n';
    c = last;
  }
}

void printNeuron(std::string& out, const NeuronFabric& fabric, const NeuronGraph& graph) {
  print(out, "\nNeuron search (%s), which the library uses: %d channels of %s GB/s, %zu tours\n",
        neuronCalculator(fabric.family), graph.ring.nChannels, rateText(graph.ring.bwIntra).c_str(),
        graph.tours.size());
  for (size_t t = 0; t < graph.tours.size(); t++)
    print(out, "  tour %zu:  %s\n", t, rankList(graph.tours[t].devices).c_str());
  for (size_t p = 0; p < graph.kangaring.paths.size(); p++) {
    print(out, "  kangaring %zu:  %s\n", p, rankList(graph.kangaring.paths[p].ranks()).c_str());
  }
  for (size_t c = 0; c < graph.mlaCycles.size(); c++)
    print(out, "  device cycle %zu:  %s\n", c, rankList(graph.mlaCycles[c]).c_str());
}

void printDomain(std::string& out, const TopoDomain& domain, const NeuronFabric* fabric) {
  const ncclTopoSystem& system = domain.system;
  print(out,
        "System: %d ranks, %d NICs, %zu host%s; %s GB/s a channel and %s GB/s a rank at most\n",
        system.count(Type::Gpu), system.count(Type::Net), system.hostHashes.size(),
        system.hostHashes.size() == 1 ? "" : "s", rateText(system.maxBw).c_str(),
        rateText(system.totalBw).c_str());
  for (const TopoBox& root : topoTree(system))
    printBox(out, root, "", "");
  out += "\nPaths (type and GB/s)\n";
  if (system.count(Type::Gpu) + system.count(Type::Net) <= kMaxColumns) {
    printPathTable(out, system);
  } else {
    printPathCounts(out, system);
  }
  out += '\n';
  printGraph(out, "Ring", domain.ring);
  printGraph(out, "Tree", domain.tree);
  if (domain.neuron && fabric != nullptr) printNeuron(out, *fabric, *domain.neuron);
}

void printGlobal(std::string& out, const PipelineResult& result) {
  const ncclGlobalChannels& global = result.global;
  const int nNodes = *std::max_element(result.nodeOf.begin(), result.nodeOf.end()) + 1;
  print(out, "\nCommunicator: %zu ranks on %d nodes, %zu channels (%d searched)\n",
        result.nodeOf.size(), nNodes, global.rings.size(), global.nSearched);
  for (size_t c = 0; c < global.rings.size(); c++) {
    size_t last = c;
    while (last + 1 < global.rings.size() && global.rings[last + 1] == global.rings[c])
      last++;
    print(out, last == c ? "  ring %zu:  " : "  ring %zu-%zu:  ", c, last);
    out += rankList(global.rings[c]) + "\n";
    c = last;
  }
  const auto rootOf = [&](size_t c) {
    const auto root = std::find_if(global.trees[c].begin(), global.trees[c].end(),
                                   [](const ncclTree& place) { return place.up == -1; });
    return static_cast<int>(root - global.trees[c].begin());
  };
  for (size_t c = 0; c < global.trees.size(); c++) {
    size_t last = c;
    while (last + 1 < global.trees.size() && rootOf(last + 1) == rootOf(c))
      last++;
    print(out, last == c ? "  tree %zu:  " : "  tree %zu-%zu:  ", c, last);
    print(out, "root %d, at most %d hops deep\n", rootOf(c), global.treeDepth);
    c = last;
  }
}

void explainGraph(std::string& out, const char* name, const std::vector<std::string>& why) {
  print(out, "%s\n", name);
  for (const std::string& line : why)
    out += "  " + line + "\n";
}

}  // namespace

std::string answerText(const TopoAnswer& answer) {
  std::string out;
  const auto& domains = answer.result.domains;
  print(out, "%s", answer.topology.name.c_str());
  if (const NeuronFabric* fabric = answer.topology.fabric()) {
    print(out, ": %d devices of %d logical cores (LNC %d) a host", fabric->devicesPerHost,
          fabric->coresPerDevice, fabric->lnc);
  }
  out += "\n\n";
  for (size_t d = 0; d < domains.size(); d++) {
    if (domains.size() > 1)
      print(out, "%s--- domain %zu of %zu\n", d ? "\n" : "", d, domains.size());
    printDomain(out, domains[d], answer.topology.fabric());
  }
  if (!answer.isDirect()) printGlobal(out, answer.result);
  return out;
}

std::string explainText(const TopoAnswer& answer) {
  std::string out;
  const auto& domains = answer.result.domains;
  for (size_t d = 0; d < domains.size(); d++) {
    if (domains.size() > 1) print(out, "--- domain %zu of %zu\n", d, domains.size());
    explainGraph(out, "Ring search", domains[d].ring.why);
    explainGraph(out, "Tree search", domains[d].tree.why);
    if (domains[d].neuron) explainGraph(out, "Neuron search", domains[d].neuron->why);
  }
  return out;
}

}  // namespace nccom
