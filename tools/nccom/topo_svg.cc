#include "tools/nccom/topo_svg.h"

#include "tools/nccom/topo_tree.h"

namespace nccom {
namespace {

std::string headline(const TopoAnswer& answer, const TopoDomain& domain) {
  std::string text = answer.topology.name;
  if (const NeuronFabric* fabric = answer.topology.fabric()) {
    text += ", LNC " + std::to_string(fabric->lnc);
  }
  text += ": " + std::to_string(domain.ranks.size()) + " ranks";
  const size_t nDomains = answer.result.domains.size();
  if (nDomains > 1) text += " (the first of " + std::to_string(nDomains) + " domains)";
  const size_t nHosts = answer.topology.hosts.size();
  if (nHosts > 1) text += ", one of " + std::to_string(nHosts) + " hosts";
  return text;
}

std::string ringLine(const ncclTopoGraph& ring) {
  std::string text = "Ring: " + std::to_string(ring.nChannels) + " channels of " +
                     rateText(ring.bwIntra) + " GB/s (" + toText(ring.typeIntra) + ")";
  if (!ring.inter.empty()) {
    text += ", " + rateText(ring.bwInter) + " GB/s to the network (" + toText(ring.typeInter) + ")";
  }
  return text;
}

}  // namespace

std::string answerSvg(const TopoAnswer& answer) {
  Svg svg;
  const TopoDomain& domain = answer.result.domains[0];
  const SvgTextStyle title = {.size = 18, .anchor = SvgAnchor::Start, .bold = true};
  const SvgTextStyle plain = {.size = 13, .anchor = SvgAnchor::Start};
  svg.text({16, 24}, headline(answer, domain), title);
  svg.text({16, 46}, ringLine(domain.ring), plain);
  const PipelineHost& host = answer.topology.hosts[0];
  if (host.fabric != nullptr) {
    drawFabric(svg, domain, host, 70);
  } else {
    drawTree(svg, domain, 70);
  }
  return svg.finish();
}

}  // namespace nccom
