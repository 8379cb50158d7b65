// Programs that run in the place of others, where ranks give memory that others cannot map.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "engine_world.h"

namespace nccom::emu {
namespace {

using std::vector;
using testing::HasSubstr;

constexpr size_t kElements = 100;
constexpr uint64_t kBytes = kElements * sizeof(int32_t);

WorldOptions options(int nProcesses) {
  WorldOptions options;
  options.nRanks = 4;
  options.nProcesses = nProcesses;
  return options;
}

/// The sum of all INPUTs, read where they are: 0 + 1 + 2 + 3.
ProgramBuilder reading(int rank) {
  ProgramBuilder program(rank, 4);
  program.transfer({input(0), input(1), input(2), input(3)}, {output(rank)}, kBytes);
  for (int other = 0; other < 4; other++) {
    if (other != rank) program.inc(other, static_cast<uint32_t>(rank));
  }
  for (int other = 0; other < 4; other++) {
    if (other == rank) continue;
    program.wait(other, static_cast<uint32_t>(other), 1).total(static_cast<uint32_t>(other), 1);
  }
  return program.peersTouch(true, false);
}

/// Tells itself from reading(): next's INPUT only, through its scratch. Two queues, so that the
/// programs differ in these, too.
ProgramBuilder staging(int rank) {
  const int next = (rank + 1) % 4, prev = (rank + 3) % 4;
  ProgramBuilder program(rank, 4);
  program.transfer({input(rank)}, {scratch(rank)}, kBytes).inc(prev, 4);
  program.queue(1).wait(next, 4, 1).transfer({scratch(next)}, {output(rank)}, kBytes).inc(next, 5);
  return program.wait(prev, 5, 1).total(4, 1).total(5, 1);
}

class EngineStaged : public testing::TestWithParam<int> {
 protected:
  EngineStaged() : world(options(GetParam())) {
    for (int r = 0; r < 4; r++) {
      ProgramBuilder first = reading(r), second = staging(r);
      void* loaded = nullptr;
      EXPECT_EQ(emu().programLoad(world.comm(r), first.build(), second.build(), &loaded),
                ncclSuccess)
          << emu().lastError();
      programs.push_back(loaded);
      own.push_back(world.alloc(r, 2 * kElements));
      plain.emplace_back(2 * kElements);
    }
  }

  /// A collective of all ranks, each in a thread; the ranks of `foreign` give plain memory.
  /// @return  what rank 0 has got, if all have the like of it
  std::string call(const vector<int>& foreign) {
    number++;
    vector<int32_t*> buffers = own;
    for (const int r : foreign)
      buffers[static_cast<size_t>(r)] = plain[static_cast<size_t>(r)].data();
    vector<std::thread> threads;
    for (int r = 0; r < 4; r++) {
      threads.emplace_back([this, r, buffer = buffers[static_cast<size_t>(r)]] {
        for (size_t i = 0; i < kElements; i++)
          buffer[i] = r;
        const Call call{{{buffer, kBytes}}, {{buffer + kElements, kBytes}}, number, number};
        EXPECT_EQ(launch(world.comm(r), programs[static_cast<size_t>(r)], call, world.stream(r)),
                  ncclSuccess);
        EXPECT_EQ(world.sync(r), "");
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    bool isSum = true, isNext = true;
    for (int r = 0; r < 4; r++) {
      const int32_t* const out = buffers[static_cast<size_t>(r)] + kElements;
      isSum = isSum && vector(out, out + kElements) == vector<int32_t>(kElements, 6);
      isNext = isNext && vector(out, out + kElements) == vector<int32_t>(kElements, (r + 1) % 4);
    }
    return isSum ? "read" : isNext ? "staged" : "neither";
  }

  World world;
  vector<void*> programs;
  vector<int32_t*> own;
  vector<vector<int32_t>> plain;
  uint64_t number = 0;
};

// As often as it changes from call to call, and where calls are repeated.
TEST_P(EngineStaged, OnePlainBufferIsEnough) {
  const std::string otherwise = GetParam() == 1 ? "read" : "staged";
  for (int turn = 0; turn < 30; turn++) {
    EXPECT_EQ(call({}), "read") << turn;
    EXPECT_EQ(call({turn % 4}), otherwise) << turn;
    EXPECT_EQ(call({turn % 4}), otherwise) << turn;
    EXPECT_EQ(call({0, 1, 2, 3}), otherwise) << turn;
    EXPECT_EQ(call({}), "read") << turn;
    EXPECT_EQ(call({}), "read") << turn;
  }
}

TEST_P(EngineStaged, RanksThatDoNotCallAreNamed) {
  WorldOptions some = options(GetParam());
  some.timeoutMs = 300;
  World late(some);
  for (int r = 0; r < 3; r++) {
    ProgramBuilder first = reading(r), second = staging(r);
    void* loaded = nullptr;
    ASSERT_EQ(emu().programLoad(late.comm(r), first.build(), second.build(), &loaded), ncclSuccess);
    auto& buffer = plain[static_cast<size_t>(r)];
    const Call call{{{buffer.data(), kBytes}}, {{buffer.data() + kElements, kBytes}}, 1, 1};
    ASSERT_EQ(launch(late.comm(r), loaded, call, late.stream(r)), ncclSuccess);
  }
  EXPECT_THAT(late.sync(1), HasSubstr("rank 3"));
}

TEST_P(EngineStaged, ItUsesNoBuffersOfOthers) {
  ProgramBuilder first = reading(0), second = reading(0);
  void* loaded = nullptr;
  EXPECT_EQ(emu().programLoad(world.comm(0), first.build(), second.build(), &loaded),
            ncclInvalidArgument);
  EXPECT_THAT(emu().lastError(), HasSubstr("it uses those of other ranks"));
}

TEST_P(EngineStaged, ItsBuffersAreCheckedToo) {
  ProgramBuilder first = reading(0);
  ProgramBuilder second(0, 4);
  second.transfer({input(0, 8)}, {output(0)}, kBytes);
  void* loaded = nullptr;
  ASSERT_EQ(emu().programLoad(world.comm(0), first.build(), second.build(), &loaded), ncclSuccess);
  const Call call{{{own[0], kBytes}}, {{own[0] + kElements, kBytes}}, 1, 1};
  EXPECT_EQ(launch(world.comm(0), loaded, call, world.stream(0)), ncclInvalidArgument);
  EXPECT_THAT(emu().lastError(), HasSubstr("has 400 bytes: the program uses 408"));
}

INSTANTIATE_TEST_SUITE_P(Processes, EngineStaged, testing::Values(1, 2, 4));

}  // namespace
}  // namespace nccom::emu
