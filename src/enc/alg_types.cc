#include "enc/alg_types.h"

namespace nccom {

metaring_type encMetaringType(enc_alg_type alg) {
  switch (alg) {
    case enc_alg_type::Ring:
      return metaring_type::Ring;
    case enc_alg_type::Kangaring:
      return metaring_type::Kangaring;
    case enc_alg_type::SingleCycleRing:
      return metaring_type::SingleCycleRing;
    case enc_alg_type::InterRdh:
      return metaring_type::Rdh;
    case enc_alg_type::Hier:
    case enc_alg_type::Mesh:
    case enc_alg_type::IntraRdh:
    case enc_alg_type::SingleStepMesh:
    case enc_alg_type::TwoStepPodMesh:
    case enc_alg_type::LatencyOptMesh:
    case enc_alg_type::BwOptMesh:
    case enc_alg_type::Invalid:
      break;
  }
  return metaring_type::Invalid;
}

enc_pattern_t encPattern(enc_alg_type alg) {
  switch (alg) {
    case enc_alg_type::Ring:
    case enc_alg_type::Kangaring:
    case enc_alg_type::SingleCycleRing:
    case enc_alg_type::InterRdh:
      return enc_pattern_t::Ring;
    case enc_alg_type::Mesh:
    case enc_alg_type::IntraRdh:
    case enc_alg_type::SingleStepMesh:
    case enc_alg_type::TwoStepPodMesh:
    case enc_alg_type::LatencyOptMesh:
    case enc_alg_type::BwOptMesh:
      return enc_pattern_t::Mesh;
    case enc_alg_type::Hier:
    case enc_alg_type::Invalid:
      break;
  }
  return enc_pattern_t::Invalid;
}

const char* encAlgLogName(enc_alg_type alg) {
  switch (alg) {
    case enc_alg_type::Ring:
      return "Ring";
    case enc_alg_type::Hier:
      return "Hier";
    case enc_alg_type::Mesh:
    case enc_alg_type::LatencyOptMesh:
      return "Mesh";
    case enc_alg_type::Kangaring:
      return "Kangaring";
    case enc_alg_type::IntraRdh:
    case enc_alg_type::InterRdh:
      return "RDH";
    case enc_alg_type::SingleStepMesh:
      return "Single Step Mesh";
    case enc_alg_type::TwoStepPodMesh:
      return "UltraServer Mesh";
    case enc_alg_type::BwOptMesh:
      return "Bw Optimal Mesh";
    case enc_alg_type::SingleCycleRing:
    case enc_alg_type::Invalid:
      break;
  }
  return "Invalid";
}

const char* toText(enc_op_type op) {
  switch (op) {
    case enc_op_type::AllGather:
      return "AllGather";
    case enc_op_type::AllReduce:
      return "AllReduce";
    case enc_op_type::Broadcast:
      return "Broadcast";
    case enc_op_type::Reduce:
      return "Reduce";
    case enc_op_type::ReduceScatter:
      return "ReduceScatter";
    case enc_op_type::Send:
      return "Send";
    case enc_op_type::Recv:
      return "Recv";
    case enc_op_type::AlltoAll:
      return "AlltoAll";
    case enc_op_type::Permute:
      return "Permute";
    case enc_op_type::PermuteReduce:
      return "PermuteReduce";
    case enc_op_type::PermuteImplicit:
      return "PermuteImplicit";
    case enc_op_type::PermuteReduceImplicit:
      return "PermuteReduceImplicit";
    case enc_op_type::AlltoAllV:
      return "AlltoAllV";
    case enc_op_type::Invalid:
      break;
  }
  return "invalid";
}

const char* toText(enc_comm_type type) {
  return type == enc_comm_type::Intra ? "intra" : "inter";
}

const char* toText(enc_alg_mesh_type type) {
  switch (type) {
    case enc_alg_mesh_type::FullMesh:
      return "full mesh";
    case enc_alg_mesh_type::GroupedMesh:
      return "grouped mesh";
    case enc_alg_mesh_type::MeshTrn2:
      return "Trn2 mesh";
    case enc_alg_mesh_type::MeshSwitch:
      return "switch mesh";
    case enc_alg_mesh_type::Invalid:
      break;
  }
  return "no mesh";
}

}  // namespace nccom
