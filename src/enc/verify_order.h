// The order that semaphores give: values, and what a satisfied wait is sure to know.
#pragma once

#include <cstdint>
#include <vector>

#include "enc/verify_clock.h"
#include "enc/verify_world.h"

namespace nccom {

/// A queue of a rank in the current operation of that rank.
struct encQueueRef {
  int rank = 0;
  size_t queue = 0;
};

/// A queue that waits until a semaphore has a value.
struct encWaiter {
  encQueueRef queue;
  int64_t value = 0;
};

/// What an increment tells: what its raiser knew, and the transfers on the longest chain before it.
struct encRelease {
  encKnowledge knowledge;
  uint64_t chain = 0;
};

/// One semaphore of one rank.
///
/// Of one party's increments, a wait for v acquires those without which the others cannot add up to
/// v: whatever the order of events, they have happened.
///
/// What several parties raise is a count of passes. A wait for v relies on the first v increments,
/// and every other one must know of all of them: then none can stand in for one of the first, and
/// these have happened, whatever the order of events.
class encOrderedSemaphore {
 public:
  /// @param raisers  must outlive the semaphore
  void setRaisers(const std::vector<encRaiser>& raisers);

  /// `count` increments of a raiser; the release is an event of its own.
  /// @return false: it does not know of all increments that a wait for fewer has relied on
  bool raise(size_t raiser, uint64_t count, encRelease release, const encOrder& order);
  bool reached(int64_t value) const { return value_ >= value; }
  int64_t value() const { return value_; }
  /// Adds what a wait for `value` is sure to know.
  /// @return false: an increment beyond `value` does not know of all that the wait relies on
  bool acquire(int64_t value, encOrder& order, encRelease& into);

  std::vector<encWaiter> waiting;
  int64_t base = 0;  // value at the owner's launch of its current operation

 private:
  struct Release {
    size_t raiser = 0;
    uint64_t count = 0;
    uint64_t without = 0;  // increments that may happen without it
    encRelease release;
    int acquiredBy = -1;  // agent that knows it already
  };
  void take(Release& release, encOrder& order, encRelease& into);
  void acquireSure(uint64_t wanted, encOrder& order, encRelease& into);
  bool acquirePass(uint64_t wanted, encOrder& order, encRelease& into);
  bool knowsPass(const encOrder& order, const encKnowledge& who) const;
  void settle(Release release);

  int64_t value_ = 0;
  bool severalParties_ = false;
  const std::vector<encRaiser>* raisers_ = nullptr;
  std::vector<uint64_t> done_;     // [raiser] increments so far
  std::vector<Release> releases_;  // that no wait has acquired yet
  // One party: the last that a wait has acquired of each raiser: it knows all that the earlier ones
  // know, and all that the party did in earlier operations. A smaller wait than that one's acquires
  // nothing, which errs to the safe side. Several: the last pass.
  std::vector<Release> settled_;
  uint64_t passed_ = 0;  // increments up to the end of the last pass
};

}  // namespace nccom
