// The one per-process context: parameters, device, network, and the threads that serve all
// communicators of the process. Made at the first call, never destroyed: its threads may outlive
// main's return.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/places.h"
#include "graph/cluster.h"
#include "graph/graph.h"
#include "misc/params.h"
#include "misc/result.h"
#include "plugin/device.h"
#include "plugin/net.h"

namespace nccom {

class BootstrapRoots;
struct BootstrapConfig;
class Joining;
class Monitor;
class Proxy;

/// Where a device is, for one that asks by its number.
struct HostOfDevice {
  std::string identity;  // equal for two devices if and only if their host is the same
  std::string memory;    // equal if their hosts share memory: the same one, or of one pod
  std::string name;      // for messages
  std::string platform;
  int device = 0;                 // its number on the host
  int nDevices = 0;               // of the host
  NeuronPodShape shape = kNoPod;  // of the host's pod
  int pod = -1, podNode = -1;     // as ClusterHost's
};

class Process {
 public:
  /// The context, with its device open. A failure to make it (a bad parameter, an unknown platform,
  /// no device plugin) is returned by every call, with the same text.
  ///
  /// A process that was forked from one whose device was not open yet starts with a context of its
  /// own; one whose parent's was open gets an error.
  static Result<Process*> get();
  /// Whether this process was forked from one that had the device open: nothing of it may be used.
  static bool inForkedChild();
  /// The same without the device: what ncclGetUniqueId needs, so that a parent can make an id for
  /// the children that it forks.
  static Result<Process*> withoutDevice();

  const ncclParams& params() const { return params_; }
  Device& device() { return *device_; }
  int deviceCount() const { return deviceCount_; }
  /// What the devices belong to, for messages.
  const std::string& platformText() const;
  /// The host of a device, which is one of deviceCount().
  HostOfDevice hostOf(int device) const;

  /// The network that NCCL_NET_PLUGIN and `netName` ask for; opened once.
  Result<std::shared_ptr<Net>> net(const std::string& netName);

  /// buildGraph(), once for equal inputs: the ranks of a process on one host share it. The last few
  /// are kept, as a cluster's hosts may share a process.
  Result<std::shared_ptr<const GraphResult>> graph(const GraphInput& input);

  /// What composers know of a communicator with these places; made once for equal ones.
  Result<std::shared_ptr<const enc_comm_info>> shape(const CommPlaces& places);

  BootstrapRoots& roots() { return *roots_; }
  Joining& joining() { return *joining_; }
  Monitor& monitor() { return *monitor_; }
  Proxy& proxy() { return *proxy_; }

 private:
  Process();
  ~Process();
  static Result<std::unique_ptr<Process>> make();
  Status openDevice();
  static void afterFork();
  friend struct std::default_delete<Process>;

  ncclParams params_;
  int deviceCount_ = 0;
  NeuronCluster cluster_;     // without hosts: none was asked for
  std::string hostIdentity_;  // equal on two processes if and only if they can share memory
  std::mutex deviceMutex_;    // guards the making of device_
  std::atomic<bool> deviceOpen_{false};  // release when set after device_, acquire before its use
  std::unique_ptr<Device> device_;
  std::unique_ptr<BootstrapRoots> roots_;
  std::unique_ptr<Joining> joining_;
  std::unique_ptr<Monitor> monitor_;
  std::unique_ptr<Proxy> proxy_;

  std::unique_ptr<NetRegistry> nets_;
  std::mutex graphMutex_;  // guards graphs_; held while searching: equal inputs search once
  std::deque<std::pair<GraphInput, std::shared_ptr<const GraphResult>>> graphs_;  // latest first
  std::mutex shapeMutex_;  // guards shapes_; held while making one
  std::deque<std::pair<CommPlaces, std::shared_ptr<const enc_comm_info>>> shapes_;  // latest first
};

/// What the parameters say of the bootstrap.
BootstrapConfig bootstrapConfigOf(const ncclParams& params);

/// The calling thread's device; 0 until set.
int currentDevice();
/// @error  ncclInvalidArgument  not a device of the platform
Status setCurrentDevice(Process& process, int device);

/// The device plugin's stream for an API handle: NULL is the current device's default stream.
Result<void*> streamOf(Process& process, void* handle);

/// The default stream of a communicator's device, for an operation that names none. Remembered for
/// the thread when it is not the current device's, so that synchronising NULL waits for it too.
Result<void*> nullStreamOf(Process& process, int device);

/// The streams that NULL stands for when it is synchronised or queried: the current device's, then
/// those that nullStreamOf() has remembered.
Result<std::vector<void*>> nullStreams(Process& process);
void forgetNullStreams();

}  // namespace nccom
