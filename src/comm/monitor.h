// Word of failures: who dies or gives up is known to every rank of his communicators at once.
//
// After initialisation the ranks of a communicator stay connected in a ring. One thread a process
// listens on the rings of all its communicators. A rank that fails says so both ways round, each
// rank passes it on once. A connection that closes without a goodbye is a rank that was lost, which
// its neighbours then say: the kernel closes the connections of a process however it ends.
//
// The ring also carries questions: a rank whose operation is stuck asks whether the others have
// called the same.
//
// A rank that leaves in good order says goodbye and hears no more, but its process goes on passing
// faults along until the neighbours have left too. When the process itself ends, the ring is open
// there: faults then reach the ranks between two such gaps, which is enough for a communicator that
// somebody was already done with.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/bootstrap.h"
#include "misc/fd.h"
#include "misc/result.h"

namespace nccom {

/// Why a communicator has failed: `rank` failed or was lost.
struct Fault {
  int rank = -1;
  ncclResult_t code = ncclSuccess;
  std::string text;

  bool operator==(const Fault&) const = default;
};

/// `rank` is stuck in its collective number `collective`, which `call` describes.
struct Question {
  int rank = -1;
  uint64_t collective = 0;
  std::string call;

  bool operator==(const Question&) const = default;
};

/// The monitor of a process. All calls from any thread.
class Monitor {
 public:
  /// Is called with the first fault of a member, at most once, on the monitor's thread. It must not
  /// block: the other communicators wait for it.
  using OnFault = std::function<void(const Fault&)>;
  /// Is called with every question of another rank, in the same way.
  using OnQuestion = std::function<void(const Question&)>;

  static constexpr std::chrono::milliseconds kGrace{500};

  /// @param grace  of suspect()
  explicit Monitor(std::chrono::milliseconds grace = kGrace) : grace_(grace) {}
  /// Members that have not left look lost to their neighbours.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Watches a communicator. What its ranks have said since they connected counts.
  ///
  /// @return the member's number, never 0
  Result<uint64_t> join(ControlRing ring, OnFault onFault, OnQuestion onQuestion = {});

  /// Asks all other ranks. Does not block.
  void ask(uint64_t member, uint64_t collective, const std::string& call);

  /// Tells the other ranks that this one has failed. Does nothing if the member has told or heard
  /// of a fault before. Does not call OnFault.
  void fault(uint64_t member, ncclResult_t code, const std::string& text);

  /// The member cannot go on, and may be but the second to fall: a connection to another rank has
  /// broken, whose cause may be on its way around the ring. Unless that arrives within the grace,
  /// this is the member's fault: OnFault gets it and the other ranks are told. Does not block.
  void suspect(uint64_t member, ncclResult_t code, const std::string& text);

  /// Leaves in good order. When it returns, the goodbye is on its way and OnFault is not running
  /// and will not be called again. May be called from OnFault.
  void leave(uint64_t member);

 private:
  using Clock = std::chrono::steady_clock;
  struct Edge {  // connection to a neighbour
    Socket socket;
    int peer = -1;
    int nRanks = 0;  // of the communicator
    ProcessName name;
    std::string out, in;  // bytes on their way
    bool heardGoodbye = false;
  };
  struct Member {
    int rank = 0;
    Edge edges[2];  // previous, next
    std::shared_ptr<const OnFault> onFault;
    std::shared_ptr<const OnQuestion> onQuestion;  // may be null
    bool left = false;
    bool faulted = false;
    std::optional<Fault> suspicion;    // the first
    Clock::time_point suspectedUntil;  // valid with it
  };
  struct Call {  // of an OnFault or OnQuestion
    uint64_t member;
    std::function<void()> run;
  };
  struct Heard {  // on an edge
    std::vector<Fault> faults;
    std::vector<Question> questions;
  };

  Status begin();
  void wake();
  void run();
  int pollMs() const;
  void judge(uint64_t id, Member& member, std::vector<Call>& calls);
  void step(uint64_t id, Member& member, std::vector<Call>& calls);
  static Call callOf(uint64_t id, const Member& member, const Fault& fault);
  static void takeQuestions(uint64_t id, Member& member, const std::vector<Question>& questions,
                            std::vector<Call>& calls);
  void receive(Edge& edge, Heard& heard);
  std::string takeMessages(Edge& edge, Heard& heard);
  static void say(Edge& edge, const std::string& message);
  static void flush(Edge& edge);
  void callBack(const std::vector<Call>& calls, std::unique_lock<std::mutex>& lock);

  const std::chrono::milliseconds grace_;
  std::mutex mutex_;  // guards all below; the thread lets go of it to poll and to call back
  std::condition_variable called_;
  uint64_t calling_ = 0;  // the member whose OnFault is running
  bool stop_ = false;
  uint64_t lastId_ = 0;
  std::map<uint64_t, Member> members_;  // only the thread erases, so what it polls stays
  UniqueFd wake_;                       // eventfd
  std::thread thread_;
};

}  // namespace nccom
