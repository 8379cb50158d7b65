// A machine as a graph: devices, switches, CPUs, NICs, and the links between them. Plain values.
//
// The representation, the node, link and path types and their order are NCCL 2.30's, so that its
// topology files mean the same here. A <gpu> of a file is an accelerator that a rank can use; on
// Trainium it is a logical NeuronCore.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/xml.h"
#include "misc/result.h"

namespace nccom {

/// GPU is a rank's place, DEV the chip (or chip part) it lives on: ranks that share a chip are
/// several GPU nodes on one DEV. GIN and RMA are network devices seen through those interfaces, CXB
/// a bus shared by the parts of a chip. All fabric and PCI links are links of DEV nodes.
enum class ncclTopoNodeType : uint8_t { Gpu, Pci, Nvs, Cpu, Nic, Net, Gin, Rma, Dev, Cxb };
constexpr int kTopoNodeTypes = 10;

/// Values match the path type that a link of this type makes.
enum class ncclTopoLinkType : uint8_t { Loc = 0, Nvl = 1, C2c = 3, Pci = 4, Sys = 9, Net = 10 };

/// How far two nodes are apart; a smaller value is closer.
enum class ncclTopoPathType : uint8_t {
  Loc,  // itself
  Nvl,  // device fabric (NVLink, NeuronLink, in-chip paths)
  Nvb,  // device fabric through one other device
  C2c,  // chip-to-chip link to the CPU
  Pix,  // one PCI switch
  Pxb,  // several PCI switches, no host bridge
  P2c,  // device to NIC: C2C to the CPU, then PCI
  Pxn,  // device to NIC through another device near that NIC
  Phb,  // through a CPU
  Sys,  // through the link between CPUs
  Net,  // through the network
  Dis,  // not connected
};

const char* toText(ncclTopoNodeType type);
const char* toText(ncclTopoLinkType type);
const char* toText(ncclTopoPathType type);
std::optional<ncclTopoPathType> pathTypeFromText(const std::string& text);

constexpr int kTopoUndef = -1;
constexpr float kLocalGBps = 5000;  // a link that never limits; NCCL's value

/// A node's place: nodes of a type are numbered in the order in which the file names them.
struct ncclTopoNodeRef {
  ncclTopoNodeType type = ncclTopoNodeType::Gpu;
  int index = 0;
  bool operator==(const ncclTopoNodeRef&) const = default;
  bool operator<(const ncclTopoNodeRef& other) const {
    return type != other.type ? type < other.type : index < other.index;
  }
};

struct ncclTopoLink {
  ncclTopoLinkType type = ncclTopoLinkType::Loc;
  float bwGBps = 0;  // one direction
  ncclTopoNodeRef remote;
  bool operator==(const ncclTopoLink&) const = default;
};

struct ncclTopoHop {
  ncclTopoNodeRef from;
  int link = 0;  // index into links of `from`
  bool operator==(const ncclTopoHop&) const = default;
};

struct ncclTopoPath {
  std::vector<ncclTopoHop> hops;  // empty: itself, or not connected
  float bwGBps = 0;               // of the narrowest link; 0: not connected
  ncclTopoPathType type = ncclTopoPathType::Dis;
  bool operator==(const ncclTopoPath&) const = default;
};

struct ncclTopoGpu {
  int dev = kTopoUndef;   // device number within the host
  int rank = kTopoUndef;  // of the communicator
  int sm = kTopoUndef;    // generation; below kFirstNvidiaSm a Trainium one, see platform.h
  bool gdr = false;       // NICs can reach its memory
  int mloPart = kTopoUndef;
  int parent = kTopoUndef;  // index of its DEV node
  bool operator==(const ncclTopoGpu&) const = default;
};

struct ncclTopoDev {
  int dev = kTopoUndef;
  int sm = kTopoUndef;
  int mloPart = kTopoUndef;
  int nGpus = 0;
  bool operator==(const ncclTopoDev&) const = default;
};

struct ncclTopoNet {
  std::string name;
  int dev = kTopoUndef;  // the net plugin's device
  uint64_t asic = 0;     // guid, or the node id where the file has none
  uint64_t pciId = 0;    // equal for the ports of one PCI function
  int port = 0;
  float bwGBps = 0;
  float latencyUs = 0;
  bool gdr = false;
  bool coll = false;
  int maxConn = 0;
  int rail = kTopoUndef;
  int plane = kTopoUndef;
  int localGpu = kTopoUndef;  // GPU index that prefers this net; set with the paths
  bool operator==(const ncclTopoNet&) const = default;
};

enum class CpuArch : uint8_t { Unknown, X86, Power, Arm };
enum class CpuVendor : uint8_t { Unknown, Intel, Amd, Zhaoxin };

struct ncclTopoCpu {
  CpuArch arch = CpuArch::Unknown;
  CpuVendor vendor = CpuVendor::Unknown;
  int family = 0, model = 0;  // as the file states them
  std::string affinity;       // hexadecimal mask, comma every 32 bits
  bool operator==(const ncclTopoCpu&) const = default;
};

/// Of PCI, DEV and NIC nodes.
struct ncclTopoPci {
  std::string busId;     // empty: not a PCI function (a NIC attached to a CPU)
  std::string pciClass;  // "0x060400"
  uint64_t device = 0;   // vendor, device, subsystem vendor and device, 16 bits each
  std::string linkSpeed;
  int linkWidth = 0;
  bool operator==(const ncclTopoPci&) const = default;
};

/// The member that `type` names is meaningful; the others keep their defaults.
struct ncclTopoNode {
  ncclTopoNodeType type = ncclTopoNodeType::Gpu;
  int64_t id = 0;  // unique within its type: (host index << 56) + local id
  ncclTopoGpu gpu;
  ncclTopoDev dev;
  ncclTopoNet net;  // NET, GIN, RMA
  ncclTopoCpu cpu;
  ncclTopoPci pci;
  std::vector<ncclTopoLink> links;                              // widest first, then PCI up
  std::array<std::vector<ncclTopoPath>, kTopoNodeTypes> paths;  // [type][index]; paths.h fills
  bool operator==(const ncclTopoNode&) const = default;
};

struct ncclTopoSystem {
  std::array<std::vector<ncclTopoNode>, kTopoNodeTypes> nodesOfType;
  std::vector<uint64_t> hostHashes;  // of each host index
  int systemId = 0;                  // host index of this host
  bool inter = false;                // the communicator has ranks outside this system
  float maxBw = 0;                   // GB/s a channel can have at most; search.h fills
  float totalBw = 0;                 // GB/s a device can have at most

  std::vector<ncclTopoNode>& nodes(ncclTopoNodeType t) { return nodesOfType[static_cast<int>(t)]; }
  const std::vector<ncclTopoNode>& nodes(ncclTopoNodeType t) const {
    return nodesOfType[static_cast<int>(t)];
  }
  ncclTopoNode& at(ncclTopoNodeRef ref) { return nodes(ref.type)[ref.index]; }
  const ncclTopoNode& at(ncclTopoNodeRef ref) const { return nodes(ref.type)[ref.index]; }
  int count(ncclTopoNodeType t) const { return static_cast<int>(nodes(t).size()); }

  const ncclTopoPath& path(ncclTopoNodeRef from, ncclTopoNodeRef to) const {
    return at(from).paths[static_cast<int>(to.type)][to.index];
  }
  bool operator==(const ncclTopoSystem&) const = default;
};

inline ncclTopoNodeRef gpuRef(int index) {
  return {ncclTopoNodeType::Gpu, index};
}
inline ncclTopoNodeRef netRef(int index) {
  return {ncclTopoNodeType::Net, index};
}
inline ncclTopoNodeRef cpuRef(int index) {
  return {ncclTopoNodeType::Cpu, index};
}

/// Host index of a node id.
inline int systemIdOf(int64_t id) {
  return static_cast<int>(static_cast<uint64_t>(id) >> 56);
}
inline int64_t localIdOf(int64_t id) {
  return id & 0x00ffffffffffffff;
}

/// GPU index of a rank, -1 if the system has none.
int ncclTopoRankToIndex(const ncclTopoSystem& system, int rank);
/// Index of the node of `type` with this id, -1 if there is none.
int ncclTopoIdToIndex(const ncclTopoSystem& system, ncclTopoNodeType type, int64_t id);

/// A bus id ("0000:cc:01.0") as a number; fewer digits are fine. nullopt: not hexadecimal.
std::optional<int64_t> busIdToInt64(const std::string& busId);
/// Hexadecimal digits with or without 0x.
std::optional<int64_t> hexToInt64(std::string_view text);

struct LoadedTopo {
  ncclTopoSystem system;
  std::vector<std::string> notes;  // what the file left out and which default took its place
};

/// Builds the system that a <system> document describes. <gpu> elements without a rank are left
/// out, as in NCCL.
///
/// @param localHostHash  the host_hash of this host where the document covers several; otherwise
///                       the first host is taken
/// @error ncclInvalidUsage  with file:line:column: what cannot be understood or contradicts itself
Result<LoadedTopo> ncclTopoGetSystemFromXml(const ncclXml& xml,
                                            std::optional<uint64_t> localHostHash = std::nullopt);

/// The reverse: a document from which ncclTopoGetSystemFromXml makes an equal system (paths and
/// search results are not part of it).
/// @error ncclInvalidArgument  a node hangs off no CPU, so no document can name it
Result<ncclXml> ncclTopoGetXmlFromSystem(const ncclTopoSystem& system);

/// The system as a tree of text lines, one CPU after the other, then (if computed) the path types
/// and bandwidths between devices.
std::string ncclTopoPrint(const ncclTopoSystem& system);

// ---- tables that reading and writing share -----------------------------------------------------

/// GB/s of one fabric link of a device generation, where the file does not state it.
/// @source NCCL's per-generation NVLink rates; Trainium generations state theirs in the file
float nvLinkGBps(int sm);

/// GB/s of a PCI link; unknown speeds count as 8 GT/s, width 0 as 16 lanes.
float pciLinkGBps(const std::string& linkSpeed, int linkWidth);

/// Whether pciLinkGBps() knows this speed.
bool isKnownPciSpeed(std::string_view linkSpeed);

/// Node type that a PCI class stands for; PCI when unknown.
ncclTopoNodeType nodeTypeOfClass(const std::string& pciClass);

/// Adds a link, or widens the existing one of the same type; keeps links sorted by width.
void ncclTopoConnectNodes(ncclTopoSystem& system, ncclTopoNodeRef from, ncclTopoLink link);

/// Index, among the links of link.remote, of the link back to `node`; -1 if there is none.
int reverseLinkIndex(const ncclTopoSystem& system, ncclTopoNodeRef node, const ncclTopoLink& link);

/// Takes a node out, with all links to it. Indices of later nodes of its type move down by one;
/// all paths are dropped, as they name indices.
void ncclTopoRemoveNode(ncclTopoSystem& system, ncclTopoNodeRef node);

constexpr int kMaxConnections = 64;  // of a NIC that states none; NCCL's value
constexpr int kFirstNvidiaSm = 10;   // smaller generation numbers are NeuronCore versions
inline bool isNeuronSm(int sm) {
  return sm >= 0 && sm < kFirstNvidiaSm;
}

}  // namespace nccom
