// How long programs of large groups take to compose, and to verify, on one core; fails if it is
// more than promised.
//
//   hier       one rank's AllReduce, on 64 ranks of each UltraServer node: less than 1 s and 1 GiB
//              for 65,536 ranks
//   inter_rdh  the AllReduce of all ranks, one on each node, composed and verified: less than 30 s
//              for 1,024 ranks
//
// Time is that of the processor. The last column is what must not grow: nanoseconds for each of
// n log2 n.
#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

#include "enc/comm_shape.h"
#include "enc/select.h"
#include "enc/verify.h"

namespace nccom {
namespace {

constexpr double kHierSeconds = 1, kHierMiB = 1024, kRdhSeconds = 30;

double seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The most that this process has ever had.
double mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

template <class T>
T must(Result<T> result, const char* what) {
  if (result.ok()) return std::move(result).value();
  fprintf(stderr, "%s: %s\n", what, result.error().message.c_str());
  exit(1);
}

size_t descriptors(const encProgram& program) {
  size_t count = 0;
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks)
      count += block.descs.size();
  }
  return count;
}

encTask allReduce(uint64_t bytes) {
  encTask task;
  task.op = encOp::AllReduce;
  task.type = ncclFloat32;
  task.count = bytes / 4;
  return task;
}

double ofGrowth(double time, int n) {
  return 1e9 * time / (n * std::log2(n));
}

bool isWithin(const char* what, double found, double limit, const char* unit) {
  const bool within = found < limit;
  printf("%s %.2f %s: want less than %.0f: %s\n", what, found, unit, limit,
         within ? "ok" : "FAILED");
  return within;
}

/// One rank's programs of several sizes, the slowest of which counts.
bool hier() {
  printf("%-10s %8s %10s %12s %10s %10s\n", "hier", "ranks", "seconds", "descriptors", "MiB",
         "ns/nlogn");
  const NeuronPlatform* platform = must(findPlatform("trn2u.48xlarge"), "platform");
  const encMachine machine{platform, 2, must(findPodShape(*platform, "X4"), "pod"), 0};
  double slowest = 0;
  for (const int nodes : {16, 64, 256, 1024}) {
    const int n = nodes * 64;
    const auto cores = must(encDealtCores(machine, nodes, n), "ranks");
    const enc_comm_info info = must(encShapeComm(machine, cores, 77), "group");
    slowest = 0;
    size_t most = 0;
    for (const uint64_t bytes : {uint64_t{4}, uint64_t{4} << 20, uint64_t{1} << 30}) {
      const double start = seconds();
      const encProgram program = must(encCompose(info, allReduce(bytes)), "hier");
      slowest = std::max(slowest, seconds() - start);
      most = std::max(most, descriptors(program));
      if (program.algorithm == "hier") continue;
      fprintf(stderr, "%d ranks: %s was chosen, want hier\n", n, program.algorithm.c_str());
      exit(1);
    }
    printf("%-10s %8d %10.3f %12zu %10.0f %10.1f\n", "", n, slowest, most, mebibytes(),
           ofGrowth(slowest, n));
  }
  const bool fast = isWithin("hier, 65,536 ranks:", slowest, kHierSeconds, "s");
  return isWithin("hier, 65,536 ranks:", mebibytes(), kHierMiB, "MiB") && fast;
}

bool interRdh() {
  printf("%-10s %8s %10s %12s %10s %10s\n", "inter_rdh", "ranks", "composed", "verified", "MiB",
         "ns/nlogn");
  const encMachine machine{must(findPlatform("trn2.48xlarge"), "platform"), 2, kNoPod, 0};
  double all = 0;
  for (const int n : {8, 64, 256, 1024}) {
    const auto cores = must(encDealtCores(machine, n, n), "ranks");
    enc_comm_info info = must(encShapeComm(machine, cores, 0), "group");
    info.options.forced = enc_alg_type::InterRdh;
    const double start = seconds();
    encOperation operation;
    for (info.rank = 0; info.rank < n; info.rank++)
      operation.push_back(must(encCompose(info, allReduce(4 << 20)), "inter_rdh"));
    const double composed = seconds();
    info.rank = 0;
    const Status status = encVerify(info, {&operation, 1});
    if (!status.ok()) {
      fprintf(stderr, "inter_rdh: %d ranks: %s\n", n, status.error().message.c_str());
      exit(1);
    }
    all = seconds() - start;
    printf("%-10s %8d %10.3f %12.3f %10.0f %10.1f\n", "", n, composed - start, seconds() - composed,
           mebibytes(), ofGrowth(all, n));
  }
  return isWithin("inter_rdh, 1,024 ranks:", all, kRdhSeconds, "s");
}

}  // namespace
}  // namespace nccom

int main() {
  const bool hierarchies = nccom::hier();
  return nccom::interRdh() && hierarchies ? 0 : 1;
}
