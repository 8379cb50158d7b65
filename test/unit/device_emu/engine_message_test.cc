// Posted messages, foreign memory, and memory that outlives its rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "engine_world.h"
#include "plugins/device_emu/runtime.h"

namespace nccom::emu {
namespace {

using std::vector;
using testing::HasSubstr;

constexpr uint32_t kDone = 1;

/// Rank 0 sends `n` messages of `bytes` to rank 1: inputs[k] to outputs[k].
ProgramBuilder sender(int n, uint64_t bytes, bool byValue = false) {
  ProgramBuilder program(0, 2);
  for (int k = 0; k < n; k++)
    program.post(1, k, static_cast<uint16_t>(k), bytes, byValue);
  if (byValue) return program;
  return program.wait(1, kDone, n).total(kDone, static_cast<uint64_t>(n)).peersTouch(true, false);
}
ProgramBuilder receiver(int n, uint64_t bytes, bool byValue = false) {
  ProgramBuilder program(1, 2);
  for (int k = 0; k < n; k++) {
    program.transfer({posted(0, static_cast<uint16_t>(k))},
                     {output(1, 0, 0, static_cast<uint16_t>(k))}, bytes);
    if (!byValue) program.inc(0, kDone);
  }
  return program;
}

struct Placement {
  int processes, cma;
  bool deviceMemory;
};

class EngineMessage : public testing::TestWithParam<Placement> {
 protected:
  WorldOptions options(int nRanks) const {
    WorldOptions world;
    world.nRanks = nRanks;
    world.nProcesses = GetParam().processes;
    world.cma = GetParam().cma;
    return world;
  }
  /// Memory of a rank as the parameter wants it.
  int32_t* alloc(World& world, int rank, size_t elements) {
    if (GetParam().deviceMemory) return world.alloc(rank, elements);
    foreign_.push_back(std::make_unique<vector<int32_t>>(elements));
    return foreign_.back()->data();
  }
  vector<std::unique_ptr<vector<int32_t>>> foreign_;
};
INSTANTIATE_TEST_SUITE_P(Placements, EngineMessage,
                         testing::Values(Placement{1, -1, true}, Placement{1, 0, false},
                                         Placement{2, -1, true}, Placement{2, 1, false},
                                         Placement{2, 0, false}),
                         [](const auto& test) {
                           return std::to_string(test.param.processes) + "Processes" +
                                  (test.param.deviceMemory ? "Device"
                                   : test.param.cma == 0   ? "ForeignStaged"
                                                           : "Foreign");
                         });

TEST_P(EngineMessage, ArriveInTheOrderOfTheirNumbers) {
  World world(options(2));
  // More than the mailbox holds, over several groups, which go by reference and by value in turn.
  constexpr int kMessages = 50, kGroups = 6;
  constexpr size_t kElements = 33;
  void *send[2], *recv[2];
  for (const int byValue : {0, 1}) {
    send[byValue] = world.load(0, sender(kMessages, kElements * 4, byValue == 1));
    recv[byValue] = world.load(1, receiver(kMessages, kElements * 4, byValue == 1));
  }
  int32_t* in = alloc(world, 0, kMessages * kElements);
  int32_t* out = alloc(world, 1, kMessages * kElements);
  for (uint64_t group = 1; group <= kGroups; group++) {
    std::iota(in, in + kMessages * kElements, static_cast<int32_t>(1000 * group));
    Call sends, recvs;
    sends.collective = recvs.collective = 0;
    sends.opCount = recvs.opCount = group;
    for (size_t k = 0; k < kMessages; k++) {
      sends.inputs.push_back(bind(in + k * kElements, kElements * 4));
      recvs.outputs.push_back(bind(out + (kMessages - 1 - k) * kElements, kElements * 4));
    }
    ASSERT_EQ(launch(world.comm(0), send[group % 2], sends, world.stream(0)), ncclSuccess);
    ASSERT_EQ(launch(world.comm(1), recv[group % 2], recvs, world.stream(1)), ncclSuccess);
    ASSERT_EQ(world.sync(1), "");
    ASSERT_EQ(world.sync(0), "");
    for (size_t i = 0; i < kMessages * kElements; i++) {
      const size_t message = kMessages - 1 - i / kElements;
      ASSERT_EQ(out[i], in[message * kElements + i % kElements]) << "group " << group;
    }
  }
}

TEST_P(EngineMessage, MoreThanAMailboxHoldsInOneGroup) {
  constexpr int kMessages = 200;
  World world(options(2));
  int32_t* in = alloc(world, 0, kMessages);
  int32_t* out = alloc(world, 1, kMessages);
  std::iota(in, in + kMessages, 7);
  Call sends, recvs;
  sends.collective = recvs.collective = 0;
  for (int k = 0; k < kMessages; k++) {
    sends.inputs.push_back(bind(in + k, 4));
    recvs.outputs.push_back(bind(out + k, 4));
  }
  for (const bool byValue : {false, true}) {
    void* send = world.load(0, sender(kMessages, 4, byValue));
    void* recv = world.load(1, receiver(kMessages, 4, byValue));
    std::fill(out, out + kMessages, 0);
    ASSERT_EQ(launch(world.comm(0), send, sends, world.stream(0)), ncclSuccess);
    ASSERT_EQ(launch(world.comm(1), recv, recvs, world.stream(1)), ncclSuccess);
    EXPECT_EQ(world.sync(0), "");
    EXPECT_EQ(world.sync(1), "");
    EXPECT_EQ(vector<int32_t>(out, out + kMessages), vector<int32_t>(in, in + kMessages));
  }
}

TEST_P(EngineMessage, OfAnotherSizeThanExpectedFailsTheReceiver) {
  for (const uint64_t sent : {16, 800}) {
    for (const uint64_t wanted : {12, 900}) {
      World world(options(2));
      int32_t* in = alloc(world, 0, 200);
      int32_t* out = alloc(world, 1, 225);
      Call sends{{bind(in, sent)}, {}, 3, 0}, recvs{{}, {bind(out, wanted)}, 3, 0};
      recvs.name = "group of 1 receive";
      void* send = world.load(0, sender(1, sent, sent <= NCCOM_VALUE_BYTES));
      void* recv = world.load(1, receiver(1, wanted, wanted <= NCCOM_VALUE_BYTES));
      ASSERT_EQ(launch(world.comm(0), send, sends, world.stream(0)), ncclSuccess);
      ASSERT_EQ(launch(world.comm(1), recv, recvs, world.stream(1)), ncclSuccess);
      const std::string expected = "rank 1 receives " + std::to_string(wanted) +
                                   " bytes from rank 0, which sends " + std::to_string(sent) +
                                   " (group of 1 receive (operation 3), message 0)";
      EXPECT_EQ(world.sync(1), expected);
      // Who has sent a value is through with it; but the communicator has failed.
      if (sent > NCCOM_VALUE_BYTES) {
        EXPECT_EQ(world.sync(0), expected);
      }
      EXPECT_THAT(world.commError(0), HasSubstr(expected));
    }
  }
}

TEST_P(EngineMessage, ForeignBuffersAreReadReducedAndWritten) {
  World world(options(2));
  constexpr size_t kElements = 300'000;  // several tiles
  vector<int32_t*> in, out;
  for (int r = 0; r < 2; r++) {
    in.push_back(alloc(world, r, kElements));
    out.push_back(alloc(world, r, kElements));
    for (size_t i = 0; i < kElements; i++)
      in[r][i] = static_cast<int32_t>(i) * (r + 1);
  }
  // Rank 0 adds both inputs into both outputs; rank 1 scales its peer's input into its scratch.
  ProgramBuilder zero(0, 2), one(1, 2);
  zero.transfer({input(0), input(1)}, {output(0), output(1)}, kElements * 4)
      .inc(1, 0)
      .wait(1, 0, 1)
      .total(0, 1)
      .peersTouch(true, true);
  one.wait(0, 0, 1)
      .transfer({input(0)}, {scratch(1)}, 400)
      .inc(0, 0)
      .total(0, 1)
      .peersTouch(true, true);
  for (int r = 0; r < 2; r++) {
    Call call{{bind(in[r], kElements * 4)}, {bind(out[r], kElements * 4)}};
    ASSERT_EQ(launch(world.comm(r), world.load(r, r == 0 ? zero : one), call, world.stream(r)),
              ncclSuccess);
  }
  EXPECT_EQ(world.sync(0), "");
  EXPECT_EQ(world.sync(1), "");
  for (int r = 0; r < 2; r++) {
    size_t right = 0;
    while (right < kElements && out[r][right] == 3 * static_cast<int32_t>(right))
      right++;
    EXPECT_EQ(right, kElements) << "rank " << r;
  }
  void* base = nullptr;
  uint64_t bytes = 0;
  ASSERT_EQ(emu().commScratch(world.comm(1), &base, &bytes), ncclSuccess);
  EXPECT_EQ(memcmp(base, in[0], 400), 0);
}

// In place, and outputs that the program writes in part only: staging must not disturb the rest.
TEST_P(EngineMessage, WhatIsNotWrittenStaysAsItWas) {
  World world(options(2));
  vector<int32_t*> buffer;
  for (int r = 0; r < 2; r++) {
    buffer.push_back(alloc(world, r, 8));
    std::iota(buffer[r], buffer[r] + 8, 100 * r);
  }
  // An all-gather in place of element 2 + rank: each rank writes its own into the other's output.
  for (int r = 0; r < 2; r++) {
    ProgramBuilder program(r, 2);
    program.transfer({input(r)}, {output(1 - r, 8 + 4 * r)}, 4)
        .inc(1 - r, 0)
        .wait(1 - r, 0, 1)
        .total(0, 1)
        .peersTouch(false, true);
    Call call{{bind(buffer[r] + 2 + r, 4)}, {bind(buffer[r], 32)}};
    ASSERT_EQ(launch(world.comm(r), world.load(r, program), call, world.stream(r)), ncclSuccess);
  }
  for (int r = 0; r < 2; r++)
    EXPECT_EQ(world.sync(r), "");
  EXPECT_EQ(vector<int32_t>(buffer[0], buffer[0] + 8), (vector<int32_t>{0, 1, 2, 103, 4, 5, 6, 7}));
  EXPECT_EQ(vector<int32_t>(buffer[1], buffer[1] + 8),
            (vector<int32_t>{100, 101, 2, 103, 104, 105, 106, 107}));
}

TEST_P(EngineMessage, APeersBufferIsNotReadBeyondItsEnd) {
  World world(options(2));
  int32_t* in[2] = {alloc(world, 0, 4), alloc(world, 1, 2)};
  int32_t* out[2] = {alloc(world, 0, 4), alloc(world, 1, 4)};
  for (int r = 0; r < 2; r++) {
    ProgramBuilder program(r, 2);
    if (r == 0) program.transfer({input(1)}, {output(0)}, 16);
    program.inc(1 - r, 0).wait(1 - r, 0, 1).total(0, 1).peersTouch(true, false);
    Call call{{bind(in[r], r == 0 ? 16 : 8)}, {bind(out[r], 16)}};
    ASSERT_EQ(launch(world.comm(r), world.load(r, program), call, world.stream(r)), ncclSuccess);
  }
  EXPECT_THAT(world.sync(0), HasSubstr("uses 16 bytes of rank 1's input, which has 8"));
}

uint64_t allocatedBytes(void* context) {
  return static_cast<Runtime*>(context)->hbm().usage().allocatedBytes;
}

TEST(EngineMemory, IsKeptUntilTheLastPeerHasLeftAndThenReused) {
  for (const int processes : {1, 2}) {
    WorldOptions options;
    options.nRanks = 2;
    options.nProcesses = processes;
    options.scratchBytes = 1 << 20;
    World world(options);
    const uint64_t before = allocatedBytes(world.context(0));
    world.destroy(0);
    // Rank 1 may still write into rank 0's scratch.
    EXPECT_GE(allocatedBytes(world.context(0)), before);
    ProgramBuilder late(1, 2);
    late.transfer({input(1)}, {scratch(0)}, 64).inc(0, 0);
    vector<int32_t> in(16, 3);
    ASSERT_EQ(launch(world.comm(1), world.load(1, late), {{bind(in)}, {}, 1, 0}, world.stream(1)),
              ncclSuccess);
    EXPECT_EQ(world.sync(1), "");
    world.destroy(1);
    // The next communicator finds the room free again.
    nccomDeviceCommConfig_v1 config = commConfig(options, 0);
    uint64_t after = 0;
    for (int i = 0; i < 2000; i++) {
      void* comm = nullptr;
      ASSERT_EQ(emu().commCreate(world.context(0), &config, &comm), ncclSuccess);
      ASSERT_EQ(emu().commDestroy(comm), ncclSuccess);
      after = allocatedBytes(world.context(0));
      if (after + (1 << 20) <= before) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_LE(after + (1 << 20), before) << processes << " processes";
  }
}

}  // namespace
}  // namespace nccom::emu
