// Failures name who, what and why, reach every rank of the host, and end in bounded time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "engine_world.h"

namespace nccom::emu {
namespace {

using std::vector;
using testing::HasSubstr;

/// What the host was told of failures; the calls come from the engine's threads.
struct Told {
  std::mutex mutex;
  vector<std::string> texts;
  static void onFailed(void* arg, ncclResult_t, const char* text) {
    auto* told = static_cast<Told*>(arg);
    const std::lock_guard lock(told->mutex);
    told->texts.emplace_back(text);
  }
};

/// A collective that no rank can end before all have started it.
ProgramBuilder barrier(int rank, int nRanks) {
  ProgramBuilder program(rank, nRanks);
  program.step("Sync");
  for (int r = 0; r < nRanks; r++) {
    if (r != rank) program.inc(r, 0);
  }
  const int others = nRanks - 1;
  return program.wait((rank + others) % nRanks, 0, others).total(0, static_cast<uint64_t>(others));
}

class EngineFailure : public testing::TestWithParam<int> {
 protected:
  WorldOptions options(int nRanks) {
    WorldOptions world;
    world.nRanks = nRanks;
    world.nProcesses = GetParam();
    world.host.arg = &told_;
    world.host.failed = Told::onFailed;
    return world;
  }
  /// What the host was told, in all: nothing comes after the last rank is destroyed.
  vector<std::string> told(World& world) {
    for (int r = 0; r < world.nRanks(); r++)
      world.destroy(r);
    return told_.texts;
  }
  size_t toldSoFar() {
    const std::lock_guard lock(told_.mutex);
    return told_.texts.size();
  }

 private:
  Told told_;
};
INSTANTIATE_TEST_SUITE_P(Processes, EngineFailure, testing::Values(1, 2),
                         testing::PrintToStringParamName());

TEST_P(EngineFailure, AMismatchedCallIsNamedOnBothSides) {
  World world(options(4));
  for (int r = 0; r < 4; r++) {
    const bool other = r == 3;
    Call call{{}, {}, 5, 5};
    call.name = other ? "AllReduce count 512 float sum" : "AllReduce count 1024 float sum";
    call.signature.count = other ? 512 : 1024;
    (void)launch(world.comm(r), world.load(r, barrier(r, 4)), call, world.stream(r));
  }
  std::string first;
  for (int r = 0; r < 4; r++) {
    (void)world.sync(r);
    const std::string text = world.commError(r);
    EXPECT_THAT(text, HasSubstr("called AllReduce count 512 float sum"));
    EXPECT_THAT(text, HasSubstr("called AllReduce count 1024 float sum"));
    EXPECT_THAT(text, HasSubstr("(collective 5)"));
    if (first.empty()) first = text;
    EXPECT_EQ(text, first) << "rank " << r;
  }
  EXPECT_EQ(told(world), vector<std::string>(4, first)) << "each rank's host, once";
}

TEST_P(EngineFailure, CallsOfOneNameThatDifferOtherwiseSayHow) {
  World world(options(2));
  for (int r = 0; r < 2; r++) {
    Call call{{}, {}, 1, 1};
    call.signature.root = static_cast<uint32_t>(r);
    (void)launch(world.comm(r), world.load(r, barrier(r, 2)), call, world.stream(r));
  }
  for (int r = 0; r < 2; r++) {
    (void)world.sync(r);
    EXPECT_THAT(world.commError(r), HasSubstr("root 0"));
    EXPECT_THAT(world.commError(r), HasSubstr("root 1"));
  }
}

TEST_P(EngineFailure, ADeadlineNamesTheRankThatHasNotCalled) {
  auto settings = options(4);
  settings.timeoutMs = 150;
  World world(settings);
  for (const uint64_t op : {1, 2}) {
    for (int r = 0; r < 4; r++) {
      if (op == 2 && r == 1) continue;
      Call call{{}, {}, op, op};
      call.name = "Barrier " + std::to_string(op);
      ASSERT_EQ(launch(world.comm(r), world.load(r, barrier(r, 4)), call, world.stream(r)),
                ncclSuccess);
    }
    if (op == 1) {
      for (int r = 0; r < 4; r++)
        ASSERT_EQ(world.sync(r), "");
    }
  }
  const std::string text = world.sync(2);
  EXPECT_THAT(text, HasSubstr("Barrier 2 (operation 2) has made no progress for 150 ms"));
  EXPECT_THAT(text,
              HasSubstr("rank 1 has not called it: its last operation is 1 (Barrier 1), ended"));
  EXPECT_THAT(text, HasSubstr("channel 0 queue 0 step Sync waits for semaphore 0 >= 3 (found 2)"));
  // Two that come to the deadline at the same moment may each tell in their own words.
  const auto names = HasSubstr("rank 1 has not called it: its last operation is 1 (Barrier 1)");
  EXPECT_THAT(world.commError(1), names) << "the one that was missing hears of it, too";
  EXPECT_THAT(told(world), testing::ElementsAre(names, names, names))
      << "the hosts of those that called";
}

TEST_P(EngineFailure, WaitsForANetworkThatDoesNotAnswerAreReportedAsOne) {
  auto settings = options(2);
  settings.timeoutMs = 100;
  World world(settings);
  ProgramBuilder program(0, 2);
  for (uint32_t channel = 0; channel < 3; channel++)
    program.queue(channel).wait(-1, channel, 1);
  ASSERT_EQ(launch(world.comm(0), world.load(0, program), {{}, {}, 1, 0}, world.stream(0)),
            ncclSuccess);
  const std::string text = world.sync(0);
  EXPECT_THAT(text, HasSubstr("(and 2 more), raised by the network"));
}

TEST_P(EngineFailure, AbortIsBoundedAndKeepsTheFirstCause) {
  World world(options(4));
  for (int r = 0; r < 4; r++) {
    if (r == 1) continue;
    ASSERT_EQ(launch(world.comm(r), world.load(r, barrier(r, 4)), {{}, {}, 1, 1}, world.stream(r)),
              ncclSuccess);
  }
  EXPECT_EQ(emu().commAbort(world.comm(3), ncclRemoteError, "the other host is gone"), ncclSuccess);
  EXPECT_EQ(emu().commAbort(world.comm(3), ncclSystemError, "later"), ncclSuccess);
  EXPECT_EQ(world.sync(3), "the other host is gone");
  EXPECT_EQ(world.commError(3), "the other host is gone");
  EXPECT_EQ(world.sync(2), "rank 3 was aborted: the other host is gone");
  EXPECT_EQ(world.commError(1), "rank 3 was aborted: the other host is gone");
  EXPECT_EQ(emu().commAbort(world.comm(0), ncclSuccess, "no failure"), ncclInvalidArgument);
  const vector<std::string> heard = told(world);
  EXPECT_FALSE(std::count(heard.begin(), heard.end(), "the other host is gone"))
      << "the host knows: it gave the order";
}

// A user who sees the failure may end the process at once: then the other hosts must have heard of
// the cause, not only of a process that ended.
TEST_P(EngineFailure, TheHostHearsBeforeTheStreamShowsIt) {
  World world(options(4));
  for (int r = 0; r < 3; r++) {
    ASSERT_EQ(launch(world.comm(r), world.load(r, barrier(r, 4)), {{}, {}, 1, 1}, world.stream(r)),
              ncclSuccess);
  }
  ASSERT_EQ(emu().commAbort(world.comm(3), ncclRemoteError, "gone"), ncclSuccess);
  for (size_t r = 0; r < 3; r++) {
    EXPECT_EQ(world.sync(static_cast<int>(r)), "rank 3 was aborted: gone");
    EXPECT_GE(toldSoFar(), r + 1) << "rank " << r;
  }
}

TEST_P(EngineFailure, LaunchesOnAFailedCommunicatorEndAtOnceWithItsCause) {
  World world(options(2));
  void* program = world.load(0, barrier(0, 2));
  ASSERT_EQ(launch(world.comm(0), program, {{}, {}, 1, 1}, world.stream(0)), ncclSuccess);
  ASSERT_EQ(launch(world.comm(0), program, {{}, {}, 2, 2}, world.stream(0)), ncclSuccess);
  ASSERT_EQ(emu().commAbort(world.comm(0), ncclSystemError, "enough"), ncclSuccess);
  EXPECT_EQ(emu().commSynchronize(world.comm(0)), ncclSuccess);
  EXPECT_EQ(world.sync(0), "enough");
  EXPECT_EQ(world.sync(0), "") << "said once";
  EXPECT_EQ(launch(world.comm(0), program, {{}, {}, 3, 3}, world.stream(0)), ncclSystemError);
  EXPECT_STREQ(emu().lastError(), "enough");
}

TEST_P(EngineFailure, DestroyingARankThatIsStillBusyIsBounded) {
  World world(options(2));
  for (int r = 0; r < 2; r++) {
    const ProgramBuilder forEver = ProgramBuilder(r, 2).wait(1 - r, 5, 1);
    ASSERT_EQ(launch(world.comm(r), world.load(r, forEver), {{}, {}, 1, 1}, world.stream(r)),
              ncclSuccess);
  }
  world.destroy(0);
  EXPECT_THAT(world.sync(0), HasSubstr("destroyed while operations ran"));
  const std::string heard = world.sync(1);
  EXPECT_THAT(heard, HasSubstr("rank 0"));
  EXPECT_THAT(heard, HasSubstr("destroyed while operations ran"));
}

// Its operation is behind one of another communicator that never ends.
TEST(EngineDestroy, DoesNotWaitForOtherCommunicatorsInTheSameStream) {
  World world({});
  nccomDeviceCommConfig_v1 config = commConfig({}, 0);
  void* other = nullptr;
  ASSERT_EQ(emu().commCreate(world.context(0), &config, &other), ncclSuccess);
  nccomDeviceHandle_v1 handle;
  const int32_t sameHost = 1;
  ASSERT_EQ(emu().commConnect(other, &handle, &sameHost, 1000), ncclSuccess);
  ProgramBuilder gate = ProgramBuilder(0, 1).wait(-1, 0, 1).total(0, 1);
  void* behind = nullptr;
  ASSERT_EQ(emu().programLoad(other, gate.build(), nullptr, &behind), ncclSuccess);
  ASSERT_EQ(launch(world.comm(0), world.load(0, gate), {{}, {}, 1, 0}, world.stream(0)),
            ncclSuccess);
  for (uint64_t op = 1; op <= 3; op++) {
    ASSERT_EQ(launch(other, behind, {{}, {}, op, 0}, world.stream(0)), ncclSuccess);
  }
  EXPECT_EQ(emu().commDestroy(other), ncclSuccess);
  EXPECT_EQ(emu().streamQuery(world.context(0), world.stream(0)), ncclInProgress);
  ASSERT_EQ(emu().semaphoreAdd(world.comm(0), 0, 1), ncclSuccess);
  EXPECT_THAT(world.sync(0), HasSubstr("destroyed while operations ran"));
  EXPECT_EQ(world.commError(0), "") << "the other one is well";
}

TEST_P(EngineFailure, ARankThatHasLeftIsNotWaitedFor) {
  World world(options(2));
  world.destroy(0);
  ASSERT_EQ(launch(world.comm(1), world.load(1, barrier(1, 2)), {{}, {}, 1, 1}, world.stream(1)),
            ncclSuccess);
  EXPECT_THAT(world.sync(1), HasSubstr("rank 0 has left the communicator"));
}

TEST_P(EngineFailure, ReportsSayWhatEverybodyDoes) {
  World world(options(2));
  Call call{{}, {}, 1, 1};
  call.name = "AllGather count 3";
  ASSERT_EQ(launch(world.comm(0), world.load(0, barrier(0, 2)), call, world.stream(0)),
            ncclSuccess);
  std::string text;
  for (int i = 0; i < 2000 && text.find("waits for semaphore 0 >= 1") == std::string::npos; i++) {
    text = world.report(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_THAT(text, HasSubstr("rank 0 of 2: it is in operation 1 (AllGather count 3)"));
  EXPECT_THAT(text, HasSubstr("step Sync waits for semaphore 0 >= 1 (found 0), raised by rank 1"));
  EXPECT_THAT(text, HasSubstr("rank 1 has not called it: it has launched nothing yet"));
  char small[8];
  EXPECT_EQ(emu().commReport(world.comm(0), small, sizeof small), ncclSuccess);
  EXPECT_STREQ(small, "rank 0 ");
}

// User memory is not touched any more when a failed operation has ended. Long transfers between
// two ranks are cut off by an abort; the memory is then given back, which ASan watches.
TEST_P(EngineFailure, NobodyTouchesAFailedRanksBuffersAfterItsOperationHasEnded) {
  constexpr uint64_t kBytes = 8 << 20;
  for (int round = 0; round < 10; round++) {
    World world(options(2));
    vector<std::unique_ptr<vector<char>>> in, out;
    for (int r = 0; r < 2; r++) {
      in.push_back(std::make_unique<vector<char>>(kBytes));
      out.push_back(std::make_unique<vector<char>>(kBytes));
      ProgramBuilder program(r, 2, ncclInt8);
      program.block(1000).transfer({input(1 - r)}, {output(r)}, kBytes).peersTouch(true, false);
      ASSERT_EQ(launch(world.comm(r), world.load(r, program),
                       {{bind(*in[r])}, {bind(*out[r])}, 1, 1}, world.stream(r)),
                ncclSuccess);
    }
    std::thread aborter(
        [&] { (void)emu().commAbort(world.comm(round % 2), ncclSystemError, "stop"); });
    (void)world.sync(0);
    in[0].reset();
    out[0].reset();
    (void)world.sync(1);
    aborter.join();
  }
}

TEST(EngineLaunch, BuffersThatAreTooSmallAreRefused) {
  World world({});
  vector<int32_t> in(4), out(4);
  void* program = world.load(0, ProgramBuilder(0, 1).transfer({input(0, 8)}, {output(0)}, 12));
  EXPECT_EQ(launch(world.comm(0), program, {{bind(in)}, {bind(out)}}, world.stream(0)),
            ncclInvalidArgument);
  EXPECT_THAT(emu().lastError(), HasSubstr("has 16 bytes: the program uses 20 of it"));
  EXPECT_EQ(launch(world.comm(0), program, {{}, {bind(out)}}, world.stream(0)),
            ncclInvalidArgument);
  EXPECT_THAT(emu().lastError(), HasSubstr("the launch has 0 inputs: the program uses number 0"));
  EXPECT_EQ(launch(world.comm(0), &in, {{bind(in)}, {bind(out)}}, world.stream(0)),
            ncclInvalidArgument);
}

TEST(EngineLaunch, OnlyWhatIsComputedNeedsAlignment) {
  World world({});
  vector<char> in(16), out(16);
  void* copies = world.load(0, ProgramBuilder(0, 1).transfer({input(0)}, {output(0)}, 12));
  void* sums = world.load(0, ProgramBuilder(0, 1).transfer({input(0), input(0)}, {output(0)}, 12));
  const Call odd{{bind(in.data() + 1, 12)}, {bind(out.data() + 3, 12)}};
  EXPECT_EQ(launch(world.comm(0), copies, odd, world.stream(0)), ncclSuccess) << emu().lastError();
  EXPECT_EQ(launch(world.comm(0), sums, odd, world.stream(0)), ncclInvalidArgument);
  EXPECT_THAT(emu().lastError(), HasSubstr("not aligned to its elements of 4 bytes"));
  EXPECT_EQ(world.sync(0), "");
}

TEST(EngineLaunch, AProgramMayBeUnloadedWhileItRuns) {
  World world({});
  vector<int32_t> in{5}, out{0};
  void* program = world.load(
      0, ProgramBuilder(0, 1).wait(-1, 0, 1).transfer({input(0)}, {output(0)}, 4).total(0, 1));
  ASSERT_EQ(launch(world.comm(0), program, {{bind(in)}, {bind(out)}, 1, 0}, world.stream(0)),
            ncclSuccess);
  EXPECT_EQ(emu().programUnload(world.comm(0), program), ncclSuccess);
  EXPECT_EQ(emu().programUnload(world.comm(0), program), ncclInvalidArgument);
  EXPECT_EQ(emu().semaphoreAdd(world.comm(0), 0, 1), ncclSuccess);
  EXPECT_EQ(world.sync(0), "");
  EXPECT_EQ(out[0], 5);
}

}  // namespace
}  // namespace nccom::emu
