// The processes of this host that share their HBM: how one finds, maps and outlives another.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>

#include "plugins/device_emu/eventcount.h"
#include "plugins/device_emu/foreign.h"
#include "plugins/device_emu/memory.h"
#include "plugins/device_emu/owned.h"
#include "plugins/device_emu/status.h"

namespace nccom::emu {

// Random, one a process: identity, and the secret that opens its door.
struct ProcessToken {
  std::array<uint8_t, 16> bytes{};
  bool operator==(const ProcessToken&) const = default;
  bool operator<(const ProcessToken& other) const { return bytes < other.bytes; }
};

// What a process tells of itself to those that shall attach to it. Travels as bytes.
struct ProcessExport {
  uint32_t magic = 0;
  int32_t pid = 0;  // in its own pid namespace, for messages
  ProcessToken token;
  std::array<uint8_t, 16> name{};  // random part of its socket's abstract name
  uint64_t hbmBytes = 0;
  uint64_t netNamespace = 0;  // inode of its network namespace, where the name is known; 0: unknown
};
static_assert(std::is_trivially_copyable_v<ProcessExport> && sizeof(ProcessExport) == 56);

// At offset 0 of every HBM. An ABI between the processes of a host.
struct ProcessHeader {
  uint64_t magic;
  uint32_t version;
  int32_t pid;  // in its own pid namespace
  ProcessToken token;
  uint64_t address;  // of this header in its own process
  uint64_t check;    // random, never 0: see CmaCheck
  EventCount
      bell;  // where the threads of that process sleep; rung by whoever raises its semaphores
};
static_assert(std::is_standard_layout_v<ProcessHeader> && offsetof(ProcessHeader, bell) == 64);
static_assert(sizeof(ProcessHeader) <= kHbmHeaderBytes);

enum class PeerState : uint8_t {
  Alive,
  Left,  // closed its PeerProcesses in order; its memory is still mapped here and still readable
  Died   // ended without a word
};

// One process and its HBM as mapped here. Shared: all communicators of this process use one, and
// the last of them unmaps it. Thread-safe.
class PeerProcess {
 public:
  struct Parts {
    ProcessExport process;
    pid_t pid;             // as this process sees it; 0: not in our pid namespace
    std::byte* base;       // of its HBM here
    OwnedMapping mapping;  // empty for this process itself
    std::function<void()> onDetach;
  };
  explicit PeerProcess(Parts parts);
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess();

  const ProcessToken& token() const { return parts_.process.token; }
  pid_t pid() const { return parts_.pid; }
  bool own() const { return parts_.mapping.base() == nullptr; }
  std::byte* base() const { return parts_.base; }
  uint64_t bytes() const { return parts_.process.hbmBytes; }

  /// One load: for every loop that waits for this peer.
  // S acquire, pairs with the release of setState(): what the watcher saw before it said so.
  PeerState state() const { return state_.load(std::memory_order_acquire); }
  bool gone() const { return state() != PeerState::Alive; }
  /// The watcher's; a state only moves away from Alive, once.
  void setState(PeerState state);

  /// Where [offset, offset + bytes) of its HBM is mapped here.
  /// @error ncclRemoteError  beyond its HBM: the peer sent nonsense
  Result<void*> at(uint64_t offset, uint64_t bytes) const;

  ProcessHeader& header() const { return *reinterpret_cast<ProcessHeader*>(base()); }
  EventCount& bell() const { return header().bell; }
  CmaCheck cmaCheck() const {
    return {pid(), header().address + offsetof(ProcessHeader, check), header().check};
  }

 private:
  Parts parts_;
  std::atomic<PeerState> state_{PeerState::Alive};
};

class PeerWatcher;

// The door of this process and its view of the others.
//
// A socket with a random abstract name hands the HBM's descriptor to processes of the same user
// that know our token; strangers are dropped, and neither they nor a silent caller hold anybody up.
// Both sides keep the connection: its end shows that the other has died, even by SIGKILL. One
// thread waits in poll() for all of it; it ends with this object.
//
// A forked child that does not exec keeps our ends of the connections open: peers then notice our
// death when that child ends too.
class PeerProcesses {
 public:
  using Clock = std::chrono::steady_clock;
  /// Called once for each process that died (not: left), by the watcher thread, without locks held.
  /// Must not block and must not close this object; letting go of a PeerProcess is fine. peer
  /// states are set before.
  using OnDeath = std::function<void(const ProcessToken& token, pid_t pid)>;

  /// Opens the door and starts the watcher. Writes the header of `hbm`, which must outlive this.
  /// @error ncclSystemError  no such sockets here (seccomp, no AF_UNIX), no thread, no random
  /// numbers
  static Result<std::unique_ptr<PeerProcesses>> open(Hbm& hbm, OnDeath onDeath);
  PeerProcesses(const PeerProcesses&) = delete;
  PeerProcesses& operator=(const PeerProcesses&) = delete;
  /// Says goodbye to all and joins the watcher. PeerProcess objects may live on: they keep their
  /// mapping, but no longer notice a death.
  ~PeerProcesses();

  const ProcessExport& self() const { return self_; }

  /// Maps the HBM of a process, or finds it mapped already; this process itself needs no
  /// connection. Any thread; calls for different processes do not wait for each other.
  ///
  /// @error ncclInvalidArgument  `process` is not an export of this version
  /// @error ncclRemoteError      it has died, refused us, or answered nonsense
  /// @error ncclSystemError      its network namespace or user differs; no answer until `deadline`;
  ///                             no room to map it
  /// @error ncclInvalidUsage     in a forked child
  Result<std::shared_ptr<PeerProcess>> attach(const ProcessExport& process,
                                              Clock::time_point deadline);

  /// Whether the process with this token was seen to die, attached or not.
  bool died(const ProcessToken& token) const;

 private:
  struct Entry {
    std::weak_ptr<PeerProcess> peer;
    bool connecting = false;  // some thread is at it
  };

  PeerProcesses(Hbm& hbm, const ProcessExport& self);
  Result<std::shared_ptr<PeerProcess>> connect(const ProcessExport& process,
                                               Clock::time_point deadline);
  Result<std::shared_ptr<PeerProcess>> find(const ProcessExport& process,
                                            Clock::time_point deadline);

  const ProcessExport self_;
  const pid_t pid_;
  std::shared_ptr<PeerProcess> own_;
  std::unique_ptr<PeerWatcher> watcher_;

  std::mutex mutex_;  // guards entries_
  std::map<ProcessToken, Entry> entries_;
  std::condition_variable changed_;  // an Entry is no longer connecting
};

}  // namespace nccom::emu
