#include "enc/pull_queues.h"

#include <algorithm>

namespace nccom {
namespace {

constexpr uint64_t kMaxQueues = 4;
constexpr uint64_t kBytesPerQueue = 256 << 10;  // by choice; less where buffers are smaller
constexpr uint32_t kFirstId = 3;                // after the queues of p2p_net

}  // namespace

encPullQueues::encPullQueues(encBuilder& builder, size_t owners, uint64_t bytes) {
  const uint64_t least = std::min(kBytesPerQueue, builder.info().sizes.p2pBufferBytes);
  const uint64_t count = std::clamp<uint64_t>(
      std::min<uint64_t>(owners, bytes / std::max<uint64_t>(least, 1)), 1, kMaxQueues);
  for (uint32_t i = 0; i < count; i++)
    queues_.push_back(builder.addQueue(kFirstId + i));
}

}  // namespace nccom
