#include "tools/nccom/topo_run.h"

#include <filesystem>
#include <set>
#include <string_view>

#include "graph/graph.h"

namespace nccom {
namespace {

using pugi::xml_node;

struct Contents {
  std::set<int> devs;
  int nGpus = 0;
  int nRanks = 0;  // <gpu> elements that have one
  int nNets = 0;
};

Status countBelow(const ncclXml& xml, xml_node node, Contents& contents) {
  for (const xml_node child : node.children()) {
    const std::string_view name = child.name();
    if (name == "gpu") {
      contents.nGpus++;
      if (child.attribute("rank")) contents.nRanks++;
      contents.devs.insert(TRY(xmlInt32(xml, child, "dev")));
    }
    if (name == "net") contents.nNets++;
    TRY(countBelow(xml, child, contents));
  }
  return Ok{};
}

/// A document that says nothing of ranks: one a device.
Status giveRanks(const ncclXml& xml, const Contents& contents) {
  std::vector<LocalRank> ranks;
  for (const int dev : contents.devs)
    ranks.push_back({static_cast<int>(ranks.size()), dev});
  return setRanks(xml, ranks);
}

}  // namespace

Result<ncclXml> loadTopology(const TopoSource& source) {
  if (!source.file.empty()) return ncclXml::readFile(source.file);
  if (source.platform == kHostPlatform) return hostTopoGetXml(0);
  const NeuronPlatform* platform = TRY(findPlatform(source.platform));
  return neuronTopoGetXml(*platform, TRY(checkLnc(*platform, source.lnc)));
}

Result<TopoAnswer> runTopo(const TopoSource& source, const TopoMode& mode,
                           const PipelineOptions& options) {
  const ncclXml xml = TRY(loadTopology(source));
  TRY(checkRoot(xml, "system"));
  Contents contents;
  TRY(countBelow(xml, xml.root(), contents));
  TopoAnswer answer;
  answer.mode = mode;
  answer.name = source.file.empty() ? source.platform
                                    : std::filesystem::path(source.file).filename().string();
  answer.nGpus = contents.nGpus;
  answer.nNets = contents.nNets;
  if (contents.nRanks == 0) TRY(giveRanks(xml, contents));
  TopoDomain domain = TRY(topoDirect(xml, mode.inter, options, answer.notes));
  TRY(searchGraphs(domain, options));
  answer.domains.push_back(std::move(domain));
  return answer;
}

Json answerJson(const TopoAnswer& answer) {
  Json json;
  json["file"] = answer.name;
  json["ngpus"] = answer.nGpus;
  json["nnets"] = answer.nNets;
  for (const auto& [key, value] : domainJson(answer.domains[0]).items())
    json[key] = value;
  return json;
}

}  // namespace nccom
