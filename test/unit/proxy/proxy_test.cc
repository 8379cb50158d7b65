#include "transport/proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/unit/proxy/pair.h"

namespace nccom {
namespace {

using testing::HasSubstr;

/// Blocks with all that blocks may have: repeats, strides both ways, empty messages, nothing.
std::vector<NetBlock> someBlocks() {
  return {{0, {{0, 64, 0}}}, {3, {{0, 16, 0}, {16, 10, 0}, {0, 0, 0}}},
          {2, {}},           {5, {{100, 20, 20}}},
          {1, {{0, 0, 0}}},  {4, {{400, 33, -33}, {500, 1, 1}}}};
}

/// The buffers of someBlocks() in order, as (offset, bytes), from the definition of repeat.
std::vector<std::pair<uint64_t, uint64_t>> unrolled(const std::vector<NetBlock>& blocks) {
  std::vector<std::pair<uint64_t, uint64_t>> out;
  for (const NetBlock& block : blocks) {
    for (uint64_t i = 0; i < block.repeat; i++) {
      for (const NetEntry& entry : block.entries) {
        out.emplace_back(
            static_cast<int64_t>(entry.offset) + static_cast<int64_t>(i) * entry.stride,
            entry.bytes);
      }
    }
  }
  return out;
}

TEST(NetEntries, CountIsThatOfTheRepeatedEntries) {
  EXPECT_EQ(entriesOf(someBlocks())->count(), unrolled(someBlocks()).size());
}

TEST(Proxy, MovesEveryEntryFromAndToItsPlaceWhateverTheDelays) {
  const auto buffers = unrolled(someBlocks());
  for (unsigned seed = 1; seed <= 40; seed++) {
    Rig rig(512, seed, true);
    rig.pair.submit(entriesOf(someBlocks()), entriesOf(someBlocks()));
    for (size_t i = 0; i < buffers.size(); i++) {  // one at a time, so that each can be looked at
      const auto [offset, bytes] = buffers[i];
      std::fill_n(rig.pair.from.memory.begin(), 512, std::byte{0});
      std::fill_n(rig.pair.to.memory.begin(), 512, std::byte{0xee});
      std::fill_n(rig.pair.from.memory.begin() + static_cast<ptrdiff_t>(offset), bytes,
                  static_cast<std::byte>(i + 1));
      rig.pair.to.post();
      rig.pair.from.post();
      ASSERT_TRUE(rig.driveUntil([&] {
        return rig.pair.from.semaphore == i + 1 && rig.pair.to.semaphore == i + 1;
      })) << "seed "
          << seed << " entry " << i << "\n"
          << rig.proxy.report();
      for (size_t k = 0; k < 512; k++) {
        const bool inside = k >= offset && k < offset + bytes;
        ASSERT_EQ(rig.pair.to.memory[k], inside ? static_cast<std::byte>(i + 1) : std::byte{0xee})
            << "seed " << seed << " entry " << i << " byte " << k;
      }
    }
    EXPECT_EQ(rig.pair.from.failure() + rig.pair.to.failure(), "");
  }
}

/// A device that fills and empties four slots as its semaphores permit.
struct SlotDevice {
  static constexpr uint64_t kSlots = 4;
  static constexpr uint64_t kBytes = 8;
  static std::vector<NetBlock> blocks(uint64_t entries) {
    NetBlock round{entries / kSlots, {}};
    for (uint64_t slot = 0; slot < kSlots; slot++)
      round.entries.push_back({slot * kBytes, kBytes, 0});
    return {round};
  }
  void step(Pair& pair) {
    if (filled < pair.from.semaphore + kSlots && filled < total) {
      memcpy(pair.from.memory.data() + filled % kSlots * kBytes, &filled, kBytes);
      filled++;
      pair.from.post();
    }
    if (offered < emptied + kSlots && offered < total) {
      offered++;
      pair.to.post();
    }
    if (emptied < pair.to.semaphore) {
      uint64_t got = 0;
      memcpy(&got, pair.to.memory.data() + emptied % kSlots * kBytes, kBytes);
      if (got != emptied) wrong++;
      emptied++;
    }
  }
  uint64_t total = 0, filled = 0, offered = 0, emptied = 0, wrong = 0;
};

TEST(Proxy, CreditsKeepSlotsFromBeingOverwritten) {
  for (unsigned seed = 1; seed <= 20; seed++) {
    Rig rig(64, seed, true);
    SlotDevice device;
    std::mt19937 random(seed);
    for (int operation = 0; operation < 5; operation++) {  // more than one may be under way
      device.total += 40;
      rig.pair.submit(entriesOf(SlotDevice::blocks(40)), entriesOf(SlotDevice::blocks(40)));
    }
    ASSERT_TRUE(rig.driveUntil([&] {
      for (unsigned i = random() % 4; i > 0; i--)
        device.step(rig.pair);
      return device.emptied == device.total;
    })) << "seed "
        << seed;
    EXPECT_EQ(device.wrong, 0U) << "seed " << seed;
    EXPECT_EQ(rig.pair.from.semaphore.load(), device.total);
  }
}

TEST(Proxy, StartsNothingThatTheDeviceHasNotPosted) {
  Rig rig(64);
  rig.pair.submit(entriesOf({{10, {{0, 8, 0}}}}), entriesOf({{10, {{0, 8, 0}}}}));
  for (int i = 0; i < 100; i++)
    rig.proxy.progress();
  EXPECT_EQ(rig.net->isends + rig.net->irecvs, 0);
  rig.pair.from.post(3);
  ASSERT_TRUE(rig.driveUntil([&] { return rig.pair.from.semaphore == 3; }));
  for (int i = 0; i < 100; i++)
    rig.proxy.progress();
  EXPECT_EQ(rig.net->isends, 3);
}

TEST(Proxy, KeepsFewRequestsUnderWay) {
  Rig rig(64);
  rig.net->faults.neverDone = true;
  rig.pair.submit(entriesOf({{100, {{0, 8, 0}}}}), entriesOf({{100, {{0, 8, 0}}}}));
  rig.pair.from.post(100);
  rig.pair.to.post(100);
  for (int i = 0; i < 100; i++)
    rig.proxy.progress();
  EXPECT_EQ(rig.net->mostOut, static_cast<int>(NetConnection::kMaxRequests));
  rig.net->faults.neverDone = false;
  EXPECT_TRUE(rig.driveUntil([&] { return rig.pair.to.semaphore == 100; }));
  EXPECT_EQ(rig.net->mostOut, static_cast<int>(NetConnection::kMaxRequests));
}

TEST(Proxy, ZeroBytesNeverReachTheNetButKeepTheirPlace) {
  Rig rig(64);
  const std::vector<NetBlock> blocks = {{1, {{0, 8, 0}, {0, 0, 0}, {0, 0, 0}, {8, 8, 0}}}};
  rig.pair.submit(entriesOf(blocks), entriesOf(blocks));
  rig.net->faults.neverDone = true;
  rig.pair.from.post(4);
  for (int i = 0; i < 100; i++)
    rig.proxy.progress();
  EXPECT_EQ(rig.pair.from.semaphore, 0U) << "the first is not through";
  rig.net->faults.neverDone = false;
  ASSERT_TRUE(rig.driveUntil([&] { return rig.pair.from.semaphore == 4; }));
  EXPECT_EQ(rig.net->isends, 2);
}

TEST(Proxy, ReceivesIntoDeviceMemoryAreFlushed) {
  auto net = std::make_shared<FakeNet>(3, true);
  Proxy proxy(false);
  Pair pair(64);
  pair.memoryKind = NetMemoryKind::Device;
  pair.open(net, proxy, proxy);
  const NetConnections both = {pair.from.connection, pair.to.connection};
  ASSERT_TRUE(proxy.awaitConnected(both, soon()).ok());
  pair.submit(entriesOf({{20, {{0, 8, 0}}}}), entriesOf({{20, {{0, 8, 0}}}}));
  pair.from.post(20);
  pair.to.post(20);
  ASSERT_TRUE(driveUntil({&proxy}, [&] { return pair.to.semaphore == 20; }));
  EXPECT_EQ(net->flushes, 20);
  proxy.remove(both);
  EXPECT_EQ(net->open, 0);
}

TEST(Proxy, ANetThatDoesNotSaySizesIsBelieved) {
  Rig rig(64);
  rig.net->faults.sizesUnsaid = true;
  rig.pair.submit(entriesOf({{1, {{0, 8, 0}}}}), entriesOf({{1, {{0, 8, 0}}}}));
  rig.pair.from.post();
  rig.pair.to.post();
  EXPECT_TRUE(rig.driveUntil([&] { return rig.pair.to.semaphore == 1; }));
}

// ---- what goes wrong --------------------------------------------------------------------------

struct Breakage {
  const char* name;
  FakeFaults faults;
  bool atSender;
  const char* text;
};

struct Breaks : testing::TestWithParam<Breakage> {};

TEST_P(Breaks, AreReportedOnceWithTheConnectionAndTheCall) {
  Rig rig(65536);
  rig.net->faults = GetParam().faults;
  rig.pair.submit(entriesOf({{9, {{0, 65536, 0}}}}), entriesOf({{9, {{0, 65536, 0}}}}));
  rig.pair.from.post(9);
  rig.pair.to.post(9);
  Side& side = GetParam().atSender ? rig.pair.from : rig.pair.to;
  ASSERT_TRUE(rig.driveUntil([&] { return side.failures > 0; }));
  for (int i = 0; i < 100; i++)
    rig.proxy.progress();
  EXPECT_EQ(side.failures, 1);
  EXPECT_EQ(side.failure(), GetParam().text);
  const Status again = side.connection->submit(entriesOf({{1, {{0, 8, 0}}}}));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().message, GetParam().text) << "the first cause stays";
  EXPECT_EQ(again.error().code, side.code);
}

INSTANTIATE_TEST_SUITE_P(
    Proxy, Breaks,
    testing::Values(Breakage{"isend",
                             {.isendFailsAt = 3},
                             true,
                             "rank 0 -> rank 2 channel 1 over Fake/0: isend of 65536 bytes failed: "
                             "the wire is cut"},
                    Breakage{"irecv",
                             {.irecvFailsAt = 2},
                             false,
                             "rank 2 <- rank 0 channel 1 over Fake/0: irecv of 65536 bytes failed: "
                             "out of memory"},
                    Breakage{"test",
                             {.testFailsAt = 2},
                             true,
                             "rank 0 -> rank 2 channel 1 over Fake/0: sending 65536 bytes failed: "
                             "the peer hung up"},
                    Breakage{"size",
                             {.sizeOff = -24},
                             false,
                             "rank 2 <- rank 0 channel 1 over Fake/0: received 65512 bytes, "
                             "expected 65536: ranks 0 and 2 do not run the same operation"}),
    [](const auto& param) { return param.param.name; });

TEST(Proxy, AFailureLeavesOtherConnectionsAlone) {
  Rig rig(64);
  Pair other(64, 5, 6);
  other.open(rig.net, rig.proxy, rig.proxy);
  const NetConnections ends = {other.from.connection, other.to.connection};
  ASSERT_TRUE(rig.proxy.awaitConnected(ends, soon()).ok());
  rig.net->faults.isendFailsAt = 1;
  rig.pair.submit(entriesOf({{1, {{0, 8, 0}}}}), entriesOf({{1, {{0, 8, 0}}}}));
  rig.pair.from.post();
  ASSERT_TRUE(rig.driveUntil([&] { return rig.pair.from.failures == 1; }));
  other.submit(entriesOf({{50, {{0, 8, 0}}}}), entriesOf({{50, {{0, 8, 0}}}}));
  other.from.post(50);
  other.to.post(50);
  EXPECT_TRUE(rig.driveUntil([&] { return other.to.semaphore == 50; }));
  rig.proxy.remove(ends);
}

TEST(Proxy, AnIndexBeyondWhatWasSubmittedIsAnError) {
  Rig rig(64);
  rig.pair.submit(entriesOf({{2, {{0, 8, 0}}}}), entriesOf({{2, {{0, 8, 0}}}}));
  rig.pair.from.post(3);
  ASSERT_TRUE(rig.driveUntil([&] { return rig.pair.from.failures == 1; }));
  EXPECT_THAT(rig.pair.from.failure(), HasSubstr("posted 3 entries; only 2 were submitted"));
}

TEST(Proxy, EntriesOutsideTheMemoryAreRefused) {
  Rig rig(64);
  const auto refused = [&](const NetBlock& block) {
    return !rig.pair.from.connection->submit(entriesOf({block})).ok();
  };
  EXPECT_FALSE(refused({8, {{0, 8, 8}}}));
  EXPECT_FALSE(refused({8, {{56, 8, -8}}}));
  EXPECT_FALSE(refused({1, {{64, 0, 0}}}));
  EXPECT_TRUE(refused({9, {{0, 8, 8}}}));
  EXPECT_TRUE(refused({9, {{56, 8, -8}}}));
  EXPECT_TRUE(refused({1, {{57, 8, 0}}}));
  EXPECT_TRUE(refused({1, {{~uint64_t{0}, 8, 0}}}));
  EXPECT_TRUE(refused({~uint64_t{0}, {{0, 8, int64_t{1} << 62}}}));
}

TEST(Proxy, AMessageLargerThanTheNetSendsIsRefused) {
  Rig rig(2 << 20);
  const Status submitted =
      rig.pair.from.connection->submit(entriesOf({{1, {{0, (1 << 20) + 1, 0}}}}));
  ASSERT_FALSE(submitted.ok());
  EXPECT_THAT(submitted.error().message, HasSubstr("the net sends at most 1048576"));
}

}  // namespace
}  // namespace nccom
