#include "tools/nccom/topo_run.h"

#include <filesystem>
#include <string_view>

#include "graph/platform.h"

namespace nccom {
namespace {

/// Elements of a name anywhere below.
int countBelow(pugi::xml_node node, std::string_view name, const char* attribute = nullptr) {
  int count = 0;
  for (const pugi::xml_node child : node.children()) {
    const bool isOne = child.name() == name;
    if (isOne && (attribute == nullptr || child.attribute(attribute))) count++;
    count += countBelow(child, name, attribute);
  }
  return count;
}

/// A document that says nothing of ranks: one a device.
Status giveRanks(const ncclXml& xml) {
  if (countBelow(xml.root(), "gpu", "rank") > 0) return Ok{};
  int rank = 0;
  for (pugi::xml_node gpu : TRY(topoGpus(xml)))
    setXml(gpu, "rank", rank++);
  return Ok{};
}

std::string join(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers)
    text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

Json oracleJson(const TopoAnswer& answer) {
  return {{"library", "nccom"},
          {"mode", answer.mode.kind == TopoMode::Kind::Direct ? "direct" : "pipeline"},
          {"nNodes", answer.mode.nHosts},
          {"mnnvl", answer.mode.kind == TopoMode::Kind::Clique ? 1 : 0}};
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
  TopoAnswer answer;
  answer.mode = mode;
  answer.name = source.file.empty() ? source.platform
                                    : std::filesystem::path(source.file).filename().string();
  answer.nGpus =
      mode.gpus.empty() ? countBelow(xml.root(), "gpu") : static_cast<int>(mode.gpus.size());
  answer.nNets = countBelow(xml.root(), "net");
  answer.gpuSelection = join(mode.gpus);
  if (mode.kind == TopoMode::Kind::Direct) {
    TRY(giveRanks(xml));
    TopoDomain domain = TRY(topoDirect(xml, mode.inter, options, answer.result.notes));
    TRY(searchGraphs(domain, options));
    answer.result.domains.push_back(std::move(domain));
    return answer;
  }
  PipelineOptions piped = options;
  piped.clique = mode.kind == TopoMode::Kind::Clique;
  const std::vector<PipelineHost> hosts(mode.nHosts, PipelineHost{&xml, mode.gpus});
  answer.result = TRY(runPipeline(hosts, piped));
  return answer;
}

Json answerJson(const TopoAnswer& answer) {
  Json json;
  json["oracle"] = oracleJson(answer);
  json["file"] = answer.name;
  json["ngpus"] = answer.nGpus;
  json["nnets"] = answer.nNets;
  json["gpuSelection"] = answer.gpuSelection;
  if (answer.mode.kind == TopoMode::Kind::Direct) {
    json.update(domainJson(answer.result.domains[0]));
    return json;
  }
  json["domains"] = Json::array();
  for (const TopoDomain& domain : answer.result.domains) {
    Json part = {{"ranks", domain.ranks}};
    part.update(domainJson(domain));
    json["domains"].push_back(part);
  }
  json["global"] = globalJson(answer.result);
  return json;
}

}  // namespace nccom
