// The operations as their programs describe them. Each program defines kPerfOp, so each is included
// under another name.
// NOLINTBEGIN(bugprone-suspicious-include): a program's description cannot be linked twice
#include "test/perf/program.h"
#define kPerfOp kAllGather
#include "test/perf/all_gather_perf.cc"
#undef kPerfOp
#define kPerfOp kAllReduce
#include "test/perf/all_reduce_perf.cc"
#undef kPerfOp
#define kPerfOp kAlltoAll
#include "test/perf/alltoall_perf.cc"
#undef kPerfOp
#define kPerfOp kBroadcast
#include "test/perf/broadcast_perf.cc"
#undef kPerfOp
#define kPerfOp kGather
#include "test/perf/gather_perf.cc"
#undef kPerfOp
#define kPerfOp kReduce
#include "test/perf/reduce_perf.cc"
#undef kPerfOp
#define kPerfOp kReduceScatter
#include "test/perf/reduce_scatter_perf.cc"
#undef kPerfOp
#define kPerfOp kScatter
#include "test/perf/scatter_perf.cc"
#undef kPerfOp
#define kPerfOp kSendRecv
#include "test/perf/sendrecv_perf.cc"
#undef kPerfOp
#define kPerfOp kHyperCube
#include "test/perf/hypercube_perf.cc"
#undef kPerfOp
// NOLINTEND(bugprone-suspicious-include)

#include <gtest/gtest.h>

#include <array>

namespace nccom::perf {
namespace {

const std::array kAll{&kAllGather, &kAllReduce, &kAlltoAll,      &kBroadcast, &kGather,
                      &kReduce,    &kScatter,   &kReduceScatter, &kSendRecv,  &kHyperCube};

// Calls test for each operation with several sizes, types and numbers of ranks.
template <class Test>
void forEachCase(Test test) {
  for (const PerfOp* op : kAll) {
    for (const int nRanks : {1, 2, 3, 8, 64}) {
      for (const size_t typeBytes : {1, 2, 4, 8}) {
        for (const size_t elements :
             {size_t{0}, size_t{1}, size_t{7}, size_t{1000}, size_t{4096}}) {
          SCOPED_TRACE(std::string(op->name) + ", ranks " + std::to_string(nRanks) + ", elements " +
                       std::to_string(elements));
          test(*op, nRanks, typeBytes, elements);
        }
      }
    }
  }
}

TEST(PerfOp, BuffersAreNoLargerThanTheMessage) {
  forEachCase([](const PerfOp& op, int nRanks, size_t typeBytes, size_t elements) {
    const Counts counts = op.counts(elements, typeBytes, nRanks);
    const auto last = static_cast<size_t>(nRanks) - 1;
    EXPECT_LE(counts.send, elements);
    EXPECT_LE(counts.receive, elements);
    EXPECT_LE(counts.sendInPlace * last + counts.send, elements);
    EXPECT_LE(counts.receiveInPlace * last + counts.receive, elements);
  });
}

TEST(PerfOp, ExpectedPiecesCoverTheReceiveBufferFromWithinTheSources) {
  forEachCase([](const PerfOp& op, int nRanks, size_t typeBytes, size_t elements) {
    const Counts counts = op.counts(elements, typeBytes, nRanks);
    for (const int rank : {0, nRanks / 2, nRanks - 1}) {
      size_t covered = 0;
      for (const Piece& piece : op.expected(rank, nRanks, nRanks - 1, counts.count)) {
        covered += piece.elements;
        EXPECT_LT(piece.source, nRanks);
        EXPECT_GE(piece.source, kKept);
        if (piece.source != kKept) {
          EXPECT_LE(piece.phase + piece.elements, counts.send);
        }
        EXPECT_EQ(piece.source == kReduced && !op.reduces, false);
      }
      EXPECT_EQ(covered, counts.receive);
    }
  });
}

// What nccl-tests print for 8 ranks, floats and messages of 2^20 bytes that take a millisecond.
TEST(PerfOp, BandwidthsAreThoseOfNcclTests) {
  struct Wanted {
    const PerfOp* op;
    double algorithm;  // GB/s
    double factor;
  };
  constexpr double kMessage = 1.048576;
  for (const Wanted& wanted : {Wanted{&kAllReduce, kMessage, 1.75},
                               {&kAllGather, kMessage, 0.875},
                               {&kReduceScatter, kMessage, 0.875},
                               {&kAlltoAll, kMessage, 0.875},
                               {&kGather, kMessage, 0.875},
                               {&kScatter, kMessage, 0.875},
                               {&kBroadcast, kMessage, 1},
                               {&kReduce, kMessage, 1},
                               {&kSendRecv, kMessage, 1},
                               {&kHyperCube, kMessage * 7 / 8, 1}}) {
    const Counts counts = wanted.op->counts(1 << 18, 4, 8);
    const Bandwidth bandwidth = bandwidthOf(*wanted.op, counts, 4, 8, 1e-3);
    EXPECT_NEAR(bandwidth.algorithm, wanted.algorithm, 1e-9) << wanted.op->name;
    EXPECT_NEAR(bandwidth.bus, wanted.algorithm * wanted.factor, 1e-9) << wanted.op->name;
  }
}

TEST(PerfOp, OneRankHasNoBusBandwidthWhereNothingTravels) {
  const Counts counts = kAllReduce.counts(1000, 4, 1);
  EXPECT_GT(bandwidthOf(kAllReduce, counts, 4, 1, 1e-3).algorithm, 0);
  EXPECT_EQ(bandwidthOf(kAllReduce, counts, 4, 1, 1e-3).bus, 0);
  EXPECT_EQ(bandwidthOf(kAllReduce, counts, 4, 1, 0).algorithm, 0) << "no time, no infinity";
}

TEST(PerfOp, BlocksAreWholeSixteenBytes) {
  EXPECT_EQ(blockOf(1000, 4, 3), 332U);
  EXPECT_EQ(blockOf(1000, 8, 3), 332U);
  EXPECT_EQ(blockOf(1000, 1, 3), 320U);
  EXPECT_EQ(blockOf(7, 4, 2), 0U);
}

TEST(PerfOp, HypercubeTakesAStepForTheOwnBlockAndOneForEachDimension) {
  EXPECT_EQ(kHyperCube.steps(1), 1);
  EXPECT_EQ(kHyperCube.steps(2), 2);
  EXPECT_EQ(kHyperCube.steps(64), 7);
}

TEST(PerfOp, OnlyTheRootOfAReductionIsWritten) {
  EXPECT_EQ(kReduce.expected(2, 4, 2, 10)[0].source, kReduced);
  EXPECT_EQ(kReduce.expected(1, 4, 2, 10)[0].source, kKept);
  EXPECT_EQ(kGather.expected(1, 4, 2, 10)[0].source, kKept);
  EXPECT_EQ(kGather.expected(2, 4, 2, 10).size(), 4U);
}

}  // namespace
}  // namespace nccom::perf
