// The network connections of a communicator: which there are, how they come about, and what each
// operation does on them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "enc/layout.h"
#include "enc/program.h"
#include "misc/deadline.h"
#include "misc/result.h"
#include "plugin/device.h"
#include "plugin/net.h"
#include "transport/net_neuron.h"
#include "transport/proxy.h"

namespace nccom {

class Bootstrap;

/// What a program does on one connection.
struct NetOperation {
  encConnection connection;
  std::shared_ptr<const NetEntries> entries;
};

/// The network descriptors of a program, by connection, in the order of its queue.
///
/// @param name  of the operation, for reports
/// @param tag   equal at both ends if they do the same operation
std::vector<NetOperation> netOperationsOf(const encProgram& program, const std::string& name,
                                          int tag);

/// What the connections of a rank need. The objects outlive NetLinks.
struct NetLinkSetup {
  int rank = 0;
  bool needed = false;       // ranks are on several hosts
  std::vector<int> devices;  // [nRanks] of the ranks, for the log
  encLayout layout;
  std::shared_ptr<Net> net;
  std::function<Result<int>(int peer, int channel)> netDevice;  // of this rank; kP2pChannel: any
  Proxy* proxy = nullptr;
  Bootstrap* bootstrap = nullptr;
  DeviceComm* device = nullptr;
  std::function<void(const Error&)> failed;  // a connection has; must not block
  std::function<Deadline()> deadline;        // of connecting
};

class NetLinks {
 public:
  explicit NetLinks(NetLinkSetup setup);
  /// Closes all. Bounded, whatever the peers do.
  ~NetLinks();
  NetLinks(const NetLinks&) = delete;
  NetLinks& operator=(const NetLinks&) = delete;

  bool needed() const { return setup_.needed; }
  bool connected(std::span<const encConnection> wanted);

  /// Makes those that are missing, together with the peers, which must do the same; returns when
  /// all are ready.
  ///
  /// @error  ncclRemoteError  a peer does not take part in time: names it, and the net
  Status connect(std::span<const encConnection> wanted);

  /// Tells the proxy what a launch will do on a connection; before the launch.
  Status submit(const NetOperation& operation);

 private:
  using Key = std::tuple<int, int, bool>;  // peer, channel, send
  static Key keyOf(const encConnection& c) { return {c.peer, c.channel, c.send}; }

  Result<NetEnd> endOf(const encConnection& connection);
  Result<std::shared_ptr<NetConnection>> listenFor(const encConnection& connection);
  Result<std::shared_ptr<NetConnection>> connectTo(const encConnection& connection);
  std::shared_ptr<NetConnection> find(const encConnection& connection);

  NetLinkSetup setup_;
  std::mutex connecting_;  // held while connecting: the bootstrap serves one thread at a time
  std::mutex mutex_;       // guards links_
  std::map<Key, std::shared_ptr<NetConnection>> links_;
};

}  // namespace nccom
