// Real processes: progress when they are many, death, foreign memory, fork.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "engine_world.h"
#include "forked.h"
#include "plugins/device_emu/cores.h"

namespace nccom::emu {
namespace {

using std::vector;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr int kMaxRanks = 64;
constexpr auto kPatience = std::chrono::seconds(30);

// What the processes of a test share, in place of a bootstrap.
struct Shared {
  nccomDeviceHandle_v1 handles[kMaxRanks];
  std::atomic<int> exported, connected, done;
  std::atomic<int> step, victim;  // the test's own

  static std::shared_ptr<Shared> make() {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return {new (memory) Shared{}, [](Shared* shared) { munmap(shared, sizeof(Shared)); }};
  }
};

bool await(const std::atomic<int>& counter, int value) {
  const auto until = steady_clock::now() + kPatience;
  while (counter.load() < value) {
    if (steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// The ranks [first, first + n) in this process.
class Ranks {
 public:
  Ranks(Shared& shared, const WorldOptions& options, int firstRank, int n)
      : first_(firstRank), options_(options) {
    const nccomDeviceConfig_v1 config = deviceConfig(options);
    ok_ = emu().init(&config, &context_) == ncclSuccess;
    for (int i = 0; i < n && ok_; i++) {
      const nccomDeviceCommConfig_v1 rankConfig = commConfig(options, firstRank + i);
      void *comm = nullptr, *stream = nullptr;
      ok_ = emu().commCreate(context_, &rankConfig, &comm) == ncclSuccess &&
            emu().streamCreate(context_, firstRank + i, &stream) == ncclSuccess &&
            emu().commExport(comm, &shared.handles[firstRank + i]) == ncclSuccess;
      comms_.push_back(comm);
      streams_.push_back(stream);
    }
    shared.exported.fetch_add(n);
    if (!ok_ || !await(shared.exported, options.nRanks)) return;
    const vector<int32_t> sameHost(static_cast<size_t>(options.nRanks), 1);
    for (void* comm : comms_) {
      connected_ = emu().commConnect(comm, shared.handles, sameHost.data(), 20'000);
      if (connected_ != ncclSuccess) error_ = emu().lastError();
      ok_ = ok_ && connected_ == ncclSuccess;
    }
    shared.connected.fetch_add(n);
    ok_ = ok_ && await(shared.connected, options.nRanks);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() {
    for (void* comm : comms_)
      (void)emu().commDestroy(comm);
    (void)emu().finalize(context_);
  }

  bool ok() const { return ok_; }
  const std::string& error() const { return error_; }
  int first() const { return first_; }
  int n() const { return static_cast<int>(comms_.size()); }
  void* comm(int i) const { return comms_[i]; }
  void* stream(int i) const { return streams_[i]; }
  void* context() const { return context_; }

  void* load(int i, ProgramBuilder program) const {
    void* loaded = nullptr;
    return emu().programLoad(comms_[i], program.build(), nullptr, &loaded) == ncclSuccess ? loaded
                                                                                          : nullptr;
  }
  std::string sync(int i) const {
    const ncclResult_t code = emu().streamSynchronize(context_, streams_[i]);
    return code == ncclSuccess ? "" : emu().lastError();
  }

  /// All-reduces of one element a rank, `ops` of them, checked.
  bool allReduce(uint64_t first, uint64_t ops) const {
    const auto nRanks = static_cast<size_t>(options_.nRanks);
    vector<vector<int32_t>> in(comms_.size(), vector<int32_t>(nRanks)), out = in;
    vector<void*> programs;
    for (int i = 0; i < n(); i++)
      programs.push_back(load(i, ringAllReduce(first_ + i, options_.nRanks, 1, 1)));
    for (uint64_t op = first; op < first + ops; op++) {
      for (int i = 0; i < n(); i++) {
        in[i].assign(nRanks, static_cast<int32_t>(op) + first_ + i);
        if (launch(comms_[i], programs[i], {{bind(in[i])}, {bind(out[i])}, op, op}, streams_[i]) !=
            ncclSuccess) {
          return false;
        }
      }
      const auto size = static_cast<int32_t>(nRanks);
      const vector<int32_t> expected(nRanks,
                                     size * static_cast<int32_t>(op) + size * (size - 1) / 2);
      for (int i = 0; i < n(); i++) {
        if (!sync(i).empty() || out[i] != expected) return false;
      }
    }
    return true;
  }

 private:
  int first_;
  WorldOptions options_;
  void* context_ = nullptr;
  vector<void*> comms_, streams_;
  bool ok_ = false;
  ncclResult_t connected_ = ncclSuccess;
  std::string error_;
};

/// Runs `body(ranks)` in `nProcesses` children.
template <class Body>
void inProcesses(const WorldOptions& options, int nProcesses, Shared& shared, Body body) {
  vector<std::unique_ptr<Child>> children;
  const int perProcess = options.nRanks / nProcesses;
  for (int p = 0; p < nProcesses; p++) {
    children.push_back(std::make_unique<Child>([&, p] {
      const Ranks ranks(shared, options, p * perProcess, perProcess);
      if (!ranks.ok()) fprintf(stderr, "%s\n", emu().lastError());
      return ranks.ok() && body(ranks);
    }));
  }
  for (int p = 0; p < nProcesses; p++)
    EXPECT_TRUE(children[p]->succeeded()) << "process " << p;
}

TEST(EngineProcesses, ManyRanksOfManyProcessesMakeProgress) {
  for (const int threads : {-1, 0}) {
    const auto shared = Shared::make();
    WorldOptions options;
    options.nRanks = 32;
    options.engineThreads = threads;
    inProcesses(options, 4, *shared, [](const Ranks& ranks) { return ranks.allReduce(1, 50); });
  }
}

/// Traffic without end, until it fails; what is said then.
std::string allReduceForEver(const Ranks& ranks, int nRanks) {
  void* program = ranks.load(0, ringAllReduce(ranks.first(), nRanks, 1, 1));
  vector<int32_t> in(static_cast<size_t>(nRanks)), out(in);
  for (uint64_t op = 1;; op++) {
    if (launch(ranks.comm(0), program, {{bind(in)}, {bind(out)}, op, op}, ranks.stream(0)) !=
        ncclSuccess) {
      return emu().lastError();
    }
    if (std::string text = ranks.sync(0); !text.empty()) return text;
  }
}

/// Four processes, each of which says at the end of its traffic whether the text is what it
/// expects; rank 2 is to be the victim, and traffic is under way.
template <class Expects>
vector<std::unique_ptr<Child>> inTraffic(Shared& shared, const WorldOptions& options,
                                         Expects expects) {
  vector<std::unique_ptr<Child>> children;
  for (int r = 0; r < 4; r++) {
    children.push_back(std::make_unique<Child>([&shared, options, expects, r] {
      const Ranks ranks(shared, options, r, 1);
      if (!ranks.ok()) return false;
      shared.step.fetch_add(1);
      const std::string text = allReduceForEver(ranks, 4);
      shared.done.fetch_add(1);
      if (expects(text, "pid " + std::to_string(shared.victim.load()))) return true;
      fprintf(stderr, "%s\n", text.c_str());
      return false;
    }));
  }
  shared.victim.store(children[2]->pid());
  EXPECT_TRUE(await(shared.step, 4));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return children;
}

TEST(EngineProcesses, AStoppedProcessIsNamedByThoseWhoWaitInVain) {
  const auto shared = Shared::make();
  WorldOptions options;
  options.nRanks = 4;
  options.timeoutMs = 500;
  const auto children =
      inTraffic(*shared, options, [](const std::string& text, const std::string& who) {
        return text.find("; " + who + " (rank 2) is stopped") != std::string::npos;
      });
  children[2]->signal(SIGSTOP);
  ASSERT_TRUE(await(shared->done, 3));
  for (const int r : {0, 1, 3})
    EXPECT_TRUE(children[r]->succeeded()) << "rank " << r;
  children[2]->signal(SIGKILL);
}

TEST(EngineProcesses, AKilledProcessIsNamedWithinASecond) {
  const auto shared = Shared::make();
  WorldOptions options;
  options.nRanks = 4;
  const auto children =
      inTraffic(*shared, options, [](const std::string& text, const std::string& who) {
        return text == "rank 2 (" + who + ") of this host died";
      });
  children[2]->signal(SIGKILL);
  const auto killed = steady_clock::now();
  ASSERT_TRUE(await(shared->done, 3));
  EXPECT_LT(steady_clock::now() - killed, std::chrono::seconds(1));
  for (const int r : {0, 1, 3})
    EXPECT_TRUE(children[r]->succeeded()) << "rank " << r;
  EXPECT_FALSE(children[2]->succeeded());
}

TEST(EngineProcesses, ForeignMemoryIsReachedWithAndWithoutCrossMemoryAttach) {
  for (const int cma : {1, 0}) {
    const auto shared = Shared::make();
    WorldOptions options;
    options.nRanks = 2;
    options.cma = cma;
    inProcesses(options, 2, *shared, [](const Ranks& ranks) {
      constexpr size_t kElements = 200'000;
      const int r = ranks.first();
      vector<int32_t> in(kElements, r + 1), out(kElements);
      ProgramBuilder program(r, 2);
      program.transfer({input(0), input(1)}, {output(r)}, kElements * 4)
          .inc(1 - r, 0)
          .wait(1 - r, 0, 1)
          .total(0, 1)
          .peersTouch(true, false);
      const Call call{{bind(in)}, {bind(out)}};
      return launch(ranks.comm(0), ranks.load(0, program), call, ranks.stream(0)) == ncclSuccess &&
             ranks.sync(0).empty() && out == vector<int32_t>(kElements, 3);
    });
  }
}

// Ranks that are bound to cores of their own wait actively however many they are.
TEST(EngineProcesses, OnlyThoseThatShareACoreCompeteForIt) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE && cores.size() < 2; core++) {
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  }
  if (cores.size() < 2) GTEST_SKIP() << "one core";
  const auto bindTo = [](int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
  };
  const auto shared = Shared::make();
  Child other([&] {
    if (!bindTo(cores[1])) return false;
    shared->step.store(1);
    return await(shared->done, 1);
  });
  ASSERT_TRUE(await(shared->step, 1));
  std::thread([&] {
    EXPECT_TRUE(sharesCores(other.pid()));
    ASSERT_TRUE(bindTo(cores[0]));
    EXPECT_FALSE(sharesCores(other.pid()));
    ASSERT_TRUE(bindTo(cores[1]));
    EXPECT_TRUE(sharesCores(other.pid()));
    EXPECT_TRUE(sharesCores(0)) << "it cannot be told";
  }).join();
  shared->done.store(1);
  EXPECT_TRUE(other.succeeded());
}

TEST(EngineProcesses, OneThatFinalizesInOrderIsNotAnError) {
  const auto shared = Shared::make();
  WorldOptions options;
  options.nRanks = 2;
  inProcesses(options, 2, *shared, [&](const Ranks& ranks) {
    if (!ranks.allReduce(1, 3)) return false;
    if (ranks.first() == 0) {
      shared->done.fetch_add(1);
      return true;
    }
    if (!await(shared->done, 1)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ncclResult_t code = ncclSystemError;
    return emu().commError(ranks.comm(0), &code, nullptr) == ncclSuccess && code == ncclSuccess;
  });
}

#ifndef __SANITIZE_THREAD__  // which does not follow a process with threads through fork()
TEST(EngineProcesses, AForkedChildIsToldToInitialiseItsOwn) {
  World world({});
  Child child([&] {
    void* stream = nullptr;
    const bool refused =
        emu().streamCreate(world.context(0), 0, &stream) == ncclInvalidUsage &&
        std::string(emu().lastError()).find("forked") != std::string::npos &&
        emu().streamSynchronize(world.context(0), world.stream(0)) == ncclInvalidUsage &&
        emu().commDestroy(world.comm(0)) == ncclInvalidUsage &&
        emu().finalize(world.context(0)) == ncclInvalidUsage;
    const nccomDeviceConfig_v1 config = deviceConfig({});
    void* own = nullptr;
    return refused && emu().init(&config, &own) == ncclSuccess &&
           emu().finalize(own) == ncclSuccess;
  });
  EXPECT_TRUE(child.succeeded());
}
#endif

}  // namespace
}  // namespace nccom::emu
