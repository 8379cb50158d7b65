// One buffer of one rank as the verifier sees it: intervals of bytes with their contents, who wrote
// them last and who has read them since.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "enc/verify_clock.h"
#include "enc/verify_contents.h"

namespace nccom {

/// Somebody who knows of accesses.
struct encObserver {
  const encOrder& order;
  const encKnowledge& who;
  bool knows(const encAccess& access) const { return order.knows(who, access); }
};

/// Two accesses without order, or one that finds nothing.
struct encConflict {
  enum class Kind : uint8_t {
    ReadsUnwritten,
    ReadsUnorderedWrite,
    WritesUnorderedWrite,
    WritesUnorderedRead,
    SecondWriter,
    WritesSkipped,
  };
  Kind kind = Kind::ReadsUnwritten;
  int64_t begin = 0, end = 0;
  encAccess other;
};

class encMemory {
 public:
  struct Piece {
    int64_t begin = 0, end = 0;
    encContents::Value value;
  };

  /// Bytes that the owner has put there before its program started.
  void preset(int64_t begin, int64_t end, encContents::Value value);
  /// Bytes that only skipped iterations write: right by translation.
  void trust(int64_t begin, int64_t end) { trusted_.emplace_back(begin, end); }

  /// Contents of [begin, end), which the observer reads with `access`; `pieces` are empty before.
  std::optional<encConflict> read(int64_t begin, int64_t end, const encAccess& access,
                                  const encObserver& observer, std::vector<Piece>& pieces);
  /// Overwrites the bytes of `pieces`, which are adjacent. `party` >= 0 wants to be the only
  /// writer.
  std::optional<encConflict> write(const std::vector<Piece>& pieces, const encAccess& access,
                                   const encObserver& observer, int party);

  /// Any access that the observer does not know of.
  std::optional<encConflict> unordered(const encObserver& observer) const;
  /// The first bytes of [begin, end) that do not hold `value`, trusted ones left out; `found` has
  /// no value if they were never written.
  struct Mismatch {
    int64_t begin = 0, end = 0;
    std::optional<encContents::Value> found;
    encAccess writer;
  };
  std::optional<Mismatch> mismatch(int64_t begin, int64_t end, encContents::Value value) const;
  /// What is in [begin, end), as far as it was written.
  std::vector<Piece> contents(int64_t begin, int64_t end) const;

 private:
  struct Segment {
    int64_t end = 0;
    encContents::Value value;
    encAccess writer;
    int party = -1;
    // Since the last write. Whoever knows of a reader knows what that one knew: so only those
    // that no later one knew.
    std::vector<encAccess> readers;
  };
  using Segments = std::map<int64_t, Segment>;

  /// The first segment that ends behind `at`, cut there if it begins before.
  Segments::iterator startingAt(int64_t at);
  /// Cuts the segment at `at`, which lies within.
  void cut(Segments::iterator segment, int64_t at);
  /// What of a segment a writer does not know.
  static std::optional<encConflict> conflictWith(int64_t begin, const Segment& segment,
                                                 const encObserver& observer);
  bool trusts(int64_t begin, int64_t end) const;

  Segments segments_;
  std::vector<std::pair<int64_t, int64_t>> trusted_;
};

}  // namespace nccom
