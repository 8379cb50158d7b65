#include "enc/staged.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "enc/direct.h"
#include "test/unit/enc/ring_family.h"

namespace nccom {
namespace {

using test::World;
using testing::HasSubstr;

const std::vector<encOp> kOps{encOp::AllReduce,     encOp::Reduce,    encOp::Broadcast,
                              encOp::ReduceScatter, encOp::AllGather, encOp::AlltoAll};

/// Ranks of a host. The small work area makes windows of a few lines.
World ranks(int n, uint64_t workBytes = 16384) {
  encMachine machine;
  machine.hostDevices = n;
  std::vector<int> cores(static_cast<size_t>(n));
  std::iota(cores.begin(), cores.end(), 0);
  World world;
  world.comm = encShapeComm(machine, {cores}).value();
  world.comm->sizes = {4096, 4096, workBytes};
  return world;
}

encOperation composed(const World& world, const encTask& task) {
  return test::composeAll(world, task, encComposeStaged);
}

bool mayBeInPlace(encOp op) {
  return op != encOp::AlltoAll;
}

TEST(Staged, ComputesWhatNcclDoes) {
  uint64_t seed = 0;
  for (const int n : {1, 2, 3, 5, 8, 17, 70}) {
    for (const encOp op : kOps) {
      for (const uint64_t count : {0, 1, 7, 1000, 20000}) {
        for (const ncclRedOp_t redOp : {ncclSum, ncclAvg, ncclMax}) {
          if (n > 8 && (redOp != ncclAvg || count > 1000)) continue;
          const encTask task =
              test::collective(op, count, seed % 2 ? ncclInt32 : ncclInt8, redOp, n * 2 / 3);
          const bool inPlace = seed++ % 2 == 0 && mayBeInPlace(op);
          ASSERT_EQ(test::check(ranks(n), composed(ranks(n), task), seed, inPlace), "")
              << test::label(ranks(n), task) << (inPlace ? " in place" : "");
        }
      }
    }
  }
}

TEST(Staged, EndsInEveryOrderOfEvents) {
  for (const encOp op : kOps) {
    for (const int n : {2, 5}) {
      const encOperation operation = composed(ranks(n), test::collective(op, 9000, ncclInt32));
      for (uint64_t seed = 0; seed < 30; seed++)
        ASSERT_EQ(test::check(ranks(n), operation, seed), "") << encOpName(op) << " seed " << seed;
    }
  }
}

TEST(Staged, IsVerifiedForEveryNumberOfRanksAndWindows) {
  for (int n = 1; n <= 66; n += n < 10 ? 1 : 14) {
    for (const encOp op : kOps) {
      for (const uint64_t count : {1, 37, 2000, 9001, 40000, 150000}) {
        if ((n > 10 && count > 9000) || (n > 2 && count > 40000)) continue;
        const encTask task = test::collective(op, count, ncclFloat32, ncclAvg, n - 1);
        for (const bool inPlace : {false, true}) {
          if (inPlace && !mayBeInPlace(op)) continue;
          const encOperation operation = composed(ranks(n), task);
          ASSERT_EQ(test::verified(ranks(n), {operation, operation}, inPlace), "")
              << test::label(ranks(n), task) << (inPlace ? " in place" : "");
        }
      }
    }
  }
}

TEST(Staged, FollowsAndPrecedesOtherOperations) {
  const World world = ranks(6);
  std::vector<encOperation> sequence;
  for (int turn = 0; turn < 24; turn++) {
    const encTask task = test::collective(kOps[static_cast<size_t>(turn * 5) % kOps.size()],
                                          turn % 3 == 0 ? 9000 : 300, ncclInt32, ncclSum, turn % 6);
    sequence.push_back(composed(world, task));
    sequence.push_back(turn % 2 == 0 ? test::composeAll(world, task, encComposeDirect)
                                     : test::composeAll(world, task));
  }
  EXPECT_EQ(test::verified(world, sequence), "");
}

TEST(Staged, NamesNobodysBuffers) {
  for (const encOp op : kOps) {
    for (const int n : {2, 5}) {
      for (const encProgram& program : composed(ranks(n), test::collective(op, 30000))) {
        EXPECT_FALSE(program.peerInputs || program.peerOutputs) << encOpName(op);
        for (const encQueue& queue : program.queues) {
          for (const encBlock& block : queue.blocks) {
            for (const encDesc& desc : block.descs) {
              for (const encAddress& address : desc.sources)
                EXPECT_TRUE(address.rank == program.rank || address.buffer == encBuffer::Scratch);
              for (const encAddress& address : desc.destinations)
                EXPECT_EQ(address.rank, program.rank);
            }
          }
        }
      }
    }
  }
}

/// The sources of all sums, by the rank that gives them.
std::vector<std::vector<int>> sums(const encOperation& operation) {
  std::vector<std::vector<int>> found;
  for (const encProgram& program : operation) {
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks) {
        for (const encDesc& desc : block.descs) {
          if (desc.sources.size() < 2) continue;
          found.emplace_back();
          for (const encAddress& source : desc.sources)
            found.back().push_back(source.rank);
        }
      }
    }
  }
  return found;
}

// Results are direct's, bit for bit.
TEST(Staged, AddsInTheOrderOfDirect) {
  for (const encOp op : {encOp::AllReduce, encOp::Reduce, encOp::ReduceScatter}) {
    for (const int n : {2, 3, 8}) {
      const encTask task = test::collective(op, 1000);
      EXPECT_EQ(sums(composed(ranks(n, 1 << 20), task)),
                sums(test::composeAll(ranks(n, 1 << 20), task, encComposeDirect)));
    }
  }
}

// Each rank multiplies what is its own; direct cannot, as it does not know the others' scalars.
TEST(Staged, MultipliesByAScalarOfEachRank) {
  for (const encOp op : {encOp::AllReduce, encOp::Reduce, encOp::ReduceScatter}) {
    for (const int n : {2, 3, 8, 66}) {
      for (const uint64_t count : {1, 1000, 9000}) {
        if (n > 8 && count > 1000) continue;
        const encTask task = test::collective(op, count, ncclInt32, kRedOpPreMulSum, n - 1);
        const encOperation operation = composed(ranks(n), task);
        ASSERT_EQ(test::check(ranks(n), operation, count), "") << test::label(ranks(n), task);
        ASSERT_EQ(test::verified(ranks(n), {operation, operation}), "");
      }
    }
  }
}

// Its descriptors repeat: a longer message has not more of them.
TEST(Staged, DescriptorsDoNotGrowWithTheMessage) {
  const auto descriptors = [](uint64_t count) {
    const World world = ranks(4, 32 << 20);
    const encTask task = test::collective(encOp::AllReduce, count);
    size_t n = 0;
    const encProgram program = encComposeStaged(world.info(1), task).value();
    for (const encQueue& queue : program.queues) {
      for (const encBlock& block : queue.blocks)
        n += block.descs.size();
    }
    return n;
  };
  EXPECT_EQ(descriptors(64 << 20), descriptors(256 << 20));
}

TEST(Staged, SaysWhatItCannotDo) {
  const auto message = [](const World& world, const encTask& task) {
    const auto program = encComposeStaged(world.info(0), task);
    return program.ok() ? "" : program.error().message;
  };
  EXPECT_THAT(message(World{{2, 2}}, test::collective(encOp::AllReduce, 1)),
              HasSubstr("rank 2 shares no memory with rank 0"));
  EXPECT_THAT(message(ranks(2), test::collective(encOp::Gather, 1)),
              HasSubstr("staged: Gather: want AllReduce"));
  EXPECT_THAT(message(ranks(64, 4096), test::collective(encOp::AlltoAll, 1)),
              HasSubstr("staged: a work area of 4096 bytes (NCCOM_WORK_SIZE) for 64 ranks"));
}

}  // namespace
}  // namespace nccom
