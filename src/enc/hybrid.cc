#include "enc/hybrid.h"

#include <algorithm>
#include <map>
#include <utility>

#include "enc/flat.h"
#include "graph/fabric.h"

namespace nccom {
namespace {

/// Along one cycle of devices.
Result<encRingOrder> ringOf(const enc_comm_info& info, const NeuronFabric& fabric,
                            const std::map<int, int>& rankOf, const std::vector<int>& devices) {
  encRingOrder ring;
  const size_t n = devices.size();
  for (size_t i = 0; i < n; i++) {
    const int device = devices[i], next = devices[(i + 1) % n];
    const auto rank = rankOf.find(device), nextRank = rankOf.find(next);
    const FabricLink* link = fabric.link(device, next);
    if (rank == rankOf.end() || nextRank == rankOf.end() || link == nullptr) {
      return fail(ncclInvalidArgument,
                  "hybrid ring: a hop from device %d to %d: want a link, and a rank on each",
                  device, next);
    }
    const int seng = fabric.cores[info.peers[nextRank->second].core].seng;
    ring.members.push_back(rank->second);
    ring.gateways.push_back((link->toSengs >> seng & 1) == 0);
  }
  return ring;
}

Status checkGroup(const enc_comm_info& info) {
  if (!info.situation.isHybridRing() || info.platform == nullptr) {
    return fail(ncclInvalidArgument,
                "hybrid ring: %s: want 16 ranks of LNC 2 on one node, one on each device, at the "
                "same slot, and two cycles of the devices",
                encSituationText(info.situation).c_str());
  }
  for (const std::vector<int>& cycle : info.mlaCycles) {
    if (cycle.size() == static_cast<size_t>(info.rank_n)) continue;
    return fail(ncclInvalidArgument, "hybrid ring: a cycle of %zu devices: want all %d",
                cycle.size(), info.rank_n);
  }
  if (info.mlaCycles.size() == 2) return Ok{};
  return fail(ncclInvalidArgument, "hybrid ring: %zu cycles of the devices: want two",
              info.mlaCycles.size());
}

bool isRingOp(encOp op) {
  return op == encOp::AllReduce || op == encOp::AllGather || op == encOp::ReduceScatter ||
         op == encOp::Broadcast || op == encOp::Reduce;
}

}  // namespace

Result<std::vector<encRingOrder>> encHybridRings(const enc_comm_info& info,
                                                 const encLayout& layout) {
  TRY(checkGroup(info));
  const NeuronFabric fabric = TRY(neuronFabric(*info.platform, info.lnc));
  std::map<int, int> rankOf;
  for (int rank = 0; rank < info.rank_n; rank++)
    rankOf[info.peers[rank].device] = rank;
  std::vector<encRingOrder> rings;
  for (int id = 0; id < std::min(kHybridChannels, layout.nChannels); id++) {
    std::vector<int> devices = info.mlaCycles[id % 2];
    if (id >= 2) std::reverse(devices.begin(), devices.end());
    rings.push_back(TRY(ringOf(info, fabric, rankOf, devices)));
    rings.back().pipe = layout.pipe(encPipeKind::Ring, id);
  }
  return rings;
}

Result<encProgram> encComposeHybridRing(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  if (!isRingOp(task.op)) {
    return fail(ncclInvalidArgument, "hybrid ring: %s is no operation of rings",
                encOpName(task.op));
  }
  encBuilder builder(info, task, "ring");
  const std::vector<encRingOrder> rings = TRY(encHybridRings(info, builder.layout()));
  encStageRing(builder, encFlatStage(info, task), rings);
  return std::move(builder).finish();
}

}  // namespace nccom
