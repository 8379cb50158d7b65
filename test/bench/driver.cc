#include "test/bench/driver.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>

namespace nccom::bench {
namespace {

constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                  "alltoall",   "sendrecv",       "pingpong",   "barrier"};
constexpr size_t kPage = 4096;
constexpr long kMaxCalls = 200000;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

[[noreturn]] void usage(const std::string& wrong) {
  fprintf(stderr,
          "%s\n"
          "--name NAME --mode MODE --ranks N --ops all_reduce,... --sizes 8,32K,8M --in-place\n"
          "--budget-ms MS of a repetition --repetitions N --limit SECONDS of a case\n",
          wrong.c_str());
  exit(2);
}

double number(const std::string& option, const std::string& text, double least) {
  char* end = nullptr;
  double value = strtod(text.c_str(), &end);
  for (const char* unit = "KMG"; end != text.c_str() && *end != 0 && *unit != 0; ++unit) {
    if (*end != *unit) continue;
    value *= static_cast<double>(size_t{1024} << (10 * (*unit == 'K' ? 0 : *unit == 'M' ? 1 : 2)));
    end++;
  }
  if (end == text.c_str() || *end != 0 || value < least)
    usage(option + " is '" + text + "', want a number of at least " + std::to_string(least));
  return value;
}

Op opOf(const std::string& name) {
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) usage("--ops has '" + name + "', which is no operation");
  return static_cast<Op>(found - std::begin(kNames));
}

/// Small whole numbers: sums of them are exact in any order.
float element(int rank, size_t i) {
  return static_cast<float>((rank + 1) * (1 + static_cast<int>(i % 13)));
}

struct Case {
  Op op;
  size_t bytes;  ///< as in Op
  size_t count;  ///< what the call is given
  bool inPlace;
};

class Bench {
 public:
  Bench(Backend& backend, const Options& options)
      : backend_(backend), options_(options), n_(backend.nRanks()), rank_(backend.rank()) {}

  size_t run() {
    size_t most = 64 * static_cast<size_t>(n_);
    for (const size_t size : options_.sizes)
      most = std::max(most, size);
    in_ = backend_.allocate(most);
    out_ = backend_.allocate(most);
    size_t wrong = 0;
    for (const Op op : options_.ops) {
      if (!backend_.has(op) || (op == Op::PingPong && n_ != 2)) continue;
      for (const size_t size : op == Op::Barrier ? std::vector<size_t>{0} : options_.sizes) {
        if (!measure(caseOf(op, size), wrong)) break;
      }
    }
    return wrong;
  }

  void print(const Case& c, const char* op, long calls, std::vector<double> seconds, size_t wrong) {
    if (rank_ != 0) return;
    std::sort(seconds.begin(), seconds.end());
    const double half = c.op == Op::PingPong ? 0.5 : 1;
    const double median = half * seconds[seconds.size() / 2];
    const double algbw = static_cast<double>(c.bytes) / median / 1e9;
    printf("%s,%s,%d,%zu,%s,%ld,%zu,%.4f,%.4f,%.4f,%.4f,%.4f,%zu\n", options_.name.c_str(), op, n_,
           c.bytes, c.inPlace ? "in" : "out", calls, seconds.size(), 1e6 * median,
           1e6 * half * seconds[seconds.size() / 10], 1e6 * half * seconds[0], algbw,
           algbw * busFactor(c.op), wrong);
    fflush(stdout);
  }

 private:
  Case caseOf(Op op, size_t size) const {
    const bool divided = op == Op::ReduceScatter || op == Op::AllGather || op == Op::AllToAll;
    const size_t parts = divided ? n_ : 1;
    const size_t count = op == Op::Barrier ? 0 : std::max<size_t>(1, size / sizeof(float) / parts);
    const bool inPlace = op == Op::Broadcast || op == Op::Barrier ||
                         (options_.inPlace && (op == Op::AllReduce || op == Op::AllGather));
    return {op, count * parts * sizeof(float), count, inPlace};
  }

  double busFactor(Op op) const {
    if (op == Op::AllReduce) return 2.0 * (n_ - 1) / n_;
    if (op == Op::ReduceScatter || op == Op::AllGather || op == Op::AllToAll)
      return 1.0 * (n_ - 1) / n_;
    return 1;
  }

  int next() const { return (rank_ + 1) % n_; }
  int previous() const { return (rank_ + n_ - 1) % n_; }

  void call(const Case& c) {
    switch (c.op) {
      case Op::AllReduce:
        return backend_.allReduce(c.inPlace ? out_ : in_, out_, c.count);
      case Op::ReduceScatter:
        return backend_.reduceScatter(in_, out_, c.count);
      case Op::AllGather:
        return backend_.allGather(c.inPlace ? out_ + rank_ * c.count : in_, out_, c.count);
      case Op::Broadcast:
        return backend_.broadcast(out_, c.count);
      case Op::AllToAll:
        return backend_.allToAll(in_, out_, c.count);
      case Op::SendRecv:
        return backend_.sendRecv(in_, next(), out_, previous(), c.count);
      case Op::PingPong:
        if (rank_ == 0) backend_.send(in_, c.count, 1);
        backend_.recv(out_, c.count, 1 - rank_);
        if (rank_ == 1) backend_.send(in_, c.count, 0);
        return;
      case Op::Barrier:
        return backend_.barrier();
    }
  }

  void fill(const Case& c) {
    const size_t total = c.bytes / sizeof(float);
    for (size_t i = 0; i < total; ++i) {
      in_[i] = element(rank_, i);
      out_[i] = c.inPlace && c.op == Op::AllReduce ? in_[i] : -1;
    }
    for (size_t i = 0; i < c.count; ++i) {
      if (c.op == Op::Broadcast && rank_ == 0) out_[i] = element(0, i);
      if (c.op == Op::AllGather && c.inPlace) out_[rank_ * c.count + i] = element(rank_, i);
    }
  }

  float expected(const Case& c, size_t i) const {
    const float ofAll = static_cast<float>(n_) * static_cast<float>(n_ + 1) / 2;
    switch (c.op) {
      case Op::AllReduce:
        return element(0, i) * ofAll;
      case Op::ReduceScatter:
        return element(0, rank_ * c.count + i) * ofAll;
      case Op::AllGather:
        return element(static_cast<int>(i / c.count), i % c.count);
      case Op::AllToAll:
        return element(static_cast<int>(i / c.count), rank_ * c.count + i % c.count);
      case Op::SendRecv:
      case Op::PingPong:
        return element(previous(), i);
      default:
        return element(0, i);
    }
  }

  size_t wrongElements(const Case& c) {
    fill(c);
    backend_.meet();
    call(c);
    const bool divided = c.op == Op::ReduceScatter;
    const size_t total = divided ? c.count : c.bytes / sizeof(float);
    double wrong = 0;
    for (size_t i = 0; i < total; ++i)
      wrong += out_[i] == expected(c, i) ? 0 : 1;
    return static_cast<size_t>(backend_.sum(wrong));
  }

  /// Seconds of a call, the mean over the ranks.
  double batch(const Case& c, long calls) {
    backend_.meet();
    const double start = now();
    for (long i = 0; i < calls; ++i)
      call(c);
    return backend_.sum(now() - start) / n_ / static_cast<double>(calls);
  }

  /// Batches that grow until one takes half the budget; the least time of a call in one of them.
  double warmUp(const Case& c) {
    double least = 0;
    for (long calls = 1;; calls *= 4) {
      const double time = batch(c, calls);
      const double all = time * static_cast<double>(calls);
      least = calls == 1 ? time : std::min(least, time);
      if (all > options_.budget / 2 || calls >= kMaxCalls) return least;
    }
  }

  /// The quickest way's time of a call; the backend is left set to it.
  double settle(const Case& c, size_t& wrong) {
    int best = -1;
    double least = 0;
    for (int way = 0; way < backend_.nWays(); ++way) {
      if (!backend_.choose(way, c.op, c.bytes)) continue;
      if (c.op != Op::Barrier) wrong += wrongElements(c);
      std::fill_n(in_, c.bytes / sizeof(float), 0.0F);
      std::fill_n(out_, c.bytes / sizeof(float), 0.0F);
      double time = warmUp(c);
      const long calls = callsFor(time);
      if (backend_.nWays() > 1) time = std::min({time, batch(c, calls), batch(c, calls)});
      if (best >= 0 && time >= least) continue;
      best = way;
      least = time;
    }
    backend_.choose(best, c.op, c.bytes);
    return least;
  }

  long callsFor(double time) const {
    return std::clamp(static_cast<long>(options_.budget / time), 1L, kMaxCalls);
  }

  /// False if larger sizes would take too long.
  bool measure(const Case& c, size_t& allWrong) {
    size_t wrong = 0;
    const double time = settle(c, wrong);
    allWrong += wrong;
    const long calls = callsFor(time);
    if (time > options_.limit) {
      print(c, kNames[static_cast<int>(c.op)], 1, {time}, wrong);
      return false;
    }
    constexpr size_t kLeastRepetitions = 3;
    std::vector<double> seconds;
    double spent = 0;
    for (int i = 0; i < options_.repetitions; ++i) {
      if (spent > options_.limit && seconds.size() >= kLeastRepetitions) break;
      seconds.push_back(batch(c, calls));
      spent += seconds.back() * static_cast<double>(calls);
    }
    print(c, kNames[static_cast<int>(c.op)], calls, seconds, wrong);
    return true;
  }

  Backend& backend_;
  const Options& options_;
  int n_, rank_;
  float *in_ = nullptr, *out_ = nullptr;
};

}  // namespace

Options parse(int argc, char** argv) {
  Options options;
  std::string ops, sizes = "8,512,32K,512K,8M";
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--in-place") {
      options.inPlace = true;
      continue;
    }
    if (i + 1 == argc) usage(option + " is unknown, or lacks its value");
    const std::string value = argv[++i];
    if (option == "--name")
      options.name = value;
    else if (option == "--mode")
      options.mode = value;
    else if (option == "--ranks")
      options.nRanks = static_cast<int>(number(option, value, 1));
    else if (option == "--ops")
      ops = value;
    else if (option == "--sizes")
      sizes = value;
    else if (option == "--budget-ms")
      options.budget = 1e-3 * number(option, value, 0.01);
    else if (option == "--repetitions")
      options.repetitions = static_cast<int>(number(option, value, 1));
    else if (option == "--limit")
      options.limit = number(option, value, 0.01);
    else
      usage(option + " is unknown");
  }
  for (const std::string& size : split(sizes))
    options.sizes.push_back(static_cast<size_t>(number("--sizes", size, 4)));
  if (ops.empty()) {
    for (const char* name : kNames)
      options.ops.push_back(opOf(name));
  } else {
    for (const std::string& name : split(ops))
      options.ops.push_back(opOf(name));
  }
  return options;
}

float* Backend::allocate(size_t bytes) {
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  void* memory = aligned_alloc(kPage, whole);
  if (memory == nullptr) {
    fprintf(stderr, "rank %d: no memory for a buffer of %zu bytes\n", rank(), whole);
    exit(1);
  }
  memset(memory, 0, whole);
  return static_cast<float*>(memory);
}

size_t run(Backend& backend, const Options& options, double initSeconds) {
  Bench bench(backend, options);
  const double init = backend.sum(initSeconds) / backend.nRanks();
  if (init > 0) bench.print({Op::Barrier, 0, 0, true}, "init", 1, {init}, 0);
  return bench.run();
}

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int nCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

void pin(int rank, int nRanks) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0 || nRanks > CPU_COUNT(&cores)) return;
  int skip = rank;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &cores) || skip-- > 0) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

void relax(int polls, bool coreEach) {
  constexpr int kSpins = 4000;
  if (!coreEach || polls > kSpins) sched_yield();
#if defined(__x86_64__)
  else if (polls > 100)
    __builtin_ia32_pause();
#endif
}

}  // namespace nccom::bench
