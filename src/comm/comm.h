// The communicator as one rank holds it: owns and connects everything.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/peers.h"
#include "enc/comm_info.h"
#include "enc/layout.h"
#include "misc/params.h"
#include "misc/result.h"

namespace nccom {

class Bootstrap;
struct Question;
class DeviceComm;
class Launcher;
class NetLinks;
class Process;

/// How a communicator is asked for: ncclConfig_t's fields that matter here, checked.
struct CommConfig {
  bool blocking = true;
  int minChannels = 0;  // 0: as the graph search finds
  int maxChannels = 32;
  std::string netName;  // empty: any
  std::string name;     // for logs
};

/// @error  ncclInvalidArgument  magic, size or a value out of range; names the field
Result<CommConfig> commConfigOf(const ncclConfig_t* config, const ncclParams& params);

struct CommRequest {
  int nRanks = 1;
  int rank = 0;
  int device = 0;
  ncclUniqueId id = {};
  CommConfig config;
};

/// Made -> Ready -> (Finalized ->) Ended; Failed from anywhere, with the first cause.
enum class CommState : uint8_t { Ready, Failed, Finalized, Ended };

class Communicator {
 public:
  /// Joins: blocks until all ranks have come, or the deadline.
  static Result<std::shared_ptr<Communicator>> create(Process& process, const CommRequest& request);
  ~Communicator();

  int rank() const { return request_.rank; }
  int nRanks() const { return request_.nRanks; }
  int device() const { return request_.device; }

  /// Whether the network connections that a call needs are there; connect() makes them together
  /// with the peers and may block.
  bool connected(const CollectiveCall& call) const;
  bool connected(std::span<const MessageCall> calls) const;
  Status connect(const CollectiveCall& call);
  Status connect(std::span<const MessageCall> calls);

  /// Composes (or finds) the program and queues it. Does not block.
  Status launch(const CollectiveCall& call);
  /// launch() of a call that was checked and launched before; else nothing. Its stream is not NULL.
  std::optional<Status> repeat(const CollectiveCall& call);
  std::optional<Status> repeat(std::span<const MessageCall> calls);
  Status launch(std::span<const MessageCall> calls);

  /// ncclSuccess, or the failure that ended the communicator.
  Status state();
  /// Fails the communicator: its operations stop. The first cause is kept.
  void failWith(const Error& error);

  /// Waits for the operations that were launched.
  Status synchronize();
  Status finalize();
  /// Leaves: in order if finalized, as failed otherwise. What it holds is freed with the last
  /// reference: another thread may still be inside a call.
  void end();

  Result<ncclRedOp_t> addPreMulSum(const void* scalar, ncclDataType_t type);
  Status removeRedOp(ncclRedOp_t op);
  /// Whether `op` may be used with `type`: NCCL's own, or one made here for this type.
  Status checkRedOp(ncclRedOp_t op, ncclDataType_t type);

  Result<void*> registerBuffer(void* buffer, size_t bytes);
  Status deregisterBuffer(void* handle);

 private:
  friend class CommBuilder;
  Communicator(Process& process, const CommRequest& request);

  struct UserRedOp {
    bool live = false;
    ncclDataType_t type = ncclInt8;
    uint64_t scale = 0;
  };
  struct Registration {
    void* base;
    size_t bytes;
  };

  Status usable();
  Status launched(Status status);
  bool mayRepeat() const;
  Status connect(const std::vector<encConnection>& connections);
  /// Marks it failed; false: it had ended or failed before.
  bool markFailed(const Error& error);
  // nccomHostCalls_v1
  static void deviceFailed(void* comm, ncclResult_t code, const char* text);
  static void netPosted(void* comm);
  static int netProgress(void* comm);
  static void stalled(void* comm, uint64_t collective, const char* name);
  /// Another host's rank is stuck: fails if this one called something else.
  void asked(const Question& question);
  /// What a failure must reach, as far as it has been made.
  struct Parts {
    uint64_t member;
    DeviceComm* device;
  };
  Parts parts();
  int redOpIndex(ncclRedOp_t op) const;

  Process& process_;
  CommRequest request_;
  uint64_t commHash_ = 0;
  std::vector<ncclPeerInfo> peers_;  // [nRanks]
  enc_comm_info info_;

  std::mutex
      mutex_;  // guards state_, error_, redOps_, registrations_; while joining also the parts
  std::atomic<CommState> state_{CommState::Ready};  // changed with the mutex held
  Error error_{ncclSuccess, ""};
  std::vector<UserRedOp> redOps_;
  std::vector<std::unique_ptr<Registration>> registrations_;

  // The parts, destroyed in the reverse order: launcher, links, device, bootstrap.
  std::atomic<uint32_t> abortFlag_{0};  // ends waits of the bootstrap
  std::unique_ptr<Bootstrap> bootstrap_;
  uint64_t member_ = 0;  // of the monitor; 0: not joined
  std::unique_ptr<DeviceComm> device_;
  std::unique_ptr<NetLinks> links_;
  std::unique_ptr<Launcher> launcher_;
};

/// The communicator behind a handle.
///
/// @error  ncclInvalidArgument  NULL, not a communicator, or destroyed
Result<std::shared_ptr<Communicator>> commOf(ncclComm_t handle);

/// Communicator::repeat() of the one behind a handle; nothing, too, if there is none.
std::optional<Status> repeatOn(ncclComm_t handle, const CollectiveCall& call);
std::optional<Status> repeatOn(ncclComm_t handle, std::span<const MessageCall> calls);

/// Makes a handle; it stays valid as an address for ever, so that using it after destruction is an
/// error and not a crash.
ncclComm_t makeHandle(std::shared_ptr<Communicator> comm);

/// Takes the communicator out of its handle.
Result<std::shared_ptr<Communicator>> takeHandle(ncclComm_t handle);

}  // namespace nccom
