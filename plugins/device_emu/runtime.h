// The emulated devices of a process: memory, streams, engine, communicators.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "include/plugin/nccom_device.h"
#include "plugins/device_emu/comm.h"
#include "plugins/device_emu/engine.h"
#include "plugins/device_emu/events.h"
#include "plugins/device_emu/memory.h"
#include "plugins/device_emu/page.h"
#include "plugins/device_emu/peers.h"
#include "plugins/device_emu/stream.h"

namespace nccom::emu {

/// Memory of a communicator that has ended here but may still be in use by other processes.
struct Remains {
  Page* page;
  std::vector<void*> blocks;
  std::vector<std::pair<int32_t, std::shared_ptr<PeerProcess>>> users;  // by rank
};

class Runtime {
 public:
  static Result<std::unique_ptr<Runtime>> open(const nccomDeviceConfig_v1& config);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  /// Destroys what communicators are left, joins all threads.
  ~Runtime();

  const nccomDeviceConfig_v1& config() const { return config_; }
  Hbm& hbm() { return *hbm_; }
  PeerProcesses& peers() { return *peers_; }
  Schedule& schedule() { return *schedule_; }
  Engine& engine() { return *engine_; }
  Doorbell& doorbell() { return *doorbell_; }
  EventTable& events() { return events_; }

  /// @error ncclInvalidUsage  this is a forked child
  Status ownedByThisProcess() const;
  /// @error ncclInvalidArgument  no such device
  Status checkDevice(int device) const;
  void log(int level, const std::string& text) const;
  uint64_t nextNonce();
  /// Where a buffer is, for other processes.
  Place placeOf(const std::byte* base, uint64_t bytes) const;

  Result<Comm*> createComm(const nccomDeviceCommConfig_v1& config);
  /// The communicator with this page; null: none.
  std::shared_ptr<Comm> findComm(const Page* page);
  Status destroyComm(Comm& comm);
  /// Waits until `comm` has no operations.
  void drain(Comm& comm);
  void help(std::function<bool()> ready);

  /// Takes over memory; gives back what nobody uses any more.
  void bury(Remains remains);

 private:
  explicit Runtime(const nccomDeviceConfig_v1& config) : config_(config) {}
  Status start();
  void peerDied();

  const nccomDeviceConfig_v1 config_;
  OwnedMapping mark_;  // one page, zeroed in forked children
  std::unique_ptr<Hbm> hbm_;
  Doorbell* doorbell_ = nullptr;
  std::atomic<uint64_t> nonce_{0};

  EventTable events_;

  std::mutex remainsMutex_;  // guards remains_
  std::vector<Remains> remains_;

  // Destroyed from the last to the first: threads before what they use.
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Schedule> schedule_;
  std::unique_ptr<PeerProcesses> peers_;
};

}  // namespace nccom::emu
