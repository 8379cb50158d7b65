// The checked operations of a Bench: fills buffers with data that is known, runs, compares.
#include <cstdio>
#include <cstring>

#include "test/perf/bench.h"

namespace nccom::perf {
namespace {

// What a receive buffer holds before: no piece of a result.
constexpr std::byte kFiller{0x5a};

// An element as a person would read it.
std::string elementText(const TypeName& type, bool reduces, uint64_t bits) {
  char text[64];
  const FloatFormat* const format = formatOf(type.type);
  if (!reduces) {
    snprintf(text, sizeof text, "0x%0*llx", static_cast<int>(2 * type.bytes),
             static_cast<unsigned long long>(bits));
  } else if (format != nullptr) {
    snprintf(text, sizeof text, "%.17g", decodeFloat(*format, bits));
  } else if (type.type == ncclInt8 || type.type == ncclInt32 || type.type == ncclInt64) {
    const int unused = 64 - 8 * static_cast<int>(type.bytes);
    snprintf(text, sizeof text, "%lld", static_cast<long long>(bits << unused) >> unused);
  } else {
    snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(bits));
  }
  return text;
}

uint64_t bitsAt(const std::byte* at, size_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, bytes);
  return bits;
}

uint64_t fillerBits(size_t bytes) {
  uint64_t bits = 0;
  std::memset(&bits, std::to_integer<int>(kFiller), bytes);
  return bits;
}

void add(Difference& sum, const Difference& part, size_t offset) {
  if (sum.wrong == 0) sum.first = offset + part.first;
  sum.wrong += part.wrong;
}

}  // namespace

PatternKey Bench::keyOf(const Point& point) const {
  return {.type = point.series->type.type,
          .reduces = shared_.op.reduces,
          .op = point.series->op.op,
          .nRanks = shared_.nRanks,
          .elements = std::max(point.counts.send, point.counts.receive),
          .round = round_};
}

// @return  wrong elements over all ranks of the first checked operation that has any
Result<uint64_t> Bench::check(const Point& point) {
  for (int check = 0; check < shared_.options.checks; check++) {
    round_++;
    const std::shared_ptr<const Pattern> pattern = shared_.patterns.get(keyOf(point));
    for (const Member& member : members_)
      fill(member, point, *pattern);
    TRY(enqueue(point, 0));
    TRY(wait());
    uint64_t mine = 0;
    for (const Member& member : members_)
      mine += compare(member, point, *pattern);
    const double wrong = shared_.crew.sum(static_cast<double>(mine));
    if (wrong > 0) return static_cast<uint64_t>(wrong);
  }
  return uint64_t{0};
}

void Bench::fill(const Member& member, const Point& point, const Pattern& pattern) const {
  const size_t typeBytes = point.series->type.bytes;
  const Counts& counts = point.counts;
  const size_t inputAt = counts.sendInPlace * static_cast<size_t>(member.rank) * typeBytes;
  const size_t held = point.inPlace ? std::max(counts.send, counts.receive) : counts.receive;
  std::memset(member.receive, std::to_integer<int>(kFiller), held * typeBytes);
  std::byte* const input = point.inPlace ? member.receive + inputAt : member.send;
  fillSequence({input, counts.send * typeBytes}, pattern.inputs[static_cast<size_t>(member.rank)],
               0);
}

// @return  wrong elements of the member's receive buffer
uint64_t Bench::compare(const Member& member, const Point& point, const Pattern& pattern) {
  const TypeName& type = point.series->type;
  const Counts& counts = point.counts;
  const size_t receiveAt =
      point.inPlace ? counts.receiveInPlace * static_cast<size_t>(member.rank) : 0;
  uint64_t wrong = 0;
  size_t at = receiveAt;  // in elements of member.receive
  for (const Piece& piece :
       shared_.op.expected(member.rank, shared_.nRanks, point.series->root, counts.count)) {
    if (piece.source == kKept) {
      const Difference kept = compareKept(member, point, pattern, at, piece.elements);
      if (kept.wrong > 0) explain(member, point, kept.first, fillerBits(type.bytes));
      wrong += kept.wrong;
    } else {
      const Tile& tile = piece.source == kReduced
                             ? pattern.reduced
                             : pattern.inputs[static_cast<size_t>(piece.source)];
      const Difference difference =
          compareSequence({member.receive + at * type.bytes, piece.elements * type.bytes},
                          {.tile = &tile,
                           .phase = piece.phase,
                           .format = shared_.op.reduces ? formatOf(type.type) : nullptr,
                           .tolerance = toleranceOf(pattern.key)});
      if (difference.wrong > 0) {
        const size_t inTile = (piece.phase + difference.first) % tile.elements();
        explain(member, point, at + difference.first,
                bitsAt(tile.bytes.data() + inTile * type.bytes, type.bytes));
      }
      wrong += difference.wrong;
    }
    at += piece.elements;
  }
  return wrong;
}

// A stretch that the operation had to leave alone holds what fill() wrote: the filler and, in
// place, the rank's own input.
Difference Bench::compareKept(const Member& member, const Point& point, const Pattern& pattern,
                              size_t first, size_t elements) const {
  const size_t typeBytes = point.series->type.bytes;
  const size_t end = first + elements;
  size_t inputFirst = end;
  size_t inputEnd = end;
  if (point.inPlace) {
    const size_t input = point.counts.sendInPlace * static_cast<size_t>(member.rank);
    inputFirst = std::clamp(input, first, end);
    inputEnd = std::clamp(input + point.counts.send, first, end);
  }
  const auto stretch = [&](size_t from, size_t to) {
    return std::span<const std::byte>(member.receive + from * typeBytes, (to - from) * typeBytes);
  };
  Difference difference;
  add(difference, compareFiller(stretch(first, inputFirst), kFiller, typeBytes), first);
  if (inputFirst < inputEnd) {
    const size_t phase = inputFirst - point.counts.sendInPlace * static_cast<size_t>(member.rank);
    const Tile& input = pattern.inputs[static_cast<size_t>(member.rank)];
    add(difference,
        compareSequence(stretch(inputFirst, inputEnd), {.tile = &input, .phase = phase}),
        inputFirst);
  }
  add(difference, compareFiller(stretch(inputEnd, end), kFiller, typeBytes), inputEnd);
  return difference;
}

// The first wrong element that a thread finds goes to stderr, so that a fault can be looked for.
void Bench::explain(const Member& member, const Point& point, size_t element, uint64_t expected) {
  if (explained_) return;
  explained_ = true;
  shared_.watch.idle();
  const TypeName& type = point.series->type;
  const bool reduces = shared_.op.reduces;
  const uint64_t got = bitsAt(member.receive + element * type.bytes, type.bytes);
  fprintf(stderr, "%s %s %s, count %zu, %s: rank %d has %s in element %zu, expected %s\n",
          shared_.op.name, type.name, point.series->op.name, point.counts.count,
          point.inPlace ? "in place" : "out of place", member.rank,
          elementText(type, reduces, got).c_str(), element,
          elementText(type, reduces, expected).c_str());
}

}  // namespace nccom::perf
