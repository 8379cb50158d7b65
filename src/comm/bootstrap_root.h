// The root side of the bootstrap: where the ranks of a communicator meet first.
//
// One listener an interface and one thread a process serve all ids that the process has made; a
// check-in's secret says which. So an id costs no thread and no descriptor, and one that is used
// twice is known as such for as long as the process lives.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/bootstrap_wire.h"
#include "misc/fd.h"
#include "misc/result.h"
#include "misc/socket.h"

namespace nccom {

struct BootstrapConfig {
  std::string ifname;          // NCCL_SOCKET_IFNAME
  std::string family;          // NCCL_SOCKET_FAMILY
  std::string commId;          // NCCL_COMM_ID; empty: none
  int64_t timeoutMs = 120000;  // of each step; at the root: from the first check-in to the last;
                               // 0: for ever

  static constexpr int64_t kLongestMs = 1LL << 40;  // 35 years: what "for ever" is
  std::chrono::milliseconds timeout() const {
    const bool limited = timeoutMs > 0 && timeoutMs < kLongestMs;
    return std::chrono::milliseconds(limited ? timeoutMs : kLongestMs);
  }
};

class BootstrapRoots {
 public:
  BootstrapRoots() = default;
  /// Ends the thread. Ranks that still wait for others see the connection close.
  ~BootstrapRoots();
  BootstrapRoots(const BootstrapRoots&) = delete;
  BootstrapRoots& operator=(const BootstrapRoots&) = delete;

  /// A new id. Its root runs from now on in this process, or with `commId` set from the moment that
  /// rank 0 calls serve(). Any thread.
  ///
  /// @error  ncclInvalidArgument  commId is no address
  /// @error  ncclInvalidUsage     no interface matches
  Result<ncclUniqueId> getUniqueId(const BootstrapConfig& config);

  /// Rank 0 of an id from NCCL_COMM_ID: opens its address and waits for `nRanks` ranks. Any thread.
  ///
  /// @error  ncclInvalidUsage  another communicator is being created at this address
  Status serve(const BootstrapId& id, int nRanks, const BootstrapConfig& config);

 private:
  using Clock = std::chrono::steady_clock;
  struct Session;

  /// A connection: a stranger until his check-in is complete, then a rank that waits, then one that
  /// is told.
  struct Visitor {
    Socket socket;
    Clock::time_point until;  // ends when it passes, unless it waits for its session
    CheckIn checkIn;
    size_t received = 0;         // bytes of checkIn
    Session* session = nullptr;  // waits there
    std::string answer;          // to be sent, then the connection ends
    size_t sent = 0;
    bool gone = false;
  };
  struct Session {
    uint64_t secret = 0;
    std::chrono::milliseconds timeout{0};
    bool fromCommId = false;
    bool used = false;                // all ranks have come
    std::map<int, Visitor*> ranks;    // that wait
    int nRanks = 0;                   // 0: nobody has come yet
    int nRanksSaidBy = 0;             // the rank that said nRanks
    bool begun = false;               // somebody has come
    Clock::time_point until;          // valid once begun
    ncclResult_t code = ncclSuccess;  // why it failed
    std::string failure;
    int otherRank = -1, otherNRanks = 0;  // disagreement on nRanks, if that is the failure
  };
  struct Listener {
    ListenSocket socket;
    uint64_t session = 0;                           // secret of the only one it serves; 0: all
    Clock::time_point pauseUntil;                   // after a failed accept
    std::optional<Clock::time_point> failingSince;  // none has succeeded since
  };

  Status begin();  // starts the thread if it does not run
  void wake();
  void run();
  int pollAll(std::vector<pollfd>& fds);  // milliseconds to wait
  void acceptAll(Listener& listener);
  void acceptFailed(Listener& listener, const Error& error);
  void step(Visitor& visitor);
  void readCheckIn(Visitor& visitor);
  void admit(Visitor& visitor);
  void arrive(Session& session, Visitor& visitor);
  void complete(Session& session);
  void failSession(Session& session, ncclResult_t code, std::string text);
  void refuse(Visitor& visitor, const Session& session);
  void tell(Visitor& visitor, ncclResult_t code, const std::string& text);
  void answer(Visitor& visitor, Verdict verdict, const std::string& text);
  void lose(Visitor& visitor);
  void expire(Clock::time_point now);

  std::mutex mutex_;  // guards all below; the thread lets go of it only to poll
  bool stop_ = false;
  UniqueFd wake_;  // eventfd
  std::list<Listener> listeners_;
  std::map<uint64_t, Session> sessions_;  // by secret
  std::list<Visitor> visitors_;
  std::thread thread_;
};

}  // namespace nccom
