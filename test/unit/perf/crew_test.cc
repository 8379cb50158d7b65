#include "test/perf/crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace nccom::perf {
namespace {

// Process 0 of two; the other one always contributes 10.
class TwoProcesses final : public Processes {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void barrier() override { barriers++; }
  void broadcast(void* /*data*/, size_t /*bytes*/) override {}
  std::vector<std::string> allGather(const std::string& text) override { return {text, text}; }
  double combine(double value, Combine how) override {
    if (how == Combine::Sum) return value + 10;
    return how == Combine::Min ? std::min(value, 10.0) : std::max(value, 10.0);
  }
  [[noreturn]] void abort(int status) override { std::_Exit(status); }

  int barriers = 0;
};

// Runs work(thread) in several threads.
template <class Work>
void inThreads(int threads, Work work) {
  std::vector<std::jthread> all;
  for (int thread = 0; thread < threads; thread++)
    all.emplace_back([=] { work(thread); });
}

TEST(Crew, BarrierHoldsUntilAllHaveCome) {
  constexpr int kThreads = 5;
  TwoProcesses processes;
  Crew crew(kThreads, processes);
  std::atomic<int> arrived = 0;
  std::atomic<int> early = 0;
  inThreads(kThreads, [&](int /*thread*/) {
    for (int round = 1; round <= 200; round++) {
      arrived++;
      crew.barrier();
      if (arrived < round * kThreads) early++;
      crew.barrier();
    }
  });
  EXPECT_EQ(early, 0);
  EXPECT_EQ(processes.barriers, 400);
}

TEST(Crew, EveryThreadGetsTheSumOverThreadsAndProcesses) {
  TwoProcesses processes;
  Crew crew(4, processes);
  std::atomic<int> wrong = 0;
  inThreads(4, [&](int thread) {
    for (int round = 0; round < 200; round++) {
      if (crew.sum(thread + round) != 6 + 4 * round + 10) wrong++;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Crew, AveragesAsAsked) {
  TwoProcesses processes;
  Crew crew(3, processes);
  std::atomic<int> wrong = 0;
  inThreads(3, [&](int thread) {
    const double mine = 9 + thread;  // 9, 10, 11
    if (crew.average(mine, Average::Mean, thread) != 40.0 / 6) wrong++;
    if (crew.average(mine, Average::Min, thread) != 9) wrong++;
    if (crew.average(mine, Average::Max, thread) != 11) wrong++;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Crew, Rank0IsTheFirstThreadOfTheFirstProcess) {
  OneProcess alone;
  Crew crew(3, alone);
  std::atomic<int> wrong = 0;
  inThreads(3, [&](int thread) {
    if (crew.average(thread == 0 ? 5 : 100, Average::Rank0, thread) != 5) wrong++;
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace nccom::perf
