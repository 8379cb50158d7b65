// Short messages: posted with their values, mostly without the engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "engine_world.h"

namespace nccom::emu {
namespace {

using std::vector;
using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kBytes = sizeof(int32_t);
constexpr int kRoom = 8;  // messages that need not be taken

class EngineValue : public testing::TestWithParam<int> {
 protected:
  WorldOptions options(int64_t timeoutMs = 20'000) const {
    WorldOptions world;
    world.nRanks = 2;
    world.nProcesses = GetParam();
    world.timeoutMs = timeoutMs;
    return world;
  }
};
INSTANTIATE_TEST_SUITE_P(Processes, EngineValue, testing::Values(1, 2),
                         testing::PrintToStringParamName());

// What one of two ranks sends to and receives from the other, a number at a time.
class Talker {
 public:
  Talker(World& world, int rank) : world_(world), rank_(rank) {
    const int peer = 1 - rank;
    send_ = world.load(rank, ProgramBuilder(rank, 2).post(peer, 0, 0, kBytes, true));
    recv_ = world.load(rank,
                       ProgramBuilder(rank, 2).transfer({posted(peer, 0)}, {output(rank)}, kBytes));
    both_ = world.load(rank, ProgramBuilder(rank, 2)
                                 .post(peer, 0, 0, kBytes, true)
                                 .queue()
                                 .transfer({posted(peer, 0)}, {output(rank)}, kBytes));
  }
  ncclResult_t send(int32_t number, void* stream = nullptr) {
    out_ = number;
    return run(send_, {{bind(&out_, kBytes)}, {}, ++op_, 0, "Send"}, stream);
  }
  ncclResult_t receive(int32_t& number, void* stream = nullptr) {
    return run(recv_, {{}, {bind(&number, kBytes)}, ++op_, 0, "Recv"}, stream);
  }
  ncclResult_t exchange(int32_t sent, int32_t& received) {
    out_ = sent;
    return run(both_, {{bind(&out_, kBytes)}, {bind(&received, kBytes)}, ++op_, 0, "group"}, {});
  }
  std::string sync() const { return world_.sync(rank_); }

 private:
  ncclResult_t run(void* program, const Call& call, void* stream) {
    return launch(world_.comm(rank_), program, call, stream ? stream : world_.stream(rank_));
  }

  World& world_;
  int rank_;
  void *send_, *recv_, *both_;
  uint64_t op_ = 0;
  int32_t out_ = 0;
};

void soon() {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST_P(EngineValue, ASendHasEndedWhenItWasLaunched) {
  World world(options());
  Talker from(world, 0), to(world, 1);
  for (int32_t k = 0; k < kRoom; k++) {
    ASSERT_EQ(from.send(k), ncclSuccess);  // and overwrites its buffer with the next
    EXPECT_EQ(emu().streamQuery(world.context(0), world.stream(0)), ncclSuccess);
  }
  for (int32_t k = 0; k < kRoom; k++) {
    int32_t number = -1;
    ASSERT_EQ(to.receive(number), ncclSuccess);
    EXPECT_EQ(to.sync(), "");
    EXPECT_EQ(number, k);
  }
}

TEST_P(EngineValue, MoreThanThereIsRoomForWaitUntilTheyAreTaken) {
  World world(options());
  Talker to(world, 1);
  constexpr int kSends = 100;
  vector<int32_t> in(kSends), out(kSends);
  std::iota(in.begin(), in.end(), 5);
  void* send = world.load(0, ProgramBuilder(0, 2).post(1, 0, 0, kBytes, true));
  for (size_t k = 0; k < kSends; k++) {
    const Call call{{bind(&in[k], kBytes)}, {}, k + 1, 0, "Send"};
    ASSERT_EQ(launch(world.comm(0), send, call, world.stream(0)), ncclSuccess);
  }
  EXPECT_EQ(emu().streamQuery(world.context(0), world.stream(0)), ncclInProgress);
  for (int32_t& number : out) {
    ASSERT_EQ(to.receive(number), ncclSuccess);
    ASSERT_EQ(to.sync(), "");
  }
  EXPECT_EQ(world.sync(0), "");
  EXPECT_EQ(out, in);
}

TEST_P(EngineValue, ReceivesMayBeQueuedBeforeAnythingIsSent) {
  World world(options());
  Talker from(world, 0), to(world, 1);
  constexpr int kMessages = 20;
  vector<int32_t> out(kMessages, -1), expected(kMessages);
  std::iota(expected.begin(), expected.end(), 0);
  for (int32_t& number : out)
    ASSERT_EQ(to.receive(number), ncclSuccess);
  for (int32_t k = 0; k < kMessages; k++) {
    ASSERT_EQ(from.send(k), ncclSuccess);
    ASSERT_EQ(from.sync(), "");
  }
  EXPECT_EQ(to.sync(), "");
  EXPECT_EQ(out, expected);
}

TEST_P(EngineValue, TwoThreadsPlayPingPong) {
  World world(options());
  constexpr int32_t kRounds = 2000;
  vector<std::thread> threads;
  for (int r = 0; r < 2; r++) {
    threads.emplace_back([&world, r] {
      Talker talker(world, r);
      for (int32_t round = 0; round < kRounds; round++) {
        int32_t number = -1;
        for (const bool sends : {r == 0, r != 0}) {
          ASSERT_EQ(sends ? talker.send(2 * round + r) : talker.receive(number), ncclSuccess);
          ASSERT_EQ(talker.sync(), "");
        }
        ASSERT_EQ(number, 2 * round + 1 - r);
        if (round % 700 == 350 * r) soon();  // the other falls asleep
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

TEST_P(EngineValue, BothDirectionsGoAtOnce) {
  World world(options());
  Talker zero(world, 0), one(world, 1);
  for (int32_t round = 0; round < 50; round++) {
    int32_t got[2] = {-1, -1};
    ASSERT_EQ(zero.exchange(round, got[0]), ncclSuccess);
    ASSERT_EQ(one.exchange(1000 + round, got[1]), ncclSuccess);
    ASSERT_EQ(one.sync(), "");
    ASSERT_EQ(zero.sync(), "");
    EXPECT_EQ(got[0], 1000 + round);
    EXPECT_EQ(got[1], round);
  }
}

// The group of rank 0 has posted before it becomes the engine's: it must not post again.
TEST_P(EngineValue, WhatWasPostedIsNotPostedAgainByTheEngine) {
  World world(options());
  Talker zero(world, 0), one(world, 1);
  int32_t got[4] = {-1, -1, -1, -1};
  ASSERT_EQ(zero.exchange(10, got[0]), ncclSuccess);
  ASSERT_EQ(zero.exchange(11, got[1]), ncclSuccess);
  EXPECT_EQ(emu().streamQuery(world.context(0), world.stream(0)), ncclInProgress);
  ASSERT_EQ(one.exchange(20, got[2]), ncclSuccess);
  ASSERT_EQ(one.sync(), "");
  ASSERT_EQ(one.exchange(21, got[3]), ncclSuccess);
  ASSERT_EQ(one.sync(), "");
  EXPECT_EQ(zero.sync(), "");
  EXPECT_EQ(vector<int32_t>(got, got + 2), (vector<int32_t>{20, 21}));
  EXPECT_EQ(got[2], 10);
  EXPECT_EQ(got[3], 11);
}

TEST_P(EngineValue, AMessageOfNothingArrives) {
  World world(options());
  void* send = world.load(0, ProgramBuilder(0, 2).post(1, 0, 0, 0, true));
  void* recv = world.load(1, ProgramBuilder(1, 2).transfer({posted(0, 0)}, {output(1)}, 0));
  ASSERT_EQ(launch(world.comm(1), recv, {{}, {bind(nullptr, 0)}, 1, 0}, world.stream(1)),
            ncclSuccess);
  EXPECT_EQ(emu().streamQuery(world.context(1), world.stream(1)), ncclInProgress);
  ASSERT_EQ(launch(world.comm(0), send, {{bind(nullptr, 0)}, {}, 1, 0}, world.stream(0)),
            ncclSuccess);
  EXPECT_EQ(world.sync(1), "");
  EXPECT_EQ(world.sync(0), "");
}

TEST_P(EngineValue, ItsSenderMayHaveLeft) {
  World world(options());
  Talker from(world, 0), to(world, 1);
  ASSERT_EQ(from.send(7), ncclSuccess);
  world.destroy(0);
  int32_t number = -1;
  ASSERT_EQ(to.receive(number), ncclSuccess);
  EXPECT_EQ(to.sync(), "");
  EXPECT_EQ(number, 7);
}

// ---- failure ----

TEST_P(EngineValue, AMessageThatNeverComesIsNamed) {
  World world(options(300));
  Talker to(world, 1);
  int32_t number = -1;
  ASSERT_EQ(to.receive(number), ncclSuccess);
  EXPECT_THAT(to.sync(), AllOf(HasSubstr("Recv"), HasSubstr("waits for message 1 of rank 0")));
}

TEST_P(EngineValue, WhoTakesNothingIsNamed) {
  World world(options(300));
  Talker from(world, 0);
  for (int32_t k = 0; k <= kRoom; k++)
    ASSERT_EQ(from.send(k), ncclSuccess);
  EXPECT_THAT(from.sync(),
              AllOf(HasSubstr("waits for it to take earlier messages"), HasSubstr("rank 1")));
}

TEST_P(EngineValue, AnAbortEndsAReceive) {
  World world(options());
  Talker to(world, 1);
  int32_t number = -1;
  ASSERT_EQ(to.receive(number), ncclSuccess);
  std::thread aborter([&] {
    soon();
    EXPECT_EQ(emu().commAbort(world.comm(1), ncclInvalidUsage, "enough"), ncclSuccess);
  });
  EXPECT_THAT(to.sync(), HasSubstr("enough"));
  aborter.join();
}

TEST_P(EngineValue, ASenderThatLeavesEndsAReceive) {
  World world(options());
  Talker to(world, 1);
  int32_t number = -1;
  ASSERT_EQ(to.receive(number), ncclSuccess);
  std::thread leaver([&] {
    soon();
    world.destroy(0);
  });
  EXPECT_THAT(to.sync(), HasSubstr("rank 0 has left the communicator"));
  leaver.join();
}

TEST_P(EngineValue, DestroyingItsCommunicatorEndsAReceive) {
  World world(options());
  Talker to(world, 1);
  int32_t number = -1;
  ASSERT_EQ(to.receive(number), ncclSuccess);
  world.destroy(1);
  EXPECT_THAT(to.sync(), HasSubstr("destroyed while operations ran"));
}

}  // namespace
}  // namespace nccom::emu
