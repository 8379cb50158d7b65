// The symbolic run: queues, networks and buffers of all ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "enc/verify_contents.h"
#include "enc/verify_expect.h"
#include "enc/verify_jump.h"
#include "enc/verify_memory.h"
#include "enc/verify_order.h"
#include "enc/verify_world.h"
#include "misc/result.h"

namespace nccom {

class encVerifyRun {
 public:
  /// @param jump  skip the middle of long blocks where encPlanJumps agrees
  encVerifyRun(const encVerifyWorld& world, bool jump);

  Status run();
  bool jumped() const { return jumped_; }
  /// Transfers, and messages of networks, on the longest chain of which each starts after the one
  /// before has ended: by the order of its queue, or because a semaphore says so.
  uint64_t steps() const { return steps_; }

 private:
  struct Cursor {
    size_t block = 0, desc = 0;
    uint64_t iteration = 0;
    uint32_t site = 0;  // number of the block's first descriptor
  };
  struct Queue {
    Cursor at;
    encRelease state;            // what its next increment will tell
    int32_t launchTime = 0;      // its first event in this operation
    uint64_t chain = 0;          // when its current iteration began
    std::vector<bool> launched;  // [rank] of this operation, as it knows
  };
  struct Rank {
    int operation = -1;  // that it is in
    bool running = false;
    size_t queuesLeft = 0;
    encRelease state;            // at its last launch or end
    std::vector<int32_t> times;  // of its queues' last events
    std::vector<Queue> queues;
    encMemory scratch;
    encMemory work;  // the work area, of the current operation
    std::vector<encMemory> inputs, outputs;
    std::vector<encQueueRef> waiting;  // for this rank's next launch
    std::vector<encAccess> found;      // events that found it launched
    std::map<int, uint64_t> posted;    // to each peer, by earlier launches
    std::map<int, uint64_t> received;  // from each peer, the same
    std::vector<size_t> wires;         // that have an end here
  };
  struct NetEntry {
    uint64_t count = 1,
             bytes = 0;  // count > 1: entries that a jump skipped, with their bytes in all
    int64_t offset = 0;
    encRelease release;
    uint32_t site = 0;
    uint64_t iteration = 0;
    bool jump = false;
  };
  struct NetEnd {
    int rank = 0;
    bool used = false;
    encRelease state;
    std::deque<NetEntry> entries;
  };
  struct Wire {
    NetEnd from, to;
  };
  struct Posted {
    int operation = 0;
    uint16_t index = 0;
    uint64_t bytes = 0;
    uint32_t site = 0;
    encRelease post, read;  // what they tell
    bool wasRead = false;
    std::optional<encMemory> value;  // by value: what was in the buffer
  };
  /// From one rank to another.
  struct Mail {
    std::map<uint64_t, Posted> posts;  // by number
    std::vector<encQueueRef> waiting;  // for a message, or until one is read
  };
  enum class Step : uint8_t { Done, Blocked };
  struct Place {
    encMemory* memory = nullptr;
    int64_t begin = 0;
    bool blocked = false;
  };
  using Pieces = std::vector<encMemory::Piece>;

  // verify_run.cc: ranks, queues, semaphores
  int agentOf(int rank, size_t queue) const {
    return static_cast<int>(queue) * world_.info.rank_n + rank;
  }
  Status launch(int rank);
  Status end(int rank);
  Status checkDone(int rank, const encMemory& memory, const char* what) const;
  void prepareBuffers(int rank);
  Status runQueue(encQueueRef ref);
  Result<Step> execute(encQueueRef ref, uint32_t site, const encDesc& desc);
  Status advance(encQueueRef ref, const encBlock& block);
  Status jump(encQueueRef ref, const encBlock& block);
  Status raiseBy(encQueueRef ref, uint32_t site, uint64_t count);
  Status raise(uint32_t site, uint64_t count, const encRelease& release);
  Error deadlock() const;
  Queue& queueOf(encQueueRef ref) { return ranks_[ref.rank].queues[ref.queue]; }
  /// The queue's next event.
  encAccess event(encQueueRef ref, uint32_t site);
  encObserver observer(const encKnowledge& who) const { return {order_, who}; }

  // verify_mail.cc: messages within a host
  Result<Step> post(encQueueRef ref, uint32_t site, const encDesc& desc);
  Result<Place> locatePosted(encQueueRef ref, uint32_t site, const encAddress& address,
                             uint64_t bytes);
  Status take(encQueueRef ref, uint32_t site, const encDesc& desc);
  Status unread() const;
  void learn(encQueueRef ref, const encRelease& release);
  void wakeAll(std::vector<encQueueRef>& waiting);
  uint64_t numberOf(int rank, const encAddress& address);

  // verify_net.cc: networks
  void layWires();
  Status checkNetworkDone(int rank) const;
  Status netPost(encQueueRef ref, uint32_t site, const encDesc& desc, uint64_t skipped);
  Status netProgress(Wire& wire);
  Status netMove(Wire& wire, const NetEntry& send, const NetEntry& receive);
  encMemory& netMemory(int rank, int64_t offset);
  Status leftovers() const;

  // verify_transfer.cc: bytes
  Result<Step> transfer(encQueueRef ref, uint32_t site, const encDesc& desc);
  Status read(encQueueRef ref, const encAccess& access, const encDesc& desc);
  Status write(encQueueRef ref, const encAccess& access, const encDesc& desc);
  Result<Place> locate(encQueueRef ref, uint32_t site, const encAddress& address, uint64_t bytes);
  Result<Place> locateWork(encQueueRef ref, uint32_t site, int rank, int64_t offset);
  Status gather(uint32_t site, const encDesc& desc);
  encMemory& valueOf(int operation, int rank);
  bool knowsLaunch(encQueueRef ref, int rank);
  void findLaunched(encQueueRef ref, int rank);
  Status overlaps(uint32_t site, int64_t bytes) const;
  bool isWork(const encAddress& address) const {
    return address.buffer == encBuffer::Scratch && world_.layout.isWork(address.offset);
  }
  Place buffer(int rank, encBuffer which, uint16_t index, int64_t offset);
  std::string text(const encConflict& conflict) const;
  Status checkOutputs(int rank);
  Status checkOrder(int rank);

  const encVerifyWorld& world_;
  const bool jump_;
  bool jumped_ = false;
  uint64_t steps_ = 0;
  encContents contents_;
  encOrder order_;
  std::vector<bool> mayJump_;                                       // [operation]
  std::vector<std::vector<std::vector<encTrustedBytes>>> trusted_;  // [operation][rank]
  std::vector<Rank> ranks_;
  std::vector<encOrderedSemaphore> semaphores_;
  /// What the first rank that ended had in OUTPUT of an AllReduce, which offsets count from.
  struct Sum {
    int rank = -1;
    Pieces pieces;
  };
  std::vector<Sum> sums_;  // [operation]
  std::vector<Wire> wires_;
  std::vector<std::vector<uint32_t>> wireOf_;        // [operation * ranks + rank][connection]
  std::map<std::pair<int, int>, Mail> mail_;         // {from, to}
  std::map<std::pair<int, int>, encMemory> copies_;  // {operation, rank}: INPUT by value
  std::deque<encQueueRef> runnable_;
  encExpectations expectations_;

  // Of the transfer under way.
  std::vector<Place> sources_, destinations_;
  std::vector<Pieces> pieces_;  // [source]
  std::vector<size_t> next_;    // [source] the piece that is at turn
  std::vector<encContents::Value> values_;
  Pieces result_;  // placed at 0
  Pieces placed_;  // at a destination
};

/// Runs the operations; if that fails after jumps, all iterations of them.
/// @return steps()
/// @error ncclInternalError  the first violation
Result<uint64_t> encRun(const encVerifyWorld& world);

}  // namespace nccom
