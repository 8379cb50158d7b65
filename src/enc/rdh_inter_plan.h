// The plan of recursive halving and doubling between servers: what one member sends, receives and
// adds up in which round, as a value. The composer (inter_rdh.h) turns it into descriptors;
// encProveInterRdh proves the plans of all members.
//
// Reduce-scatter goes by tiles: in each round what is sent and received is cut into as many bytes
// as a slot takes. All-gather uses index sets that are worked out once, whatever is gathered.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "enc/stage.h"
#include "enc/task.h"
#include "misc/result.h"

namespace nccom {

/// Partitions that member `r` of 2^bits gives away (`send`), or keeps and receives, in round
/// `round` of reduce-scatter, ascending.
std::vector<int> encRdhReduceIndices(int r, int round, int bits, bool send);
inline int encRdhReducePeer(int r, int round) {
  return r ^ 1 << round;
}
/// Partitions that it gives, or receives, along `axis` of all-gather, ascending.
std::vector<int> encRdhGatherIndices(int r, int axis, int bits, bool send);
inline int encRdhGatherPeer(int r, int axis, int bits) {
  return r ^ 1 << (bits - 1 - axis);
}

/// These formulas, as a value: plans of wrong ones must be refused.
struct encRdhMath {
  std::vector<int> (*reduceIndices)(int r, int round, int bits, bool send) = encRdhReduceIndices;
  int (*reducePeer)(int r, int round) = encRdhReducePeer;
  std::vector<int> (*gatherIndices)(int r, int axis, int bits, bool send) = encRdhGatherIndices;
  int (*gatherPeer)(int r, int axis, int bits) = encRdhGatherPeer;
};

/// The formulas for 2^bits members. Those of all-gather are worked out once for each member and
/// axis that is asked for, and kept.
class encRdhIndices {
 public:
  explicit encRdhIndices(int bits, const encRdhMath& math = {});
  int bits() const { return bits_; }
  const encRdhMath& math() const { return math_; }
  const std::vector<int>& gatherSends(int r, int axis) { return of(agSends_, r, axis, true); }
  const std::vector<int>& gatherRecvs(int r, int axis) { return of(agRecvs_, r, axis, false); }

 private:
  using Cache = std::vector<std::map<int, std::vector<int>>>;  // [axis], by member
  const std::vector<int>& of(Cache& cache, int r, int axis, bool send) const;

  const int bits_;
  const encRdhMath math_;
  Cache agSends_, agRecvs_;
};

enum class encRdhPlace : uint8_t { Input, Work, Output };

/// Bytes that lie together in the message, and in the work area; 0 where only the other is used.
struct encRdhRun {
  uint64_t message = 0, work = 0, bytes = 0;
  bool operator==(const encRdhRun&) const = default;
};

// NOLINTBEGIN(readability-identifier-naming): the runtime's names
/// A tile goes to a peer: `runs`, one behind the other.
struct inter_rdh_send {
  std::string tag;
  int round = 0;
  std::vector<encRdhRun> runs;
  uint64_t bytes = 0;
  bool operator==(const inter_rdh_send&) const = default;
};
/// A tile comes from it.
struct inter_rdh_recv {
  std::string tag;
  int round = 0;
  uint64_t bytes = 0;
  bool operator==(const inter_rdh_recv&) const = default;
};
/// What came is added to our own (or is all there is, in all-gather), which makes another tile.
struct inter_rdh_reduction {
  std::string received, tag;
  int round = 0;
  std::vector<encRdhRun> runs;
  bool operator==(const inter_rdh_reduction&) const = default;
};
struct inter_rdh_tile {
  int handle = 0;
  uint64_t size = 0;
  bool operator==(const inter_rdh_tile&) const = default;
};
// NOLINTEND(readability-identifier-naming)

struct encRdhRound {
  int bit = 0;                            // of the member numbers: names the pipe
  int peer = 0;                           // member
  encRdhPlace from = encRdhPlace::Input;  // what is sent; and what is added to what comes
  encRdhPlace to = encRdhPlace::Work;
  bool adds = true;
  bool operator==(const encRdhRound&) const = default;
};

/// What a plan moves: `parts` of the message, by partition; those of a window, or all.
struct encRdhTiling {
  encOp op = encOp::AllReduce;  // AllGather, AllReduce, ReduceScatter
  int bits = 3;
  int member = 0;
  int coal = 0;                // number of the window: its tiles are coal_<number>_...
  std::vector<encPart> parts;  // [partition]
  uint64_t workPart = 0;       // bytes of the work area for each partition that is kept
  uint64_t tileBytes = 0;      // at most
};

struct encInterRdhPlan {
  std::vector<encRdhRound> rounds;
  // By round. NOLINTBEGIN(readability-identifier-naming): the runtime's names
  std::vector<inter_rdh_send> send_fifo;
  std::vector<inter_rdh_recv> recv_fifo;
  std::vector<inter_rdh_reduction> red_fifo;
  std::map<std::string, inter_rdh_tile> all_tiles;  // by tag
  // NOLINTEND(readability-identifier-naming)
  bool operator==(const encInterRdhPlan&) const = default;
};

/// Number of a partition in the order in which partitions are exchanged: those that a member still
/// keeps after some rounds have consecutive ones. The bits of the partition, reversed.
int encRdhOrder(int partition, int bits);

/// @param indices  of the same number of members
/// @error ncclInternalError  two tiles would have one tag
Result<encInterRdhPlan> encPlanInterRdh(const encRdhTiling& tiling, encRdhIndices& indices);

/// Runs the plans of all members on sets of contributors instead of data: peers agree on every
/// tile, nothing is added twice, and in the end member r has partition r (or all of them) with the
/// contributions of all.
///
/// @param tilings, plans  [member], at most 64
/// @error ncclInternalError  the first violation: member, round, tile
Status encProveInterRdh(const std::vector<encRdhTiling>& tilings,
                        const std::vector<encInterRdhPlan>& plans);

}  // namespace nccom
