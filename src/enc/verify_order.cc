#include "enc/verify_order.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace nccom {

void encOrderedSemaphore::setRaisers(const std::vector<encRaiser>& raisers) {
  raisers_ = &raisers;
  done_.assign(raisers.size(), 0);
  severalParties_ = std::any_of(raisers.begin(), raisers.end(), [&](const encRaiser& raiser) {
    return raiser.party != raisers[0].party;
  });
}

bool encOrderedSemaphore::raise(size_t raiser, uint64_t count, encRelease release,
                                const encOrder& order) {
  const bool known = !severalParties_ || knowsPass(order, release.knowledge);
  releases_.push_back(
      {raiser, count, (*raisers_)[raiser].without + done_[raiser], std::move(release)});
  done_[raiser] += count;
  value_ += static_cast<int64_t>(count);
  return known;
}

bool encOrderedSemaphore::acquire(int64_t value, encOrder& order, encRelease& into) {
  if (value <= 0) return true;
  const auto wanted = static_cast<uint64_t>(value);
  if (severalParties_) return acquirePass(wanted, order, into);
  acquireSure(wanted, order, into);
  return true;
}

void encOrderedSemaphore::take(Release& release, encOrder& order, encRelease& into) {
  order.acquire(into.knowledge, release.release.knowledge);
  into.chain = std::max(into.chain, release.release.chain);
  release.acquiredBy = into.knowledge.agent;
}

void encOrderedSemaphore::acquireSure(uint64_t wanted, encOrder& order, encRelease& into) {
  for (Release& release : settled_) {
    if (release.without >= wanted || release.acquiredBy == into.knowledge.agent) continue;
    take(release, order, into);
  }
  size_t kept = 0;
  for (Release& release : releases_) {
    if (release.without < wanted) {
      take(release, order, into);
      settle(std::move(release));
    } else if (&releases_[kept++] != &release) {
      releases_[kept - 1] = std::move(release);
    }
  }
  releases_.resize(kept);
}

void encOrderedSemaphore::settle(Release release) {
  const encRaiser& raiser = (*raisers_)[release.raiser];
  bool isLatest = true;
  std::erase_if(settled_, [&](const Release& known) {
    const encRaiser& other = (*raisers_)[known.raiser];
    if (known.raiser == release.raiser) {
      isLatest = isLatest && known.without < release.without;
      return known.without < release.without;
    }
    return other.party >= 0 && other.operation < raiser.operation;
  });
  if (isLatest) settled_.push_back(std::move(release));
}

bool encOrderedSemaphore::knowsPass(const encOrder& order, const encKnowledge& who) const {
  return std::all_of(settled_.begin(), settled_.end(), [&](const Release& release) {
    const encKnowledge& raised = release.release.knowledge;
    return order.knows(who, raised.agent, raised.time);
  });
}

bool encOrderedSemaphore::acquirePass(uint64_t wanted, encOrder& order, encRelease& into) {
  if (wanted > passed_) {
    size_t size = 0;
    for (; size < releases_.size() && passed_ < wanted; size++)
      passed_ += releases_[size].count;
    const auto end = releases_.begin() + static_cast<long>(size);
    settled_.assign(std::make_move_iterator(releases_.begin()), std::make_move_iterator(end));
    releases_.erase(releases_.begin(), end);
  }
  if (wanted < passed_) return false;
  for (Release& release : settled_)
    take(release, order, into);
  return std::all_of(releases_.begin(), releases_.end(), [&](const Release& release) {
    return knowsPass(order, release.release.knowledge);
  });
}

}  // namespace nccom
