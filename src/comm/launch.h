// From a call to a running program: the cache of programs, the binding of buffers, the launch.
//
// A program depends on the task only, not on buffers, so a communicator keeps those it has loaded.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/call.h"
#include "comm/net_links.h"
#include "enc/comm_info.h"
#include "enc/layout.h"
#include "enc/program.h"
#include "misc/result.h"
#include "plugin/device.h"

namespace nccom {

/// The scalar of an operator for a task: see nccomLaunch_v1.
struct LaunchScale {
  uint64_t scale = 0;
  int64_t divisor = 1;
};

/// `bits` of a scalar of `type` as nccomLaunch_v1::scale wants it: narrow floats as a float.
uint64_t launchScaleOf(const void* scalar, ncclDataType_t type);

class Launcher {
 public:
  /// All must outlive the launcher.
  /// @param memory      where staging buffers come from
  /// @param deviceNumber  that they belong to
  /// @param manyProcesses  ranks of this host may be in other processes
  Launcher(const enc_comm_info& info, Device& memory, int deviceNumber, DeviceComm& device,
           NetLinks& links, bool manyProcesses);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// The network connections that a call's program uses; they must be connected before launch().
  Result<std::vector<encConnection>> connectionsOf(const CollectiveCall& call);
  Result<std::vector<encConnection>> connectionsOf(std::span<const MessageCall> calls);

  /// @param preMulScale  the scalar of a PreMulSum operator; ignored for others
  Status launch(const CollectiveCall& call, uint64_t preMulScale);
  /// launch() if it is one of the last few collectives again; else nothing.
  std::optional<Status> repeat(const CollectiveCall& call);
  /// The same of groups of messages of one stream.
  std::optional<Status> repeat(std::span<const MessageCall> calls);
  Status launch(std::span<const MessageCall> calls);

  uint64_t opCount() const { return opCount_; }

  /// What this rank called as its collective of that number; null: it has not yet, or so many since
  /// (kRemembered) that it is forgotten.
  std::shared_ptr<const std::string> called(uint64_t collective);

 private:
  struct Loaded {
    std::vector<encConnection> connections;
    std::shared_ptr<const std::string> name;  // for reports
    void* handle = nullptr;                   // the device's
    std::vector<NetOperation> network;        // what the proxy does, by connection
  };
  struct TaskHash {
    size_t operator()(const encTask& task) const;
  };
  static int tagOf(const encTask& task);
  using Recent = std::list<std::pair<encTask, Loaded>>;  // most recent first

  /// A collective that was launched before: what follows from the call alone.
  struct Known {
    CollectiveCall call;
    const Loaded* loaded = nullptr;  // null: none
    nccomBufferBinding_v1 input{}, output{};
    nccomLaunch_v1 launch{};
    bool is(const CollectiveCall& other) const;
  };

  /// The same of a group of sends and receives of one stream. Its launch points into its vectors.
  struct KnownGroup {
    std::vector<MessageCall> calls;
    const Loaded* loaded = nullptr;  // null: none
    std::vector<nccomBufferBinding_v1> inputs, outputs;
    nccomLaunch_v1 launch{};
    bool is(std::span<const MessageCall> others) const;
  };

  Result<Loaded*> find(const encTask& task);
  Status start(const Known& known, void* stream);
  Status start(const KnownGroup& known, void* stream);
  const Known* recall(const CollectiveCall& call) const;
  const KnownGroup* recall(std::span<const MessageCall> calls) const;
  Result<const Known*> know(const CollectiveCall& call, uint64_t preMulScale);
  Result<const KnownGroup*> know(std::span<const MessageCall> calls);
  Result<Loaded> load(const encTask& task);
  Result<Loaded> compose(const encTask& task);
  Status start(const Loaded& loaded, nccomLaunch_v1& launch, void* stream);
  Status launchCollective(const CollectiveCall& call, uint64_t preMulScale);
  Status launchMessages(std::span<const MessageCall> calls);
  Status launchInPlaceAlltoAll(const CollectiveCall& call);
  Result<void*> stagingOf(uint64_t bytes);

  const enc_comm_info& info_;
  const encLayout layout_;
  Device& memory_;
  const int deviceNumber_;
  DeviceComm& device_;
  NetLinks& links_;
  const bool manyProcesses_;
  std::mutex mutex_;  // guards all below: launches of a communicator are in one order
  Recent recent_;
  std::unordered_map<encTask, Recent::iterator, TaskHash> programs_;  // looked up, never iterated
  // The last few collectives and groups; programs of none of them have been unloaded.
  std::array<Known, 4> known_;
  std::array<KnownGroup, 4> knownGroups_;
  size_t nextKnown_ = 0, nextKnownGroup_ = 0;
  uint64_t opCount_ = 0;
  uint64_t collectives_ = 0;
  static constexpr uint64_t kRemembered = 1024;
  std::vector<std::shared_ptr<const std::string>> called_;  // [collective % kRemembered]
  // Copies of the input for in-place AlltoAll, each larger than the one before: operations that are
  // still running may use the smaller ones.
  std::vector<std::pair<void*, uint64_t>> staging_;
};

}  // namespace nccom
