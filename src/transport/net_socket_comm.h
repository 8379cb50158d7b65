// The two ends of a connection of the builtin socket net: framing, matching, requests.
//
// A message is a header and its bytes. The sender writes messages in the order of isend; the
// receiver gives each to the first posted receive of its tag. A message that nobody has asked for
// waits in the socket, so that TCP holds the sender back, unless receives of other tags are posted:
// they may be behind it, so it is then set aside in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "misc/result.h"
#include "misc/socket.h"
#include "plugin/net.h"

namespace nccom {

inline constexpr size_t kSocketMaxRecvs = 8;      // largest group of irecv
inline constexpr size_t kSocketMaxRequests = 32;  // groups under way on one comm
inline constexpr size_t kSocketMaxSends = kSocketMaxRequests * kSocketMaxRecvs;
inline constexpr size_t kSocketMaxBytes = size_t{1} << 30;  // largest message

/// What is on the wire before the bytes of a message; both ends have one byte order.
struct SocketHeader {
  uint32_t magic;
  int32_t tag;
  uint64_t bytes;
};
static_assert(sizeof(SocketHeader) == 16);

/// A request of either kind; lives in its comm.
class SocketRequest {
 public:
  virtual ~SocketRequest() = default;
  /// As Net::test().
  virtual Result<bool> test(std::span<int> sizes) = 0;
};

class SocketSendComm {
 public:
  explicit SocketSendComm(Socket socket);

  /// As Net::isend(). @error  ncclInvalidUsage  more than kSocketMaxBytes
  Result<SocketRequest*> isend(const NetBuffer& buffer);

 private:
  struct Send : SocketRequest {
    Result<bool> test(std::span<int> sizes) override { return comm->test(*this, sizes); }
    SocketSendComm* comm = nullptr;
    SocketHeader header{};
    const std::byte* data = nullptr;
    size_t sent = 0;  // of header and bytes
    bool inUse = false;

    size_t total() const { return sizeof header + header.bytes; }
  };

  Result<bool> test(Send& send, std::span<int> sizes);
  Status progress();
  size_t gather(std::span<iovec> pieces);
  void advance(size_t bytes);

  Socket socket_;
  std::vector<Send> sends_;  // [kSocketMaxSends], never resized: requests point into it
  std::vector<Send*> unused_;
  std::deque<Send*> queue_;  // not yet wholly written, in order
  std::optional<Error> broken_;
};

class SocketRecvComm {
 public:
  explicit SocketRecvComm(Socket socket);

  /// As Net::irecv(). @error  ncclInvalidUsage  no buffer, or more than kSocketMaxRecvs
  Result<SocketRequest*> irecv(std::span<const NetBuffer> buffers);

 private:
  struct Slot {
    std::byte* data = nullptr;
    size_t capacity = 0;
    int tag = 0;
    size_t received = 0;
    bool matched = false;
  };
  struct Recv : SocketRequest {
    Result<bool> test(std::span<int> sizes) override { return comm->test(*this, sizes); }
    SocketRecvComm* comm = nullptr;
    std::array<Slot, kSocketMaxRecvs> slots;
    size_t count = 0;
    size_t missing = 0;  // messages not yet complete
    bool inUse = false;
  };
  struct Aside {  // a message that came before its receive
    int tag = 0;
    std::vector<std::byte> bytes;
  };
  /// The message whose bytes are arriving: into a slot, or aside.
  struct Arriving {
    SocketHeader header{};
    size_t received = 0;
    Recv* recv = nullptr;  // null: aside
    Slot* slot = nullptr;
    Aside aside;
  };

  Result<bool> test(Recv& recv, std::span<int> sizes);
  Status progress();
  Status parse(bool& wantsBytes);
  Result<bool> begin(const SocketHeader& header);
  Status finishArrived();
  Result<size_t> receiveMore();
  Status takeAside(Recv& recv);
  std::pair<Recv*, Slot*> posted(int tag);
  bool anyUnmatched() const;
  std::byte* destination();
  Error tooSmall(const Slot& slot, size_t bytes) const;

  Socket socket_;
  std::vector<Recv> recvs_;  // [kSocketMaxRequests], never resized: requests point into it
  std::vector<Recv*> unused_;
  std::deque<Recv*> posted_;  // those with a message missing, in order
  std::deque<Aside> aside_;
  size_t asideBytes_ = 0;
  std::optional<Arriving> arriving_;
  std::vector<std::byte> staging_;  // read ahead of parsing: [begin_, end_) is valid
  size_t begin_ = 0;
  size_t end_ = 0;
  std::optional<Error> broken_;
};

}  // namespace nccom
