#include "enc/verify_order.h"

#include <algorithm>
#include <utility>

#include "misc/check.h"

namespace nccom {

void encOrderedSemaphore::raise(int party, int operation, size_t queue, uint64_t count,
                                encSnapshot released) {
  const auto raiser = std::find_if(raisers_.begin(), raisers_.end(), [&](const encRaiser& r) {
    return r.party == party && r.operation == operation && r.queue == queue;
  });
  NCCL_CHECK(raiser != raisers_.end());
  releases_.push_back({static_cast<size_t>(raiser - raisers_.begin()),
                       raiser->without + raiser->done, std::move(released)});
  raiser->done += count;
  value_ += static_cast<int64_t>(count);
}

void encOrderedSemaphore::acquire(int64_t value, int agent, encClock& clock) {
  if (value <= 0) return;
  const auto wanted = static_cast<uint64_t>(value);
  for (Release& release : settled_) {
    if (release.without >= wanted || release.acquiredBy == agent) continue;
    encJoin(clock, *release.clock);
    release.acquiredBy = agent;
  }
  size_t kept = 0;
  for (Release& release : releases_) {
    if (release.without >= wanted) {
      releases_[kept++] = release;
      continue;
    }
    encJoin(clock, *release.clock);
    release.acquiredBy = agent;
    settle(release);
  }
  releases_.resize(kept);
}

void encOrderedSemaphore::settle(const Release& release) {
  for (Release& known : settled_) {
    if (known.raiser != release.raiser) continue;
    if (known.without < release.without) known = release;
    return;
  }
  settled_.push_back(release);
}

}  // namespace nccom
