// One direction of one network connection between two ranks, driven by the proxy.
//
// A program's network descriptors carry no work: the device only advances the host index of the
// connection, "one more entry". What the entries are, the proxy is told at launch (submit()).
//
// The index is monotonic for the life of the communicator, as all semaphores are. There is no
// handshake that arms an operation (NCCL's Neuron transport writes -1, waits, resets to 0): with a
// count that never goes back entry k of the connection is entry k for ever, so there is no reset to
// race with, an operation may be launched while the one before still runs, and an operation that
// was aborted half way leaves nothing to put back.
//
// What an entry goes through:
//
//   posted by the device -> Send                -> done       isend, test
//                        -> Recv [-> Flush]     -> done       irecv, test; iflush into device
//                        memory
//                        -> Empty               -> done       nothing goes over the wire
//
// Entries complete in order. Each raises the connection's completion semaphore by one: "the slot
// may be filled again" for a sender, "the data is there" for a receiver. These are the credits: the
// program, not the proxy, sees to it that no slot is posted twice.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "include/plugin/nccom_device.h"
#include "misc/result.h"
#include "plugin/net.h"

namespace nccom {

/// One message, in iteration 0 of its block.
struct NetEntry {
  uint64_t offset = 0;  // bytes, from NetEnd::memory
  uint64_t bytes = 0;
  int64_t stride = 0;  // bytes added to the offset with each iteration

  bool operator==(const NetEntry&) const = default;
};

/// Entries that are repeated in turn: a, b, a, b, ...
struct NetBlock {
  uint64_t repeat = 1;
  std::vector<NetEntry> entries;

  bool operator==(const NetBlock&) const = default;
};

/// What one operation does on one connection. Made once for a program, submitted with each launch.
struct NetEntries {
  std::vector<NetBlock> blocks;
  std::string name;  // of the operation, for reports
  // Goes with every message: two ends that do not do the same operation never exchange data.
  int tag = 0;

  uint64_t count() const;  // with repeats
  bool operator==(const NetEntries&) const = default;
};

/// One rank's side of a connection, as its communicator describes it.
struct NetEnd {
  int rank = 0;
  int peer = 0;
  int channel = 0;  // -1: point to point
  bool send = false;
  int netDev = 0;                      // of the net
  int device = 0, peerDevice = 0;      // of the ranks, for the log
  nccomHostIndex_v1* index = nullptr;  // the device advances it; outlives close()
  std::byte* memory = nullptr;         // what entries lie in; registered with the net
  uint64_t memoryBytes = 0;
  NetMemoryKind memoryKind = NetMemoryKind::Host;

  /// Raises the completion semaphore. Called under the connection's lock: must not block.
  std::function<void(uint64_t entries)> complete;
  /// The connection has failed; once. Must not block, nor call the proxy.
  std::function<void(const Error&)> failed;
};

/// Thread-safe. A connection that somebody else is driving is passed over, not waited for.
class NetConnection {
 public:
  /// Receives a connection that the peer makes with `handle`, which is filled in.
  static Result<std::shared_ptr<NetConnection>> listen(std::shared_ptr<Net> net, NetEnd end,
                                                       NetHandle& handle);
  /// Makes the connection that the peer listens for.
  static Result<std::shared_ptr<NetConnection>> connect(std::shared_ptr<Net> net, NetEnd end,
                                                        const NetHandle& handle);
  ~NetConnection();
  NetConnection(const NetConnection&) = delete;
  NetConnection& operator=(const NetConnection&) = delete;

  /// Appends an operation's entries, in the order of the launches and before the device can post
  /// them. Never blocks on the network.
  ///
  /// @error  ncclInternalError     an entry lies outside the memory
  /// @error  ncclInvalidUsage      an entry is larger than the net's messages may be
  /// @error  (that of the failure)  the connection has failed
  Status submit(std::shared_ptr<const NetEntries> entries);

  /// Does what can be done now. True if anything moved. Never waits.
  bool progress();

  /// Whether progress() may find something to do: not yet connected, or posted and not complete.
  bool busy() const;

  /// False while the connection is being made. @error  it has failed
  Result<bool> ready() const;

  /// Whether messages that were posted have still to be sent. None is lost that has been.
  bool sending() const;

  /// Ends the connection at once. When it returns, neither `complete` nor `failed` will be called
  /// again, and nothing of `end` is used.
  void close();

  struct Counters {
    uint64_t posted = 0;   // by the device
    uint64_t started = 0;  // given to the net
    uint64_t completed = 0;
    uint64_t submitted = 0;
    uint64_t bytes = 0;  // of the completed ones
  };
  Counters counters() const;

  /// Since when there has been work and none of it has moved; nothing if that is not so.
  std::optional<std::chrono::steady_clock::duration> stalled() const;

  /// "rank 0 -> rank 2 channel 1 over Socket/0", or "<-" at the receiver.
  const std::string& name() const { return name_; }
  /// name(), the operation, and how far it has come.
  std::string report() const;

  const NetEnd& end() const { return end_; }

  /// NCCL never has more receives under way on one comm, and some nets take no more.
  /// @source NCCL_STEPS, the slots of a channel
  static constexpr uint64_t kMaxRequests = 8;

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : uint8_t { Connecting, Ready, Failed, Closed };
  enum class Stage : uint8_t { Empty, Send, Recv, Flush };

  struct Request {
    Stage stage = Stage::Empty;
    NetRequest* request = nullptr;
    NetBuffer buffer;
  };
  /// Where the next entry to start is.
  struct Cursor {
    size_t block = 0, entry = 0;
    uint64_t iteration = 0;
  };

  NetConnection(std::shared_ptr<Net> net, NetEnd end);

  Error error(const char* what, const Error& cause) const;
  Status check(const NetEntries& entries) const;
  Result<bool> step();
  Result<bool> tryConnect();
  Status connected();
  Result<bool> reap();
  Result<bool> finished(Request& request);
  Status checkSize(const Request& request, int received) const;
  Result<bool> start(uint64_t posted);
  Result<bool> startOne(Request& request, const NetBuffer& buffer);
  NetBuffer nextEntry() const;
  void settle();
  bool hasWork() const;
  Counters countersLocked() const;
  void takeSubmitted();
  void failWith(Error error);
  uint64_t posted() const;

  const std::shared_ptr<Net> net_;
  const NetEnd end_;
  std::string name_;
  size_t maxBytes_ = 0;  // of a message

  mutable std::mutex mutex_;  // guards what follows, but for the atomics' readers
  NetHandle handle_{};        // the net keeps its state of connecting in it
  UniqueNetListen listener_;
  UniqueNetSend sender_;
  UniqueNetRecv receiver_;
  NetMemory* memory_ = nullptr;
  std::array<Request, kMaxRequests> requests_;  // entry k under way is at k % kMaxRequests
  std::deque<std::shared_ptr<const NetEntries>> operations_;  // first: the one being started
  Cursor cursor_;
  bool idle_ = true;  // the last progress() found no work

  // Written under mutex_, read by anybody; relaxed: each is a number of its own and nothing else is
  // published through it, but for state_ (see there).
  std::atomic<uint64_t> started_{0}, completed_{0}, bytes_{0};
  std::atomic<int64_t> movedAt_;  // Clock's ticks
  // Release when written after failure_, acquire in ready() and submit().
  std::atomic<State> state_{State::Connecting};
  Error failure_{ncclSuccess, ""};  // written once, before state_ becomes Failed

  mutable std::mutex submitMutex_;  // guards the two below: a launch does not wait for the network
  std::vector<std::shared_ptr<const NetEntries>> submitted_;  // not yet in operations_
  std::shared_ptr<const NetEntries> checked_;                 // the last that was found good
  std::atomic<uint64_t> submittedEntries_{0};
};

}  // namespace nccom
