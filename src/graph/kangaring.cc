#include "graph/kangaring.h"

#include <algorithm>
#include <set>

namespace nccom {
namespace {

/// A die as one path passes it.
struct Stop {
  int device = 0;
  int seng = 0;   // of the primary
  int index = 0;  // of the primary within the engine group
};

class PathMaker {
 public:
  PathMaker(const NeuronFabric& fabric, const std::vector<int>& rankOf)
      : fabric_(fabric), platform_(*fabric.platform), rankOf_(rankOf) {}

  /// @param column  which engine group of a die the primaries are of, by device of the tour
  KangaringPath make(const std::vector<int>& devices, const std::vector<int>& columns,
                     int index) const {
    std::vector<Stop> stops;
    const size_t n = devices.size();
    for (size_t i = 0; i < n; i++) {
      const FabricLink* in = fabric_.link(devices[(i + n - 1) % n], devices[i]);
      const FabricLink* out = fabric_.link(devices[i], devices[(i + 1) % n]);
      const int first = firstDie(in->toSengs, out->fromSengs);
      const int dies = platform_.sengsPerDevice() / platform_.sengsPerDie;
      for (int k = 0; k < dies; k++) {
        const int die = (first + k) % dies;
        stops.push_back({devices[i], die * platform_.sengsPerDie + columns[i], index});
      }
    }
    return addRoles(stops);
  }

  /// Of each device, the column of which both primaries drive the ports of the tour, or one does:
  /// that of the way in.
  std::vector<int> columns(const NeuronTour& tour) const {
    std::vector<int> columnOf(fabric_.devices.size(), 0);
    const size_t n = tour.devices.size();
    for (size_t i = 0; i < n; i++) {
      const int device = tour.devices[i];
      const FabricLink* in = fabric_.link(tour.devices[(i + n - 1) % n], device);
      columnOf[device] = lowest(in->toSengs) % platform_.sengsPerDie;
    }
    return columnOf;
  }

 private:
  /// Lowest engine group of a set.
  int lowest(uint8_t sengs) const {
    for (int seng = 0; seng < platform_.sengsPerDevice(); seng++) {
      if ((sengs >> seng & 1) != 0) return seng;
    }
    return 0;
  }

  int dieOf(uint8_t sengs) const { return lowest(sengs) / platform_.sengsPerDie; }

  bool isOneDie(uint8_t sengs) const {
    const auto die = static_cast<uint8_t>((1U << platform_.sengsPerDie) - 1);
    return (sengs & die) == 0 || (sengs & ~die) == 0;
  }

  /// The die of the way in, unless only the way out says which.
  int firstDie(uint8_t inSengs, uint8_t outSengs) const {
    if (isOneDie(inSengs)) return dieOf(inSengs);
    return isOneDie(outSengs) ? 1 - dieOf(outSengs) : 0;
  }

  int rankAt(int device, int seng, int index) const {
    const int perDevice = fabric_.coresPerDevice;
    for (int core = device * perDevice; core < (device + 1) * perDevice; core++) {
      if (fabric_.cores[core].seng == seng && fabric_.cores[core].index == index) {
        return rankOf_[core];
      }
    }
    return -1;
  }

  KangaringRole roleAt(const Stop& core) const {
    const bool isSingle = fabric_.lnc == 1;
    KangaringRole role;
    role.rank = rankAt(core.device, core.seng, core.index);
    role.peerRmtv = rankAt(core.device, core.seng ^ 1, core.index);
    if (isSingle) role.peerRmtv2 = rankAt(core.device, core.seng ^ 1, core.index ^ 1);
    if (isSingle) role.peerLocal = rankAt(core.device, core.seng, core.index ^ 1);
    return role;
  }

  KangaringPath addRoles(const std::vector<Stop>& stops) const {
    KangaringPath path;
    const size_t n = stops.size();
    for (size_t i = 0; i < n; i++) {
      const Stop& stop = stops[i];
      const Stop& next = stops[(i + 1) % n];
      const Stop& prev = stops[(i + n - 1) % n];
      KangaringRole primary = roleAt(stop);
      primary.isPrimary = true;
      primary.prev = rankAt(prev.device, prev.seng, prev.index);
      primary.next = rankAt(next.device, next.seng, next.index);
      primary.nextPeerRmtv = rankAt(next.device, next.seng ^ 1, next.index);
      primary.isNextPcie = next.device != stop.device;
      if (primary.isNextPcie) primary.port = fabric_.link(stop.device, next.device)->fromPort;
      path.roles.push_back(primary);
      path.roles.push_back(roleAt({stop.device, stop.seng ^ 1, stop.index}));
      if (fabric_.lnc == 1) {
        path.roles.push_back(roleAt({stop.device, stop.seng ^ 1, stop.index ^ 1}));
        path.roles.push_back(roleAt({stop.device, stop.seng, stop.index ^ 1}));
      }
    }
    return path;
  }

  const NeuronFabric& fabric_;
  const NeuronPlatform& platform_;
  const std::vector<int>& rankOf_;
};

Status checkTour(const NeuronFabric& fabric, const NeuronTour& tour,
                 const std::vector<int>& rankOf) {
  const std::set<int> devices(tour.devices.begin(), tour.devices.end());
  if (!tour.closed || devices.size() < 2 || devices.size() != tour.devices.size()) {
    return fail(ncclInvalidArgument,
                "a kangaring along %zu devices, %zu of them different, %s; expected a closed tour "
                "of at least two, each once",
                tour.devices.size(), devices.size(), tour.closed ? "closed" : "open");
  }
  for (size_t i = 0; i < tour.devices.size(); i++) {
    const int device = tour.devices[i];
    const int next = tour.devices[(i + 1) % tour.devices.size()];
    if (fabric.link(device, next) == nullptr) {
      return fail(ncclInvalidArgument, "a kangaring from device %d to %d, which no link joins",
                  device, next);
    }
    for (int k = 0; k < fabric.coresPerDevice; k++) {
      const int core = device * fabric.coresPerDevice + k;
      if (rankOf[core] != -1) continue;
      return fail(ncclInvalidArgument, "core %d of device %d has no rank; a kangaring needs all %d",
                  k, device, fabric.coresPerDevice);
    }
  }
  return Ok{};
}

/// Appends the piece that rank `head` tells of, if all its ranks tell the same.
Status joinPiece(const std::vector<JbogKangaringRows>& rows, size_t k, int head,
                 std::vector<int>& path, std::set<int>& seen) {
  const auto nRanks = static_cast<int>(rows.size());
  if (head < 0 || head >= nRanks) {
    return fail(ncclInternalError, "kangaring path %zu has rank %d, expected 0..%d", k, head,
                nRanks - 1);
  }
  for (const int rank : rows[head][k]) {
    if (rank < 0 || rank >= nRanks || !seen.insert(rank).second) {
      return fail(ncclInternalError,
                  "kangaring path %zu: rank %d tells of rank %d, expected each of 0..%d once", k,
                  head, rank, nRanks - 1);
    }
    if (rows[rank][k] != rows[head][k]) {
      return fail(ncclInternalError, "kangaring path %zu: ranks %d and %d tell different pieces", k,
                  head, rank);
    }
    path.push_back(rank);
  }
  return Ok{};
}

}  // namespace

std::vector<int> KangaringPath::ranks() const {
  std::vector<int> out;
  out.reserve(roles.size());
  for (const KangaringRole& role : roles)
    out.push_back(role.rank);
  return out;
}

Result<NeuronKangaring> kangaringPaths(const NeuronFabric& fabric,
                                       const std::vector<NeuronTour>& tours,
                                       const std::vector<int>& rankOf) {
  if (fabric.platform->sengsPerDie < 2 || fabric.platform->coresPerSeng < 2) {
    return fail(ncclInvalidArgument, "%s has no pairs of engine groups for kangarings",
                std::string(fabric.platform->name).c_str());
  }
  const size_t nTours = std::min<size_t>(tours.size(), kMaxKangaPaths / 2);
  NeuronKangaring kangaring;
  kangaring.virtualCoreSize = fabric.lnc;
  for (size_t t = 0; t < nTours; t++)
    TRY(checkTour(fabric, tours[t], rankOf));
  if (nTours == 0) return kangaring;
  const PathMaker maker(fabric, rankOf);
  const std::vector<int> columnOf = maker.columns(tours[0]);
  for (const bool back : {false, true}) {
    for (size_t t = 0; t < nTours; t++) {
      std::vector<int> devices = tours[t].devices;
      if (back) std::reverse(devices.begin(), devices.end());
      // A second tour leaves by the other ports; alone, the way back changes roles instead.
      const bool other = nTours > 1 ? t % 2 == 1 : back;
      std::vector<int> columns;
      columns.reserve(devices.size());
      for (const int device : devices)
        columns.push_back(columnOf[device] ^ (other ? 1 : 0));
      kangaring.paths.push_back(maker.make(devices, columns, fabric.lnc == 1 && back ? 1 : 0));
    }
  }
  return kangaring;
}

JbogKangaringRows kangaringRows(const NeuronKangaring& kangaring, int rank) {
  JbogKangaringRows rows;
  for (auto& row : rows)
    row.fill(-1);
  for (size_t k = 0; k < kangaring.paths.size(); k++) {
    const std::vector<int> ranks = kangaring.paths[k].ranks();
    const auto place = std::find(ranks.begin(), ranks.end(), rank);
    if (place == ranks.end()) continue;
    const auto first = (place - ranks.begin()) / kKangaringPiece * kKangaringPiece;
    std::copy_n(ranks.begin() + first, kKangaringPiece, rows[k].begin());
  }
  return rows;
}

std::vector<int> pieceHeads(const KangaringPath& path) {
  std::vector<int> heads;
  for (size_t i = 0; i < path.roles.size(); i += kKangaringPiece)
    heads.push_back(path.roles[i].rank);
  return heads;
}

Result<std::vector<std::vector<int>>> joinKangaringRows(
    const std::vector<JbogKangaringRows>& rows, const std::vector<std::vector<int>>& order) {
  std::vector<std::vector<int>> paths;
  for (size_t k = 0; k < order.size() && k < kMaxKangaPaths; k++) {
    std::vector<int> path;
    std::set<int> seen;
    for (const int head : order[k])
      TRY(joinPiece(rows, k, head, path, seen));
    if (seen.size() != rows.size()) {
      return fail(ncclInternalError, "kangaring path %zu has %zu of %zu ranks", k, seen.size(),
                  rows.size());
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

}  // namespace nccom
