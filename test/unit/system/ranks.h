// Forks processes that use the library's API as ranks of one communicator.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "include/nccl.h"
#include "include/nccom.h"
#include "test/unit/system/run.h"

namespace nccom::test {

/// What a forked rank prints when an API call fails, and how it ends.
constexpr int kFailedStatus = 3;

/// In a forked rank: the call must succeed; otherwise prints "FAILED <call>: <last error>" and ends
/// the process with kFailedStatus.
void must(ncclResult_t result, const char* call);
#define MUST(call) ::nccom::test::must((call), #call)

/// As the value of NCCL_HOSTID: the lower half of the ranks is one virtual host, the rest another.
constexpr const char* kHalves = "@halves";

/// One process a rank. `body` gets the rank and a fresh unique id that all share; its return value
/// is the exit status.
class Ranks {
 public:
  using Body = std::function<int(int rank, const ncclUniqueId& id)>;
  Ranks(int nRanks, const Env& env, const Body& body);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  pid_t pid(int rank) const { return processes_[rank].pid; }
  void kill(int rank, int signal) const;
  /// Waits for all, `seconds` at most together.
  std::vector<Outcome> wait(double seconds);
  /// Blocks until `rank` has printed `text`.
  bool waitFor(int rank, const std::string& text, double seconds);

 private:
  struct Process {
    pid_t pid = -1;
    int fd = -1;
    std::string output;
    bool ended = false;
    int status = 0;
  };
  void readAll(int timeoutMs);
  void reap();
  std::vector<Process> processes_;
};

/// Names in /dev/shm.
std::vector<std::string> shmNames();

}  // namespace nccom::test
