// One buffer of one rank as the verifier sees it: intervals of bytes with their contents, who wrote
// them last and who has read them since.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "enc/verify_contents.h"

namespace nccom {

/// Vector clock: how many events of each agent (a queue of a rank, an end of a connection) are
/// known to have happened.
using encClock = std::vector<uint32_t>;

void encJoin(encClock& into, const encClock& from);

/// An access: event number `time` of `agent`, made by descriptor `site` in `iteration`.
struct encAccess {
  int agent = -1;  // -1: the owner, before its program started
  uint32_t time = 0;
  uint32_t site = 0;
  uint64_t iteration = 0;
  bool before(const encClock& clock) const { return agent < 0 || clock[agent] >= time; }
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

  /// Contents of [begin, end), which `access` reads knowing `clock`.
  std::optional<encConflict> read(int64_t begin, int64_t end, const encAccess& access,
                                  const encClock& clock, std::vector<Piece>& pieces);
  /// Overwrites the bytes of `pieces`, which are adjacent. `party` >= 0 wants to be the only
  /// writer.
  std::optional<encConflict> write(const std::vector<Piece>& pieces, const encAccess& access,
                                   const encClock& clock, int party);

  /// Any access that `clock` does not know of.
  std::optional<encConflict> unordered(const encClock& clock) const;
  /// The first bytes of [begin, end) that do not hold `value`, trusted ones left out; `found` has
  /// no value if they were never written.
  struct Mismatch {
    int64_t begin = 0, end = 0;
    std::optional<encContents::Value> found;
    encAccess writer;
  };
  std::optional<Mismatch> mismatch(int64_t begin, int64_t end, encContents::Value value) const;

 private:
  struct Segment {
    int64_t end = 0;
    encContents::Value value;
    encAccess writer;
    int party = -1;
    std::vector<encAccess> readers;
  };
  using Segments = std::map<int64_t, Segment>;

  void splitAt(int64_t at);
  bool trusts(int64_t begin, int64_t end) const;

  Segments segments_;
  std::vector<std::pair<int64_t, int64_t>> trusted_;
};

}  // namespace nccom
