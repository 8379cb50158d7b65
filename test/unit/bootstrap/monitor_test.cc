#include "comm/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <condition_variable>
#include <optional>

#include "test/unit/bootstrap/ranks.h"

namespace nccom {
namespace {

using testing::HasSubstr;

/// A fault that another thread waits for.
class Heard {
 public:
  void operator()(const Fault& fault) {
    const std::lock_guard lock(mutex_);
    faults_.push_back(fault);
    came_.notify_all();
  }
  std::optional<Fault> wait(std::chrono::milliseconds patience = std::chrono::milliseconds(5000)) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, patience, [&] { return !faults_.empty(); });
    if (faults_.empty()) return std::nullopt;
    return faults_.front();
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return faults_.size();
  }
  void ask(const Question& question) {
    const std::lock_guard lock(mutex_);
    questions_.push_back(question);
    came_.notify_all();
  }
  std::vector<Question> waitForQuestions(size_t n) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, std::chrono::seconds(5), [&] { return questions_.size() >= n; });
    return questions_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Fault> faults_;
  std::vector<Question> questions_;
};

/// Ranks of which each has a monitor of its own, as if each were a process.
struct Watched {
  explicit Watched(int nRanks, std::chrono::milliseconds grace = Monitor::kGrace)
      : heard(static_cast<size_t>(nRanks)) {
    World world = startWorld(roots, roots.getUniqueId(loopback()).value(), nRanks);
    EXPECT_TRUE(world.ok()) << world.errors();
    for (int rank = 0; rank < nRanks; rank++) {
      monitors.push_back(std::make_unique<Monitor>(grace));
      heard[rank] = std::make_unique<Heard>();
      members.push_back(join(*monitors.back(), *world.ranks[rank], *heard[rank]));
    }
  }
  static uint64_t join(Monitor& monitor, Bootstrap& bootstrap, Heard& heard) {
    return monitor
        .join(
            bootstrap.takeControlRing(), [&heard](const Fault& fault) { heard(fault); },
            [&heard](const Question& question) { heard.ask(question); })
        .value();
  }
  /// As kill -9 of the rank's process would.
  void kill(int rank) { monitors[rank].reset(); }

  BootstrapRoots roots;
  std::vector<std::unique_ptr<Heard>> heard;
  std::vector<std::unique_ptr<Monitor>> monitors;
  std::vector<uint64_t> members;
};

TEST(Monitor, EveryRankHearsOfEachLostOne) {
  for (const int nRanks : {2, 3, 4, 7}) {
    for (int lost = 0; lost < nRanks; lost++) {
      Watched world(nRanks);
      world.kill(lost);
      for (int rank = 0; rank < nRanks; rank++) {
        if (rank == lost) continue;
        const auto fault = world.heard[rank]->wait();
        ASSERT_TRUE(fault) << "rank " << rank << " of " << nRanks;
        EXPECT_EQ(fault->rank, lost);
        EXPECT_EQ(fault->code, ncclRemoteError);
        EXPECT_THAT(fault->text, HasSubstr("rank " + std::to_string(lost) + " (host "));
        EXPECT_THAT(fault->text, HasSubstr("was lost: its connection closed"));
      }
    }
  }
}

TEST(Monitor, AFaultReachesEveryOtherRankOnce) {
  Watched world(6);
  const std::string text(3000, 'x');
  world.monitors[2]->fault(world.members[2], ncclSystemError, text);
  world.monitors[2]->fault(world.members[2], ncclInternalError, "a second one is not news");
  for (const int rank : {0, 1, 3, 4, 5})
    EXPECT_EQ(world.heard[rank]->wait(), (Fault{2, ncclSystemError, text})) << "rank " << rank;
  world.kill(4);  // ends after what it had to pass on
  for (const int rank : {0, 1, 3, 5})
    EXPECT_EQ(world.heard[rank]->count(), 1U) << "rank " << rank;
  EXPECT_EQ(world.heard[2]->count(), 0U) << "it knows";
}

TEST(Monitor, AQuestionReachesEveryOtherRankOnce) {
  for (const int nRanks : {2, 5}) {
    Watched world(nRanks);
    const std::vector<Question> asked{{1, 7, "AllReduce count 5"}, {1, 8, std::string(128, 'x')}};
    for (const Question& question : asked)
      world.monitors[1]->ask(world.members[1], question.collective, question.call);
    for (int rank = 0; rank < nRanks; rank++) {
      if (rank == 1) continue;
      EXPECT_EQ(world.heard[rank]->waitForQuestions(2), asked) << "rank " << rank;
    }
    world.monitors[0]->fault(world.members[0], ncclSystemError, "over");
    EXPECT_EQ(world.heard[1]->wait()->text, "over");
    EXPECT_TRUE(world.heard[1]->waitForQuestions(0).empty()) << "it does not ask itself";
    EXPECT_EQ(world.heard[0]->waitForQuestions(2).size(), 2U);
  }
}

TEST(Monitor, ASuspicionYieldsToTheCause) {
  Watched world(4, std::chrono::hours(1));
  world.monitors[0]->suspect(world.members[0], ncclRemoteError, "its connection to rank 3 broke");
  world.monitors[3]->fault(world.members[3], ncclSystemError, "the cause");
  for (const int rank : {0, 1, 2})
    EXPECT_EQ(world.heard[rank]->wait(), (Fault{3, ncclSystemError, "the cause"})) << rank;
}

TEST(Monitor, ASuspicionWithoutACauseIsTheFaultOfAll) {
  Watched world(4, std::chrono::milliseconds(1));
  world.monitors[0]->suspect(world.members[0], ncclRemoteError, "a connection broke");
  world.monitors[0]->suspect(world.members[0], ncclRemoteError, "a second one is not news");
  for (const int rank : {0, 1, 2, 3})
    EXPECT_EQ(world.heard[rank]->wait(), (Fault{0, ncclRemoteError, "a connection broke"})) << rank;
}

TEST(Monitor, TwoFaultsAtOnceGiveEachRankOne) {
  Watched world(5);
  world.monitors[0]->fault(world.members[0], ncclSystemError, "zero");
  world.monitors[3]->fault(world.members[3], ncclSystemError, "three");
  for (const int rank : {1, 2, 4}) {
    const auto fault = world.heard[rank]->wait();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->text, fault->rank == 0 ? "zero" : "three");
  }
}

TEST(Monitor, LeavingInGoodOrderIsNoFault) {
  Watched world(4);
  for (const int rank : {1, 3}) {
    world.monitors[rank]->leave(world.members[rank]);
    world.kill(rank);  // and then the process ends
  }
  for (const int rank : {0, 2})
    world.monitors[rank]->leave(world.members[rank]);
  world.kill(0);
  world.kill(2);
  for (int rank = 0; rank < 4; rank++)
    EXPECT_EQ(world.heard[rank]->count(), 0U) << "rank " << rank;
}

TEST(Monitor, ARankThatHasLeftPassesFaultsOn) {
  Watched world(5);
  world.monitors[1]->leave(world.members[1]);
  world.monitors[3]->leave(world.members[3]);
  world.monitors[4]->fault(world.members[4], ncclSystemError, "late");
  for (const int rank : {0, 2}) {
    const auto fault = world.heard[rank]->wait();
    ASSERT_TRUE(fault) << "rank " << rank;
    EXPECT_EQ(fault->text, "late");
  }
  EXPECT_EQ(world.heard[1]->count() + world.heard[3]->count(), 0U) << "they have left";
}

TEST(Monitor, AFaultPassesAroundAnEndedProcessThatHadLeft) {
  Watched world(5);
  world.monitors[1]->leave(world.members[1]);
  world.kill(1);
  world.kill(3);
  for (const int rank : {0, 2, 4}) {
    const auto fault = world.heard[rank]->wait();
    ASSERT_TRUE(fault) << "rank " << rank;
    EXPECT_EQ(fault->rank, 3);
  }
}

TEST(Monitor, OneMonitorServesAllCommunicatorsOfItsProcess) {
  BootstrapRoots roots;
  Monitor ours;
  auto other = std::make_unique<Monitor>();
  constexpr int kComms = 10;
  std::vector<std::unique_ptr<Heard>> heard;
  Heard unwanted;
  for (int i = 0; i < kComms; i++) {
    World world = startWorld(roots, roots.getUniqueId(loopback()).value(), 3);
    ASSERT_TRUE(world.ok()) << world.errors();
    for (const int rank : {0, 1}) {
      heard.push_back(std::make_unique<Heard>());
      Watched::join(ours, *world.ranks[rank], *heard.back());
    }
    Watched::join(*other, *world.ranks[2], unwanted);
  }
  other.reset();
  for (const auto& each : heard) {
    const auto fault = each->wait();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->rank, 2);
  }
}

TEST(Monitor, LeavingWaitsForTheCallback) {
  for (int i = 0; i < 50; i++) {
    BootstrapRoots roots;
    World world = startWorld(roots, roots.getUniqueId(loopback()).value(), 2);
    ASSERT_TRUE(world.ok()) << world.errors();
    Monitor first;
    Monitor second;
    auto used = std::make_unique<int>(0);
    const uint64_t a =
        first.join(world.ranks[0]->takeControlRing(), [&](const Fault&) { ++*used; }).value();
    const uint64_t b = second.join(world.ranks[1]->takeControlRing(), [](const Fault&) {}).value();
    std::thread failing([&] { second.fault(b, ncclSystemError, "now"); });
    first.leave(a);
    used.reset();  // a callback after leave() would be a use after free
    failing.join();
  }
}

TEST(Monitor, ACallbackMayLeave) {
  Watched world(2);
  Heard done;
  BootstrapRoots roots;
  World pair = startWorld(roots, roots.getUniqueId(loopback()).value(), 2);
  ASSERT_TRUE(pair.ok()) << pair.errors();
  Monitor first;
  Monitor second;
  std::atomic<uint64_t> id{0};
  id = first
           .join(pair.ranks[0]->takeControlRing(),
                 [&](const Fault& fault) {
                   while (id == 0)
                     std::this_thread::yield();
                   first.leave(id);
                   done(fault);
                 })
           .value();
  const uint64_t b = second.join(pair.ranks[1]->takeControlRing(), [](const Fault&) {}).value();
  second.fault(b, ncclSystemError, "now");
  EXPECT_TRUE(done.wait());
}

TEST(Monitor, ALoneRankHearsNothing) {
  Monitor monitor;
  const uint64_t id = monitor.join(ControlRing(), [](const Fault&) { ADD_FAILURE(); }).value();
  monitor.fault(id, ncclSystemError, "nobody listens");
  monitor.leave(id);
}

/// A process of its own: joins, says so, then dies or waits for the fault. Exit status 0: heard.
[[noreturn]] void beRank(int rank, int nRanks, int idPipe, int readyPipe) {
  ncclUniqueId id;
  if (read(idPipe, &id, sizeof id) != sizeof id) _exit(2);
  BootstrapRoots roots;
  auto made = Bootstrap::init(loopback(), roots, id, rank, nRanks, nullptr);
  if (!made.ok()) _exit(3);
  Monitor monitor;
  Heard heard;
  Watched::join(monitor, *made.value(), heard);
  if (write(readyPipe, "r", 1) != 1) _exit(4);
  const auto fault = heard.wait(std::chrono::milliseconds(20000));
  _exit(fault && fault->rank == 1 ? 0 : 5);
}

TEST(Monitor, AKilledProcessIsHeardOfByAllOthers) {
  constexpr int kRanks = 4;
  int ids[2], ready[2];
  ASSERT_EQ(pipe(ids), 0);
  ASSERT_EQ(pipe(ready), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; rank++) {
    const pid_t child = fork();
    if (child == 0) beRank(rank, kRanks, ids[0], ready[1]);
    children.push_back(child);
  }
  {
    BootstrapRoots roots;  // after the forks: its thread stays here
    const ncclUniqueId id = roots.getUniqueId(loopback()).value();
    for (int rank = 0; rank < kRanks; rank++)
      ASSERT_EQ(write(ids[1], &id, sizeof id), static_cast<ssize_t>(sizeof id));
    char byte = 0;
    for (int rank = 0; rank < kRanks; rank++)
      ASSERT_EQ(read(ready[0], &byte, 1), 1);
  }
  kill(children[1], SIGKILL);
  for (int rank = 0; rank < kRanks; rank++) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    if (rank == 1) {
      EXPECT_TRUE(WIFSIGNALED(status));
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
          << "rank " << rank << ": " << status;
    }
  }
  for (const int fd : {ids[0], ids[1], ready[0], ready[1]})
    close(fd);
}

}  // namespace
}  // namespace nccom
