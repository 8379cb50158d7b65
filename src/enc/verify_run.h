// The symbolic run: queues, networks and buffers of all ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "enc/verify_contents.h"
#include "enc/verify_jump.h"
#include "enc/verify_memory.h"
#include "enc/verify_order.h"
#include "enc/verify_world.h"
#include "misc/result.h"

namespace nccom {

/// Bytes of an OUTPUT, and what they must hold when the rank's program has ended.
struct encExpectation {
  uint16_t index = 0;
  int64_t begin = 0, end = 0;
  encContents::Id content = 0;
  int64_t source = 0;  // offset in the INPUT that `begin` comes from
};

class encVerifyRun {
 public:
  /// @param jump  skip the middle of long blocks where encPlanJumps agrees
  encVerifyRun(const encVerifyWorld& world, bool jump);

  Status run();
  bool jumped() const { return jumped_; }

 private:
  struct Cursor {
    size_t block = 0, desc = 0;
    uint64_t iteration = 0;
  };
  struct Queue {
    int agent = 0;
    Cursor at;
    encClock clock;
    encSnapshot snapshot;  // of `clock`; empty when that has changed
  };
  struct Rank {
    int operation = -1;  // that it is in
    bool running = false;
    size_t queuesLeft = 0;
    int firstAgent = 0;
    encClock clock;  // what it knew at its last launch or end
    std::vector<Queue> queues;
    uint32_t launchTime = 0;  // event of firstAgent
    encMemory scratch;
    encMemory work;  // the work area, of the current operation
    std::map<uint16_t, encMemory> inputs, outputs;
    std::vector<encQueueRef> waiting;  // for this rank's next launch
    std::map<int, uint64_t> posted;    // to each peer, by earlier launches
  };
  struct NetEntry {
    uint64_t count = 1,
             bytes = 0;  // count > 1: entries that a jump skipped, with their bytes in all
    int64_t offset = 0;
    encSnapshot clock;
    uint32_t site = 0;
    uint64_t iteration = 0;
    bool jump = false;
  };
  struct NetEnd {
    int rank = 0, agent = -1;
    uint32_t semaphore = 0;
    size_t connection = 0;  // index in the rank's program
    encClock clock;
    std::deque<NetEntry> entries;
  };
  struct Wire {
    NetEnd from, to;
  };
  struct Posted {
    int operation = 0;
    uint16_t index = 0;
    uint64_t bytes = 0;
    encAccess post, read;
    bool wasRead = false;
  };
  enum class Step : uint8_t { Done, Blocked };
  struct Place {
    encMemory* memory = nullptr;
    int64_t begin = 0;
    bool blocked = false;
  };

  // verify_run.cc: ranks, queues, semaphores, networks
  void numberAgents();
  Status launch(int rank);
  Status end(int rank);
  Status checkDone(int rank, const encMemory& memory, const char* what) const;
  Status checkNetworkDone(int rank) const;
  void prepareBuffers(int rank);
  Status runQueue(encQueueRef ref);
  Result<Step> execute(encQueueRef ref, const encSite& site, const encDesc& desc);
  Status advance(encQueueRef ref, const encBlock& block);
  Status jump(encQueueRef ref, const encBlock& block);
  void raise(int rank, uint32_t number, const encRaiser& raiser, encSnapshot clock);
  void wake(std::vector<encQueueRef>& waiting);
  encSnapshot snapshot(Queue& queue);
  Wire& wire(int rank, const encConnection& connection);
  Status post(encQueueRef ref, const encSite& site, const encDesc& desc);
  Status netPost(encQueueRef ref, const encSite& site, const encDesc& desc, uint64_t skipped);
  Status netProgress(Wire& wire);
  Status netMove(Wire& wire, const NetEntry& send, const NetEntry& receive);
  Error deadlock() const;
  Status leftovers() const;
  encOrderedSemaphore& semaphore(int rank, uint32_t number) {
    return semaphores_[world_.semaphoreId(rank, number)];
  }

  // verify_transfer.cc: bytes
  Result<Step> transfer(encQueueRef ref, const encSite& site, const encDesc& desc);
  Result<Place> locate(encQueueRef ref, const encSite& site, const encAddress& address,
                       uint64_t bytes);
  Result<Place> locatePosted(encQueueRef ref, const encSite& site, const encAddress& address,
                             uint64_t bytes);
  Result<std::vector<encMemory::Piece>> gather(const encSite& site, const encDesc& desc,
                                               std::vector<std::vector<encMemory::Piece>> sources,
                                               const std::vector<int64_t>& begins);
  void knowLaunch(encQueueRef ref, const Rank& owner);
  Result<Place> locateWork(encQueueRef ref, const encSite& site, int rank, int64_t offset);
  Status overlaps(const encSite& site, const std::vector<Place>& sources,
                  const std::vector<Place>& destinations, int64_t bytes) const;
  bool isWork(const encAddress& address) const {
    return address.buffer == encBuffer::Scratch && world_.layouts[0].isWork(address.offset);
  }
  Place buffer(int rank, encBuffer which, uint16_t index, int64_t offset);
  std::string text(const encConflict& conflict) const;
  Status checkOutputs(int rank);

  const encVerifyWorld& world_;
  const bool jump_;
  bool jumped_ = false;
  encContents contents_;
  std::vector<bool> mayJump_;                          // [operation]
  std::vector<std::vector<encTrustedBytes>> trusted_;  // [operation]
  std::vector<Rank> ranks_;
  std::vector<encOrderedSemaphore> semaphores_;
  std::map<std::tuple<int, int, int>, Wire> wires_;                  // {from, to, channel}
  std::map<std::pair<int, int>, std::map<uint64_t, Posted>> posts_;  // {from, to}, by number
  std::deque<encQueueRef> runnable_;
  size_t agents_ = 0;
};

/// What rank's outputs must hold after `operation`. Messages are matched over all operations.
std::vector<encExpectation> encExpect(const encVerifyWorld& world, encContents& contents,
                                      int operation, int rank);

}  // namespace nccom
