#include "enc/verify_memory.h"

#include <algorithm>
#include <iterator>

namespace nccom {

void encMemory::preset(int64_t begin, int64_t end, encContents::Value value) {
  if (begin < end) segments_.emplace(begin, Segment{end, value, {}, -1, {}});
}

void encMemory::cut(Segments::iterator segment, int64_t at) {
  Segment second = segment->second;
  segment->second.end = at;
  segments_.emplace_hint(std::next(segment), at, std::move(second));
}

encMemory::Segments::iterator encMemory::startingAt(int64_t at) {
  const auto next = segments_.upper_bound(at);
  if (next == segments_.begin()) return next;
  const auto segment = std::prev(next);
  if (segment->first == at) return segment;
  if (segment->second.end <= at) return next;
  cut(segment, at);
  return std::next(segment);
}

std::optional<encConflict> encMemory::read(int64_t begin, int64_t end, const encAccess& access,
                                           const encObserver& observer,
                                           std::vector<Piece>& pieces) {
  using Kind = encConflict::Kind;
  if (begin >= end) return std::nullopt;
  int64_t at = begin;
  for (auto segment = startingAt(begin); at < end; ++segment) {
    if (segment == segments_.end() || segment->first > at) {
      const int64_t gap = segment == segments_.end() ? end : std::min(end, segment->first);
      return encConflict{Kind::ReadsUnwritten, at, gap, {}};
    }
    if (segment->second.end > end) cut(segment, end);
    Segment& s = segment->second;
    if (!observer.knows(s.writer)) {
      return encConflict{Kind::ReadsUnorderedWrite, at, s.end, s.writer};
    }
    if (!pieces.empty() && pieces.back().value == s.value) {
      pieces.back().end = s.end;
    } else {
      pieces.push_back({at, s.end, s.value});
    }
    std::erase_if(s.readers, [&](const encAccess& reader) { return observer.knows(reader); });
    s.readers.push_back(access);
    at = s.end;
  }
  return std::nullopt;
}

std::optional<encConflict> encMemory::conflictWith(int64_t begin, const Segment& s,
                                                   const encObserver& observer) {
  using Kind = encConflict::Kind;
  if (!observer.knows(s.writer)) {
    return encConflict{Kind::WritesUnorderedWrite, begin, s.end, s.writer};
  }
  for (const encAccess& reader : s.readers) {
    if (observer.knows(reader)) continue;
    return encConflict{Kind::WritesUnorderedRead, begin, s.end, reader};
  }
  return std::nullopt;
}

std::optional<encConflict> encMemory::write(const std::vector<Piece>& pieces,
                                            const encAccess& access, const encObserver& observer,
                                            int party) {
  using Kind = encConflict::Kind;
  const int64_t begin = pieces.front().begin, end = pieces.back().end;
  if (trusts(begin, end)) return encConflict{Kind::WritesSkipped, begin, end, {}};
  auto segment = startingAt(begin);
  while (segment != segments_.end() && segment->first < end) {
    if (segment->second.end > end) cut(segment, end);
    Segment& s = segment->second;
    auto conflict = conflictWith(segment->first, s, observer);
    if (conflict) return conflict;
    if (party >= 0 && s.party >= 0 && s.party != party) {
      return encConflict{Kind::SecondWriter, segment->first, s.end, s.writer};
    }
    if (pieces.size() == 1 && segment->first == begin && s.end == end) {
      s.value = pieces[0].value;
      s.writer = access;
      s.party = party;
      s.readers.clear();
      return std::nullopt;
    }
    segment = segments_.erase(segment);
  }
  for (const Piece& piece : pieces) {
    segments_.emplace_hint(segment, piece.begin,
                           Segment{piece.end, piece.value, access, party, {}});
  }
  return std::nullopt;
}

bool encMemory::trusts(int64_t begin, int64_t end) const {
  return std::any_of(trusted_.begin(), trusted_.end(),
                     [&](const auto& range) { return range.first < end && begin < range.second; });
}

std::optional<encConflict> encMemory::unordered(const encObserver& observer) const {
  for (const auto& [begin, segment] : segments_) {
    auto conflict = conflictWith(begin, segment, observer);
    if (conflict) return conflict;
  }
  return std::nullopt;
}

std::optional<encMemory::Mismatch> encMemory::mismatch(int64_t begin, int64_t end,
                                                       encContents::Value value) const {
  int64_t at = begin;
  auto segment = segments_.upper_bound(begin);
  if (segment != segments_.begin() && std::prev(segment)->second.end > begin) --segment;
  while (at < end) {
    const auto range = std::find_if(trusted_.begin(), trusted_.end(),
                                    [&](const auto& r) { return r.first <= at && at < r.second; });
    if (range != trusted_.end()) {
      at = range->second;
      continue;
    }
    while (segment != segments_.end() && segment->second.end <= at)
      ++segment;
    if (segment == segments_.end() || segment->first > at) {
      int64_t gap = segment == segments_.end() ? end : std::min(end, segment->first);
      for (const auto& r : trusted_) {
        if (r.first > at) gap = std::min(gap, r.first);
      }
      return Mismatch{at, gap, std::nullopt, {}};
    }
    const Segment& s = segment->second;
    if (!s.value.sameContent(value)) return Mismatch{at, std::min(end, s.end), s.value, s.writer};
    at = s.end;
  }
  return std::nullopt;
}

std::vector<encMemory::Piece> encMemory::contents(int64_t begin, int64_t end) const {
  std::vector<Piece> pieces;
  auto segment = segments_.upper_bound(begin);
  if (segment != segments_.begin()) --segment;
  for (; segment != segments_.end() && segment->first < end; ++segment) {
    const Piece piece{std::max(begin, segment->first), std::min(end, segment->second.end),
                      segment->second.value};
    if (piece.begin >= piece.end) continue;
    if (!pieces.empty() && pieces.back().end == piece.begin && pieces.back().value == piece.value) {
      pieces.back().end = piece.end;
    } else {
      pieces.push_back(piece);
    }
  }
  return pieces;
}

}  // namespace nccom
