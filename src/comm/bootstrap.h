// How the ranks of a communicator meet and talk out of band: over TCP, before and beside any device
// or network plugin.
//
// Each rank checks in at the id's root (bootstrap_root.h) and learns where the next rank listens.
// The ranks then form a ring, over which they gather; any two of them can also send messages to
// each other. Every wait has a deadline and ends when the communicator is aborted; every error
// names the stage, the other rank and where it is.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/bootstrap_port.h"
#include "comm/bootstrap_root.h"
#include "comm/bootstrap_wire.h"
#include "misc/check.h"
#include "misc/result.h"

namespace nccom {

/// The ends of the second ring, which carries word of failures (monitor.h).
struct ControlRing {
  int rank = 0, nRanks = 1;
  Socket prev, next;  // empty with one rank
  ProcessName prevName, nextName;
};

/// One rank of one communicator. Used by one thread at a time.
class Bootstrap {
 public:
  /// Returns when this rank and its neighbours have connected and all have each other's addresses.
  ///
  /// @param roots      serves NCCL_COMM_ID if this is rank 0
  /// @param abortFlag  borrowed for the life of the object; non-zero ends every wait. May be null
  /// @error ncclInvalidArgument  rank outside 0..nRanks-1; an id that is none
  /// @error ncclInvalidUsage     the ranks do not fit together: an id used before, a rank twice,
  ///                             different nRanks
  /// @error ncclRemoteError      ranks are missing or were lost; the text names them
  /// @error ncclInternalError    aborted
  static Result<std::unique_ptr<Bootstrap>> init(const BootstrapConfig& config,
                                                 BootstrapRoots& roots, const ncclUniqueId& id,
                                                 int rank, int nRanks,
                                                 const std::atomic<uint32_t>* abortFlag);

  int rank() const { return rank_; }
  int nRanks() const { return nRanks_; }
  /// The same on all ranks; random, and seconds since 1970.
  uint64_t clusterId() const { return clusterId_; }
  uint64_t epoch() const { return epoch_; }
  /// "rank 3 (host h1, pid 12, 192.0.2.1:5000)".
  std::string describe(int rank) const;

  /// All ranks give `bytes` bytes at all + rank * bytes and get everybody's. `stage` is a word for
  /// messages, the same on all ranks.
  ///
  /// @param  all  [nRanks][bytes]
  /// @error  ncclInvalidUsage  a neighbour gathers something else: stage or size differ
  Status allGather(void* all, size_t bytes, const char* stage);

  /// all[rank] is this rank's; the others are filled in.
  template <class T>
  Status allGather(std::span<T> all, const char* stage) {
    static_assert(std::is_trivially_copyable_v<T>);
    NCCL_CHECK(all.size() == static_cast<size_t>(nRanks_));
    return allGather(static_cast<void*>(all.data()), sizeof(T), stage);
  }

  /// Returns when all ranks have called it.
  Status barrier(const char* stage);

  /// A message to `peer`, which may be this rank. Of two ranks with one tag in the order sent; with
  /// different tags in any order. `stage` is for messages. May return before it is received.
  Status send(int peer, uint32_t tag, const void* data, size_t bytes, const char* stage);
  /// @error  ncclInvalidUsage  the message has another size
  Status recv(int peer, uint32_t tag, void* data, size_t bytes, const char* stage);

  /// The second ring, for the monitor. Once.
  ControlRing takeControlRing();

 private:
  struct Place {  // of a rank
    SocketAddress listen;
    ProcessName name;
  };
  struct Transfer;  // a gather on its way

  Bootstrap(const BootstrapConfig& config, int rank, int nRanks,
            const std::atomic<uint32_t>* abortFlag)
      : config_(config), rank_(rank), nRanks_(nRanks), abortFlag_(abortFlag) {}

  int prev() const { return (rank_ + nRanks_ - 1) % nRanks_; }
  int next() const { return (rank_ + 1) % nRanks_; }
  Deadline deadline() const;
  Status meet(const BootstrapId& id);
  Result<Verdict> checkIn(const BootstrapId& id);
  Status connectRing(const Verdict& verdict);
  Status awaitPrev();
  Status gatherPlaces();
  Error at(const char* call, const char* stage, int peer, const Error& error) const;
  Result<bool> push(Transfer& transfer);
  Result<bool> pull(Transfer& transfer);
  Status checkHeader(const Transfer& transfer) const;
  Status sendAll(Socket& socket, const void* data, size_t bytes, const Deadline& deadline);

  BootstrapConfig config_;
  int rank_, nRanks_;
  const std::atomic<uint32_t>* abortFlag_;
  uint64_t clusterId_ = 0;
  uint64_t epoch_ = 0;
  std::unique_ptr<BootstrapPort> port_;  // null with one rank
  Socket ringPrev_, ringNext_;
  ControlRing control_;
  std::vector<Place> places_;  // [nRanks] once known
  std::map<int, Socket> outgoing_;
  Mailbox toSelf_;
  uint64_t gathers_ = 0;
};

}  // namespace nccom
