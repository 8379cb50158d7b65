#include "enc/alg_table.h"

#include <algorithm>
#include <bit>
#include <initializer_list>

namespace nccom {
namespace {

using Alg = enc_alg_type;
using Case = const encAlgCase&;

constexpr int kMaxKangaringRanks = 256;
constexpr int kMinInterRdhRanks = 8;

std::string number(const char* name, int value) {
  return std::string(name) + " " + std::to_string(value);
}
std::string flag(const char* name, bool value) {
  return std::string(name) + (value ? " is set" : " is not set");
}

bool isOneOf(int value, std::initializer_list<int> values) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// ---- rules ----------------------------------------------------------------------------------

constexpr encRule kNotRingsOnly{
    "the group is not bound to rings (must_use_ring_alg, host-driven collectives)",
    [](Case c) { return !c.s.must_use_ring_alg && !c.s.hostDriven; },
    [](Case c) {
      return c.s.hostDriven ? std::string("the host drives the collective")
                            : flag("must_use_ring_alg", true);
    }};

constexpr encRule kOneStream{"the program has one stream", [](Case c) { return c.s.streams == 1; },
                             [](Case c) { return number("streams", c.s.streams); }};

constexpr encRule kIntra{"the group is within a node", [](Case c) { return c.s.node_n == 1; },
                         [](Case c) { return number("node_n", c.s.node_n); }};

constexpr encRule kInter{"the group spans nodes", [](Case c) { return c.s.node_n > 1; },
                         [](Case c) { return number("node_n", c.s.node_n); }};

constexpr encRule kOnePerNode{"each node has one rank", [](Case c) { return c.s.oneRankPerNode(); },
                              [](Case c) {
                                return number("rank_n", c.s.rank_n) + ", " +
                                       number("node_n", c.s.node_n) + ", " +
                                       number("local_rank_n", c.s.local_rank_n);
                              }};

// hierarchy

constexpr encRule kHierSwitch{
    "NEURON_RT_DBG_HIERARCHICAL_CC is not 2", [](Case c) { return c.o.hierarchical != 2; },
    [](Case c) { return number("NEURON_RT_DBG_HIERARCHICAL_CC", c.o.hierarchical); }};

constexpr encRule kSeveralPerNode{
    "each node has several ranks, the same number", [](Case c) { return c.s.local_rank_n > 1; },
    [](Case c) {
      return c.s.local_rank_n == 0 ? std::string("nodes have different numbers of ranks")
                                   : number("local_rank_n", c.s.local_rank_n);
    }};

constexpr encRule kSameLocals{"nodes take part with the same local ranks",
                              [](Case c) { return c.s.sameLocals; },
                              [](Case) { return std::string("they differ"); }};

constexpr encRule kNotFromPairs{
    "the group does not come from source-target pairs",
    [](Case c) { return c.s.src_target_pairs_id == -1; },
    [](Case c) { return number("src_target_pairs_id", c.s.src_target_pairs_id); }};

// mesh

constexpr encRule kMeshSwitch{"NEURON_RT_DBG_MESH_CC is not 0",
                              [](Case c) { return c.o.mesh != 0; },
                              [](Case c) { return number("NEURON_RT_DBG_MESH_CC", c.o.mesh); }};

constexpr encRule kMeshSupported{
    "the group may use a mesh (nccl_mesh_supported)",
    [](Case c) { return c.s.nccl_mesh_supported; },
    [](Case c) { return flag("nccl_mesh_supported", c.s.nccl_mesh_supported); }};

constexpr encRule kEvenDevices{
    "all devices of the group have the same number of its ranks",
    [](Case c) { return c.s.ranksPerDevice > 0 && c.s.devices > 0 && c.s.sameLocals; },
    [](Case) { return std::string("they differ"); }};

const encMeshArm* armOf(const encSituation& s) {
  for (const encMeshArm& arm : encMeshArms()) {
    if (arm.is(s)) return &arm;
  }
  return nullptr;
}

constexpr encRule kMeshArm{"the table of meshes has a row for the group's machine, size and nodes",
                           [](Case c) {
                             const encMeshArm* arm = armOf(c.s);
                             return arm != nullptr && arm->accepts(c);
                           },
                           [](Case c) {
                             const encMeshArm* arm = armOf(c.s);
                             return encSituationText(c.s) + "; wanted on " + arm->machine + ": " +
                                    arm->says;
                           }};

constexpr encRule kMeshType{"there is a kind of mesh for the group",
                            [](Case c) { return encMeshType(c.s) != enc_alg_mesh_type::Invalid; },
                            [](Case c) {
                              return "Mesh algo untested with " + std::to_string(c.s.rank_n) +
                                     " ranks on this instance type";
                            }};

constexpr encRule kFourPodNodes{"the nodes are the four of a point-to-point pod (UltraServer)",
                                [](Case c) {
                                  return c.s.enable_pod && c.s.podType == NeuronPodType::P2p &&
                                         c.s.node_n == 4 && c.s.pod_n == 1;
                                },
                                [](Case c) {
                                  if (!c.s.enable_pod)
                                    return number("node_n", c.s.node_n) + ", in no pod";
                                  return number("node_n", c.s.node_n) + ", " +
                                         number("pod_n", c.s.pod_n) + ", " +
                                         number("nec_pod_type", static_cast<int>(c.s.podType));
                                }};

constexpr encRule kSwitched{
    "the mesh is a switch mesh",
    [](Case c) { return encMeshType(c.s) == enc_alg_mesh_type::MeshSwitch; },
    [](Case c) { return std::string("it is a ") + toText(encMeshType(c.s)); }};

constexpr encRule kLnc2{"LNC is 2", [](Case c) { return c.s.lnc == 2; },
                        [](Case c) {
                          return number("LNC", c.s.lnc) +
                                 ": Bandwidth Opt All Gather does not support LNC1";
                        }};

// kangaring

constexpr encRule kKangaringSwitch{
    "NEURON_RT_DBG_KANGARING_CC is not 2", [](Case c) { return c.o.kangaring != 2; },
    [](Case c) { return number("NEURON_RT_DBG_KANGARING_CC", c.o.kangaring); }};

constexpr encRule kKangaringRanks{
    "there are more than 4 ranks at LNC 2, more than 8 at LNC 1; at most 256",
    [](Case c) { return c.s.rank_n > (c.s.lnc == 2 ? 4 : 8) && c.s.rank_n <= kMaxKangaringRanks; },
    [](Case c) { return number("LNC", c.s.lnc) + ", " + number("rank_n", c.s.rank_n); }};

constexpr encRule kWholeDevices{
    "the group has all ranks of its devices",
    [](Case c) { return c.s.ranksPerDevice == c.s.coresPerDevice; },
    [](Case c) {
      return c.s.ranksPerDevice == 0
                 ? std::string("devices have different numbers of ranks")
                 : std::to_string(c.s.ranksPerDevice) + " of " +
                       std::to_string(c.s.coresPerDevice) + " logical cores of a device";
    }};

constexpr encRule kKangaringPaths{
    "the graph has kangaring paths: a cycle over links through devices that have dies",
    [](Case c) { return c.s.kangaringPaths > 0; },
    [](Case c) { return number("kangaring paths", c.s.kangaringPaths); }};

// single-cycle ring

constexpr encRule kSingleCycleSwitch{
    "NEURON_RT_DBG_SINGLE_CYCLE_RING_ALLR_CC is set and not 2, or not set and NCCOM_ALG names it",
    [](Case c) {
      const bool isForced = c.o.forced == Alg::SingleCycleRing;
      return c.o.singleCycleRing.value_or(isForced ? 0 : 2) != 2;
    },
    [](Case c) {
      return c.o.singleCycleRing ? number("it", *c.o.singleCycleRing)
                                 : std::string("it is not set");
    }};

// recursive doubling and halving

constexpr encRule kRdhSwitch{"NEURON_RT_DBG_RDH_CC is not 0", [](Case c) { return c.o.rdh != 0; },
                             [](Case c) { return number("NEURON_RT_DBG_RDH_CC", c.o.rdh); }};

constexpr encRule kMeshAdmitted{
    "mesh is admitted: RDH is built on it",
    [](Case c) { return !encExcludedBy(Alg::Mesh, c).has_value(); },
    [](Case c) {
      return "Detected usage of RDH while mesh is not allowed. RDH construction will be skipped "
             "because it depends on Mesh. (" +
             encExcludedBy(Alg::Mesh, c).value_or("") + ")";
    }};

constexpr encRule kTrn2Mesh{
    "the mesh is a Trn2 mesh: devices have dies and links to each other",
    [](Case c) { return encMeshType(c.s) == enc_alg_mesh_type::MeshTrn2; },
    [](Case c) { return std::string("it is a ") + toText(encMeshType(c.s)); }};

constexpr encRule kRdhShape{
    "there are 1, 2, 4 or 16 whole devices: 4, 8, 16 or 64 ranks at LNC 2, twice as many at LNC 1",
    [](Case c) {
      return isOneOf(c.s.devices, {1, 2, 4, 16}) && c.s.ranksPerDevice == c.s.coresPerDevice;
    },
    [](Case c) { return encSituationText(c.s); }};

constexpr encRule kCube{
    "the devices form a cube: those whose routing ids differ in a bit are linked",
    [](Case c) { return c.s.devicesFormCube; }, [](Case) { return std::string("they do not"); }};

constexpr encRule kPowerOfTwo{"rank_n is a power of two, 8 or more",
                              [](Case c) {
                                return c.s.rank_n >= kMinInterRdhRanks &&
                                       std::has_single_bit(static_cast<unsigned>(c.s.rank_n));
                              },
                              [](Case c) { return number("rank_n", c.s.rank_n); }};

constexpr encRule kNotInPod{"the nodes reach each other over the network (enable_pod is not set)",
                            [](Case c) { return !c.s.enable_pod; },
                            [](Case c) { return flag("enable_pod", c.s.enable_pod); }};

// ---- what each algorithm takes --------------------------------------------------------------

constexpr const encRule* kHierGate[] = {&kNotRingsOnly,   &kHierSwitch, &kInter,
                                        &kSeveralPerNode, &kSameLocals, &kNotFromPairs};
constexpr const encRule* kMeshGate[] = {&kNotRingsOnly, &kMeshSwitch, &kMeshSupported, &kOneStream,
                                        &kEvenDevices,  &kMeshType,   &kMeshArm};
constexpr const encRule* kPodGate[] = {&kNotRingsOnly, &kMeshSwitch,   &kMeshSupported, &kOneStream,
                                       &kEvenDevices,  &kFourPodNodes, &kMeshType,      &kMeshArm};
constexpr const encRule* kLatencyGate[] = {&kNotRingsOnly, &kMeshSwitch,  &kMeshSupported,
                                           &kOneStream,    &kEvenDevices, &kMeshType,
                                           &kMeshArm,      &kSwitched};
constexpr const encRule* kBwGate[] = {&kNotRingsOnly, &kMeshSwitch,  &kMeshSupported,
                                      &kOneStream,    &kEvenDevices, &kMeshType,
                                      &kMeshArm,      &kSwitched,    &kLnc2};
constexpr const encRule* kKangaringGate[] = {&kNotRingsOnly,  &kKangaringSwitch, &kOneStream,
                                             &kIntra,         &kKangaringRanks,  &kWholeDevices,
                                             &kKangaringPaths};
constexpr const encRule* kSingleCycleGate[] = {&kNotRingsOnly, &kSingleCycleSwitch, &kInter,
                                               &kOnePerNode};
constexpr const encRule* kIntraRdhGate[] = {&kNotRingsOnly, &kRdhSwitch, &kOneStream, &kIntra,
                                            &kMeshAdmitted, &kTrn2Mesh,  &kRdhShape,  &kCube};
constexpr const encRule* kInterRdhGate[] = {&kNotRingsOnly, &kInter, &kOnePerNode, &kPowerOfTwo,
                                            &kNotInPod};

constexpr encOpMask kRingOps =
    kGatherReduceOps | opMask(enc_op_type::Broadcast) | opMask(enc_op_type::Reduce) |
    opMask(enc_op_type::Send) | opMask(enc_op_type::Recv) | opMask(enc_op_type::Permute) |
    opMask(enc_op_type::PermuteImplicit) | opMask(enc_op_type::PermuteReduceImplicit);
constexpr encOpMask kAllReduceOnly = opMask(enc_op_type::AllReduce);
constexpr encOpMask kLatencyOps = opMask(enc_op_type::AllGather) | opMask(enc_op_type::AllReduce);

constexpr encAlgRow kTable[] = {
    {"ring", "each rank passes on to the next", {}, kRingOps, Alg::Ring},
    {"hier", "within nodes, between them, within again", kHierGate, kGatherReduceOps, Alg::Hier},
    {"mesh", "each rank writes to every other", kMeshGate, kGatherReduceOps | kAlltoAllOps,
     Alg::Mesh},
    {"kangaring", "a ring of primaries that read for their secondaries", kKangaringGate,
     kGatherReduceOps, Alg::Kangaring},
    {"single_cycle_ring", "reduces and gathers in one traversal", kSingleCycleGate, kAllReduceOnly,
     Alg::SingleCycleRing},
    {"intra_rdh", "recursive halving and doubling along the axes of the torus", kIntraRdhGate,
     kGatherReduceOps, Alg::IntraRdh},
    {"single_step_mesh", "each rank writes all it has to every other", kMeshGate, kAllReduceOnly,
     Alg::SingleStepMesh},
    {"inter_rdh", "recursive halving and doubling between nodes", kInterRdhGate, kGatherReduceOps,
     Alg::InterRdh},
    {"two_step_pod_mesh", "within a pod: to a neighbour, and on from there", kPodGate,
     kGatherReduceOps, Alg::TwoStepPodMesh},
    {"latency_opt_mesh", "along the rows and columns of a switch, fewest steps", kLatencyGate,
     kLatencyOps, Alg::LatencyOptMesh},
    {"bw_opt_mesh", "along rows and columns, each link once, then within devices", kBwGate,
     kLatencyOps, Alg::BwOptMesh},
};

// ---- machines that meshes know --------------------------------------------------------------

/// Between nodes, over the network: the same everywhere.
bool isNetMesh(Case c) {
  return c.s.node_n > 1 && !c.s.enable_pod && c.s.oneRankPerNode() &&
         c.s.node_n <= c.o.interMeshMaxNodes;
}
bool isWithin(Case c) {
  return c.s.node_n == 1 || (c.s.node_n == 4 && c.s.enable_pod);
}

bool isTrn2(const encSituation& s) {
  return !s.isHost() && (s.family == NeuronFamily::Cayman || s.family == NeuronFamily::Mariana);
}

constexpr encMeshArm kArms[] = {
    {"host", [](const encSituation& s) { return s.isHost(); },
     "2 to 128 ranks of a node; or a rank on each of at most "
     "NEURON_RT_DBG_CC_INTER_MESH_MAX_NODES nodes, in no pod",
     [](Case c) {
       return isNetMesh(c) || (c.s.node_n == 1 && c.s.rank_n >= 2 && c.s.rank_n <= 128);
     }},
    {"Inf2", [](const encSituation& s) { return s.isInf2(); },
     "2, 4 or 8 ranks of a node, or a multiple of 6",
     [](Case c) {
       return c.s.node_n == 1 && (isOneOf(c.s.rank_n, {2, 4, 8}) || c.s.rank_n % 6 == 0);
     }},
    {"Trn1", [](const encSituation& s) { return !s.isHost() && s.family == NeuronFamily::Sunda; },
     "2, 4, 8, 16 or 32 ranks of a node; or a rank on each of at most "
     "NEURON_RT_DBG_CC_INTER_MESH_MAX_NODES nodes, in no pod",
     [](Case c) {
       return isNetMesh(c) || (c.s.node_n == 1 && isOneOf(c.s.rank_n, {2, 4, 8, 16, 32}));
     }},
    {"Trn2 and Trn3 at LNC 2", [](const encSituation& s) { return isTrn2(s) && s.lnc == 2; },
     "2, 4, 8, 16, 32 or 64 ranks of a node, or of each of the four of a pod (1 too); or a rank on "
     "each of at most NEURON_RT_DBG_CC_INTER_MESH_MAX_NODES nodes, in no pod",
     [](Case c) {
       const bool isAlone = c.s.local_rank_n == 1 && c.s.node_n > 1;
       return isNetMesh(c) ||
              (isWithin(c) && (isAlone || isOneOf(c.s.local_rank_n, {2, 4, 8, 16, 32, 64})));
     }},
    {"Trn2 and Trn3 at LNC 1", [](const encSituation& s) { return isTrn2(s) && s.lnc == 1; },
     "2, 4, 8, 16, 32, 64 or 128 ranks of a node, or of each of the four of a pod (1 too); or a "
     "rank on each of at most NEURON_RT_DBG_CC_INTER_MESH_MAX_NODES nodes, in no pod",
     [](Case c) {
       const bool isAlone = c.s.local_rank_n == 1 && c.s.node_n > 1;
       return isNetMesh(c) ||
              (isWithin(c) && (isAlone || isOneOf(c.s.local_rank_n, {2, 4, 8, 16, 32, 64, 128})));
     }},
    {"Trn3 behind switches",
     [](const encSituation& s) { return !s.isHost() && s.family == NeuronFamily::SwitchV1; },
     "4, 8, 16, 32, 64, 128 or 256 ranks, all of one rack; or a rank on each of at most "
     "NEURON_RT_DBG_CC_INTER_MESH_MAX_NODES nodes, in no pod",
     [](Case c) {
       return isNetMesh(c) || (c.s.local_rack_rank_n == c.s.rank_n &&
                               isOneOf(c.s.rank_n, {4, 8, 16, 32, 64, 128, 256}));
     }},
};

}  // namespace

std::span<const encAlgRow> encAlgTable() {
  return kTable;
}

const encAlgRow& encAlgRowOf(enc_alg_type alg) {
  return kTable[static_cast<size_t>(alg)];
}

const char* encAlgName(enc_alg_type alg) {
  return alg == Alg::Invalid ? "none" : encAlgRowOf(alg).name;
}

Result<enc_alg_type> encAlgOf(const std::string& name, enc_comm_type scope) {
  if (name == "rdh") return scope == enc_comm_type::Intra ? Alg::IntraRdh : Alg::InterRdh;
  std::string known;
  for (const encAlgRow& row : kTable) {
    if (name == row.name) return row.alg;
    known += std::string(known.empty() ? "" : ", ") + row.name;
  }
  return fail(ncclInvalidArgument,
              "unknown algorithm \"%s\"; known are %s, direct, staged, and rdh for either",
              name.c_str(), known.c_str());
}

std::span<const encMeshArm> encMeshArms() {
  return kArms;
}

std::optional<std::string> encExcludedBy(enc_alg_type alg, const encAlgCase& c) {
  const enc_comm_type scope = c.s.scope();
  if (alg == Alg::Invalid) return "there is no such algorithm";
  if ((c.o.allowed >> algBit(alg, scope) & 1) == 0) {
    return "wants \"NEURON_RT_CC_ALG_TYPES allows it\", found bit " +
           std::to_string(algBit(alg, scope)) + " (" + toText(scope) + ") is not set";
  }
  for (const encRule* rule : encAlgRowOf(alg).gate) {
    if (!rule->holds(c))
      return std::string("wants \"") + rule->says + "\", found " + rule->found(c);
  }
  return std::nullopt;
}

}  // namespace nccom
