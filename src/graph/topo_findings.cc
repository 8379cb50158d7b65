#include "graph/topo_findings.h"

#include <utility>

namespace nccom {

const char* toText(LintSeverity severity) {
  switch (severity) {
    case LintSeverity::Note:
      return "note";
    case LintSeverity::Warning:
      return "warning";
    case LintSeverity::Error:
      return "error";
  }
  return "?";
}

std::string toText(const LintFinding& finding) {
  std::string text = finding.where.empty() ? "" : finding.where + ": ";
  text += finding.text;
  if (!finding.assumed.empty()) text += "; assumed " + finding.assumed;
  return text;
}

void Findings::addOnce(const std::string& kind, LintFinding finding) {
  const auto [known, isNew] = entryOfKind_.emplace(kind, entries_.size());
  if (isNew) {
    entries_.push_back({std::move(finding), 1});
  } else {
    entries_[known->second].nPlaces++;
  }
}

std::vector<LintFinding> Findings::take() {
  std::vector<LintFinding> findings;
  for (Entry& entry : entries_) {
    if (entry.nPlaces > 1) {
      entry.finding.text += " (the first of " + std::to_string(entry.nPlaces) + " such places)";
    }
    findings.push_back(std::move(entry.finding));
  }
  entries_.clear();
  entryOfKind_.clear();
  return findings;
}

}  // namespace nccom
