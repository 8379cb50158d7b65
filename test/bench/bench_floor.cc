// What plain loads and stores reach on this machine, written by hand for the benchmark's
// operations: a figure to compare a library with, not a library. Every rank can address all ranks'
// buffers, which is the best case.
//   --mode procs    a process for each rank (the default)
//   --mode threads  a thread for each rank
//   --probe         prints how far apart two cores are: nanoseconds of an exchange of flags, GB/s
//                   of handing over 64 KiB; and what a yield to another rank on the same core
//                   costs, microseconds, threads and processes
//
// There are three ways of most operations, of which the driver keeps the quickest for each case:
//   slots      one exchange: data travels with its flag through a slot in shared memory
//   plain      two exchanges, between them one pass over the users' buffers
//   streaming  the same with stores that bypass the caches
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>

#include "test/bench/driver.h"
#include "test/bench/floor_memory.h"
#include "test/bench/floor_probe.h"
#include "test/bench/world.h"

namespace nccom::bench {
namespace {

enum Way { kSlots, kPlain, kStreaming, kWays };

class Floor final : public Backend {
 public:
  Floor(Meeting& meeting, FloorMemory& memory, int rank)
      : meeting_(meeting), memory_(memory), rank_(rank), n_(meeting.nRanks()) {}

  int rank() const override { return rank_; }
  int nRanks() const override { return n_; }
  void meet() override { meeting_.meet(), exchange(); }
  double sum(double value) override { return meeting_.sum(rank_, value); }
  float* allocate(size_t bytes) override { return memory_.allocate(rank_, bytes); }

  int nWays() const override { return kWays; }
  bool choose(int way, Op op, size_t bytes) override {
    way_ = way;
    depth_ = bytes <= kDeepBytes ? kDeep : 2;
    if (way == kSlots) return bytes <= kSlotBytes && op != Op::Barrier;
    return way == kPlain || (op != Op::Barrier && bytes >= kLeastStreamed);
  }

  void allReduce(const float* in, float* out, size_t count) override {
    if (way_ == kSlots) return sumSlots({in, count}, 0, out, count);
    publish(in, out);
    const size_t part = (count / n_ + kLine - 1) / kLine * kLine;
    const size_t begin = std::min(count, part * rank_);
    const size_t end = rank_ == n_ - 1 ? count : std::min(count, begin + part);
    for (int k = 0; k < n_; ++k) {
      sources_[k] = memory_.flags[k].in + begin;
      targets_[k] = memory_.flags[k].out + begin;
    }
    sumToAll(std::span(targets_).first(n_), std::span(sources_).first(n_), end - begin,
             way_ == kStreaming);
    exchange();
  }

  void reduceScatter(const float* in, float* out, size_t count) override {
    if (way_ == kSlots) return sumSlots({in, count * n_}, rank_ * count, out, count);
    publish(in, out);
    for (int k = 0; k < n_; ++k)
      sources_[k] = memory_.flags[k].in + rank_ * count;
    targets_[0] = out;
    sumToAll(std::span(targets_).first(1), std::span(sources_).first(n_), count,
             way_ == kStreaming);
    exchange();
  }

  void allGather(const float* in, float* out, size_t count) override {
    gather(in, 0, out, count, count);
  }

  void allToAll(const float* in, float* out, size_t count) override {
    gather(in, rank_ * count, out, count, count * n_);
  }

  /// Through slots the root runs ahead of the others, as far as there are slots.
  void broadcast(float* data, size_t count) override {
    if (way_ == kSlots) {
      const uint64_t now = ++now_;
      if (rank_ == 0) {
        for (int k = 1; k < n_; ++k)
          awaitFree(k, now);
        fillSlot(now, data, count);
      } else {
        copyFloats(data, slotOf(0, now), count, false);
        memory_.flags[rank_].done.store(now, std::memory_order_release);
      }
      return;
    }
    publish(data, data);
    if (rank_ != 0) copyFloats(data, memory_.flags[0].in, count, way_ == kStreaming);
    exchange();
  }

  void sendRecv(const float* in, int to, float* out, int from, size_t count) override {
    if (way_ == kSlots) {
      const uint64_t now = ++now_;
      awaitFree(to, now);
      fillSlot(now, in, count);
      copyFloats(out, slotOf(from, now), count, false);
      memory_.flags[rank_].done.store(now, std::memory_order_release);
      return;
    }
    publish(in, out);
    copyFloats(out, memory_.flags[from].in, count, way_ == kStreaming);
    exchange();
  }

  /// Between two ranks that take turns.
  void send(const float* in, size_t count, int to) override {
    const uint64_t now = ++now_;
    if (way_ == kSlots) return fillSlot(now, in, count);
    Flag& flag = memory_.flags[rank_];
    flag.in = in;
    flag.done.store(now, std::memory_order_release);
    await(memory_.flags[to].done, now);
  }

  void recv(float* out, size_t count, int from) override {
    const uint64_t now = ++now_;
    if (way_ == kSlots) return copyFloats(out, slotOf(from, now), count, false);
    await(memory_.flags[from].done, now);
    copyFloats(out, memory_.flags[from].in, count, way_ == kStreaming);
    memory_.flags[rank_].done.store(now, std::memory_order_release);
  }

  void barrier() override { exchange(); }

 private:
  static constexpr size_t kLine = 64 / sizeof(float);
  static constexpr size_t kLeastStreamed = 4096;

  void await(const std::atomic<uint64_t>& found, uint64_t wanted) const {
    for (int polls = 0; found.load(std::memory_order_acquire) < wanted; ++polls)
      relax(polls, meeting_.coreEach());
  }

  /// All ranks have come here before any goes on.
  void exchange() {
    const uint64_t now = ++now_;
    memory_.flags[rank_].done.store(now, std::memory_order_release);
    for (int k = 0; k < n_; ++k)
      await(memory_.flags[k].done, now);
  }

  void publish(const float* in, float* out) {
    memory_.flags[rank_].in = in;
    memory_.flags[rank_].out = out;
    exchange();
  }

  Slot& slot(int rank, uint64_t turn) { return memory_.slot(rank, turn % depth_); }

  void fillSlot(uint64_t turn, const float* data, size_t count) {
    Slot& mine = slot(rank_, turn);
    memcpy(mine.data, data, count * sizeof(float));
    mine.turn.store(turn, std::memory_order_release);
  }

  const float* slotOf(int rank, uint64_t turn) {
    const Slot& theirs = slot(rank, turn);
    await(theirs.turn, turn);
    return theirs.data;
  }

  /// Waits until `reader` has read what this turn's slot held before.
  void awaitFree(int reader, uint64_t turn) {
    if (turn <= depth_ || known_[reader] >= turn - depth_) return;
    await(memory_.flags[reader].done, turn - depth_);
    known_[reader] = memory_.flags[reader].done.load(std::memory_order_acquire);
  }

  /// out = the sum of all ranks' `in` behind `offset`. A slot is free again two turns later: who
  /// has filled the next one has read this one.
  void sumSlots(std::span<const float> in, size_t offset, float* out, size_t count) {
    const uint64_t now = ++now_;
    fillSlot(now, in.data(), in.size());
    for (int k = 0; k < n_; ++k)
      sources_[k] = (k == rank_ ? in.data() : slotOf(k, now)) + offset;
    targets_[0] = out;
    sumToAll(std::span(targets_).first(1), std::span(sources_).first(n_), count, false);
  }

  /// Part k of `out` is rank k's data behind `offset`; `given` is how much each offers.
  void gather(const float* in, size_t offset, float* out, size_t count, size_t given) {
    if (way_ == kSlots) {
      const uint64_t now = ++now_;
      fillSlot(now, in, given);
      for (int i = 0; i < n_; ++i) {
        const int k = (rank_ + i) % n_;
        copyFloats(out + k * count, (k == rank_ ? in : slotOf(k, now)) + offset, count, false);
      }
      return;
    }
    publish(in, out);
    for (int i = 0; i < n_; ++i) {
      const int k = (rank_ + i) % n_;
      copyFloats(out + k * count, memory_.flags[k].in + offset, count, way_ == kStreaming);
    }
    exchange();
  }

  Meeting& meeting_;
  FloorMemory& memory_;
  int rank_, n_;
  int way_ = kPlain;
  uint64_t depth_ = 2;
  uint64_t now_ = 0;  ///< turns: the same on all ranks, for all do the same
  uint64_t known_[kMaxRanks] = {};
  const float* sources_[kMaxRanks] = {};
  float* targets_[kMaxRanks] = {};
};

int runAll(const Options& options) {
  const bool threads = options.mode == "threads";
  if (!threads && options.mode != "procs" && !options.mode.empty()) {
    fprintf(stderr, "--mode is '%s', want procs or threads\n", options.mode.c_str());
    return 2;
  }
  Meeting& meeting = Meeting::make(options.nRanks);
  FloorMemory& memory = FloorMemory::make(options);
  return runRanks(options.nRanks, threads, [&](int rank) {
    Floor backend(meeting, memory, rank);
    return run(backend, options) == 0 ? 0 : 1;
  });
}

}  // namespace
}  // namespace nccom::bench

int main(int argc, char** argv) {
  using namespace nccom::bench;
  if (argc == 2 && std::string_view(argv[1]) == "--probe") return printProbe();
  return runAll(parse(argc, argv));
}
