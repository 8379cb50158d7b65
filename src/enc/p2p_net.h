// Messages to and from ranks of other hosts, staged through the point-to-point slots of the
// scratch.
//
// Three queues: one copies into send slots and sends, one posts receives, one copies out of the
// receive slots. Each handles peers in order of their distance: sends by (peer - self) mod n,
// receives by (self - peer) mod n. That cannot deadlock: a message from r to r+d has the same
// distance d at both ends, so each queue handles its messages by rising d. Take the unfinished
// message of least d: both of its ends have finished all that they handle before it, so it moves.
// Within a pair messages match in order, as on the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "enc/builder.h"

namespace nccom {

class encP2pNet {
 public:
  explicit encP2pNet(encBuilder& builder);

  /// Sends `bytes` at `source`, our INPUT. Call in the order above. 0 bytes: nothing, on both
  /// sides.
  void send(int peer, encAddress source, uint64_t bytes);
  /// Receives the next message of `peer` into `destination`, our OUTPUT. Call in the order above.
  void receive(int peer, encAddress destination, uint64_t bytes);
  /// Waits until the network has sent everything; declares what the proxy and we raise.
  void finish();

 private:
  void sendSlots(int peer, encAddress source, uint64_t repeat, uint64_t bytes);
  void receiveSlots(int peer, encAddress destination, uint64_t repeat, uint64_t bytes);

  encBuilder& builder_;
  std::optional<size_t> sendQueue_, postQueue_, copyQueue_;
  std::vector<uint64_t> sent_, received_;  // [peer] slot uses so far
};

}  // namespace nccom
