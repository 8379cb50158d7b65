// Processes with device memory, for the tests of those who share it.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "plugins/device_emu/memory.h"
#include "plugins/device_emu/owned.h"
#include "plugins/device_emu/peer_wire.h"
#include "plugins/device_emu/peers.h"
#include "test/unit/device_emu/forked.h"

namespace nccom::emu {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = PeerProcesses::Clock;

// What a process has when it has initialised.
struct Process {
  std::unique_ptr<Hbm> hbm;
  std::atomic<int> deaths{0};
  std::atomic<pid_t> deadPid{0};
  std::unique_ptr<PeerProcesses> peers;

  explicit Process(uint64_t bytes = kDefaultHbmBytes) {
    HbmOptions options;
    options.bytes = bytes;
    hbm = std::move(Hbm::open(options).value());
    peers = std::move(PeerProcesses::open(*hbm, [this](const ProcessToken&, pid_t pid) {
                        deadPid = pid;
                        deaths++;
                      }).value());
  }
  Result<std::shared_ptr<PeerProcess>> attach(const ProcessExport& process,
                                              Clock::duration within = seconds(20)) {
    return peers->attach(process, Clock::now() + within);
  }
};

// Bounded by far more than it should take; what is measured is said by the caller.
template <class Condition>
bool eventually(Condition condition, Clock::duration within = seconds(20)) {
  const auto deadline = Clock::now() + within;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

inline auto entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

template <class T>
std::string messageOf(const Result<T>& result) {
  return result.ok() ? "" : result.error().message;
}

// A process that opens its door, says where it is, and ends in order when told to, or by SIGKILL.
class Neighbour {
 public:
  Neighbour()
      : child_([this] {
          Process process;
          auto* const block = static_cast<uint64_t*>(process.hbm->alloc(4096).value());
          block[0] = 4711;
          toParent_.send(process.peers->self());
          toParent_.send(process.hbm->offsetOf(block));
          const auto parent = toChild_.receive<ProcessExport>(60'000);
          if (!parent) return false;
          if (parent->magic == 0) return true;  // told to end without a look at us
          const auto attached = process.attach(*parent);
          if (!attached.ok()) return false;
          toParent_.send('a');
          return toChild_.receive<char>(60'000).has_value();
        }) {}

  /// Where it is. After this, threads may be started here.
  ProcessExport meet() {
    const auto process = toParent_.receive<ProcessExport>();
    const auto offset = toParent_.receive<uint64_t>();
    EXPECT_TRUE(process && offset);
    offset_ = offset.value_or(0);
    return process.value_or(ProcessExport{});
  }
  uint64_t offset() const { return offset_; }
  /// Has it attach to `process`.
  bool callOn(const ProcessExport& process) {
    toChild_.send(process);
    attached_ = toParent_.receive<char>().has_value();
    return attached_;
  }
  bool leave() {
    if (attached_) {
      toChild_.send('e');
    } else {
      toChild_.send(ProcessExport{});
    }
    return child_.succeeded();
  }
  void die() {
    child_.signal(SIGKILL);
    child_.succeeded();
  }
  Child& child() { return child_; }

 private:
  Pipe toParent_;
  Pipe toChild_;
  uint64_t offset_ = 0;
  bool attached_ = false;
  Child child_;
};

/// A connection to the door of `process`, as anybody could open it.
inline OwnedFd callAt(const ProcessExport& process) {
  Connected connected = connectTo(process.name, Clock::now() + seconds(20));
  EXPECT_EQ(connected.error, 0) << strerror(connected.error);
  setSocketDeadline(connected.fd.get(), Clock::now() + seconds(20));
  return std::move(connected.fd);
}

}  // namespace nccom::emu
