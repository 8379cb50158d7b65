// A few queues over which pulls from the ranks of this host are spread.
#pragma once

#include <cstdint>
#include <vector>

#include "enc/builder.h"

namespace nccom {

/// All pulls from one owner stay in one queue, so that its increments come in order.
class encPullQueues {
 public:
  /// @param owners  number of ranks that are pulled from
  /// @param bytes   in all: small pulls do not pay for a second queue
  encPullQueues(encBuilder& builder, size_t owners, uint64_t bytes);
  size_t of(size_t owner) const { return queues_[owner % queues_.size()]; }

 private:
  std::vector<size_t> queues_;
};

}  // namespace nccom
