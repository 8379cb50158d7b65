// Several hosts, given by name, that one machine stands in for.
#pragma once

#include <string>
#include <vector>

#include "graph/platform.h"

namespace nccom {

constexpr int kMaxClusterHosts = 65536;

struct ClusterHost {
  std::string platform;                    // as for NCCOM_PLATFORM
  const NeuronPlatform* neuron = nullptr;  // null: this machine
  int lnc = 1;
  NeuronPodShape shape = kNoPod;  // of the pod that it belongs to
  int pod = -1;                   // hosts of one pod have equal numbers; -1: none
  int podNode = -1;               // place in the pod; -1: none
  int firstDevice = 0;            // of the cluster's numbering
  int nDevices = 0;               // that a rank can use (logical cores)

  int electedNode() const { return podNode < 0 ? 0 : shape.electedNode(podNode); }
};

struct ClusterPlace {
  int host = 0;
  int device = 0;  // within the host
  bool operator==(const ClusterPlace&) const = default;
};

struct NeuronCluster {
  std::vector<ClusterHost> hosts;
  int nPods = 0;

  int hostCount() const { return static_cast<int>(hosts.size()); }
  int deviceCount() const {
    return hosts.empty() ? 0 : hosts.back().firstDevice + hosts.back().nDevices;
  }
  /// Where a device of the cluster (or a rank, one a device) is. Devices are numbered host by host.
  /// @error ncclInvalidArgument  the cluster has no such device
  Result<ClusterPlace> place(int device) const;
};

/// Reads "[COUNTx]PLATFORM[/POD][:DEVICES]", several joined by commas, in the order of their hosts:
/// "4xtrn2.48xlarge", "2xtrn1.32xlarge,1xtrn2.48xlarge", "2xtrn2u.48xlarge/X4". With a POD, COUNT
/// is that of pods, each of several hosts; with DEVICES, each host offers its first ones only.
/// Names of whole pods are "trn2-ultraserver" (four trn2u hosts), "trn3-gen1-ultraserver" (four of
/// 16 devices), "trn3-gen2-ultraserver" (36 of 4).
///
/// @param lnc          logical core size on all hosts; 0: each platform's own
/// @param hostDevices  devices of platform "host" and "host/numa"; 0: one a core or node
/// @error ncclInvalidArgument  what cannot be read, with its place; an unknown platform or pod; a
///                             core size that a platform does not have; more than kMaxClusterHosts
Result<NeuronCluster> parseCluster(const std::string& text, int lnc, int hostDevices = 0);

}  // namespace nccom
