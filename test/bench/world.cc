#include "test/bench/world.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "test/bench/driver.h"

namespace nccom::bench {
namespace {

int runThreads(int nRanks, const std::function<int(int rank)>& rank) {
  std::atomic<int> status = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < nRanks; ++i) {
    threads.emplace_back([&, i] {
      pin(i, nRanks);
      const int found = rank(i);
      if (found != 0) status = found;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return status;
}

[[noreturn]] void beProcess(int rank, int nRanks, pid_t parent,
                            const std::function<int(int rank)>& run) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  pin(rank, nRanks);
  const int status = run(rank);
  fflush(stdout);
  _exit(status);
}

}  // namespace

void* sharedMemory(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) return memory;
  fprintf(stderr, "no %zu bytes of shared memory\n", bytes);
  exit(1);
}

Meeting& Meeting::make(int nRanks) {
  if (nRanks < 1 || nRanks > kMaxRanks) {
    fprintf(stderr, "--ranks is %d, want 1 to %d\n", nRanks, kMaxRanks);
    exit(2);
  }
  auto* meeting = new (sharedMemory(sizeof(Meeting))) Meeting;
  meeting->nRanks_ = nRanks;
  meeting->coreEach_ = nRanks <= nCores();
  return *meeting;
}

void Meeting::meet() {
  const uint64_t before = meetings_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == nRanks_) {
    arrived_.store(0, std::memory_order_relaxed);
    meetings_.store(before + 1, std::memory_order_release);
    return;
  }
  for (int polls = 0; meetings_.load(std::memory_order_acquire) == before; ++polls)
    relax(polls, coreEach_);
}

double Meeting::sum(int rank, double value) {
  values_[rank] = value;
  meet();
  double total = 0;
  for (int i = 0; i < nRanks_; ++i)
    total += values_[i];
  meet();
  return total;
}

int runRanks(int nRanks, bool asThreads, const std::function<int(int rank)>& rank) {
  if (asThreads) return runThreads(nRanks, rank);
  fflush(stdout);
  const pid_t parent = getpid();
  std::vector<pid_t> children;
  for (int i = 0; i < nRanks; ++i) {
    const pid_t child = fork();
    if (child == 0) beProcess(i, nRanks, parent, rank);
    if (child < 0) perror("fork");
    if (child < 0) exit(1);  // the children die with this process
    children.push_back(child);
  }
  int failure = 0;
  for (int i = 0; i < nRanks; ++i) {
    int status = 0;
    const pid_t child = wait(&status);
    if (child < 0 || status == 0 || failure != 0) continue;
    failure = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    for (const pid_t other : children) {
      if (other != child) kill(other, SIGKILL);
    }
  }
  return failure;
}

}  // namespace nccom::bench
