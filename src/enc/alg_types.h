// The runtime's enumerations about algorithms: the values are its own, and never renumbered.
#pragma once

#include <cstdint>

namespace nccom {

/// What composes an operation.
enum class enc_alg_type : uint8_t {
  Ring = 0,
  Hier = 1,
  Mesh = 2,
  Kangaring = 3,
  SingleCycleRing = 4,
  IntraRdh = 5,
  SingleStepMesh = 6,
  InterRdh = 7,
  TwoStepPodMesh = 8,
  LatencyOptMesh = 9,
  BwOptMesh = 10,
  Invalid = 11,
};
constexpr int kEncAlgs = 11;

/// A group within hosts, or between them.
enum class enc_comm_type : uint8_t { Intra = 0, Inter = 1 };
constexpr int kEncCommTypes = 2;

enum class enc_op_type : uint8_t {
  AllGather = 0,
  AllReduce = 1,
  Broadcast = 2,
  Reduce = 3,
  ReduceScatter = 4,
  Send = 5,
  Recv = 6,
  AlltoAll = 7,
  Permute = 8,
  PermuteReduce = 9,
  PermuteImplicit = 10,
  PermuteReduceImplicit = 11,
  AlltoAllV = 12,
  Invalid = 13,
};
constexpr int kEncOps = 13;

/// Kinds of ring objects.
enum class metaring_type : uint8_t {
  Ring = 0,
  Kangaring = 1,
  SingleCycleRing = 2,
  Rdh = 3,
  Invalid = 4,
};

/// Kinds of mesh objects.
enum class enc_alg_mesh_type : uint8_t {
  FullMesh = 0,
  GroupedMesh = 1,
  MeshTrn2 = 2,
  MeshSwitch = 3,
  Invalid = 4,
};

/// How the device treats a channel.
enum class enc_pattern_t : uint8_t { Ring = 0, Mesh = 1, Invalid = 2 };

/// Bit of an algorithm in NEURON_RT_CC_ALG_TYPES.
constexpr int algBit(enc_alg_type alg, enc_comm_type type) {
  return static_cast<int>(alg) + kEncAlgs * static_cast<int>(type);
}
/// The bitmap that allows everything.
constexpr uint64_t kAllAlgTypes = (uint64_t{1} << (kEncAlgs * kEncCommTypes)) - 1;

/// The ring object that an algorithm runs on; Invalid: it runs on none.
metaring_type encMetaringType(enc_alg_type alg);

/// What the device sees of an algorithm; Invalid of Hier, which is made of others.
enc_pattern_t encPattern(enc_alg_type alg);

/// The runtime's name in its log. Not unique: "RDH" and "Mesh" are two algorithms each, and
/// SingleCycleRing prints as "Invalid". For names that are, see encAlgName().
const char* encAlgLogName(enc_alg_type alg);

/// "AllReduce", "PermuteReduceImplicit", ...
const char* toText(enc_op_type op);
const char* toText(enc_comm_type type);
const char* toText(enc_alg_mesh_type type);

}  // namespace nccom
