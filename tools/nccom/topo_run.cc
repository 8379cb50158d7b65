#include "tools/nccom/topo_run.h"

#include <string_view>
#include <utility>

namespace nccom {
namespace {

constexpr int kNeuronChannels = 16;  // of a search; joining hosts doubles them

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
          {"mode", answer.isDirect() ? "direct" : "pipeline"},
          {"nNodes", answer.topology.hosts.size()},
          {"mnnvl", answer.mode.kind == TopoMode::Kind::Clique ? 1 : 0}};
}

}  // namespace

PipelineOptions optionsFor(const Topology& topology, const TopoMode& mode,
                           const TopoChoice& choice) {
  PipelineOptions options;
  options.search = choice.search;
  options.neuronSearch = choice.neuronSearch;
  options.hostOrder = topology.hostOrder;
  options.clique = mode.kind == TopoMode::Kind::Clique;
  options.fuse = topology.fromFile;
  options.paths.netIntra = topology.fromFile && mode.kind != TopoMode::Kind::Direct;
  if (!topology.fromFile) {
    options.maxChannels = kNeuronChannels;
    options.maxJoined = kMaxChannels;
  }
  return options;
}

Result<TopoAnswer> runTopo(const TopoSource& source, const TopoMode& mode,
                           const TopoChoice& choice) {
  TopoAnswer answer;
  answer.mode = mode;
  answer.topology = TRY(loadTopology(source, mode.nHosts));
  const ncclXml& xml = answer.topology.document();
  answer.nGpus =
      mode.gpus.empty() ? countBelow(xml.root(), "gpu") : static_cast<int>(mode.gpus.size());
  answer.nNets = countBelow(xml.root(), "net");
  const PipelineOptions options = optionsFor(answer.topology, mode, choice);
  if (answer.isDirect()) {
    TRY(giveRanks(xml));
    TopoDomain domain = TRY(topoDirect(xml, mode.inter, options, answer.result.notes));
    TRY(searchGraphs(domain, options));
    answer.result.domains.push_back(std::move(domain));
    return answer;
  }
  for (PipelineHost& host : answer.topology.hosts)
    if (!mode.gpus.empty()) host.gpus = mode.gpus;
  answer.result = TRY(runPipeline(answer.topology.hosts, options));
  return answer;
}

Json answerJson(const TopoAnswer& answer) {
  Json json;
  json["oracle"] = oracleJson(answer);
  json["file"] = answer.topology.name;
  json["ngpus"] = answer.nGpus;
  json["nnets"] = answer.nNets;
  json["gpuSelection"] = join(answer.mode.gpus);
  if (answer.isDirect()) {
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
