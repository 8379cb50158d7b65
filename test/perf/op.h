// What a program measures: one file X_perf.cc describes each operation.
#pragma once

#include <cstddef>
#include <vector>

#include "include/nccl.h"

namespace nccom::perf {

/// Elements of one operation.
struct Counts {
  size_t send;     // that a rank gives
  size_t receive;  // that a rank gets
  size_t count;    // the count argument of the call
  // In place, rank r sends from, and receives at, r times so many elements into the one buffer.
  size_t sendInPlace = 0;
  size_t receiveInPlace = 0;
};

/// One rank's arguments of one call.
struct Call {
  const void* send;
  void* receive;
  size_t count;
  ncclDataType_t type;
  size_t typeBytes;
  ncclRedOp_t op;
  int root;
  int rank;
  int nRanks;
  ncclComm_t comm;
  ncclStream_t stream;
};

/// Where the content of a stretch of the receive buffer comes from: the input of a rank (from 0),
/// the reduction of all inputs, or nowhere: the stretch keeps what it held.
constexpr int kReduced = -1;
constexpr int kKept = -2;
struct Piece {
  int source;
  size_t elements;
  size_t phase;  // of the source, in elements
};

enum class InPlace {
  Checked,    // it gives the same result as out of place
  Unchecked,  // it may be called, but ranks overwrite what others are to read
};

struct PerfOp {
  const char* name;  // "AllReduce"
  bool reduces;      // -o applies
  bool rooted;       // -r applies
  InPlace inPlace;
  bool powerOfTwo;  // it is defined for 1, 2, 4, 8, ... ranks only

  /// @param elements  that the user's size holds; no buffer of any rank may be larger
  Counts (*counts)(size_t elements, size_t typeBytes, int nRanks);

  /// The calls, or groups of calls, that one after the other make one operation.
  int (*steps)(int nRanks);
  /// Queues one step of one rank.
  ncclResult_t (*enqueue)(const Call& call, int step);

  /// The receive buffer of a rank afterwards, piece by piece.
  std::vector<Piece> (*expected)(int rank, int nRanks, int root, size_t count);

  /// Bytes that the algorithm bandwidth counts.
  double (*algorithmBytes)(size_t count, size_t typeBytes, int nRanks);
  /// The bus bandwidth in units of the algorithm bandwidth: makes it comparable with the speed of
  /// the busiest link, whatever the number of ranks.
  double (*busFactor)(int nRanks);
};

/// GB/s (10^9 bytes). 0 for an operation that took no time.
struct Bandwidth {
  double algorithm;
  double bus;
};
Bandwidth bandwidthOf(const PerfOp& op, const Counts& counts, size_t typeBytes, int nRanks,
                      double seconds);

// ---- what several operations have in common -----------------------------------------------------

/// Every buffer is the whole message.
Counts wholeCounts(size_t elements, size_t typeBytes, int nRanks);
/// Elements of one of nRanks blocks that together fit the message; whole 16-byte units.
size_t blockOf(size_t elements, size_t typeBytes, int nRanks);
/// The receive buffer is one block of each rank's input.
std::vector<Piece> gathered(int nRanks, size_t count);

int oneStep(int nRanks);
double bytesOfCount(size_t count, size_t typeBytes, int nRanks);
double bytesOfAllBlocks(size_t count, size_t typeBytes, int nRanks);
double factorOne(int nRanks);
/// (n-1)/n: a rank's own share does not travel.
double factorOthers(int nRanks);

}  // namespace nccom::perf
