#include "enc/rdh_inter_plan.h"

#include <algorithm>
#include <utility>

#include "misc/check.h"

namespace nccom {
namespace {

/// Which places of a run matter.
struct Uses {
  bool message = true, work = true;
};
Uses usesOf(encRdhPlace a, encRdhPlace b) {
  const auto isWork = [](encRdhPlace place) { return place == encRdhPlace::Work; };
  return {!isWork(a) || !isWork(b), isWork(a) || isWork(b)};
}

uint64_t bytesOf(const std::vector<encRdhRun>& runs) {
  uint64_t bytes = 0;
  for (const encRdhRun& run : runs)
    bytes += run.bytes;
  return bytes;
}

class Planner {
 public:
  Planner(const encRdhTiling& tiling, encRdhIndices& indices)
      : tiling_(tiling), indices_(indices), math_(indices.math()) {}

  Result<encInterRdhPlan> plan();

 private:
  Status scheduleRsTiled();
  Status scheduleAg();
  Status exchange(const encRdhRound& round, const std::vector<int>& sends,
                  const std::vector<int>& recvs);
  std::vector<std::vector<encRdhRun>> tilesOf(const std::vector<int>& partitions, Uses uses) const;
  std::vector<encRdhRun> runsOf(std::vector<int> partitions, Uses uses) const;
  std::string getTag(const std::string& what, size_t tile) const;
  Status addTile(const std::string& tag, uint64_t bytes);

  const encRdhTiling& tiling_;
  encRdhIndices& indices_;
  const encRdhMath& math_;
  encInterRdhPlan plan_;
  size_t sendsBefore_ = 0, recvsBefore_ = 0;  // of earlier rounds
};

/// Bytes of partitions, in the order in which they are exchanged; what lies together is one run.
std::vector<encRdhRun> Planner::runsOf(std::vector<int> partitions, Uses uses) const {
  const int bits = tiling_.bits;
  std::sort(partitions.begin(), partitions.end(),
            [&](int a, int b) { return encRdhOrder(a, bits) < encRdhOrder(b, bits); });
  std::vector<encRdhRun> runs;
  for (const int partition : partitions) {
    const encPart& part = tiling_.parts[partition];
    if (part.bytes == 0) continue;
    // Half of the order is kept after the first round.
    const int slot = encRdhOrder(partition, bits) & ((1 << (bits - 1)) - 1);
    const encRdhRun run{uses.message ? part.begin : 0,
                        uses.work ? static_cast<uint64_t>(slot) * tiling_.workPart : 0, part.bytes};
    const auto adjoins = [&](const encRdhRun& last) {
      return (!uses.message || last.message + last.bytes == run.message) &&
             (!uses.work || last.work + last.bytes == run.work);
    };
    if (!runs.empty() && adjoins(runs.back())) {
      runs.back().bytes += run.bytes;
    } else {
      runs.push_back(run);
    }
  }
  return runs;
}

std::vector<std::vector<encRdhRun>> Planner::tilesOf(const std::vector<int>& partitions,
                                                     Uses uses) const {
  std::vector<std::vector<encRdhRun>> tiles;
  uint64_t room = 0;
  for (encRdhRun run : runsOf(partitions, uses)) {
    while (run.bytes > 0) {
      if (room == 0) {
        tiles.emplace_back();
        room = tiling_.tileBytes;
      }
      const uint64_t bytes = std::min(room, run.bytes);
      tiles.back().push_back({run.message, run.work, bytes});
      if (uses.message) run.message += bytes;
      if (uses.work) run.work += bytes;
      run.bytes -= bytes;
      room -= bytes;
    }
  }
  return tiles;
}

/// Of the current round.
std::string Planner::getTag(const std::string& what, size_t tile) const {
  return "coal_" + std::to_string(tiling_.coal) + "_" + what + "_" + std::to_string(tile) +
         "_round_" + std::to_string(plan_.rounds.size() - 1);
}

Status Planner::addTile(const std::string& tag, uint64_t bytes) {
  const inter_rdh_tile tile{static_cast<int>(plan_.all_tiles.size()), bytes};
  if (plan_.all_tiles.emplace(tag, tile).second) return Ok{};
  return fail(ncclInternalError, "inter_rdh: member %d has two tiles %s: want each tag once",
              tiling_.member, tag.c_str());
}

/// A round: all that goes to the peer, and all that comes and where it ends up.
Status Planner::exchange(const encRdhRound& round, const std::vector<int>& sends,
                         const std::vector<int>& recvs) {
  const int number = static_cast<int>(plan_.rounds.size());
  plan_.rounds.push_back(round);
  const std::string before = "red_tile_" + std::to_string(number - 1);
  const std::string given = round.from == encRdhPlace::Input ? "input_tile" : before;
  const std::string made = "red_tile_" + std::to_string(number);
  for (std::vector<encRdhRun>& runs : tilesOf(sends, usesOf(round.from, round.from))) {
    const size_t tile = plan_.send_fifo.size() - sendsBefore_;
    inter_rdh_send send{getTag(given, tile), number, std::move(runs), 0};
    send.bytes = bytesOf(send.runs);
    TRY(addTile(send.tag, send.bytes));
    plan_.send_fifo.push_back(std::move(send));
  }
  for (std::vector<encRdhRun>& runs :
       tilesOf(recvs, usesOf(round.adds ? round.from : round.to, round.to))) {
    const size_t tile = plan_.recv_fifo.size() - recvsBefore_;
    inter_rdh_recv recv{getTag("chunk", tile), number, bytesOf(runs)};
    inter_rdh_reduction reduction{recv.tag, getTag(made, tile), number, std::move(runs)};
    TRY(addTile(recv.tag, recv.bytes));
    TRY(addTile(reduction.tag, recv.bytes));
    plan_.recv_fifo.push_back(std::move(recv));
    plan_.red_fifo.push_back(std::move(reduction));
  }
  sendsBefore_ = plan_.send_fifo.size();
  recvsBefore_ = plan_.recv_fifo.size();
  return Ok{};
}

/// Lowest bit first: what both peers have partial sums of is halved.
Status Planner::scheduleRsTiled() {
  const int r = tiling_.member, bits = tiling_.bits;
  for (int round = 0; round < bits; round++) {
    const bool last = round == bits - 1;
    TRY(exchange(
        {round, math_.reducePeer(r, round), round == 0 ? encRdhPlace::Input : encRdhPlace::Work,
         last ? encRdhPlace::Output : encRdhPlace::Work, true},
        math_.reduceIndices(r, round, bits, true), math_.reduceIndices(r, round, bits, false)));
  }
  return Ok{};
}

/// The same way back: what both have is doubled.
Status Planner::scheduleAg() {
  const int r = tiling_.member, bits = tiling_.bits;
  for (int axis = 0; axis < bits; axis++) {
    const bool own = axis == 0 && tiling_.op == encOp::AllGather;
    TRY(exchange({bits - 1 - axis, math_.gatherPeer(r, axis, bits),
                  own ? encRdhPlace::Input : encRdhPlace::Output, encRdhPlace::Output, false},
                 indices_.gatherSends(r, axis), indices_.gatherRecvs(r, axis)));
  }
  return Ok{};
}

Result<encInterRdhPlan> Planner::plan() {
  if (tiling_.op != encOp::AllGather) TRY(scheduleRsTiled());
  if (tiling_.op != encOp::ReduceScatter) TRY(scheduleAg());
  return std::move(plan_);
}

}  // namespace

std::vector<int> encRdhReduceIndices(int r, int round, int bits, bool send) {
  NCCL_CHECK(round >= 0 && round < bits && r >= 0 && r < 1 << bits);
  const int start = (static_cast<int>(send) << round ^ (r & 1 << round)) + (r & ((1 << round) - 1));
  std::vector<int> indices(size_t{1} << (bits - 1 - round));
  for (size_t i = 0; i < indices.size(); i++)
    indices[i] = start + (static_cast<int>(i) << (round + 1));
  return indices;
}

std::vector<int> encRdhGatherIndices(int r, int axis, int bits, bool send) {
  NCCL_CHECK(axis >= 0 && axis < bits && r >= 0 && r < 1 << bits);
  const int holder = send ? r : encRdhGatherPeer(r, axis, bits);
  const int modulus = 1 << (bits - axis);
  std::vector<int> indices;
  for (int p = holder % modulus; p < 1 << bits; p += modulus)
    indices.push_back(p);
  return indices;
}

encRdhIndices::encRdhIndices(int bits, const encRdhMath& math)
    : bits_(bits),
      math_(math),
      agSends_(static_cast<size_t>(bits)),
      agRecvs_(static_cast<size_t>(bits)) {}

const std::vector<int>& encRdhIndices::of(Cache& cache, int r, int axis, bool send) const {
  NCCL_CHECK(axis >= 0 && axis < bits_);
  const auto found = cache[axis].find(r);
  if (found != cache[axis].end()) return found->second;
  return cache[axis][r] = math_.gatherIndices(r, axis, bits_, send);
}

int encRdhOrder(int partition, int bits) {
  int order = 0;
  for (int bit = 0; bit < bits; bit++)
    order = 2 * order + (partition >> bit & 1);
  return order;
}

Result<encInterRdhPlan> encPlanInterRdh(const encRdhTiling& tiling, encRdhIndices& indices) {
  NCCL_CHECK(tiling.bits == indices.bits() && tiling.tileBytes > 0 &&
             tiling.parts.size() == size_t{1} << tiling.bits);
  return Planner(tiling, indices).plan();
}

}  // namespace nccom
