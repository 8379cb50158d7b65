#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "enc/intra_rdh.h"

namespace nccom {
namespace {

/// The bits of `value` that `mask` has, moved together.
int compress(unsigned value, unsigned mask) {
  int result = 0, next = 0;
  for (int bit = 0; bit < 32; bit++) {
    if ((mask >> bit & 1) == 0) continue;
    result |= static_cast<int>(value >> bit & 1) << next++;
  }
  return result;
}

NeuronCore coreOf(const enc_comm_info& info, int rank) {
  const enc_peer_info& peer = info.peers[rank];
  const int place = info.pod.nHosts > 0 ? peer.server % info.pod.nHosts : 0;
  return info.platform->coreAt(peer.core, info.lnc, info.pod.electedNode(place));
}

}  // namespace

Result<encRdhGeometry> encRdhGeometryOf(const enc_comm_info& info, const std::vector<int>& ranks) {
  if (info.platform == nullptr || ranks.empty()) {
    return fail(ncclInvalidArgument,
                "recursive halving and doubling within a server: want ranks "
                "on devices of a known platform");
  }
  std::map<int, unsigned> routingIds;  // by device
  for (const int rank : ranks) {
    const int device = info.peers[rank].device;
    routingIds[device] = static_cast<unsigned>(info.platform->devices[device].routingId);
  }
  unsigned mask = 0;
  for (const auto& [device, id] : routingIds)
    mask |= id ^ routingIds.begin()->second;
  encRdhGeometry geometry;
  geometry.axes = std::popcount(mask);
  const int cores = info.platform->logicalPerDevice(info.lnc);
  geometry.mateBits = static_cast<int>(std::bit_width(static_cast<unsigned>(cores))) - 1;
  geometry.splitsDiagonal = info.platform->family != NeuronFamily::Mariana;
  geometry.memberAt.assign(geometry.devices(), std::vector<int>(geometry.mates(), -1));
  const bool isCube = routingIds.size() == static_cast<size_t>(geometry.devices());
  const bool isWhole = std::has_single_bit(static_cast<unsigned>(cores)) &&
                       ranks.size() == routingIds.size() * static_cast<size_t>(cores);
  if (!isCube || !isWhole) {
    return fail(ncclInvalidArgument,
                "recursive halving and doubling within a server: %zu ranks from rank %d on, on %zu "
                "devices of %d logical cores; want all cores of 2^k devices that form a cube",
                ranks.size(), ranks[0], routingIds.size(), cores);
  }
  for (size_t member = 0; member < ranks.size(); member++) {
    const NeuronCore core = coreOf(info, ranks[member]);
    const int mate = core.index * (cores < 4 ? 2 : 4) + core.seng;
    geometry.device.push_back(compress(routingIds[core.device], mask));
    geometry.mate.push_back(mate);
    int* place =
        mate < geometry.mates() ? &geometry.memberAt[geometry.device.back()][mate] : nullptr;
    if (place == nullptr || *place >= 0) {
      return fail(ncclInvalidArgument,
                  "recursive halving and doubling within a server: rank %d is core %d of engine "
                  "group %d; want each once of %d",
                  ranks[member], core.index, core.seng, cores);
    }
    *place = static_cast<int>(member);
  }
  return geometry;
}

}  // namespace nccom
