// The order that semaphores give: values, and what a satisfied wait is sure to know.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "enc/verify_memory.h"
#include "enc/verify_world.h"

namespace nccom {

using encSnapshot = std::shared_ptr<const encClock>;

/// A queue of a rank in the current operation of that rank.
struct encQueueRef {
  int rank = 0;
  size_t queue = 0;
};

/// One semaphore of one rank. A wait for v acquires an increment only if the others cannot add up
/// to v without it: whatever the order of events, that increment has happened.
class encOrderedSemaphore {
 public:
  void setRaisers(const std::vector<encRaiser>& raisers) { raisers_ = raisers; }

  /// `count` increments of one raiser, after what `released` knows.
  void raise(int party, int operation, size_t queue, uint64_t count, encSnapshot released);
  bool reached(int64_t value) const { return value_ >= value; }
  int64_t value() const { return value_; }
  /// Adds to `clock` what a wait of `agent` for `value` is sure to know.
  void acquire(int64_t value, int agent, encClock& clock);

  std::vector<encQueueRef> waiting;  // to be tried again when the value changes
  int64_t base = 0;                  // value at the owner's launch of its current operation

 private:
  struct Release {
    size_t raiser = 0;
    uint64_t without = 0;  // increments that may happen without it
    encSnapshot clock;
    int acquiredBy = -1;  // agent that knows it already
  };
  void settle(const Release& release);

  int64_t value_ = 0;
  std::vector<encRaiser> raisers_;
  std::vector<Release> releases_;  // that no wait has acquired yet
  // The last that a wait has acquired of each raiser: it knows all that the earlier ones know. A
  // smaller wait than that one's acquires nothing, which errs to the safe side.
  std::vector<Release> settled_;
};

}  // namespace nccom
