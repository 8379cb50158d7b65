#include "enc/alg_limits.h"

#include <algorithm>

namespace nccom {
namespace {

using Alg = enc_alg_type;
using MeshType = enc_alg_mesh_type;
using Case = const encAlgCase&;

constexpr encOpMask kAllReduce = opMask(enc_op_type::AllReduce);
constexpr encOpMask kAllGather = opMask(enc_op_type::AllGather);
constexpr encOpMask kReduceScatter = opMask(enc_op_type::ReduceScatter);

// Mesh is recommended below about 1 MB, RDH from there to 56 MB: of 16 devices, with a buffer
// of 40.
constexpr uint64_t kMeshBytes = kMiB;
constexpr uint64_t kRdhBytesPerDevice = 56 * kMiB / 16;
constexpr uint64_t kRdhBuffer = 40 * kMiB;

bool anywhere(Case) {
  return true;
}
bool oneNode(Case c) {
  return c.s.node_n == 1;
}
bool severalNodes(Case c) {
  return c.s.node_n > 1;
}

uint64_t none(Case) {
  return 0;
}
uint64_t unlimited(Case) {
  return kUnlimited;
}
uint64_t meshBuffer(Case c) {
  return c.o.meshBufferBytes;
}
uint64_t meshBufferOfGroup(Case c) {
  return c.o.meshBufferBytes / static_cast<uint64_t>(c.s.rank_n);
}

uint64_t fullSingleStep(Case c) {
  return std::min(32 * kKiB, meshBufferOfGroup(c));
}

/// Every rank gets every buffer whole, so the limit falls with their number.
uint64_t singleStep(int ranks) {
  if (ranks == 2) return 256 * kMiB;  // each gets one buffer, as with any algorithm
  if (ranks <= 4) return 128 * kKiB;
  if (ranks <= 8) return 32 * kKiB;
  if (ranks <= 16) return 16 * kKiB;
  return ranks <= 64 ? 8 * kKiB : 0;
}
uint64_t trn2SingleStep(Case c) {
  return singleStep(c.s.rank_n);
}
uint64_t switchSingleStep(Case c) {
  return singleStep(c.s.local_rack_rank_n);
}

uint64_t trn2Small(Case c) {
  return std::min(kMeshBytes, c.o.meshBufferBytes);
}
uint64_t trn2Large(Case c) {
  const uint64_t links = kRdhBytesPerDevice * static_cast<uint64_t>(c.s.devices);
  return std::max(trn2Small(c), std::min(c.o.meshBufferBytes, links));
}

uint64_t interRdh(Case c) {
  return c.o.interRdhBufferBytes / 8 * static_cast<uint64_t>(c.s.node_n);
}

uint64_t switchCap(Case c) {
  return std::min(c.o.meshBufferBytes, 4 * kMiB);
}
uint64_t switchAllReduce(Case c) {
  return std::min(2 * c.o.meshBufferBytes, 4 * kMiB);
}
bool hasBwOpt(Case c) {
  return c.s.lnc == 2 && c.s.local_rack_rank_n <= 128;
}
uint64_t switchAllGather(Case c) {
  return hasBwOpt(c) ? std::min(kMeshBytes, switchCap(c)) : switchCap(c);
}
uint64_t switchBwOpt(Case c) {
  if (c.s.local_rack_rank_n <= 8) return 4 * kMiB;
  return c.s.local_rack_rank_n <= 16 ? 16 * kMiB : 24 * kMiB;
}

constexpr const char* kRdhMaxSays =
    "3.5 MiB a device x RDH buffer (40 MiB, 80 MiB on Trn3) / 40 MiB";

constexpr encWindowLaw kLaws[] = {
    {"t0", Alg::SingleStepMesh, MeshType::FullMesh, kAllReduce, "one node, 2 ranks",
     [](Case c) { return c.s.node_n == 1 && c.s.rank_n == 2; }, "0", none, "256 MiB",
     [](Case) { return 256 * kMiB; }},
    {"t1", Alg::SingleStepMesh, MeshType::FullMesh, kAllReduce, "one node, more ranks",
     [](Case c) { return c.s.node_n == 1 && c.s.rank_n > 2; }, "0", none,
     "32 KiB, at most mesh buffer / ranks", fullSingleStep},
    {"t2", Alg::Mesh, MeshType::FullMesh, kGatherReduceOps, "one node", oneNode, "0", none,
     "mesh buffer", meshBuffer},
    {"t3", Alg::Mesh, MeshType::FullMesh, kAlltoAllOps, "anywhere", anywhere, "0", none, "any size",
     unlimited},
    {"t4", Alg::Mesh, MeshType::FullMesh, kGatherReduceOps, "several nodes", severalNodes, "0",
     none, "mesh buffer / ranks", meshBufferOfGroup},
    {"grouped", Alg::Mesh, MeshType::GroupedMesh, kGatherReduceOps, "one node", oneNode, "0", none,
     "mesh buffer", meshBuffer},
    {"grouped all-to-all", Alg::Mesh, MeshType::GroupedMesh, kAlltoAllOps, "one node", oneNode, "0",
     none, "any size", unlimited},
    {"single-step", Alg::SingleStepMesh, MeshType::MeshTrn2, kAllReduce, "one node", oneNode, "0",
     none, "ranks 2: 256 MiB, 4: 128 KiB, 8: 32 KiB, 16: 16 KiB, 32 and 64: 8 KiB", trn2SingleStep},
    {"small", Alg::Mesh, MeshType::MeshTrn2, kGatherReduceOps, "one node", oneNode, "0", none,
     "1 MiB, at most mesh buffer", trn2Small},
    {"large", Alg::Mesh, MeshType::MeshTrn2, kGatherReduceOps, "one node", oneNode,
     "1 MiB, at most mesh buffer", trn2Small, "mesh buffer, at most 3.5 MiB a device", trn2Large},
    {"rdh", Alg::IntraRdh, MeshType::MeshTrn2, kGatherReduceOps, "one node", oneNode, "1 MiB",
     [](Case) { return kMeshBytes; }, kRdhMaxSays, encIntraRdhMaxBytes},
    {"two-step pod", Alg::TwoStepPodMesh, MeshType::MeshTrn2, kGatherReduceOps, "four nodes",
     severalNodes, "0", none, "mesh buffer", meshBuffer},
    {"all-to-all", Alg::Mesh, MeshType::MeshTrn2, kAlltoAllOps, "anywhere", anywhere, "0", none,
     "any size", unlimited},
    {"single-step", Alg::SingleStepMesh, MeshType::MeshSwitch, kAllReduce, "anywhere", anywhere,
     "0", none, "ranks of the rack 4: 128 KiB, 8: 32 KiB, 16: 16 KiB, 32 and 64: 8 KiB",
     switchSingleStep},
    {"latency-opt all-reduce", Alg::LatencyOptMesh, MeshType::MeshSwitch, kAllReduce, "anywhere",
     anywhere, "0", none, "4 MiB, at most 2 x mesh buffer", switchAllReduce},
    {"latency-opt all-gather", Alg::LatencyOptMesh, MeshType::MeshSwitch, kAllGather, "anywhere",
     anywhere, "0", none, "4 MiB (1 MiB if there is a bw-opt one), at most mesh buffer",
     switchAllGather},
    {"bw-opt all-reduce", Alg::BwOptMesh, MeshType::MeshSwitch, kAllReduce,
     "at most 128 ranks of the rack", hasBwOpt, "as latency-opt ends", switchAllReduce,
     "ranks of the rack 4 and 8: 4 MiB, 16: 16 MiB, 32 to 128: 24 MiB", switchBwOpt},
    {"bw-opt all-gather", Alg::BwOptMesh, MeshType::MeshSwitch, kAllGather,
     "at most 128 ranks of the rack", hasBwOpt, "as latency-opt ends", switchAllGather,
     "ranks of the rack 4 and 8: 4 MiB, 16: 16 MiB, 32 to 128: 24 MiB", switchBwOpt},
    {"reduce-scatter", Alg::Mesh, MeshType::MeshSwitch, kReduceScatter, "anywhere", anywhere, "0",
     none, "4 MiB, at most mesh buffer", switchCap},
    {"switched all-to-all", Alg::Mesh, MeshType::MeshSwitch, kAlltoAllOps, "anywhere", anywhere,
     "0", none, "any size", unlimited},
    {"inter-node rdh", Alg::InterRdh, MeshType::Invalid, kGatherReduceOps, "several nodes",
     severalNodes, "0", none, "inter-node RDH buffer / 8 x nodes", interRdh},
};

bool isCayman(const encSituation& s) {
  return s.family == NeuronFamily::Cayman || s.family == NeuronFamily::Mariana;
}

}  // namespace

std::string opMaskText(encOpMask ops) {
  std::string text;
  for (int i = 0; i < kEncOps; i++) {
    const auto op = static_cast<enc_op_type>(i);
    if ((ops & opMask(op)) == 0) continue;
    if (!text.empty()) text += ", ";
    text += toText(op);
  }
  return text;
}

std::span<const encWindowLaw> encWindowLaws() {
  return kLaws;
}

bool encWindow::takes(const encSituation& situation) const {
  const auto op = static_cast<size_t>(situation.op);
  const uint64_t min = situation.sbuf ? op_min_limit_sbuf[op] : op_min_limit[op];
  const uint64_t max = situation.sbuf ? op_max_limit_sbuf[op] : op_max_limit[op];
  return max > 0 && situation.bytes <= max && (min == 0 || situation.bytes > min);
}

std::vector<encWindow> encWindows(const encAlgCase& c) {
  const enc_alg_mesh_type mesh = encMeshType(c.s);
  std::vector<encWindow> windows;
  for (const encWindowLaw& law : kLaws) {
    if (law.mesh != MeshType::Invalid && law.mesh != mesh) continue;
    if (!law.applies(c)) continue;
    encWindow window;
    window.law = &law;
    const uint64_t min = law.min(c), max = law.max(c);
    for (int i = 0; i < kEncOps; i++) {
      if ((law.ops & opMask(static_cast<enc_op_type>(i))) == 0) continue;
      window.op_min_limit[i] = window.op_min_limit_sbuf[i] = min;
      window.op_max_limit[i] = window.op_max_limit_sbuf[i] = max;
    }
    windows.push_back(window);
  }
  return windows;
}

enc_alg_mesh_type encMeshType(const encSituation& s) {
  const bool overNet = s.node_n > 1 && !s.enable_pod;
  if (s.isHost()) return MeshType::FullMesh;
  if (isCayman(s)) {
    if (s.node_n == 1 || (s.node_n == 4 && s.enable_pod)) return MeshType::MeshTrn2;
    return MeshType::FullMesh;
  }
  if (s.family == NeuronFamily::SwitchV1) {
    if (overNet) return MeshType::FullMesh;
    const bool peersDiffer = s.devices != 1 || s.node_n > 1;
    return s.local_rack_rank_n > 1 && peersDiffer ? MeshType::MeshSwitch : MeshType::Invalid;
  }
  if (!s.isInf2()) return MeshType::FullMesh;
  if (s.rank_n == 2 || s.rank_n == 4 || s.rank_n == 8) return MeshType::FullMesh;
  return s.rank_n % 6 == 0 && s.node_n == 1 ? MeshType::GroupedMesh : MeshType::Invalid;
}

uint64_t encIntraRdhMaxBytes(const encAlgCase& c) {
  const bool isTrn3 = c.s.family == NeuronFamily::Mariana;
  const uint64_t standard = isTrn3 ? 2 * kRdhBuffer : kRdhBuffer;
  const uint64_t buffer = c.o.intraRdhBufferBytes > 0 ? c.o.intraRdhBufferBytes : standard;
  return kRdhBytesPerDevice * static_cast<uint64_t>(c.s.devices) / kKiB * buffer / kRdhBuffer *
         kKiB;
}

}  // namespace nccom
