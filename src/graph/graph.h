// The way from a machine's description to a communicator's channels on this host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/connect.h"
#include "graph/neuron_graph.h"
#include "graph/paths.h"
#include "graph/platform.h"
#include "graph/search.h"
#include "graph/topo.h"

namespace nccom {

constexpr int kMaxTopoDevices = 65536;  // of a host; a larger device number in a file is a mistake

struct LocalRank {
  int rank = 0;
  int dev = 0;  // device number on this host
  bool operator==(const LocalRank&) const = default;
};

/// A device of the net plugin, as it describes itself.
struct NetDevice {
  std::string name = {};
  std::string pciPath = {};  // in sysfs; empty: not a PCI device
  uint64_t guid = 0;
  int speedMbps = 0;
  int port = 0;
  int maxComms = 0;
  float latencyUs = 0;
  bool gdr = false;  // registers device memory
  bool operator==(const NetDevice&) const = default;
};

struct GraphInput {
  std::string topoFile;      // <system> document to read; empty: synthesise `platform`
  std::string topoDumpFile;  // where to write the document that is used; empty: nowhere
  std::string graphFile;     // <graphs> document to take the ring from; empty: search
  std::string graphDumpFile;
  std::string platform = std::string(kDefaultPlatform);
  int lnc = 0;                        // logical core size; 0: the platform's own
  int hostDevices = 0;                // of platform "host"; 0: one a core
  int nRanks = 1;                     // of the communicator, on all hosts
  std::vector<LocalRank> localRanks;  // of this host
  std::vector<NetDevice> nets;        // of the net plugin, by its device number; may be empty
  bool verify = true;                 // check the device set against what Trainium supports
  int minChannels = 1;
  int maxChannels = 16;  // of the search; joining hosts doubles them
  int crossNic = 2;
  bool newAlgorithm = false;  // the Neuron search where the inherited one would do
  ncclTopoPathOptions paths;
  bool operator==(const GraphInput&) const = default;
};

struct NetMapping {
  int64_t netId = 0;  // NET node
  int dev = 0;        // device of the plugin that stands in for it
  bool operator==(const NetMapping&) const = default;
};

struct GraphResult {
  ncclTopoSystem system;  // trimmed to the local ranks, with paths
  ncclTopoGraph ring;
  std::optional<NeuronGraph> neuron;  // if the Neuron search found the ring
  std::vector<NetMapping> nets;       // by net id; also in the system's NET nodes
  std::vector<std::string> notes;     // for the log: assumptions, and what is unusual
};

/// Reads or synthesises the system, gives ranks to devices and plugin devices to NICs, trims,
/// computes paths, and finds the ring: in the graph file; by the Neuron search on a synthesised
/// platform that neuronTopoUseNewAlgorithm() is for; else by the inherited search. Touches no file
/// but the four named ones.
/// All ranks of a host that give equal inputs get equal results.
///
/// NICs: those of the document whose name a plugin device has are driven by it, other plugin
/// devices are added (at their PCI function, else at the first CPU), other NICs dropped. If no
/// name matches, the document describes another machine: its NICs stay, and plugin devices stand
/// in for them in turn.
///
/// @error ncclInvalidArgument  unknown platform or core size; a rank's device is not in the
///                             document; two ranks on one device; no local rank
/// @error ncclInvalidUsage, ncclSystemError  as the files' readers
Result<GraphResult> buildGraph(const GraphInput& input);

/// Device numbers that a <system> document has room for: one more than the highest.
///
/// @error ncclInvalidUsage, ncclSystemError  as ncclXml::readFile; or it has no <gpu> with a `dev`
Result<int> topoFileDeviceCount(const std::string& path);

/// Sets `rank` of the <gpu> elements with these device numbers, and removes it from all others.
/// @error ncclInvalidArgument  a device that is not in the document, or named twice
Status setRanks(const ncclXml& xml, const std::vector<LocalRank>& localRanks);

/// Applies the rule for NICs above to a document; marks what stays with keep="1".
/// @return  whether plugin devices stand in for the document's NICs
bool attachNets(const ncclXml& xml, const std::vector<NetDevice>& nets);

/// Removes <gpu> elements without rank, NICs without keep="1", then everything that holds neither,
/// and links to what is gone.
void ncclTopoTrimXml(const ncclXml& xml);

/// What the Neuron library would reject about the physical devices that the ranks use, as notes.
/// @error ncclInvalidUsage  a Trainium document with a device link to a device it does not have
Result<std::vector<std::string>> verifyTopology(const ncclXml& xml,
                                                const std::vector<LocalRank>& localRanks);

}  // namespace nccom
