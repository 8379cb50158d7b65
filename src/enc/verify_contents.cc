#include "enc/verify_contents.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace nccom {
namespace {

constexpr size_t kWordBits = 64;
// Division of a part of a sum is not division of the sum: no expectation has this many.
constexpr int kDividedTooEarly = 1000;
// What the numbers of an order begin or end with.
constexpr int64_t kInputOrder = -1, kFold = -2, kDividedFold = -3;
constexpr size_t kLeastRun = 4;  // of ranks that a report writes as "3-9"

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ hash >> 29;
}

}  // namespace

void encRankBag::add(int rank) {
  const auto word = static_cast<size_t>(rank) / kWordBits;
  const uint64_t bit = uint64_t{1} << static_cast<size_t>(rank) % kWordBits;
  if (word >= once_.size()) once_.resize(word + 1, 0);
  if ((once_[word] & bit) != 0) {
    more_.insert(std::upper_bound(more_.begin(), more_.end(), rank), rank);
  }
  once_[word] |= bit;
}

void encRankBag::add(const encRankBag& other) {
  if (other.once_.size() > once_.size()) once_.resize(other.once_.size(), 0);
  for (size_t i = 0; i < other.once_.size(); i++) {
    for (uint64_t both = once_[i] & other.once_[i]; both != 0; both &= both - 1) {
      const int rank = static_cast<int>(i * kWordBits) + std::countr_zero(both);
      more_.insert(std::upper_bound(more_.begin(), more_.end(), rank), rank);
    }
    once_[i] |= other.once_[i];
  }
  const size_t middle = more_.size();
  more_.insert(more_.end(), other.more_.begin(), other.more_.end());
  std::inplace_merge(more_.begin(), more_.begin() + static_cast<long>(middle), more_.end());
}

std::vector<int> encRankBag::ranks() const {
  std::vector<int> all;
  for (size_t i = 0; i < once_.size(); i++) {
    for (uint64_t left = once_[i]; left != 0; left &= left - 1)
      all.push_back(static_cast<int>(i * kWordBits) + std::countr_zero(left));
  }
  const size_t middle = all.size();
  all.insert(all.end(), more_.begin(), more_.end());
  std::inplace_merge(all.begin(), all.begin() + static_cast<long>(middle), all.end());
  return all;
}

uint64_t encRankBag::hash() const {
  uint64_t hash = once_.size();
  for (const uint64_t word : once_)
    hash = mix(hash, word);
  for (const int rank : more_)
    hash = mix(hash, static_cast<uint64_t>(rank));
  return hash;
}

template <class T>
encContents::Id encContents::find(const Table<T>& table, uint64_t hash, const T& value) {
  const auto known = table.last.find(hash);
  Id id = known == table.last.end() ? -1 : known->second;
  while (id >= 0 && table.values[id] != value)
    id = table.sameHash[id];
  return id;
}

template <class T>
encContents::Id encContents::add(Table<T>& table, uint64_t hash, T value) {
  const Id id = static_cast<Id>(table.values.size());
  const auto [last, isNew] = table.last.try_emplace(hash, id);
  table.sameHash.push_back(isNew ? -1 : std::exchange(last->second, id));
  table.values.push_back(std::move(value));
  return id;
}

void encContents::put(Parts& parts, const encOrigin& origin, const encRankBag& ranks) {
  auto part = std::lower_bound(
      parts.begin(), parts.end(), origin,
      [](const Part& one, const encOrigin& wanted) { return one.origin < wanted; });
  if (part == parts.end() || part->origin != origin) part = parts.insert(part, {origin, {}});
  part->ranks.add(ranks);
}

encContents::Id encContents::intern(Parts parts) {
  uint64_t hash = parts.size();
  for (const Part& part : parts) {
    hash = mix(hash, static_cast<uint64_t>(part.origin.operation) << 32 |
                         static_cast<uint32_t>(part.origin.index));
    hash = mix(hash, static_cast<uint64_t>(part.origin.rel));
    hash = mix(hash, static_cast<uint64_t>(part.origin.scaled) << 32 |
                         static_cast<uint32_t>(part.origin.divided));
    hash = mix(hash, part.ranks.hash());
  }
  const Id known = find(contents_, hash, parts);
  return known >= 0 ? known : add(contents_, hash, std::move(parts));
}

encContents::Id encContents::of(const std::vector<int>& ranks, int operation, int index, int scaled,
                                int divided) {
  if (ranks.empty()) return intern({});
  Parts parts{{{operation, index, 0, scaled, divided}, {}}};
  for (const int rank : ranks)
    parts[0].ranks.add(rank);
  return intern(std::move(parts));
}

bool encContents::isOf(Id id, int rank) const {
  encRankBag alone;
  alone.add(rank);
  const Parts& parts = contents_.values[id];
  return std::all_of(parts.begin(), parts.end(),
                     [&](const Part& part) { return part.ranks == alone; });
}

encContents::Value encContents::input(int rank, int operation, int index) {
  const Id id = of({rank}, operation, index, 0, 0);
  return {id, orderOf(std::vector<int64_t>{kInputOrder, id}), 0};
}

namespace {

uint64_t hashOf(const std::vector<int64_t>& words) {
  uint64_t hash = words.size();
  for (const int64_t word : words)
    hash = mix(hash, static_cast<uint64_t>(word));
  return hash;
}

}  // namespace

int encContents::orderOf(std::vector<int64_t> made) {
  const uint64_t hash = hashOf(made);
  const Id known = find(orders_, hash, made);
  return known >= 0 ? known : add(orders_, hash, std::move(made));
}

int encContents::orderOf(const std::vector<Value>& sources, uint64_t scaled, bool divide) {
  std::vector<int64_t> made;
  for (size_t k = 0; k < sources.size(); k++)
    made.push_back(int64_t{2} * sources[k].order + static_cast<int64_t>(scaled >> k & 1));
  if (made.size() > 1 && made[1] < made[0]) std::swap(made[0], made[1]);
  made.push_back(divide ? kDividedFold : kFold);
  return orderOf(std::move(made));
}

encContents::Value encContents::fold(const std::vector<Value>& sources, uint64_t scaled,
                                     bool divide) {
  const int64_t shift = sources[0].shift;
  if (sources.size() == 1 && scaled == 0 && !divide) return sources[0];
  asked_.assign({static_cast<int64_t>(scaled), divide ? 1 : 0});
  for (const Value& source : sources) {
    asked_.push_back(static_cast<int64_t>(source.id) << 32 | source.order);
    asked_.push_back(source.shift - shift);
  }
  const uint64_t hash = hashOf(asked_);
  const Id known = find(folds_, hash, asked_);
  if (known >= 0) return {folded_[known].id, folded_[known].order, shift};
  Parts parts;
  for (size_t k = 0; k < sources.size(); k++) {
    for (const Part& part : contents_.values[sources[k].id]) {
      encOrigin origin = part.origin;
      origin.rel += sources[k].shift - shift;
      if ((scaled >> k & 1) != 0) origin.scaled++;
      if (origin.divided > 0 && sources.size() > 1) origin.divided += kDividedTooEarly;
      if (divide) origin.divided++;
      put(parts, origin, part.ranks);
    }
  }
  add(folds_, hash, asked_);
  folded_.push_back({intern(std::move(parts)), orderOf(sources, scaled, divide), 0});
  return {folded_.back().id, folded_.back().order, shift};
}

namespace {

std::string text(const encOrigin& origin) {
  std::string text;
  if (origin.index != 0) text += " INPUT" + std::to_string(origin.index);
  if (origin.rel != 0) text += " moved by " + std::to_string(origin.rel);
  if (origin.scaled != 0) text += " scaled";
  if (origin.scaled > 1) text += " " + std::to_string(origin.scaled) + " times";
  if (origin.divided != 0) text += origin.divided == 1 ? " divided" : " divided too early";
  return text;
}

/// "0", "3-9": of ranks in order, those from `first` on that follow one another; `next` is what
/// comes after them.
std::string runText(const std::vector<int>& ranks, size_t first, size_t* next) {
  size_t end = first + 1;
  while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
    end++;
  if (end - first < kLeastRun) end = first + 1;
  *next = end;
  const std::string text = std::to_string(ranks[first]);
  return end == first + 1 ? text : text + "-" + std::to_string(ranks[end - 1]);
}

}  // namespace

std::string encContents::text(Id id) const {
  const Parts& parts = contents_.values[id];
  if (parts.empty()) return "no rank's input";
  const bool oneOperation = std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return part.origin.operation == parts[0].origin.operation;
  });
  std::string list;
  size_t count = 0;
  for (const Part& part : parts) {
    const std::vector<int> ranks = part.ranks.ranks();
    for (size_t i = 0; i < ranks.size();) {
      list += (list.empty() ? " " : ", ") + runText(ranks, i, &i);
      if (!oneOperation) list += " of operation " + std::to_string(part.origin.operation);
      list += nccom::text(part.origin);
    }
    count += ranks.size();
  }
  const std::string text = (count == 1 ? "rank" : "ranks") + list;
  return oneOperation ? text + " of operation " + std::to_string(parts[0].origin.operation) : text;
}

}  // namespace nccom
