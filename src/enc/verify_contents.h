// Symbolic contents of memory: which ranks' input bytes a byte is made of.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace nccom {

/// Ranks, each as often as it was added.
class encRankBag {
 public:
  void add(int rank);
  void add(const encRankBag& other);
  bool empty() const { return once_.empty() && more_.empty(); }
  std::vector<int> ranks() const;  // in order
  uint64_t hash() const;
  bool operator==(const encRankBag&) const = default;

 private:
  std::vector<uint64_t> once_;  // a bit for each rank that is there; the last word is not 0
  std::vector<int> more_;       // what is there beyond once, in order
};

/// Where contributions come from: the byte `rel` behind the content's own position in an input.
struct encOrigin {
  int operation = 0;
  int index = 0;
  int64_t rel = 0;
  int scaled = 0, divided = 0;                         // how often
  auto operator<=>(const encOrigin&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Contents by number, each once. A byte at offset o of some memory has content `id` with `shift`:
/// it comes from byte o + shift (+ rel) of the inputs of each origin's ranks. Sums of the same
/// contributions have one content, but an `order` for each way of adding them up that may round in
/// another way: only the first two operands of a fold may change places.
class encContents {
 public:
  using Id = int;
  struct Value {
    Id id = 0;
    int order = 0;
    int64_t shift = 0;
    bool operator==(const Value&) const = default;
    bool sameContent(const Value& other) const { return id == other.id && shift == other.shift; }
  };

  /// One contribution of each of these ranks' inputs[index].
  Id of(const std::vector<int>& ranks, int operation, int index, int scaled, int divided);

  /// The input of a rank, as it is in its buffer.
  Value input(int rank, int operation, int index);

  /// What a transfer makes of its sources; `scaled` has a bit for each.
  Value fold(const std::vector<Value>& sources, uint64_t scaled, bool divide);

  /// Whether nobody but `rank` has contributed.
  bool isOf(Id id, int rank) const;

  /// "ranks 0, 1, 1 of operation 0": for reports.
  std::string text(Id id) const;

 private:
  struct Part {
    encOrigin origin;
    encRankBag ranks;  // not empty
    bool operator==(const Part&) const = default;
  };
  using Parts = std::vector<Part>;  // by origin
  /// Values by number, found by their hash.
  template <class T>
  struct Table {
    std::vector<T> values;
    std::vector<Id> sameHash;  // the one before of the same hash, -1: none
    std::unordered_map<uint64_t, Id> last;
  };
  template <class T>
  static Id find(const Table<T>& table, uint64_t hash, const T& value);
  template <class T>
  static Id add(Table<T>& table, uint64_t hash, T value);

  static void put(Parts& parts, const encOrigin& origin, const encRankBag& ranks);
  Id intern(Parts parts);
  int orderOf(std::vector<int64_t> made);
  int orderOf(const std::vector<Value>& sources, uint64_t scaled, bool divide);

  Table<Parts> contents_;
  Table<std::vector<int64_t>> folds_;
  std::vector<Value> folded_;   // what each of the folds gives
  std::vector<int64_t> asked_;  // the fold that is looked for
  /// Of a fold: its operands' orders and whether they are scaled. Of an input: its content.
  Table<std::vector<int64_t>> orders_;
};

}  // namespace nccom
