#include "enc/layout.h"

#include <gtest/gtest.h>

#include <set>

#include "test/unit/enc/worlds.h"

namespace nccom {
namespace {

using test::World;

const World kWorld{{3, 2, 1}, 4, {100000, 3000}};

std::vector<encPipeMap> pipesOf(const encLayout& layout) {
  std::vector<encPipeMap> pipes;
  const auto add = [&](encPipeKind kind, int count) {
    for (int i = 0; i < count; i++)
      pipes.push_back(layout.pipe(kind, i));
  };
  add(encPipeKind::Ring, layout.nChannels);
  add(encPipeKind::Kangaring, layout.nPaths);
  for (const encPipeKind kind :
       {encPipeKind::IntraReduce, encPipeKind::IntraGather, encPipeKind::Inter}) {
    add(kind, 1);
  }
  add(encPipeKind::InterRdh, layout.nAxes);
  return pipes;
}

TEST(Layout, GivesEverySemaphoreItsOwnNumberAndName) {
  const encLayout layout = encLayout::of(kWorld.info(0));
  std::set<uint32_t> numbers;
  std::set<std::string> names;
  const auto add = [&](uint32_t number) {
    EXPECT_TRUE(numbers.insert(number).second) << number;
    EXPECT_TRUE(names.insert(layout.semaphoreName(number)).second) << layout.semaphoreName(number);
  };
  for (const encPipeMap& pipe : pipesOf(layout)) {
    for (uint32_t i = 0; i < kPipeSemaphores; i++)
      add(pipe.semaphore(static_cast<encPipeSemaphore>(i)));
  }
  for (int peer = 0; peer < 6; peer++) {
    for (uint32_t i = 0; i < kPeerSemaphores; i++) {
      add(layout.semaphore(static_cast<encPeerSemaphore>(i), peer));
    }
  }
  for (const encLevel level : {encLevel::Intra, encLevel::Inter}) {
    for (uint32_t event = 0; event < kEventSemaphores; event++)
      add(layout.eventSemaphore(level, event));
  }
  for (uint32_t joint = 0; joint < kJointSemaphores; joint++)
    add(layout.jointSemaphore(joint));
  for (uint32_t round = 0; round < kDirectSemaphores; round++)
    add(layout.directSemaphore(round));
  EXPECT_EQ(numbers.size(), layout.semaphores());
  EXPECT_EQ(*numbers.rbegin() + 1, layout.semaphores());
  EXPECT_EQ(layout.semaphoreName(layout.semaphores()), "no semaphore");
}

TEST(Layout, GivesEveryConnectionItsOwnHostIndex) {
  const encLayout layout = encLayout::of(kWorld.info(0));
  std::set<uint32_t> numbers;
  for (const bool send : {false, true}) {
    for (const encPipeMap& pipe : pipesOf(layout))
      numbers.insert(layout.hostIndex({3, pipe.channel, send, 0}));
    for (int peer = 0; peer < 6; peer++) {
      numbers.insert(layout.hostIndex({peer, kP2pChannel, send, 0}));
    }
  }
  EXPECT_EQ(numbers.size(), layout.connections());
  EXPECT_EQ(*numbers.rbegin() + 1, layout.connections());
}

TEST(Layout, GivesEverySlotItsOwnBytes) {
  for (const encSizes sizes : {encSizes{}, encSizes{100000, 3000}, encSizes{1, 1}}) {
    const World world{{3, 2, 1}, 4, sizes};
    for (int rank = 0; rank < 6; rank++) {
      const encLayout layout = encLayout::of(world.info(rank));
      std::set<std::pair<int64_t, uint64_t>> slots;
      for (uint64_t use = 0; use < kRingSlots; use++) {
        for (const encPipeMap& pipe : pipesOf(layout)) {
          slots.emplace(pipe.receiveSlot(use), pipe.slotBytes);
          slots.emplace(pipe.netSendSlot(use), pipe.slotBytes);
        }
        for (int peer = 0; peer < 6; peer++) {
          if (layout.remoteIndex[peer] < 0) continue;
          slots.emplace(layout.p2pSendSlot(peer, use), layout.p2pSlotBytes);
          slots.emplace(layout.p2pReceiveSlot(peer, use), layout.p2pSlotBytes);
        }
      }
      int64_t end = 0;
      for (const auto& [offset, bytes] : slots) {
        EXPECT_EQ(offset, end);
        EXPECT_EQ(offset % 64, 0);
        end = offset + static_cast<int64_t>(bytes);
      }
      EXPECT_EQ(static_cast<uint64_t>(end), layout.scratchBytes());
    }
  }
}

TEST(Layout, RoundsSlotsToPagesOrLines) {
  const auto slot = [](uint64_t bytes) {
    return encLayout::of(World{{2}, 1, {bytes, bytes}}.info(0)).slotBytes;
  };
  EXPECT_EQ(slot(512 << 10), 128u << 10);
  EXPECT_EQ(slot(100000), 24576u);
  EXPECT_EQ(slot(4 * 4096 + 7), 4096u);
  EXPECT_EQ(slot(4 * 4095), 4032u);
  EXPECT_EQ(slot(0), 64u);
}

TEST(Layout, ScratchDoesNotGrowWithTheSquareOfTheRanks) {
  const World few{std::vector<int>(4, 8), 2, {}};
  const World many{std::vector<int>(64, 16), 2, {}};
  const uint64_t pipes = 5 * 2 * kRingSlots * encLayout::of(few.info(0)).slotBytes;
  EXPECT_EQ(encLayout::of(few.info(0)).p2pSlotBytes, encSizes{}.p2pBufferBytes / kP2pSlots);
  EXPECT_LE(encLayout::of(many.info(0)).scratchBytes(), pipes + (32U << 20));
  EXPECT_GE(encLayout::of(many.info(0)).p2pSlotBytes, 4096U);
}

TEST(Layout, IsTheSameOnAllRanksWhereRanksMeet) {
  const encLayout first = encLayout::of(kWorld.info(0));
  for (int rank = 1; rank < 6; rank++) {
    const encLayout layout = encLayout::of(kWorld.info(rank));
    EXPECT_EQ(layout.semaphores(), first.semaphores());
    EXPECT_EQ(layout.pipe(encPipeKind::Ring, 3).receiveSlot(2),
              first.pipe(encPipeKind::Ring, 3).receiveSlot(2));
    EXPECT_EQ(layout.workBegin(), first.workBegin());
  }
}

}  // namespace
}  // namespace nccom
