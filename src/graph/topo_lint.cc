#include "graph/topo_lint.h"

#include <utility>

namespace nccom {
namespace {

/// A message "file:line:column: text" in its parts.
LintFinding errorFinding(const std::string& message, const std::string& fileName) {
  LintFinding finding{LintSeverity::Error, fileName, message, ""};
  if (!message.starts_with(fileName + ":")) return finding;
  const size_t end = message.find(": ", fileName.size());
  if (end == std::string::npos) return finding;
  finding.where = message.substr(0, end);
  finding.text = message.substr(end + 2);
  return finding;
}

}  // namespace

std::vector<LintFinding> lintTopo(const ncclXml& xml) {
  Findings findings;
  const std::string_view root = xml.root().name();
  const std::string rootName(root == "graphs" ? "graphs" : "system");
  const auto version = checkRoot(xml, rootName.c_str());
  if (!version.ok()) findings.add(errorFinding(version.error().message, xml.name()));
  if (root == "system") lintSystem(xml, findings);
  if (root == "graphs") lintGraphs(xml, findings);
  return findings.take();
}

std::vector<LintFinding> lintTopoFile(const std::string& path) {
  auto text = ncclXml::readText(path);
  if (!text.ok()) return {errorFinding(text.error().message, path)};
  auto xml = ncclXml::parse(text.value(), path);
  if (!xml.ok()) return {errorFinding(xml.error().message, path)};
  Findings findings;
  lintText(text.value(), path, findings);
  std::vector<LintFinding> found = findings.take();
  for (LintFinding& finding : lintTopo(xml.value()))
    found.push_back(std::move(finding));
  return found;
}

}  // namespace nccom
