#include "enc/verify_contents.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace nccom {

bool encTerm::operator<(const encTerm& other) const {
  const auto key = [](const encTerm& t) {
    return std::tie(t.rank, t.operation, t.index, t.rel, t.scaled, t.divided);
  };
  return key(*this) < key(other);
}

namespace {

// Division of a part of a sum is not division of the sum: no expectation has this many.
constexpr int kDividedTooEarly = 1000;

}  // namespace

encContents::Id encContents::intern(std::vector<encTerm> terms) {
  std::sort(terms.begin(), terms.end());
  const auto [found, isNew] = ids_.try_emplace(std::move(terms), static_cast<Id>(contents_.size()));
  if (isNew) contents_.push_back(found->first);
  return found->second;
}

encContents::Id encContents::of(const std::vector<int>& ranks, int operation, int index, int scaled,
                                int divided) {
  std::vector<encTerm> terms;
  terms.reserve(ranks.size());
  for (const int rank : ranks)
    terms.push_back({rank, operation, index, 0, scaled, divided});
  return intern(std::move(terms));
}

encContents::Value encContents::fold(const std::vector<Value>& sources, uint64_t scaled,
                                     bool divide) {
  const int64_t shift = sources[0].shift;
  if (sources.size() == 1 && scaled == 0 && !divide) return sources[0];
  std::vector<int64_t> key{static_cast<int64_t>(scaled), divide ? 1 : 0};
  for (const Value& source : sources) {
    key.push_back(source.id);
    key.push_back(source.shift - shift);
  }
  const auto known = folds_.find(key);
  if (known != folds_.end()) return {known->second, shift};
  std::vector<encTerm> terms;
  for (size_t k = 0; k < sources.size(); k++) {
    for (encTerm term : contents_[sources[k].id]) {
      term.rel += sources[k].shift - shift;
      if ((scaled >> k & 1) != 0) term.scaled++;
      if (term.divided > 0 && sources.size() > 1) term.divided += kDividedTooEarly;
      if (divide) term.divided++;
      terms.push_back(term);
    }
  }
  const Id id = intern(std::move(terms));
  folds_.emplace(std::move(key), id);
  return {id, shift};
}

std::string encContents::text(Id id) const {
  const std::vector<encTerm>& terms = contents_[id];
  if (terms.empty()) return "no rank's input";
  std::string text = terms.size() == 1 ? "rank" : "ranks";
  const bool oneOperation = std::all_of(terms.begin(), terms.end(), [&](const encTerm& term) {
    return term.operation == terms[0].operation;
  });
  for (size_t i = 0; i < terms.size(); i++) {
    const encTerm& term = terms[i];
    text += (i == 0 ? " " : ", ") + std::to_string(term.rank);
    if (!oneOperation) text += " of operation " + std::to_string(term.operation);
    if (term.index != 0) text += " INPUT" + std::to_string(term.index);
    if (term.rel != 0) text += " moved by " + std::to_string(term.rel);
    if (term.scaled != 0) text += " scaled";
    if (term.scaled > 1) text += " " + std::to_string(term.scaled) + " times";
    if (term.divided != 0) text += term.divided == 1 ? " divided" : " divided too early";
  }
  return oneOperation ? text + " of operation " + std::to_string(terms[0].operation) : text;
}

}  // namespace nccom
