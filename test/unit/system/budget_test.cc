// What the library costs besides communication: instructions of a short collective (counted by
// single steps, where that is permitted), processor time of those who have nothing to do.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "test/unit/system/ranks.h"

namespace nccom::test {
namespace {

constexpr int kCalls = 7;     // one less than there are slots: a root runs ahead so far
constexpr int kUntraced = 5;  // exit status
constexpr long kMayNotTrace = -1, kBroken = -2;

// Two ranks of one process, driven by one thread.
class Pair {
 public:
  Pair() {
    MUST(ncclCommInitAll(comms_, 2, nullptr));
    for (int rank = 0; rank < 2; rank++) {
      MUST(nccomSetDevice(rank));
      MUST(nccomStreamCreate(&streams_[rank]));
      MUST(ncclMemAlloc(&buffers_[rank], 64));
    }
  }
  void broadcast(int rank) {
    MUST(ncclBroadcast(buffers_[rank], buffers_[rank], 2, ncclFloat, 0, comms_[rank],
                       streams_[rank]));
    MUST(nccomStreamSynchronize(streams_[rank]));
  }

 private:
  ncclComm_t comms_[2];
  ncclStream_t streams_[2];
  void* buffers_[2];
};

/// Rank 1 takes what the root has given already, between two stops.
[[noreturn]] void traced() {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kUntraced);
  Pair pair;
  for (int i = 0; i < 50; i++) {
    pair.broadcast(0);
    pair.broadcast(1);
  }
  for (int i = 0; i < kCalls; i++)
    pair.broadcast(0);
  raise(SIGSTOP);
  for (int i = 0; i < kCalls; i++)
    pair.broadcast(1);
  raise(SIGSTOP);
  _exit(0);
}

/// Steps of `pid` from its first stop to its second, or why there are none.
long stepsBetweenStops(pid_t pid) {
  int status = 0;
  long steps = 0;
  if (waitpid(pid, &status, 0) != pid) return kBroken;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kUntraced) return kMayNotTrace;
  if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP) return kBroken;
  do {
    if (ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) != 0) return kMayNotTrace;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return kBroken;
    steps++;
  } while (WSTOPSIG(status) == SIGTRAP);
  return steps;
}

int count(int /*rank*/, const ncclUniqueId& /*id*/) {
  const pid_t pid = fork();
  if (pid == 0) traced();
  const long steps = stepsBetweenStops(pid);
  kill(pid, SIGKILL);
  printf("instructions %ld\n", steps < 0 ? steps : steps / kCalls);
  fflush(stdout);
  return 0;
}

TEST(Budget, OfABroadcastOfEightBytesThatNeedNotWait) {
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "not what users run";
#endif
  Ranks ranks(1, {{"NCCOM_PLATFORM", "host"}}, count);
  const Outcome outcome = ranks.wait(60)[0];
  ASSERT_FALSE(contains(outcome.output, "FAILED")) << outcome.output;
  long instructions = 0;
  const size_t at = outcome.output.find("instructions ");
  ASSERT_NE(at, std::string::npos) << outcome.output;
  ASSERT_EQ(sscanf(outcome.output.c_str() + at, "instructions %ld", &instructions), 1);
  if (instructions == kMayNotTrace) GTEST_SKIP() << "processes may not be traced here";
  printf("%ld instructions a call\n", instructions);
  EXPECT_LE(instructions, 1950);
  EXPECT_GE(instructions, 300) << "that is no broadcast";
}

// ---- processor time ----

double cpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

constexpr useconds_t kWindow = 1'000'000;  // us

/// One rank of two processes: some calls, then idle for a while; then rank 1 is late.
int idleAndLate(int rank, const ncclUniqueId& id) {
  ncclComm_t comm = nullptr;
  ncclStream_t stream = nullptr;
  void* buffer = nullptr;
  MUST(nccomSetDevice(rank));
  MUST(ncclCommInitRank(&comm, 2, id, rank));
  MUST(nccomStreamCreate(&stream));
  MUST(ncclMemAlloc(&buffer, 1 << 20));
  const auto call = [&](size_t count) {
    MUST(ncclAllReduce(buffer, buffer, count, ncclFloat, ncclSum, comm, stream));
    MUST(nccomStreamSynchronize(stream));
  };
  for (const size_t count : {size_t{2}, size_t{1} << 18}) {
    for (int i = 0; i < 20; i++)
      call(count);
    const double before = cpuSeconds();
    usleep(kWindow);
    printf("idle %.4f\n", cpuSeconds() - before);
    call(count);
    const double early = cpuSeconds();
    if (rank == 1) usleep(kWindow);
    call(count);
    printf("waiting %.4f\n", cpuSeconds() - early);
  }
  MUST(ncclCommDestroy(comm));
  return 0;
}

/// The figures behind `word`, in their order.
std::vector<double> figures(const std::string& output, const std::string& word) {
  std::vector<double> found;
  for (size_t at = output.find(word); at != std::string::npos; at = output.find(word, at + 1))
    found.push_back(std::atof(output.c_str() + at + word.size()));
  return found;
}

TEST(Budget, ProcessorTimeOfWhoIsIdleOrWaitsForALateRank) {
  for (const char* platform : {"host", "trn2.48xlarge"}) {
    Ranks ranks(2, {{"NCCOM_PLATFORM", platform}}, idleAndLate);
    for (const Outcome& outcome : ranks.wait(60)) {
      printf("%s: %s", platform, outcome.output.c_str());
      ASSERT_EQ(outcome.status, 0) << outcome.output;
      ASSERT_EQ(figures(outcome.output, "idle ").size(), 2U) << outcome.output;
      for (const double seconds : figures(outcome.output, "idle "))
        EXPECT_LT(seconds, 0.01) << platform << ": of 1 s";
      // A tenth of a second to wait actively, and then two hundredths of the time.
      for (const double seconds : figures(outcome.output, "waiting "))
        EXPECT_LT(seconds, 0.1 + 0.02 * 0.9) << platform << ": of 1 s";
    }
  }
}

}  // namespace
}  // namespace nccom::test
