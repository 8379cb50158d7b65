// Exchanges: operations that need nothing of others but values, and mostly never reach the engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine_world.h"
#include "plugins/device_emu/page.h"

namespace nccom::emu {
namespace {

using std::vector;
using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kCount = 4;
constexpr uint64_t kBytes = kCount * sizeof(int32_t);

/// Each rank's output is the sum of all ranks' inputs.
ProgramBuilder sumOfAll(int rank, int nRanks) {
  vector<nccomAddress_v1> sources;
  for (int r = 0; r < nRanks; r++)
    sources.push_back(input(r));
  return ProgramBuilder(rank, nRanks).transfer(sources, {output(rank)}, kBytes).givesValue();
}

class EngineExchange : public testing::TestWithParam<int> {
 protected:
  WorldOptions options(int nRanks) const {
    WorldOptions world;
    world.nRanks = nRanks;
    world.nProcesses = GetParam();
    return world;
  }
};
INSTANTIATE_TEST_SUITE_P(Processes, EngineExchange, testing::Values(1, 2),
                         testing::PrintToStringParamName());

// The calls of one rank, on buffers of its own.
class Caller {
 public:
  Caller(World& world, int rank)
      : world_(world), rank_(rank), program_(world.load(rank, sumOfAll(rank, world.nRanks()))) {}

  ncclResult_t call(uint64_t number, void* stream = nullptr) { return call(number, in, stream); }
  /// With an input of its own, which stays as it is until the call has ended.
  ncclResult_t call(uint64_t number, vector<int32_t>& input, void* stream = nullptr) {
    input.assign(kCount, static_cast<int32_t>(number) + rank_);
    Call call{{bind(input)}, {bind(out)}, number, number};
    return launch(world_.comm(rank_), program_, call, stream ? stream : world_.stream(rank_));
  }
  vector<int32_t> sum(uint64_t number) const {
    const int n = world_.nRanks();
    return vector<int32_t>(kCount, static_cast<int32_t>(number) * n + n * (n - 1) / 2);
  }
  std::string sync() const { return world_.sync(rank_); }

  vector<int32_t> in, out = vector<int32_t>(kCount);

 private:
  World& world_;
  int rank_;
  void* program_;
};

void soon() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST_P(EngineExchange, OneThreadCallsForAllRanks) {
  World world(options(4));
  vector<Caller> ranks;
  for (int r = 0; r < 4; r++)
    ranks.emplace_back(world, r);
  for (uint64_t number = 1; number <= 50; number++) {
    for (Caller& rank : ranks)
      ASSERT_EQ(rank.call(number), ncclSuccess) << emu().lastError();
    for (Caller& rank : ranks) {
      ASSERT_EQ(rank.sync(), "");
      ASSERT_EQ(rank.out, rank.sum(number));
    }
  }
}

TEST_P(EngineExchange, EachRankHasAThread) {
  World world(options(4));
  vector<std::thread> threads;
  for (int r = 0; r < 4; r++) {
    threads.emplace_back([&world, r] {
      Caller rank(world, r);
      for (uint64_t number = 1; number <= 2000; number++) {
        ASSERT_EQ(rank.call(number), ncclSuccess);
        ASSERT_EQ(rank.sync(), "");
        ASSERT_EQ(rank.out, rank.sum(number)) << number;
        if (number % 700 == static_cast<uint64_t>(r)) soon();  // the others fall asleep
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

// A second call that comes before the first has ended makes both the engine's.
TEST_P(EngineExchange, CallsMayBeQueued) {
  World world(options(2));
  Caller first(world, 0), late(world, 1);
  constexpr uint64_t kCalls = kSlots - 1;
  vector<vector<int32_t>> inputs(kCalls);
  for (uint64_t number = 1; number <= kCalls; number++)
    ASSERT_EQ(first.call(number, inputs[number - 1]), ncclSuccess);
  for (uint64_t number = 1; number <= kCalls; number++) {
    ASSERT_EQ(late.call(number), ncclSuccess);
    ASSERT_EQ(late.sync(), "");
    EXPECT_EQ(late.out, late.sum(number));
  }
  EXPECT_EQ(first.sync(), "");
  EXPECT_EQ(first.out, first.sum(kCalls));
  EXPECT_EQ(late.out, late.sum(kCalls));
}

TEST_P(EngineExchange, TheOthersMayBeLate) {
  World world(options(2));
  Caller early(world, 0), late(world, 1);
  for (uint64_t number = 1; number <= 3; number++) {
    std::thread other([&] {
      soon();
      ASSERT_EQ(late.call(number), ncclSuccess);
      ASSERT_EQ(late.sync(), "");
    });
    ASSERT_EQ(early.call(number), ncclSuccess);
    EXPECT_EQ(early.sync(), "");
    EXPECT_EQ(early.out, early.sum(number));
    other.join();
    EXPECT_EQ(late.out, late.sum(number));
  }
}

TEST_P(EngineExchange, QueriesSayWhetherItHasEnded) {
  World world(options(2));
  Caller early(world, 0), late(world, 1);
  void* event = nullptr;
  ASSERT_EQ(emu().eventCreate(world.context(0), &event), ncclSuccess);
  ASSERT_EQ(early.call(1), ncclSuccess);
  EXPECT_EQ(emu().streamQuery(world.context(0), world.stream(0)), ncclInProgress);
  ASSERT_EQ(emu().eventRecord(world.context(0), event, world.stream(0)), ncclSuccess);
  EXPECT_EQ(emu().eventQuery(world.context(0), event), ncclInProgress);
  ASSERT_EQ(late.call(1), ncclSuccess);
  EXPECT_EQ(emu().eventSynchronize(world.context(0), event), ncclSuccess);
  EXPECT_EQ(early.out, early.sum(1));
  EXPECT_EQ(emu().streamQuery(world.context(0), world.stream(0)), ncclSuccess);
  EXPECT_EQ(emu().streamQuery(world.context(1), world.stream(1)), ncclSuccess);
  EXPECT_EQ(late.out, late.sum(1));
  EXPECT_EQ(emu().eventDestroy(world.context(0), event), ncclSuccess);
}

TEST_P(EngineExchange, AnEventAfterAnEndedOneIsReached) {
  World world(options(2));
  Caller early(world, 0), late(world, 1);
  void* event = nullptr;
  ASSERT_EQ(emu().eventCreate(world.context(0), &event), ncclSuccess);
  ASSERT_EQ(early.call(1), ncclSuccess);
  ASSERT_EQ(late.call(1), ncclSuccess);
  ASSERT_EQ(emu().eventRecord(world.context(0), event, world.stream(0)), ncclSuccess);
  EXPECT_EQ(emu().eventQuery(world.context(0), event), ncclSuccess);
  EXPECT_EQ(early.out, early.sum(1));
  EXPECT_EQ(emu().eventDestroy(world.context(0), event), ncclSuccess);
}

// What comes to the communicator on another stream comes after it.
TEST_P(EngineExchange, OtherStreamsWaitForIt) {
  World world(options(2));
  Caller early(world, 0), late(world, 1);
  void* other = nullptr;
  ASSERT_EQ(emu().streamCreate(world.context(0), 0, &other), ncclSuccess);
  vector<int32_t> input;
  ASSERT_EQ(early.call(1), ncclSuccess);
  ASSERT_EQ(early.call(2, input, other), ncclSuccess);
  EXPECT_EQ(emu().streamQuery(world.context(0), other), ncclInProgress);
  std::thread peer([&] {
    for (uint64_t number = 1; number <= 2; number++) {
      ASSERT_EQ(late.call(number), ncclSuccess);
      ASSERT_EQ(late.sync(), "");
    }
  });
  EXPECT_EQ(emu().streamSynchronize(world.context(0), other), ncclSuccess);
  EXPECT_EQ(early.out, early.sum(2));
  peer.join();
  EXPECT_EQ(early.sync(), "");
  EXPECT_EQ(emu().streamDestroy(world.context(0), other), ncclSuccess);
}

TEST_P(EngineExchange, DeviceAndCommunicatorAreSynchronised) {
  World world(options(2));
  Caller early(world, 0), late(world, 1);
  for (uint64_t number = 1; number <= 2; number++) {
    std::thread peer([&] {
      soon();
      ASSERT_EQ(late.call(number), ncclSuccess);
      ASSERT_EQ(late.sync(), "");
    });
    ASSERT_EQ(early.call(number), ncclSuccess);
    if (number == 1) {
      EXPECT_EQ(emu().deviceSynchronize(world.context(0), 0), ncclSuccess);
    } else {
      EXPECT_EQ(emu().commSynchronize(world.comm(0)), ncclSuccess);
    }
    EXPECT_EQ(early.out, early.sum(number));
    peer.join();
  }
}

// ---- failure ----

TEST_P(EngineExchange, WhoNeverComesIsNamed) {
  WorldOptions slow = options(2);
  slow.timeoutMs = 300;
  World world(slow);
  Caller early(world, 0);
  ASSERT_EQ(early.call(1), ncclSuccess);
  EXPECT_THAT(early.sync(), AllOf(HasSubstr("rank 1"), HasSubstr("Test count 1")));
}

TEST_P(EngineExchange, AMismatchedCallIsNamedOnBothSides) {
  World world(options(2));
  vector<int32_t> in(kCount), out(kCount);
  const char* names[] = {"AllReduce count 4", "AllReduce count 3"};
  for (int r = 0; r < 2; r++) {
    Call call{{bind(in)}, {bind(out)}, 1, 1, names[r]};
    call.signature.count = static_cast<uint64_t>(4 - r);
    ASSERT_EQ(launch(world.comm(r), world.load(r, sumOfAll(r, 2)), call, world.stream(r)),
              ncclSuccess);
  }
  for (int r = 0; r < 2; r++) {
    EXPECT_THAT(world.sync(r), AllOf(HasSubstr("rank 0 called AllReduce count 4"),
                                     HasSubstr("rank 1 called AllReduce count 3")));
  }
}

// A root needs no value of others, but hears of their other calls as soon as both are there.
TEST_P(EngineExchange, WhoWaitsForNobodyStillComparesItsCall) {
  World world(options(2));
  vector<int32_t> in(kCount), out(kCount);
  Call call{{bind(in)}, {bind(out)}, 1, 1, "Reduce"};
  call.signature.kind = 1;
  ASSERT_EQ(launch(world.comm(1), world.load(1, sumOfAll(1, 2)), call, world.stream(1)),
            ncclSuccess);
  Call root{{bind(in)}, {bind(out)}, 1, 1, "Broadcast"};
  root.signature.kind = 2;
  ProgramBuilder own = ProgramBuilder(0, 2).transfer({input(0)}, {output(0)}, kBytes).givesValue();
  ASSERT_EQ(launch(world.comm(0), world.load(0, own), root, world.stream(0)), ncclSuccess);
  EXPECT_THAT(world.sync(0),
              AllOf(HasSubstr("rank 0 called Broadcast"), HasSubstr("rank 1 called Reduce")));
  EXPECT_THAT(world.sync(1), HasSubstr("rank 0 called Broadcast"));
}

TEST_P(EngineExchange, AnAbortEndsIt) {
  World world(options(2));
  Caller early(world, 0);
  ASSERT_EQ(early.call(1), ncclSuccess);
  std::thread aborter([&] {
    soon();
    EXPECT_EQ(emu().commAbort(world.comm(0), ncclInvalidUsage, "enough"), ncclSuccess);
  });
  EXPECT_THAT(early.sync(), HasSubstr("enough"));
  aborter.join();
}

TEST_P(EngineExchange, DestroyingItsCommunicatorEndsIt) {
  World world(options(2));
  Caller early(world, 0);
  ASSERT_EQ(early.call(1), ncclSuccess);
  world.destroy(0);
  EXPECT_THAT(early.sync(), HasSubstr("destroyed while operations ran"));
}

TEST_P(EngineExchange, OneThreadMayDestroyWhatAnotherWaitsFor) {
  for (int round = 0; round < 20; round++) {
    World world(options(2));
    Caller early(world, 0);
    ASSERT_EQ(early.call(1), ncclSuccess);
    std::thread waiter([&] { (void)early.sync(); });
    if (round % 2 == 0) std::this_thread::yield();
    world.destroy(0);
    waiter.join();
  }
}

}  // namespace
}  // namespace nccom::emu
