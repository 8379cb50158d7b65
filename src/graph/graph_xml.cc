// Graphs as text: <graphs><graph><channel> in NCCL's schema, both ways, and for people.
#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "graph/search.h"

namespace nccom {
namespace {

using Type = ncclTopoNodeType;
using pugi::xml_node;

std::string hex(int64_t value) {
  std::array<char, 32> text = {};
  snprintf(text.data(), text.size(), "%#llx", static_cast<unsigned long long>(value));
  return text.data();
}

/// A device as graph files name it: host index and device number.
int64_t graphDev(const ncclTopoNode& gpu) {
  return static_cast<int64_t>(static_cast<uint64_t>(systemIdOf(gpu.id)) << 56) + gpu.gpu.dev;
}

class GraphReader {
 public:
  GraphReader(const ncclXml& xml, const ncclTopoSystem& system) : xml_(xml), system_(system) {}

  Result<ncclTopoGraph> readGraph(xml_node xmlGraph, const ncclTopoGraph& wanted) {
    ncclTopoGraph graph = wanted;
    graph.crossNic = TRY(xmlInt32(xml_, xmlGraph, "crossnic"));
    const int pattern = TRY(xmlInt32(xml_, xmlGraph, "pattern"));
    if (pattern != static_cast<int>(wanted.pattern)) {
      return fail(ncclInvalidUsage, "%s: <graph> has pattern %d, expected %d",
                  xml_.where(xmlGraph).c_str(), pattern, static_cast<int>(wanted.pattern));
    }
    graph.nChannels = TRY(xmlInt32(xml_, xmlGraph, "nchannels"));
    graph.bwIntra = static_cast<float>(TRY(xmlReal(xml_, xmlGraph, "speedintra")));
    graph.bwInter = static_cast<float>(TRY(xmlReal(xml_, xmlGraph, "speedinter")));
    graph.latencyInter = static_cast<float>(TRY(xmlRealOr(xml_, xmlGraph, "latencyinter", 0)));
    graph.typeIntra = TRY(pathType(xmlGraph, "typeintra"));
    graph.typeInter = TRY(pathType(xmlGraph, "typeinter"));
    graph.sameChannels = TRY(xmlInt32(xml_, xmlGraph, "samechannels")) != 0;
    graph.intra.clear();
    graph.inter.clear();
    for (const xml_node xmlChannel : xmlGraph.children("channel")) {
      TRY(readChannel(xmlChannel, graph));
    }
    const auto nRead = static_cast<int>(graph.intra.size());
    if (nRead != graph.nChannels || nRead > kMaxChannels) {
      return fail(ncclInvalidUsage,
                  "%s: <graph> has %d channels and nchannels %d; expected as many "
                  "as it says, at most %d",
                  xml_.where(xmlGraph).c_str(), nRead, graph.nChannels, kMaxChannels);
    }
    graph.why = {std::to_string(nRead) + " channels from " + xml_.name()};
    return graph;
  }

 private:
  Result<ncclTopoPathType> pathType(xml_node node, const char* attribute) {
    const std::string text = TRY(xmlText(xml_, node, attribute));
    const auto type = pathTypeFromText(text);
    if (!type) {
      return fail(ncclInvalidUsage, "%s: attribute %s=\"%.80s\" of <%s> is no path type",
                  xml_.where(node).c_str(), attribute, text.c_str(), node.name());
    }
    return *type;
  }

  /// `dev` of <gpu> and <net>: hexadecimal, with or without 0x.
  Result<int64_t> devOf(xml_node node) {
    const std::string text = TRY(xmlText(xml_, node, "dev"));
    const auto dev = hexToInt64(text);
    if (!dev) {
      return fail(ncclInvalidUsage, "%s: attribute dev=\"%.80s\" of <%s> is not hexadecimal",
                  xml_.where(node).c_str(), text.c_str(), node.name());
    }
    return *dev;
  }

  Result<int> rankOf(xml_node xmlGpu) {
    const int64_t dev = TRY(devOf(xmlGpu));
    const int stated = TRY(xmlInt32Or(xml_, xmlGpu, "rank", kTopoUndef));
    for (const ncclTopoNode& gpu : system_.nodes(Type::Gpu)) {
      const bool isMeant = stated == kTopoUndef ? graphDev(gpu) == dev : gpu.gpu.rank == stated;
      if (isMeant) return gpu.gpu.rank;
    }
    return fail(ncclInvalidUsage, "%s: <gpu> dev %s rank %s is not among the %d devices used here",
                xml_.where(xmlGpu).c_str(), hex(dev).c_str(),
                xmlGpu.attribute("rank").as_string("(not stated)"), system_.count(Type::Gpu));
  }

  Status readChannel(xml_node xmlChannel, ncclTopoGraph& graph) {
    std::vector<int> ranks;
    std::set<int> seen;
    for (const xml_node xmlGpu : xmlChannel.children("gpu")) {
      ranks.push_back(TRY(rankOf(xmlGpu)));
      if (!seen.insert(ranks.back()).second) {
        return fail(ncclInvalidUsage, "%s: rank %d is twice in this <channel>",
                    xml_.where(xmlGpu).c_str(), ranks.back());
      }
    }
    if (static_cast<int>(ranks.size()) != system_.count(Type::Gpu)) {
      return fail(ncclInvalidUsage, "%s: <channel> has %zu devices, expected all %d used here",
                  xml_.where(xmlChannel).c_str(), ranks.size(), system_.count(Type::Gpu));
    }
    graph.intra.push_back(std::move(ranks));
    if (!system_.inter) return Ok{};
    std::vector<int64_t> nets;
    for (const xml_node xmlNet : xmlChannel.children("net")) {
      nets.push_back(TRY(devOf(xmlNet)));
      if (ncclTopoIdToIndex(system_, Type::Net, nets.back()) == -1) {
        return fail(ncclInvalidUsage, "%s: <net> dev %s is not in the system",
                    xml_.where(xmlNet).c_str(), hex(nets.back()).c_str());
      }
    }
    if (nets.size() != 2) {
      return fail(ncclInvalidUsage, "%s: <channel> has %zu <net>, expected 2 (several hosts)",
                  xml_.where(xmlChannel).c_str(), nets.size());
    }
    graph.inter.push_back({nets[0], nets[1]});
    return Ok{};
  }

  const ncclXml& xml_;
  const ncclTopoSystem& system_;
};

Status appendChannel(xml_node xmlGraph, const ncclTopoGraph& graph, int channel,
                     const ncclTopoSystem& system) {
  xml_node xmlChannel = xmlGraph.append_child("channel");
  const bool hasNets = channel < static_cast<int>(graph.inter.size());
  if (hasNets) setXml(xmlChannel.append_child("net"), "dev", hex(graph.inter[channel][0]));
  for (const int rank : graph.intra[channel]) {
    const int gpu = ncclTopoRankToIndex(system, rank);
    if (gpu == -1) {
      return fail(ncclInvalidArgument, "rank %d of channel %d is not in the system", rank, channel);
    }
    const xml_node xmlGpu = xmlChannel.append_child("gpu");
    setXml(xmlGpu, "dev", hex(graphDev(system.nodes(Type::Gpu)[gpu])));
    setXml(xmlGpu, "rank", rank);
  }
  if (hasNets) setXml(xmlChannel.append_child("net"), "dev", hex(graph.inter[channel][1]));
  return Ok{};
}

std::string nodeText(const char* type, int64_t id) {
  std::array<char, 64> text = {};
  snprintf(text.data(), text.size(), " %s/%x-%llx", type, systemIdOf(id),
           static_cast<unsigned long long>(localIdOf(id)));
  return text.data();
}

}  // namespace

Result<ncclXml> ncclTopoGetXmlFromGraphs(const std::vector<ncclTopoGraph>& graphs,
                                         const ncclTopoSystem& system) {
  ncclXml xml = ncclXml::create("graphs");
  for (const ncclTopoGraph& graph : graphs) {
    const xml_node xmlGraph = xml.root().append_child("graph");
    setXml(xmlGraph, "id", graph.id);
    setXml(xmlGraph, "pattern", static_cast<int>(graph.pattern));
    setXml(xmlGraph, "crossnic", graph.crossNic);
    setXml(xmlGraph, "nchannels", graph.nChannels);
    setXml(xmlGraph, "speedintra", graph.bwIntra);
    setXml(xmlGraph, "speedinter", graph.bwInter);
    setXml(xmlGraph, "latencyinter", graph.latencyInter);
    setXml(xmlGraph, "typeintra", std::string(toText(graph.typeIntra)));
    setXml(xmlGraph, "typeinter", std::string(toText(graph.typeInter)));
    setXml(xmlGraph, "samechannels", graph.sameChannels ? 1 : 0);
    for (int c = 0; c < graph.nChannels; c++)
      TRY(appendChannel(xmlGraph, graph, c, system));
  }
  return xml;
}

Result<ncclTopoGraph> ncclTopoGetGraphFromXml(const ncclXml& xml, const ncclTopoSystem& system,
                                              const ncclTopoGraph& wanted) {
  TRY(checkRoot(xml, "graphs"));
  GraphReader reader(xml, system);
  for (const xml_node xmlGraph : xml.root().children("graph")) {
    if (TRY(xmlInt32(xml, xmlGraph, "id")) == wanted.id) return reader.readGraph(xmlGraph, wanted);
  }
  ncclTopoGraph none = wanted;
  none.nChannels = 0;
  none.why.push_back(xml.name() + " has no graph with id " + std::to_string(wanted.id));
  return none;
}

std::string ncclTopoPrintGraph(const ncclTopoSystem& system, const ncclTopoGraph& graph) {
  std::string out =
      fail(ncclSuccess,
           "Pattern %d, crossNic %d, nChannels %d, bw %f/%f, type %s/%s, sameChannels %d\n",
           static_cast<int>(graph.pattern), graph.crossNic, graph.nChannels,
           static_cast<double>(graph.bwIntra), static_cast<double>(graph.bwInter),
           toText(graph.typeIntra), toText(graph.typeInter), graph.sameChannels)
          .message;
  for (int c = 0; c < graph.nChannels; c++) {
    std::array<char, 32> number = {};
    snprintf(number.data(), number.size(), "%2d :", c);
    out += number.data();
    const bool hasNets = c < static_cast<int>(graph.inter.size());
    if (hasNets) out += nodeText("NET", graph.inter[c][0]);
    for (const int rank : graph.intra[c]) {
      const int gpu = ncclTopoRankToIndex(system, rank);
      out += gpu == -1 ? " GPU/?" : nodeText("GPU", system.nodes(Type::Gpu)[gpu].id);
    }
    if (hasNets) out += nodeText("NET", graph.inter[c][1]);
    out += '\n';
  }
  return out;
}

}  // namespace nccom
