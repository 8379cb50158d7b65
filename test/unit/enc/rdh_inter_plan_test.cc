#include "enc/rdh_inter_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace nccom {
namespace {

using testing::HasSubstr;

const std::vector<encOp> kOps{encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather};

/// Partitions of 24 bytes, `last` in the last one; those of AllReduce in the
/// order of exchange.
encRdhTiling tilingOf(encOp op, int bits, int member, uint64_t tileBytes, uint64_t last) {
  encRdhTiling t{op, bits, member, 2, {}, 24, tileBytes};
  for (int p = 0; p < 1 << bits; p++) {
    const int place = op == encOp::AllReduce ? encRdhOrder(p, bits) : p;
    const bool isLast = place == (1 << bits) - 1;
    t.parts.push_back({static_cast<uint64_t>(place) * 24, isLast ? last : 24});
  }
  return t;
}

/// What is wrong with the plans of all members; empty: nothing.
std::string proven(encOp op, int bits, uint64_t tileBytes = 64, uint64_t last = 24,
                   const encRdhMath& math = {}) {
  std::vector<encRdhTiling> tilings;
  std::vector<encInterRdhPlan> plans;
  encRdhIndices indices(bits, math);
  for (int member = 0; member < 1 << bits; member++) {
    tilings.push_back(tilingOf(op, bits, member, tileBytes, last));
    auto plan = encPlanInterRdh(tilings.back(), indices);
    if (!plan.ok()) return plan.error().message;
    plans.push_back(std::move(plan).value());
  }
  const Status status = encProveInterRdh(tilings, plans);
  return status.ok() ? "" : status.error().message;
}

TEST(RdhInterPlan, IsProven) {
  for (const encOp op : kOps) {
    EXPECT_EQ(proven(op, 6), "") << encOpName(op);
    for (int bits = 1; bits <= 5; bits++) {
      for (const uint64_t last : {24, 8, 0}) {
        for (const uint64_t tileBytes : {8, 64, 4096}) {
          EXPECT_EQ(proven(op, bits, tileBytes, last), "")
              << encOpName(op) << " of " << bits << " bits, tiles of " << tileBytes;
        }
      }
    }
  }
}

// What peers see alike, and what ends where, hangs on every sign in the
// formulas.
TEST(RdhInterPlan, WrongPolarityIsRefused) {
  encRdhMath flipped;
  flipped.reduceIndices = [](int r, int round, int bits, bool send) {
    return encRdhReduceIndices(r, round, bits, !send);
  };
  encRdhMath highestFirst;
  highestFirst.reducePeer = [](int r, int round) { return r ^ 1 << (2 - round); };
  encRdhMath withoutLowBits;
  withoutLowBits.reduceIndices = [](int r, int round, int bits, bool send) {
    return encRdhReduceIndices(r & 1 << round, round, bits, send);
  };
  encRdhMath reversed;
  reversed.reduceIndices = [](int r, int round, int bits, bool send) {
    return encRdhReduceIndices(r, bits - 1 - round, bits, send);
  };
  encRdhMath constantOffset;
  constantOffset.reduceIndices = [](int r, int round, int bits, bool send) {
    std::vector<int> indices = encRdhReduceIndices(r, round, bits, false);
    for (int& p : indices)
      p = (p + static_cast<int>(send)) % (1 << bits);
    return indices;
  };
  for (const encRdhMath& math : {flipped, highestFirst, withoutLowBits, reversed, constantOffset}) {
    EXPECT_NE(proven(encOp::ReduceScatter, 3, 64, 24, math), "");
    EXPECT_NE(proven(encOp::AllReduce, 3, 64, 24, math), "");
  }
  encRdhMath lowestAxis;
  lowestAxis.gatherPeer = [](int r, int axis, int) { return r ^ 1 << axis; };
  encRdhMath received;
  received.gatherIndices = [](int r, int axis, int bits, bool send) {
    return encRdhGatherIndices(r, axis, bits, !send);
  };
  encRdhMath upward;
  upward.gatherIndices = [](int r, int axis, int bits, bool send) {
    return encRdhGatherIndices(r, bits - 1 - axis, bits, send);
  };
  for (const encRdhMath& math : {lowestAxis, received, upward}) {
    EXPECT_NE(proven(encOp::AllGather, 3, 64, 24, math), "");
    EXPECT_NE(proven(encOp::AllReduce, 3, 64, 24, math), "");
  }
}

TEST(RdhInterPlan, BrokenPlansAreRefused) {
  encRdhIndices indices(3);
  std::vector<encRdhTiling> tilings;
  std::vector<encInterRdhPlan> good;
  for (int member = 0; member < 8; member++) {
    tilings.push_back(tilingOf(encOp::AllReduce, 3, member, 32, 24));
    good.push_back(encPlanInterRdh(tilings.back(), indices).value());
  }
  ASSERT_TRUE(encProveInterRdh(tilings, good).ok());
  const auto refused = [&](const auto& change) {
    std::vector<encInterRdhPlan> bad = good;
    change(bad[3]);
    return !encProveInterRdh(tilings, bad).ok();
  };
  for (size_t i = 0; i < good[3].send_fifo.size(); i++) {
    EXPECT_TRUE(
        refused([&](encInterRdhPlan& p) { p.send_fifo.erase(p.send_fifo.begin() + long(i)); }));
    EXPECT_TRUE(refused([&](encInterRdhPlan& p) { p.send_fifo[i].runs[0].bytes -= 8; }));
  }
  for (size_t i = 0; i < good[3].red_fifo.size(); i++) {
    EXPECT_TRUE(
        refused([&](encInterRdhPlan& p) { p.red_fifo.erase(p.red_fifo.begin() + long(i)); }));
    EXPECT_TRUE(refused([&](encInterRdhPlan& p) { p.recv_fifo[i].tag += "_"; }));
  }
  for (size_t i = 0; i < good[3].rounds.size(); i++) {
    EXPECT_TRUE(refused([&](encInterRdhPlan& p) { p.rounds[i].peer ^= 7; }));
    EXPECT_TRUE(refused([&](encInterRdhPlan& p) { p.rounds[i].bit = (p.rounds[i].bit + 1) % 3; }));
    EXPECT_TRUE(refused([&](encInterRdhPlan& p) { p.rounds[i].adds = !p.rounds[i].adds; }));
  }
}

TEST(RdhInterPlan, TagsAreUniqueOverAllWindows) {
  encRdhIndices indices(4);
  std::set<std::string> tags;
  size_t tiles = 0;
  for (int window = 0; window < 3; window++) {
    encRdhTiling t = tilingOf(encOp::AllReduce, 4, 5, 32, 24);
    t.coal = window;
    const encInterRdhPlan plan = encPlanInterRdh(t, indices).value();
    tiles += plan.all_tiles.size();
    for (const auto& [tag, tile] : plan.all_tiles)
      tags.insert(tag);
    EXPECT_EQ(plan.all_tiles.size(), plan.send_fifo.size() + 2 * plan.recv_fifo.size());
  }
  EXPECT_EQ(tags.size(), tiles);
  EXPECT_TRUE(tags.contains("coal_0_input_tile_0_round_0"));
  EXPECT_TRUE(tags.contains("coal_2_chunk_1_round_1"));
  EXPECT_TRUE(tags.contains("coal_1_red_tile_0_0_round_0"));
}

// Partitions that are exchanged together lie together: a tile is one run.
TEST(RdhInterPlan, TilesOfAllReduceAreInOnePiece) {
  encRdhIndices indices(6);
  const encInterRdhPlan plan =
      encPlanInterRdh(tilingOf(encOp::AllReduce, 6, 37, 1 << 20, 24), indices).value();
  EXPECT_EQ(plan.send_fifo.size(), 12u);
  for (const inter_rdh_send& send : plan.send_fifo)
    EXPECT_EQ(send.runs.size(), 1u) << send.tag;
  for (const inter_rdh_reduction& made : plan.red_fifo)
    EXPECT_EQ(made.runs.size(), 1u) << made.tag;
}

TEST(RdhInterPlan, GatherSetsAreWorkedOutOnce) {
  static int calls;
  calls = 0;
  encRdhMath counted;
  counted.gatherIndices = [](int r, int axis, int bits, bool send) {
    calls++;
    return encRdhGatherIndices(r, axis, bits, send);
  };
  encRdhIndices indices(10, counted);
  for (int window = 0; window < 5; window++) {
    encRdhTiling t = tilingOf(encOp::AllGather, 10, 5, 64, 24);
    t.coal = window;
    ASSERT_TRUE(encPlanInterRdh(t, indices).ok());
  }
  EXPECT_EQ(calls, 20);  // of this member alone
}

}  // namespace
}  // namespace nccom
