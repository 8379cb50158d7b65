// Processes that die, lag, or disagree: everybody else hears who, in bounded time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>

#include "test/unit/system/ranks.h"

namespace nccom::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

/// All-reduces without end, on device memory; prints "traffic" once the first have completed.
int trafficForEver(int rank, int nRanks, const ncclUniqueId& id, size_t count) {
  ncclComm_t comm = nullptr;
  void* buffer = nullptr;
  MUST(nccomSetDevice(rank));
  MUST(ncclCommInitRank(&comm, nRanks, id, rank));
  MUST(ncclMemAlloc(&buffer, count * sizeof(float)));
  for (int i = 0;; ++i) {
    MUST(ncclAllReduce(buffer, buffer, count, ncclFloat, ncclSum, comm, nullptr));
    MUST(nccomStreamSynchronize(nullptr));
    if (i == 3) {
      puts("traffic");
      fflush(stdout);
    }
  }
}

void killOneOf(int nRanks, int victim, const Env& env) {
  const auto shmBefore = shmNames();
  Ranks ranks(nRanks, env, [&](int rank, const ncclUniqueId& id) {
    return trafficForEver(rank, nRanks, id, 1 << 18);
  });
  for (int rank = 0; rank < nRanks; ++rank) {
    ASSERT_TRUE(ranks.waitFor(rank, "traffic", 60)) << "rank " << rank;
  }
  usleep(50000);
  ranks.kill(victim, SIGKILL);
  const auto outcomes = ranks.wait(20);
  for (int rank = 0; rank < nRanks; ++rank) {
    if (rank == victim) continue;
    SCOPED_TRACE("rank " + std::to_string(rank) + ": " + outcomes[rank].output);
    EXPECT_EQ(outcomes[rank].status, kFailedStatus);
    EXPECT_THAT(outcomes[rank].output, HasSubstr("rank " + std::to_string(victim)));
    EXPECT_LT(outcomes[rank].seconds, 10);
  }
  EXPECT_EQ(shmNames(), shmBefore);
}

TEST(KillNine, SurvivorsNameTheLostRank) {
  for (const int victim : {0, 2}) {
    SCOPED_TRACE(victim);
    killOneOf(4, victim, {});
  }
}

TEST(KillNine, SurvivorsOnAnotherVirtualHostNameTheLostRank) {
  killOneOf(4, 1, {{"NCCL_HOSTID", kHalves}});
}

TEST(Deadline, ARankThatNeverCallsIsNamed) {
  Ranks ranks(3, {{"NCCOM_TIMEOUT", "2"}}, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    void* buffer = nullptr;
    MUST(nccomSetDevice(rank));
    MUST(ncclCommInitRank(&comm, 3, id, rank));
    MUST(ncclMemAlloc(&buffer, 4096));
    if (rank == 1) {
      sleep(30);
      return 0;
    }
    MUST(ncclAllReduce(buffer, buffer, 1024, ncclFloat, ncclSum, comm, nullptr));
    MUST(nccomStreamSynchronize(nullptr));
    return 0;
  });
  const auto outcomes = ranks.wait(15);
  for (const int rank : {0, 2}) {
    SCOPED_TRACE(outcomes[rank].output);
    EXPECT_EQ(outcomes[rank].status, kFailedStatus);
    EXPECT_THAT(outcomes[rank].output, HasSubstr("rank 1"));
    EXPECT_LT(outcomes[rank].seconds, 12);
  }
}

// What one rank of a process cannot do ends the waits of the others at once, with its reason. So
// does a root, or a rank's own door, that can accept no more.
TEST(Limits, OutOfDescriptorsIsSaidSoonAndByName) {
  constexpr rlim_t kPerhapsEnough = 310;  // for 64 ranks of one process
  for (const rlim_t limit : {40, 80, 160, 180, 200, 220, 260, 300, 315, 319, 323}) {
    Ranks ranks(1, {}, [&](int, const ncclUniqueId&) {
      const rlimit few{limit, limit};
      if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
      std::vector<ncclComm_t> comms(64);
      MUST(ncclCommInitAll(comms.data(), 64, nullptr));
      return 0;
    });
    const Outcome outcome = ranks.wait(60)[0];
    SCOPED_TRACE(std::to_string(limit) + ": " + outcome.output);
    EXPECT_LT(outcome.seconds, 20);
    if (outcome.status == 0 && limit > kPerhapsEnough) continue;
    EXPECT_EQ(outcome.status, kFailedStatus);
    EXPECT_THAT(outcome.output, HasSubstr("Too many open files"));
  }
}

TEST(Mismatch, DifferentCountsAreNamedOnBothSides) {
  Ranks ranks(2, {{"NCCOM_TIMEOUT", "10"}}, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    void* buffer = nullptr;
    MUST(nccomSetDevice(rank));
    MUST(ncclCommInitRank(&comm, 2, id, rank));
    MUST(ncclMemAlloc(&buffer, 1 << 20));
    MUST(ncclAllReduce(buffer, buffer, rank == 0 ? 1000 : 1001, ncclFloat, ncclSum, comm, nullptr));
    MUST(nccomStreamSynchronize(nullptr));
    return 0;
  });
  const auto outcomes = ranks.wait(30);
  for (const Outcome& outcome : outcomes) {
    SCOPED_TRACE(outcome.output);
    EXPECT_EQ(outcome.status, kFailedStatus);
    EXPECT_THAT(outcome.output, HasSubstr("1000"));
    EXPECT_THAT(outcome.output, HasSubstr("1001"));
    EXPECT_LT(outcome.seconds, 9);
  }
}

TEST(Mismatch, DifferentCallsOnTwoVirtualHostsAreNamedLongBeforeTheDeadline) {
  Ranks ranks(4, {{"NCCOM_TIMEOUT", "60"}, {"NCCL_HOSTID", kHalves}},
              [](int rank, const ncclUniqueId& id) {
                ncclComm_t comm = nullptr;
                void* buffer = nullptr;
                MUST(nccomSetDevice(rank));
                MUST(ncclCommInitRank(&comm, 4, id, rank));
                MUST(ncclMemAlloc(&buffer, 4096));
                MUST(ncclAllReduce(buffer, buffer, 100, ncclFloat, ncclSum, comm, nullptr));
                MUST(ncclAllReduce(buffer, buffer, 100, ncclFloat, rank < 2 ? ncclSum : ncclMax,
                                   comm, nullptr));
                MUST(nccomStreamSynchronize(nullptr));
                return 0;
              });
  for (const Outcome& outcome : ranks.wait(30)) {
    SCOPED_TRACE(outcome.output);
    EXPECT_EQ(outcome.status, kFailedStatus);
    EXPECT_THAT(outcome.output, HasSubstr("called AllReduce count 100 float sum"));
    EXPECT_THAT(outcome.output, HasSubstr("called AllReduce count 100 float max"));
    EXPECT_LT(outcome.seconds, 20);
  }
}

TEST(Messages, GroupsOfOneSideNeedNotBeGroupsOfTheOther) {
  Ranks ranks(2, {}, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    int* buffer = nullptr;
    MUST(nccomSetDevice(rank));
    MUST(ncclCommInitRank(&comm, 2, id, rank));
    MUST(ncclMemAlloc(reinterpret_cast<void**>(&buffer), 4096));
    if (rank == 0) {
      buffer[0] = 11;
      buffer[1] = 22;
      MUST(ncclGroupStart());
      MUST(ncclSend(buffer, 1, ncclInt, 1, comm, nullptr));
      MUST(ncclSend(buffer + 1, 1, ncclInt, 1, comm, nullptr));
      MUST(ncclGroupEnd());
      MUST(nccomStreamSynchronize(nullptr));
      MUST(ncclCommDestroy(comm));
      return 0;
    }
    MUST(ncclRecv(buffer, 1, ncclInt, 0, comm, nullptr));
    MUST(ncclRecv(buffer + 1, 1, ncclInt, 0, comm, nullptr));
    MUST(nccomStreamSynchronize(nullptr));
    MUST(ncclCommDestroy(comm));
    return buffer[0] == 11 && buffer[1] == 22 ? 0 : 1;
  });
  for (const Outcome& outcome : ranks.wait(30))
    EXPECT_EQ(outcome.status, 0) << outcome.output;
}

/// Two ranks send each other `kRounds` messages of each size, in both directions.
int talk(int rank, const ncclUniqueId& id) {
  constexpr int kRounds = 200;
  constexpr size_t kMost = 1000;
  ncclComm_t comm = nullptr;
  int *sent = nullptr, *got = nullptr;
  MUST(nccomSetDevice(rank));
  MUST(ncclCommInitRank(&comm, 2, id, rank));
  MUST(ncclMemAlloc(reinterpret_cast<void**>(&sent), kMost * sizeof(int)));
  MUST(ncclMemAlloc(reinterpret_cast<void**>(&got), kMost * sizeof(int)));
  for (int round = 0; round < kRounds; ++round) {
    for (const size_t count : {size_t{2}, size_t{128}, size_t{129}, kMost}) {
      std::iota(sent, sent + count, 1000 * round + rank);
      const bool grouped = round % 2 == 1;
      if (grouped) MUST(ncclGroupStart());
      for (const bool sends : {rank == 0, rank != 0}) {
        if (sends) MUST(ncclSend(sent, count, ncclInt, 1 - rank, comm, nullptr));
        if (!sends) MUST(ncclRecv(got, count, ncclInt, 1 - rank, comm, nullptr));
        if (!grouped) MUST(nccomStreamSynchronize(nullptr));
      }
      if (grouped) MUST(ncclGroupEnd());
      MUST(nccomStreamSynchronize(nullptr));
      for (size_t i = 0; i < count; ++i) {
        if (got[i] != 1000 * round + 1 - rank + static_cast<int>(i)) return 1;
      }
    }
  }
  MUST(ncclCommDestroy(comm));
  return 0;
}

TEST(Messages, OfAllSizesGoBackAndForthBetweenProcesses) {
  Ranks ranks(2, {}, talk);
  for (const Outcome& outcome : ranks.wait(60))
    EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Messages, AReceiveEndsWithTheDeathOfItsSender) {
  Ranks ranks(2, {}, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    int* buffer = nullptr;
    MUST(nccomSetDevice(rank));
    MUST(ncclCommInitRank(&comm, 2, id, rank));
    MUST(ncclMemAlloc(reinterpret_cast<void**>(&buffer), 4096));
    if (rank == 0) {
      usleep(50000);
      raise(SIGKILL);
    }
    MUST(ncclRecv(buffer, 2, ncclInt, 0, comm, nullptr));
    MUST(nccomStreamSynchronize(nullptr));
    return 0;
  });
  const Outcome outcome = ranks.wait(20)[1];
  EXPECT_EQ(outcome.status, kFailedStatus);
  EXPECT_THAT(outcome.output, HasSubstr("rank 0"));
  EXPECT_LT(outcome.seconds, 10);
}

TEST(NullStream, IsTheCommunicatorsDevices) {
  Ranks ranks(1, {{"NCCOM_TIMEOUT", "5"}}, [](int, const ncclUniqueId&) {
    constexpr int kRanks = 3;
    ncclComm_t comms[kRanks];
    int* buffers[kRanks];
    MUST(ncclCommInitAll(comms, kRanks, nullptr));
    for (int r = 0; r < kRanks; ++r) {
      MUST(ncclMemAlloc(reinterpret_cast<void**>(&buffers[r]), 4096));
      buffers[r][0] = r + 1;
    }
    // The thread's device stays 0 all the time, and nothing is grouped.
    for (int r = 0; r < kRanks; ++r) {
      MUST(ncclAllReduce(buffers[r], buffers[r], 1, ncclInt, ncclSum, comms[r], nullptr));
    }
    MUST(nccomStreamSynchronize(nullptr));
    int wrong = 0;
    for (int r = 0; r < kRanks; ++r) {
      wrong += buffers[r][0] != 6;
      MUST(ncclCommDestroy(comms[r]));
    }
    return wrong;
  });
  for (const Outcome& outcome : ranks.wait(30))
    EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Fork, OfAProcessWithADeviceHarmsNeitherSide) {
  Ranks ranks(1, {}, [](int, const ncclUniqueId&) {
    ncclComm_t comm = nullptr;
    int* buffer = nullptr;
    MUST(ncclCommInitAll(&comm, 1, nullptr));
    MUST(ncclMemAlloc(reinterpret_cast<void**>(&buffer), 4096));
    const pid_t child = fork();
    if (child == 0) {
      ncclResult_t asyncError = ncclSuccess;
      const bool refused = ncclCommGetAsyncError(comm, &asyncError) == ncclInvalidUsage &&
                           ncclCommDestroy(comm) == ncclInvalidUsage;
      _exit(refused ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    MUST(ncclAllReduce(buffer, buffer, 1, ncclInt, ncclSum, comm, nullptr));
    MUST(nccomStreamSynchronize(nullptr));
    MUST(ncclCommDestroy(comm));
    return status;
  });
  for (const Outcome& outcome : ranks.wait(30))
    EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Buffers, BeyondTheirDeviceMemoryAreErrorsAndTheCommunicatorLivesOn) {
  Ranks ranks(1, {}, [](int, const ncclUniqueId&) {
    ncclComm_t comm = nullptr;
    float* buffer = nullptr;
    MUST(ncclCommInitAll(&comm, 1, nullptr));
    MUST(ncclMemAlloc(reinterpret_cast<void**>(&buffer), 4096));
    float* out = nullptr;
    MUST(ncclMemAlloc(reinterpret_cast<void**>(&out), 4096));
    const auto reduce = [&](size_t count) {
      return ncclAllReduce(buffer, out, count, ncclFloat, ncclSum, comm, nullptr);
    };
    if (reduce(4096) != ncclInvalidArgument) return 1;
    MUST(reduce(1024));
    MUST(nccomStreamSynchronize(nullptr));
    MUST(ncclMemFree(out));
    if (reduce(1024) != ncclInvalidArgument) return 2;
    MUST(ncclCommDestroy(comm));
    return 0;
  });
  for (const Outcome& outcome : ranks.wait(30))
    EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Events, ThatWereDestroyedAreErrors) {
  Ranks ranks(1, {}, [](int, const ncclUniqueId&) {
    nccomEvent_t event = nullptr;
    MUST(nccomEventCreate(&event));
    MUST(nccomEventDestroy(event));
    const bool refused = nccomEventDestroy(event) == ncclInvalidArgument &&
                         nccomEventRecord(event, nullptr) == ncclInvalidArgument &&
                         nccomEventQuery(event) == ncclInvalidArgument;
    return refused ? 0 : 1;
  });
  for (const Outcome& outcome : ranks.wait(30))
    EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(Init, TwoRanksOnOneDeviceAreBothNamed) {
  Ranks ranks(2, {}, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    MUST(nccomSetDevice(5));
    MUST(ncclCommInitRank(&comm, 2, id, rank));
    return 0;
  });
  for (const Outcome& outcome : ranks.wait(30)) {
    SCOPED_TRACE(outcome.output);
    EXPECT_EQ(outcome.status, kFailedStatus);
    EXPECT_THAT(outcome.output, HasSubstr("rank 0"));
    EXPECT_THAT(outcome.output, HasSubstr("rank 1"));
    EXPECT_THAT(outcome.output, HasSubstr("device 5"));
  }
}

TEST(Init, AMissingRankIsNamedAtTheDeadline) {
  Ranks ranks(3, {{"NEURON_CCOM_SOCK_TIMEOUT", "2000"}}, [](int rank, const ncclUniqueId& id) {
    if (rank == 2) return 0;
    ncclComm_t comm = nullptr;
    MUST(nccomSetDevice(rank));
    MUST(ncclCommInitRank(&comm, 3, id, rank));
    return 0;
  });
  const auto outcomes = ranks.wait(30);
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(outcomes[rank].output);
    EXPECT_EQ(outcomes[rank].status, kFailedStatus);
    EXPECT_THAT(outcomes[rank].output, HasSubstr("2"));
    EXPECT_LT(outcomes[rank].seconds, 15);
  }
}

TEST(Abort, IsLocalAndBoundedInTheMiddleOfTraffic) {
  Ranks ranks(2, {}, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    void* buffer = nullptr;
    MUST(nccomSetDevice(rank));
    MUST(ncclCommInitRank(&comm, 2, id, rank));
    MUST(ncclMemAlloc(&buffer, 1 << 20));
    if (rank == 0) {
      MUST(ncclAllReduce(buffer, buffer, 1 << 18, ncclFloat, ncclSum, comm, nullptr));
      usleep(100000);
      MUST(ncclCommAbort(comm));
      return 0;
    }
    sleep(3);
    return 0;
  });
  const auto outcomes = ranks.wait(30);
  EXPECT_EQ(outcomes[0].status, 0) << outcomes[0].output;
  EXPECT_LT(outcomes[0].seconds, 2.5);
}

}  // namespace
}  // namespace nccom::test
