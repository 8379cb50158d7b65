// Lint of a <graphs> document, which is judged without the system that it belongs to.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/topo.h"
#include "graph/topo_lint.h"
#include "graph/topo_schema.h"

namespace nccom {
namespace {

using pugi::xml_node;
using Severity = LintSeverity;

int count(xml_node node, const char* name) {
  const auto children = node.children(name);
  return static_cast<int>(std::distance(children.begin(), children.end()));
}

class GraphsLint {
 public:
  GraphsLint(const ncclXml& xml, Findings& findings) : xml_(xml), findings_(findings) {}

  void run() {
    checkSchema(xml_, findings_);
    if (!xml_.root().child("graph")) {
      say(xml_.root(), Severity::Warning, "<graphs> has no <graph>", "that all are to be searched");
    }
    std::set<int64_t> ids;
    for (const xml_node graph : xml_.root().children("graph")) {
      const int64_t id = number(graph, "id", -1);
      if (!ids.insert(id).second) {
        say(graph, Severity::Warning, "a second <graph> with id " + std::to_string(id),
            "the first one");
      }
      lintGraph(graph);
    }
  }

 private:
  void say(xml_node node, Severity severity, std::string text, std::string assumed = "") {
    findings_.add(findingAt(xml_, node, severity, std::move(text), std::move(assumed)));
  }

  /// The value; missing or malformed is an Error, and `otherwise`.
  int64_t number(xml_node node, const char* attribute, int64_t otherwise) {
    const auto value = xmlInt(xml_, node, attribute);
    if (value.ok()) return value.value();
    sayError(node, value.error().message);
    return otherwise;
  }

  void sayError(xml_node node, const std::string& message) {
    const std::string where = xml_.where(node);
    const bool hasWhere = message.starts_with(where + ": ");
    say(node, Severity::Error, hasWhere ? message.substr(where.size() + 2) : message);
  }

  void lintGraph(xml_node graph) {
    for (const char* attribute : {"speedintra", "speedinter"}) {
      const auto value = xmlReal(xml_, graph, attribute);
      if (!value.ok()) sayError(graph, value.error().message);
    }
    for (const char* attribute : {"pattern", "crossnic", "samechannels"})
      number(graph, attribute, 0);
    for (const char* attribute : {"typeintra", "typeinter"}) {
      if (graph.attribute(attribute)) continue;
      say(graph, Severity::Error, "<graph> lacks the attribute " + std::string(attribute));
    }
    if (!graph.attribute("latencyinter")) {
      findings_.addOnce("latencyinter", findingAt(xml_, graph, Severity::Note,
                                                  "<graph> lacks the attribute latencyinter", "0"));
    }
    const int64_t nChannels = number(graph, "nchannels", -1);
    const int nFound = count(graph, "channel");
    if (nChannels != -1 && nChannels != nFound) {
      say(graph, Severity::Error,
          "<graph> has nchannels " + std::to_string(nChannels) + " and " + std::to_string(nFound) +
              " <channel>");
    }
    lintChannels(graph);
  }

  void lintChannels(xml_node graph) {
    std::multiset<std::string> firstDevs;
    xml_node firstChannel;
    std::vector<std::string> firstOrder;
    bool isSame = true;
    for (const xml_node channel : graph.children("channel")) {
      const std::vector<std::string> order = lintChannel(channel);
      const std::multiset<std::string> devs(order.begin(), order.end());
      if (!firstChannel) {
        firstChannel = channel;
        firstDevs = devs;
        firstOrder = order;
      }
      isSame = isSame && order == firstOrder;
      if (devs != firstDevs) {
        say(channel, Severity::Error,
            "<channel> has other devices than the first channel, at " + xml_.where(firstChannel));
      }
      if (count(channel, "net") != count(firstChannel, "net")) {
        say(channel, Severity::Warning, "<channel> has another number of <net> than the first one");
      }
    }
    if (graph.attribute("samechannels").as_int() != 0 && !isSame) {
      say(graph, Severity::Warning, "<graph> has samechannels 1, but its channels differ");
    }
  }

  /// The devices in order, by `dev`.
  std::vector<std::string> lintChannel(xml_node channel) {
    std::vector<std::string> order;
    std::set<std::string> seen;
    std::set<std::string> ranks;
    for (const xml_node gpu : channel.children("gpu")) {
      if (!gpu.attribute("dev")) say(gpu, Severity::Error, "<gpu> lacks the attribute dev");
      const std::string rank = gpu.attribute("rank").value();
      order.push_back(gpu.attribute("dev").value());
      const bool isNew =
          rank.empty() ? seen.insert(order.back()).second : ranks.insert(rank).second;
      if (isNew) continue;
      say(gpu, Severity::Error,
          rank.empty() ? "device " + order.back() + " is twice in this <channel>"
                       : "rank " + rank + " is twice in this <channel>");
    }
    for (const xml_node net : channel.children("net")) {
      if (!net.attribute("dev")) say(net, Severity::Error, "<net> lacks the attribute dev");
    }
    if (order.empty()) say(channel, Severity::Error, "<channel> has no <gpu>");
    const int nNets = count(channel, "net");
    if (nNets != 0 && nNets != 2) {
      say(channel, Severity::Error,
          "<channel> has " + std::to_string(nNets) + " <net>, expected 0, or 2 with several hosts");
    }
    return order;
  }

  const ncclXml& xml_;
  Findings& findings_;
};

}  // namespace

void lintGraphs(const ncclXml& xml, Findings& findings) {
  GraphsLint(xml, findings).run();
}

}  // namespace nccom
