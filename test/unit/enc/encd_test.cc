// Lowering keeps everything that the device needs, and reading back trusts nothing.
#include "enc/encd.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "test/unit/enc/worlds.h"

namespace nccom {
namespace {

using test::World;

/// A program as it comes back: host indices for connections, no network buffers.
encdRaised expected(const encProgram& program, const encLayout& layout) {
  encdRaised raised;
  raised.rank = program.rank;
  raised.nRanks = program.nRanks;
  raised.type = program.task.type;
  raised.redOp = program.task.redOp > ncclMin ? ncclSum : program.task.redOp;
  raised.queues = program.queues;
  raised.totals = program.totals;
  raised.peerInputs = program.peerInputs;
  raised.peerOutputs = program.peerOutputs;
  raised.inputByValue = program.inputByValue;
  for (encQueue& queue : raised.queues) {
    for (encBlock& block : queue.blocks) {
      for (encDesc& desc : block.descs) {
        if (desc.type != encDescType::NetSend && desc.type != encDescType::NetRecv) continue;
        desc.connection = layout.hostIndex(program.connections[desc.connection]);
        desc.net = {};
      }
    }
  }
  return raised;
}

TEST(Encd, RaisesWhatItLowered) {
  const World world{{2, 1}, 2};
  for (const encOp op : test::kCollectives) {
    for (const ncclRedOp_t redOp : {ncclMax, ncclAvg, kRedOpPreMulSum}) {
      const encTask task = test::collective(op, 1 << 20, ncclInt32, redOp, 1);
      for (const encProgram& program : test::composeAll(world, task)) {
        const encLayout layout = encLayout::of(world.info(program.rank));
        const auto lowered = encdLower(program, layout);
        ASSERT_TRUE(lowered.ok()) << lowered.error().message;
        EXPECT_EQ(lowered.value().header()->bytes, lowered.value().bytes());
        const auto raised = encdRaise(lowered.value().header(), lowered.value().bytes());
        ASSERT_TRUE(raised.ok()) << raised.error().message;
        EXPECT_EQ(raised.value(), expected(program, layout)) << encDump(program);
      }
    }
  }
}

TEST(Encd, RaisesMessagesThatItLowered) {
  const World world{{2}};
  std::vector<encTask> tasks(2, test::collective(encOp::SendRecv, 0));
  for (const uint64_t bytes : {8, 800}) {
    tasks[0].sends.push_back({1, bytes, static_cast<uint16_t>(tasks[0].sends.size())});
    tasks[1].recvs.push_back({0, bytes, static_cast<uint16_t>(tasks[1].recvs.size())});
  }
  for (const encProgram& program : test::composeAll(world, tasks)) {
    const encLayout layout = encLayout::of(world.info(program.rank));
    const auto lowered = encdLower(program, layout);
    ASSERT_TRUE(lowered.ok()) << lowered.error().message;
    const auto raised = encdRaise(lowered.value().header(), lowered.value().bytes());
    ASSERT_TRUE(raised.ok()) << raised.error().message;
    EXPECT_EQ(raised.value(), expected(program, layout)) << encDump(program);
  }
}

TEST(Encd, NamesStepsInTheProgram) {
  const World world;
  const auto programs = test::composeAll(world, test::collective(encOp::AllReduce, 100));
  const encdProgram lowered = encdLower(programs[0], encLayout::of(world.info(0))).value();
  const char* names = reinterpret_cast<const char*>(lowered.header()) + lowered.header()->steps;
  EXPECT_STREQ(names + 32 * static_cast<size_t>(encStep::RecvReduceCopySend),
               "recv_reduce_copy_send");
}

TEST(Encd, NeverReadsOutsideOfDamagedPrograms) {
  const World world{{2, 1}, 2};
  const auto programs = test::composeAll(world, test::collective(encOp::AllReduce, 1 << 16));
  const encdProgram lowered = encdLower(programs[1], encLayout::of(world.info(1))).value();
  std::mt19937_64 random(1);
  int rejected = 0;
  for (int i = 0; i < 20000; i++) {
    // A copy of exactly its size, so that a sanitizer sees every step outside.
    std::vector<uint64_t> words(lowered.bytes() / 8);
    memcpy(words.data(), lowered.header(), lowered.bytes());
    auto* bytes = reinterpret_cast<unsigned char*>(words.data());
    const size_t range = i % 2 == 0 ? sizeof(nccomProgram_v1) : lowered.bytes();
    bytes[random() % range] ^= static_cast<unsigned char>(1u << random() % 8);
    if (!encdRaise(words.data(), i % 3 == 0 ? random() % lowered.bytes() : lowered.bytes()).ok())
      rejected++;
  }
  EXPECT_GT(rejected, 8000);
}

TEST(Encd, SaysWhatIsWrongWithAHeader) {
  const World world;
  const auto programs = test::composeAll(world, test::collective(encOp::AllReduce, 100));
  const encdProgram lowered = encdLower(programs[0], encLayout::of(world.info(0))).value();
  std::vector<uint64_t> words(lowered.bytes() / 8);
  memcpy(words.data(), lowered.header(), lowered.bytes());
  reinterpret_cast<nccomProgram_v1*>(words.data())->version = 7;
  const auto raised = encdRaise(words.data(), lowered.bytes());
  ASSERT_FALSE(raised.ok());
  EXPECT_NE(raised.error().message.find("version 7"), std::string::npos) << raised.error().message;
}

}  // namespace
}  // namespace nccom
