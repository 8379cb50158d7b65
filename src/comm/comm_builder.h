// How a rank joins a communicator: the steps of ncclCommInitRank, in order.
#pragma once

#include <memory>
#include <vector>

#include "comm/comm.h"
#include "graph/connect.h"
#include "graph/graph.h"
#include "misc/result.h"
#include "plugin/device.h"
#include "plugin/net.h"

namespace nccom {

class CommBuilder {
 public:
  CommBuilder(Process& process, const CommRequest& request);

  /// Meets the others, agrees with them on rings, and connects. The result is ready for operations.
  Result<std::shared_ptr<Communicator>> build();

 private:
  Status meet();         // bootstrap, monitor
  Status gatherPeers();  // who is where
  Status openNet();      // if ranks are on several hosts, or a net was named
  Status buildGraph();   // this server's system and channels
  Status joinRings();    // rings over all ranks
  Status describe();     // what composers know of the machine, and the switches of the user
  Status openDevice();   // semaphores and scratch; attach to the ranks of this host
  Status openLinks();    // ring connections to other hosts; the launcher
  ncclPeerInfo ownRecord() const;
  Result<std::vector<NetDevice>> netDevices() const;
  Result<GraphInput> graphInput() const;
  std::vector<encConnection> ringConnections() const;
  nccomDeviceCommConfig_v1 deviceConfig() const;

  Process& process_;
  std::shared_ptr<Communicator> comm_;
  std::vector<int> nodes_;    // [nRanks] ranks that share memory
  std::vector<int> servers_;  // [nRanks]
  int nNodes_ = 1, nServers_ = 1;
  std::shared_ptr<Net> net_;
  std::shared_ptr<const GraphResult> graph_;
};

}  // namespace nccom
