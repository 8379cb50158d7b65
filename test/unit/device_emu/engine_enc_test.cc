// Composed programs on the emulated device: what the core sends down runs to the right results.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "enc/encd.h"
#include "enc/layout.h"
#include "enc/select.h"
#include "engine_world.h"

namespace nccom::emu {
namespace {

using std::vector;

enc_comm_info infoOf(int rank, int nRanks, int channels) {
  enc_comm_info info;
  info.rank = rank;
  info.rank_n = nRanks;
  info.node.assign(static_cast<size_t>(nRanks), 0);
  for (int c = 0; c < channels; c++) {
    vector<int> ring(static_cast<size_t>(nRanks));
    std::iota(ring.begin(), ring.end(), 0);
    if (c % 2 == 1) std::reverse(ring.begin(), ring.end());
    info.rings.push_back(ring);
  }
  info.sizes.bufferBytes = 16 << 10;  // small: several passes
  return info;
}

struct Sizes {
  size_t in, out;
};
Sizes sizesOf(const encTask& task, int rank, size_t n) {
  const size_t count = task.count;
  const bool root = rank == task.root;
  switch (task.op) {
    case encOp::AllReduce:
    case encOp::Broadcast:
      return {count, count};
    case encOp::Reduce:
      return {count, root ? count : 0};
    case encOp::AllGather:
      return {count, n * count};
    case encOp::ReduceScatter:
      return {n * count, count};
    case encOp::AlltoAll:
      return {n * count, n * count};
    case encOp::Gather:
      return {count, root ? n * count : 0};
    case encOp::Scatter:
      return {root ? n * count : 0, count};
    case encOp::SendRecv:
    case encOp::Permute:
    case encOp::PermuteReduce:
      break;
  }
  return {0, 0};
}

int32_t valueOf(int rank, size_t element) {
  return (rank + 1) * 1'000'000 + static_cast<int32_t>(element);
}

int32_t expectedOf(const encTask& task, int rank, size_t n, size_t i) {
  const auto ranks = static_cast<int>(n);
  const size_t count = task.count;
  const auto mine = static_cast<size_t>(rank) * count;
  const auto sum = [&](size_t element) {
    int32_t total = 0;
    for (int r = 0; r < ranks; r++)
      total += valueOf(r, element);
    return total;
  };
  switch (task.op) {
    case encOp::AllReduce:
    case encOp::Reduce:
      return sum(i);
    case encOp::ReduceScatter:
      return sum(mine + i);
    case encOp::Broadcast:
      return valueOf(task.root, i);
    case encOp::AllGather:
    case encOp::Gather:
      return valueOf(static_cast<int>(i / count), i % count);
    case encOp::AlltoAll:
      return valueOf(static_cast<int>(i / count), mine + i % count);
    case encOp::Scatter:
      return valueOf(task.root, mine + i);
    case encOp::SendRecv:
    case encOp::Permute:
    case encOp::PermuteReduce:
      break;
  }
  return 0;
}

class EngineEnc : public testing::TestWithParam<std::tuple<int, int, int>> {
 protected:
  void run(World& world, const encTask& task, uint64_t op) {
    const auto [nRanks, processes, channels] = GetParam();
    const auto n = static_cast<size_t>(nRanks);
    vector<vector<int32_t>> in(n), out(n);
    for (int r = 0; r < nRanks; r++) {
      const enc_comm_info info = infoOf(r, nRanks, channels);
      const auto program = encCompose(info, task);
      ASSERT_TRUE(program.ok()) << program.error().message;
      const auto lowered = encdLower(program.value(), encLayout::of(info));
      ASSERT_TRUE(lowered.ok()) << lowered.error().message;
      void* loaded = nullptr;
      ASSERT_EQ(emu().programLoad(world.comm(r), lowered.value().header(), nullptr, &loaded),
                ncclSuccess)
          << emu().lastError();
      const Sizes sizes = sizesOf(task, r, n);
      in[r].resize(sizes.in);
      for (size_t i = 0; i < sizes.in; i++)
        in[r][i] = valueOf(r, i);
      out[r].assign(sizes.out, -1);
      const Call call{{bind(in[r])}, {bind(out[r])}, op, op, encOpName(task.op)};
      ASSERT_EQ(launch(world.comm(r), loaded, call, world.stream(r)), ncclSuccess)
          << emu().lastError();
      ASSERT_EQ(emu().programUnload(world.comm(r), loaded), ncclSuccess);
    }
    for (int r = 0; r < nRanks; r++) {
      ASSERT_EQ(world.sync(r), "") << encOpName(task.op);
      size_t right = 0;
      while (right < out[r].size() && out[r][right] == expectedOf(task, r, n, right))
        right++;
      ASSERT_EQ(right, out[r].size()) << encOpName(task.op) << " of " << task.count << ", rank "
                                      << r << ": first wrong element";
    }
  }
};

// One communicator for all of them: each operation finds the semaphores as the others left them.
TEST_P(EngineEnc, RunsEveryCollective) {
  const auto [nRanks, processes, channels] = GetParam();
  const encLayout layout = encLayout::of(infoOf(0, nRanks, channels));
  WorldOptions options;
  options.nRanks = nRanks;
  options.nProcesses = processes;
  options.nSemaphores = layout.semaphores();
  options.scratchBytes = layout.scratchBytes();
  World world(options);
  uint64_t op = 0;
  for (const size_t count : {1, 1000, 0, 30'011}) {
    for (const encOp kind :
         {encOp::AllReduce, encOp::AllGather, encOp::Broadcast, encOp::Reduce, encOp::ReduceScatter,
          encOp::AlltoAll, encOp::Gather, encOp::Scatter}) {
      encTask task;
      task.op = kind;
      task.count = count;
      task.type = ncclInt32;
      task.root = static_cast<int>(op) % nRanks;
      run(world, task, ++op);
      if (HasFatalFailure()) return;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Worlds, EngineEnc,
                         testing::Values(std::tuple(2, 1, 1), std::tuple(3, 1, 2),
                                         std::tuple(8, 1, 4), std::tuple(2, 2, 2),
                                         std::tuple(8, 4, 2)));

TEST(EngineEncMessages, GoAroundInGroups) {
  constexpr int kRanks = 4;
  const encLayout layout = encLayout::of(infoOf(0, kRanks, 1));
  WorldOptions options;
  options.nRanks = kRanks;
  options.nProcesses = 2;
  options.nSemaphores = layout.semaphores();
  options.scratchBytes = layout.scratchBytes();
  World world(options);
  for (uint64_t op = 1; op <= 20; op++) {
    vector<vector<int32_t>> in(kRanks), out(kRanks);
    for (int r = 0; r < kRanks; r++) {
      const enc_comm_info info = infoOf(r, kRanks, 1);
      encTask task;
      task.op = encOp::SendRecv;
      Call call{{}, {}, op, 0, "group"};
      in[r].assign(kRanks * 10, 0);
      out[r].assign(kRanks * 10, -1);
      // To and from everybody, ourselves included; the sizes differ by peer, one is 0.
      for (int peer = 0; peer < kRanks; peer++) {
        const auto elements = static_cast<uint64_t>((r + peer) % 4);
        const auto index = static_cast<uint16_t>(peer);
        task.sends.push_back({peer, elements * 4, index});
        task.recvs.push_back({peer, elements * 4, index});
        for (int i = 0; i < 10; i++)
          in[r][peer * 10 + i] = 1000 * r + 10 * peer + i;
        call.inputs.push_back(bind(&in[r][peer * 10], elements * 4));
        call.outputs.push_back(bind(&out[r][peer * 10], elements * 4));
      }
      const auto program = encCompose(info, task);
      ASSERT_TRUE(program.ok()) << program.error().message;
      const auto lowered = encdLower(program.value(), layout);
      ASSERT_TRUE(lowered.ok()) << lowered.error().message;
      void* loaded = nullptr;
      ASSERT_EQ(emu().programLoad(world.comm(r), lowered.value().header(), nullptr, &loaded),
                ncclSuccess)
          << emu().lastError();
      ASSERT_EQ(launch(world.comm(r), loaded, call, world.stream(r)), ncclSuccess);
    }
    for (int r = 0; r < kRanks; r++) {
      ASSERT_EQ(world.sync(r), "");
      for (int i = 0; i < kRanks * 10; i++) {
        const int peer = i / 10;
        const bool sent = i % 10 < (r + peer) % 4;
        ASSERT_EQ(out[r][i], sent ? 1000 * peer + 10 * r + i % 10 : -1) << "rank " << r;
      }
    }
  }
}

}  // namespace
}  // namespace nccom::emu
