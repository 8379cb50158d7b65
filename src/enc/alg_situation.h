// The situation that an algorithm is chosen for: the machine, the group, the operation; and the
// switches that users set. Values only, so that it can be described without any communicator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "enc/alg_types.h"
#include "graph/platform_types.h"
#include "misc/result.h"

namespace nccom {

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;

struct encSituation {
  // The machine. Unknown stands for this machine ("host"), whose family says nothing.
  NeuronInstanceFamily instance = NeuronInstanceFamily::Unknown;
  NeuronFamily family = NeuronFamily::Sunda;
  int lnc = 1;             // physical cores of a logical one
  int coresPerDevice = 1;  // logical

  // The group. NOLINTBEGIN(readability-identifier-naming): fields named as in enc_comm_info
  int rank_n = 1;
  int node_n = 1;
  int local_rank_n = 1;       // ranks on each node; 0: nodes differ
  int local_rack_rank_n = 0;  // ranks of the group in the own rack; 0: there are no racks
  int pod_n = 0;              // pods that the group is spread over; 0: none, or not all in pods
  int src_target_pairs_id = -1;
  bool enable_pod = false;  // nodes reach each other over links of their pod, and use no network
  bool nccl_mesh_supported = true;
  bool must_use_ring_alg = false;
  // NOLINTEND(readability-identifier-naming)
  NeuronPodType podType = NeuronPodType::None;
  int devices = 1;         // of the group on each node; 0: nodes differ
  int ranksPerDevice = 1;  // 0: devices differ
  bool sameLocals = true;  // all nodes take part with the same local cores
  bool sameSlot = true;    // all ranks are the same core of their devices
  bool devicesFormCube =
      true;                 // on each node: 2^k devices, those that differ in one bit are linked
  int kangaringPaths = 0;   // of a node
  int mlaCycles = 0;        // Hamiltonian cycles of the devices of a node
  int streams = 1;          // that collectives of the program run on at once
  bool hostDriven = false;  // the host starts each collective, there is no program
  bool ringBuilt = false;   // the device objects of a flat ring exist already

  // The operation.
  enc_op_type op = enc_op_type::AllReduce;
  /// Of the longer side, as NCCL's tests count: all parts of AllGather (output) and ReduceScatter
  /// (input) together; the buffer of AllReduce; all parts of one rank of AlltoAll.
  uint64_t bytes = 0;
  bool sbuf = false;  // operands are 2-D, in the state buffer

  bool operator==(const encSituation&) const = default;

  bool isHost() const { return instance == NeuronInstanceFamily::Unknown; }
  bool isInf2() const { return instance == NeuronInstanceFamily::Inf2; }
  enc_comm_type scope() const { return node_n > 1 ? enc_comm_type::Inter : enc_comm_type::Intra; }
  bool oneRankPerNode() const { return local_rank_n == 1 && rank_n == node_n; }
  /// A ring over devices with one rank each, that may leave out channels.
  bool isHybridRing() const {
    return node_n == 1 && lnc == 2 && mlaCycles == 2 && rank_n == 16 && ranksPerDevice == 1 &&
           sameSlot;
  }
};

/// The ways of ours for ranks that share memory: enc/direct.h, enc/staged.h.
enum class encSharedWay : uint8_t { None, Direct, Staged };
/// By the name that NCCOM_ALG gives it; None: it is no such name.
encSharedWay encSharedWayOf(const std::string& name);

/// What users set, by the names of the variables. Read elsewhere: nothing here sees an environment.
struct encAlgOptions {
  std::optional<enc_alg_type> forced;        // NCCOM_ALG
  encSharedWay shared = encSharedWay::None;  // NCCOM_ALG names none of these, but one of ours
  uint64_t allowed = kAllAlgTypes;           // NEURON_RT_CC_ALG_TYPES, see algBit()
  int hierarchical = 0;                      // NEURON_RT_DBG_HIERARCHICAL_CC; 2: off
  int kangaring = 0;                         // NEURON_RT_DBG_KANGARING_CC; 2: off
  /// NEURON_RT_DBG_SINGLE_CYCLE_RING_ALLR_CC; 2: off. Unset it is off too, unless forced.
  std::optional<int> singleCycleRing;
  int rdh = 1;                               // NEURON_RT_DBG_RDH_CC; 0: off
  int mesh = 1;                              // NEURON_RT_DBG_MESH_CC; 0: off
  bool hybridRing = true;                    // NEURON_RT_DBG_HYBRID_RING_CC_EN
  bool meshDoubleBuffer = true;              // NEURON_RT_DBG_MESH_DOUBLE_BUF
  bool enforceMeshHandshake = false;         // NEURON_RT_DBG_ENFORCE_MESH_GLOBAL_HANDSHAKE
  int interMeshMaxNodes = 16;                // NEURON_RT_DBG_CC_INTER_MESH_MAX_NODES
  int hierPipelineSlices = 0;                // NEURON_RT_DBG_HIER_CC_PIPELINE; below 2: one
  uint64_t meshBufferBytes = 8 * kMiB;       // NEURON_RT_DBG_MESH_CHANNEL_BUFFER_SIZE
  uint64_t intraRdhBufferBytes = 0;          // NEURON_RT_DBG_INTRA_RDH_CHANNEL_BUFFER_SIZE
                                             // 0: 40 MiB, 80 MiB on Trainium3
  uint64_t interRdhBufferBytes = 32 * kMiB;  // NEURON_RT_DBG_INTER_RDH_CHANNEL_BUFFER_SIZE
  bool operator==(const encAlgOptions&) const = default;
};

/// @error ncclInvalidArgument  numbers that contradict each other; names them
Status encCheckSituation(const encSituation& situation);

/// "trn2 LNC 2, 64 ranks: 1 node x 16 devices x 4 ranks": the machine and the group in a line.
std::string encSituationText(const encSituation& situation);

}  // namespace nccom
