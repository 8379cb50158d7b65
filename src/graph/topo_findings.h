// What a reader of a topology or graph file has to say about it: where, what, and what was assumed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nccom {

/// Note: unusual, or a default that any reader takes. Warning: NCCL would refuse it or a person
/// probably meant something else; it is read, and `assumed` says as what. Error: it is refused.
enum class LintSeverity : uint8_t { Note, Warning, Error };

const char* toText(LintSeverity severity);  // "note", "warning", "error"

struct LintFinding {
  LintSeverity severity = LintSeverity::Note;
  std::string where;    // file:line:column, or the file alone
  std::string text;     // what was found, and what was expected
  std::string assumed;  // what it counts as; empty: no assumption is needed
  bool operator==(const LintFinding&) const = default;
};

/// "where: text; assumed ..."
std::string toText(const LintFinding& finding);

/// Collects findings, and says a thing that holds in many places once: at its first place, with
/// the number of places.
class Findings {
 public:
  void add(LintFinding finding) { entries_.push_back({std::move(finding), 1}); }

  /// @param kind  equal for findings that shall be said once
  void addOnce(const std::string& kind, LintFinding finding);

  /// In the order in which they were added.
  std::vector<LintFinding> take();

 private:
  struct Entry {
    LintFinding finding;
    int nPlaces = 1;
  };
  std::vector<Entry> entries_;
  std::map<std::string, size_t> entryOfKind_;
};

}  // namespace nccom
