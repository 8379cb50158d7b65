// Programs run to their right results, whoever executes them.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <tuple>

#include "engine_world.h"

namespace nccom::emu {
namespace {

using std::vector;

TEST(EngineRun, CopiesInputToOutput) {
  World world({});
  vector<int32_t> in(1000), out(1000);
  std::iota(in.begin(), in.end(), 1);
  void* program = world.load(0, ProgramBuilder(0, 1).transfer({input(0)}, {output(0)}, 4000));
  ASSERT_EQ(launch(world.comm(0), program, {{bind(in)}, {bind(out)}}, world.stream(0)), ncclSuccess)
      << emu().lastError();
  EXPECT_EQ(world.sync(0), "");
  EXPECT_EQ(out, in);
}

TEST(EngineRun, FoldsScalesAndDivides) {
  World world({});
  vector<int32_t> a{1, 2, 3}, b{10, 20, 30}, out(3), copy(3);
  auto program =
      ProgramBuilder(0, 1)
          .transfer({input(0), input(0, 0, 0, 1)}, {output(0), output(0, 0, 0, 1)}, 12, 2)
          .divided();
  Call call{{bind(a), bind(b)}, {bind(out), bind(copy)}};
  call.scale = 3;
  call.divisor = 2;
  ASSERT_EQ(launch(world.comm(0), world.load(0, program), call, world.stream(0)), ncclSuccess)
      << emu().lastError();
  EXPECT_EQ(world.sync(0), "");
  EXPECT_EQ(out, (vector<int32_t>{15, 31, 46}));
  EXPECT_EQ(copy, out);
}

TEST(EngineRun, StridesThroughTheIterationsOfABlock) {
  World world({});
  vector<int32_t> in(12), out(12);
  std::iota(in.begin(), in.end(), 0);
  // Three at a time, from the end of the output backwards.
  auto program =
      ProgramBuilder(0, 1).block(4).transfer({input(0, 0, 12)}, {output(0, 36, -12)}, 12);
  ASSERT_EQ(
      launch(world.comm(0), world.load(0, program), {{bind(in)}, {bind(out)}}, world.stream(0)),
      ncclSuccess);
  EXPECT_EQ(world.sync(0), "");
  EXPECT_EQ(out, (vector<int32_t>{9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2}));
}

// Who gives its input by value need not wait for those who read it, and may change it at once; it
// runs ahead of them as far as there are slots.
TEST(EngineRun, ReadersOfAValueMayComeLate) {
  for (const int processes : {1, 2}) {
    WorldOptions options;
    options.nRanks = 2;
    options.nProcesses = processes;
    World world(options);
    void* giving =
        world.load(0, ProgramBuilder(0, 2).transfer({input(0)}, {output(0)}, 16).givesValue());
    void* taking = world.load(1, ProgramBuilder(1, 2).transfer({input(0)}, {output(1)}, 16));
    vector<int32_t> in(4), own(4);
    for (uint64_t number = 1; number <= 5; number++) {
      std::iota(in.begin(), in.end(), static_cast<int32_t>(10 * number));
      ASSERT_EQ(
          launch(world.comm(0), giving, {{bind(in)}, {bind(own)}, number, number}, world.stream(0)),
          ncclSuccess)
          << emu().lastError();
      ASSERT_EQ(world.sync(0), "");
    }
    for (uint64_t number = 1; number <= 5; number++) {
      vector<int32_t> out(4), want(4);
      std::iota(want.begin(), want.end(), static_cast<int32_t>(10 * number));
      ASSERT_EQ(launch(world.comm(1), taking, {{}, {bind(out)}, number, number}, world.stream(1)),
                ncclSuccess)
          << emu().lastError();
      ASSERT_EQ(world.sync(1), "");
      EXPECT_EQ(out, want) << number << " with " << processes << " processes";
    }
  }
}

struct Ring {
  int nRanks, nProcesses, threads;
  uint64_t chunk, passes;
  bool deviceMemory = false;
};

/// Some all-reduces in a row, each checked; one thread launches and synchronises all ranks.
void runRing(const Ring& ring) {
  WorldOptions options;
  options.nRanks = ring.nRanks;
  options.nProcesses = ring.nProcesses;
  options.engineThreads = ring.threads;
  options.scratchBytes = ringScratch(ring.chunk);
  World world(options);
  const uint64_t count = ring.chunk * ring.passes * static_cast<uint64_t>(ring.nRanks);
  vector<int32_t*> in, out;
  vector<void*> programs;
  for (int r = 0; r < ring.nRanks; r++) {
    in.push_back(world.alloc(r, count));
    out.push_back(world.alloc(r, count));
    programs.push_back(world.load(r, ringAllReduce(r, ring.nRanks, ring.chunk, ring.passes)));
  }
  for (uint64_t op = 1; op <= 20; op++) {
    for (int r = 0; r < ring.nRanks; r++) {
      for (uint64_t i = 0; i < count; i++)
        in[r][i] = static_cast<int32_t>(i * op) + r;
      Call call{{bind(in[r], count * 4)}, {bind(out[r], count * 4)}, op, op};
      ASSERT_EQ(launch(world.comm(r), programs[r], call, world.stream(r)), ncclSuccess)
          << emu().lastError();
    }
    for (int r = 0; r < ring.nRanks; r++)
      ASSERT_EQ(world.sync(r), "") << "rank " << r;
    const int n = ring.nRanks;
    for (int r = 0; r < n; r++) {
      uint64_t right = 0;
      while (right < count &&
             out[r][right] == static_cast<int32_t>(right * op) * n + n * (n - 1) / 2) {
        right++;
      }
      ASSERT_EQ(right, count) << "operation " << op << ", rank " << r << ": first wrong element";
    }
  }
}

TEST(EngineRing, OfTwoRanks) {
  runRing({2, 1, -1, 64, 3});
}
TEST(EngineRing, OfEightRanksAndOneWorker) {
  runRing({8, 1, 1, 16, 5});
}
TEST(EngineRing, OfSixtyFourRanksOnTwoWorkers) {
  runRing({64, 1, 2, 4, 2});
}
TEST(EngineRing, WithoutWorkersTheSynchronisingThreadDoesIt) {
  runRing({8, 1, 0, 16, 5});
}
TEST(EngineRing, OfTwoProcesses) {
  runRing({2, 2, -1, 64, 3});
}
TEST(EngineRing, OfFourProcessesOfThreeRanks) {
  runRing({12, 4, -1, 8, 3});
}
TEST(EngineRing, OfLongTransfers) {
  runRing({3, 1, -1, 100'000, 1});
}

TEST(EngineRing, ManyThreadsSynchroniseAtOnce) {
  for (const int workers : {0, 1, 2}) {
    constexpr int kRanks = 8;
    constexpr uint64_t kChunk = 8, kCount = kChunk * kRanks;
    WorldOptions options;
    options.nRanks = kRanks;
    options.engineThreads = workers;
    options.scratchBytes = ringScratch(kChunk);
    World world(options);
    vector<std::string> said(kRanks);
    const auto rankMain = [&](int r) {
      vector<int32_t> in(kCount, r + 1), out(kCount);
      void* program = world.load(r, ringAllReduce(r, kRanks, kChunk, 1));
      for (uint64_t op = 1; op <= 50; op++) {
        (void)launch(world.comm(r), program, {{bind(in)}, {bind(out)}, op, op}, world.stream(r));
        said[r] += world.sync(r);
        if (out != vector<int32_t>(kCount, kRanks * (kRanks + 1) / 2)) said[r] += "wrong";
      }
    };
    vector<std::thread> threads;
    for (int r = 0; r < kRanks; r++)
      threads.emplace_back(rankMain, r);
    for (std::thread& thread : threads)
      thread.join();
    EXPECT_EQ(said, vector<std::string>(kRanks)) << workers << " workers";
  }
}

// A rank may be many operations ahead of another, as far as its slots last.
TEST(EngineRun, OperationsOfACommunicatorRunInTheOrderOfTheirLaunches) {
  constexpr uint64_t kOps = 40;
  WorldOptions options;
  options.nRanks = 2;
  World world(options);
  vector<vector<int32_t>> in(2), out(2);
  vector<void*> programs;
  for (int r = 0; r < 2; r++) {
    in[r].resize(kOps * 2);
    out[r].resize(kOps * 2);
    std::iota(in[r].begin(), in[r].end(), 0);
    programs.push_back(world.load(r, ringAllReduce(r, 2, 1, 1)));
  }
  void* second = nullptr;
  ASSERT_EQ(emu().streamCreate(world.context(0), 0, &second), ncclSuccess);
  for (int r = 0; r < 2; r++) {
    for (uint64_t op = 1; op <= kOps; op++) {
      Call call{{bind(&in[r][2 * op - 2], 8)}, {bind(&out[r][2 * op - 2], 8)}, op, op};
      void* stream = r == 0 && op % 3 == 0 ? second : world.stream(r);
      ASSERT_EQ(launch(world.comm(r), programs[r], call, stream), ncclSuccess);
    }
  }
  EXPECT_EQ(emu().commSynchronize(world.comm(0)), ncclSuccess);
  EXPECT_EQ(world.sync(0), "");
  EXPECT_EQ(world.sync(1), "");
  for (int r = 0; r < 2; r++) {
    for (size_t i = 0; i < out[r].size(); i++)
      ASSERT_EQ(out[r][i], 2 * static_cast<int32_t>(i));
  }
  EXPECT_EQ(emu().streamDestroy(world.context(0), second), ncclSuccess);
}

// The mesh's way: everybody reads everybody's INPUT.
ProgramBuilder pullAll(int rank, int nRanks, uint64_t bytes) {
  ProgramBuilder program(rank, nRanks);
  vector<nccomAddress_v1> sources;
  for (int r = 0; r < nRanks; r++)
    sources.push_back(input(r));
  program.transfer(sources, {output(rank)}, bytes);
  for (int r = 0; r < nRanks; r++)
    program.inc(r, 0);
  program.wait(rank == 0 ? nRanks - 1 : 0, 0, nRanks);
  return program.total(0, static_cast<uint64_t>(nRanks)).peersTouch(true, false);
}

TEST(EngineRun, WaitsUntilAPeerHasPublishedItsBuffers) {
  for (const int processes : {1, 3}) {
    WorldOptions options;
    options.nRanks = 3;
    options.nProcesses = processes;
    World world(options);
    vector<int32_t*> in;
    vector<vector<int32_t>> out(3, vector<int32_t>(5));
    vector<void*> programs;
    for (int r = 0; r < 3; r++) {
      in.push_back(world.alloc(r, 5));
      programs.push_back(world.load(r, pullAll(r, 3, 20)));
    }
    for (uint64_t op = 1; op <= 30; op++) {
      for (int r = 0; r < 3; r++) {
        for (int i = 0; i < 5; i++)
          in[r][i] = (r + 1) * 100 + static_cast<int>(op);
        ASSERT_EQ(launch(world.comm(r), programs[r], {{bind(in[r], 20)}, {bind(out[r])}, op, op},
                         world.stream(r)),
                  ncclSuccess);
      }
      for (int r = 0; r < 3; r++) {
        ASSERT_EQ(world.sync(r), "");
        ASSERT_EQ(out[r], vector<int32_t>(5, 600 + 3 * static_cast<int>(op)));
      }
    }
  }
}

TEST(EngineRun, CountsNetworkDescriptorsAndTakesTheProxysSemaphores) {
  struct Host {
    int posted = 0;
    static void onPosted(void* arg) { static_cast<Host*>(arg)->posted++; }
  } host;
  WorldOptions options;
  options.nConnections = 2;
  options.host.arg = &host;
  options.host.netPosted = Host::onPosted;
  World world(options);
  void* program = world.load(
      0, ProgramBuilder(0, 1).net(true, 1).net(true, 1).net(false, 0).wait(-1, 3, 2).total(3, 2));
  nccomHostIndex_v1 *recv = nullptr, *send = nullptr;
  ASSERT_EQ(emu().commHostIndex(world.comm(0), 0, &recv), ncclSuccess);
  ASSERT_EQ(emu().commHostIndex(world.comm(0), 1, &send), ncclSuccess);
  EXPECT_EQ(emu().commHostIndex(world.comm(0), 2, &send), ncclInvalidArgument);
  for (uint64_t op = 1; op <= 3; op++) {
    ASSERT_EQ(launch(world.comm(0), program, {{}, {}, op, 0}, world.stream(0)), ncclSuccess);
    EXPECT_EQ(emu().streamQuery(world.context(0), world.stream(0)), ncclInProgress);
    ASSERT_EQ(emu().semaphoreAdd(world.comm(0), 3, 2), ncclSuccess);
    EXPECT_EQ(world.sync(0), "");
    EXPECT_EQ(std::atomic_ref(send->posted).load(), 2 * op);
    EXPECT_EQ(std::atomic_ref(recv->posted).load(), op);
  }
  EXPECT_EQ(host.posted, 9);
}

TEST(EngineRun, AProgramWithoutQueuesEnds) {
  World world({});
  ProgramBuilder empty(0, 1);
  const nccomProgram_v1* built = empty.build();
  nccomProgram_v1 head = *built;
  head.nQueues = head.nBlocks = 0;
  memcpy(const_cast<nccomProgram_v1*>(built), &head, sizeof head);
  void* loaded = nullptr;
  ASSERT_EQ(emu().programLoad(world.comm(0), built, nullptr, &loaded), ncclSuccess)
      << emu().lastError();
  ASSERT_EQ(launch(world.comm(0), loaded, {}, world.stream(0)), ncclSuccess);
  EXPECT_EQ(world.sync(0), "");
}

}  // namespace
}  // namespace nccom::emu
