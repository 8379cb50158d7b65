// Symbolic contents of memory: which ranks' input bytes a byte is made of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nccom {

/// A contribution: the byte `rel` behind the content's own position in an input buffer.
struct encTerm {
  int rank = 0;
  int operation = 0;
  int index = 0;
  int64_t rel = 0;
  int scaled = 0, divided = 0;  // how often
  bool operator<(const encTerm& other) const;
};

/// Contents by number, each once. A byte at offset o of some memory has content `id` with `shift`:
/// it comes from byte o + shift (+ rel) of each term's buffer.
class encContents {
 public:
  using Id = int;
  struct Value {
    Id id = 0;
    int64_t shift = 0;
    bool operator==(const Value&) const = default;
  };

  /// One contribution of each of these ranks' inputs[index].
  Id of(const std::vector<int>& ranks, int operation, int index, int scaled, int divided);

  /// What a transfer makes of its sources; `scaled` has a bit for each.
  Value fold(const std::vector<Value>& sources, uint64_t scaled, bool divide);

  /// "ranks 0, 1, 1 of operation 0": for reports.
  std::string text(Id id) const;

 private:
  Id intern(std::vector<encTerm> terms);

  std::vector<std::vector<encTerm>> contents_;
  std::map<std::vector<encTerm>, Id> ids_;
  std::map<std::vector<int64_t>, Id> folds_;
};

}  // namespace nccom
