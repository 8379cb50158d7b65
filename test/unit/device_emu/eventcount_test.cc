#include "plugins/device_emu/eventcount.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "plugins/device_emu/owned.h"
#include "test/unit/device_emu/forked.h"

namespace nccom::emu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Far beyond any honest delay: a sleeper that gets here was not woken.
constexpr seconds kLost{20};

TEST(EventCount, RingsOnlyIfSomebodySleeps) {
  EventCount count;
  count.notify();
  EXPECT_EQ(count.epoch.load(), 0u);
  const EventCount::Key key = count.prepareWait();
  count.notify();
  EXPECT_NE(count.epoch.load(), key);
  count.cancelWait();
  EXPECT_EQ(count.waiters.load(), 0u);
}

TEST(EventCount, DoesNotSleepThroughANotifyThatCameBefore) {
  EventCount count;
  const EventCount::Key key = count.prepareWait();
  count.notify();
  EXPECT_TRUE(count.commitWait(key, kLost));
  EXPECT_EQ(count.waiters.load(), 0u);
}

TEST(EventCount, SaysWhenTheTimeIsUp) {
  EventCount count;
  EXPECT_FALSE(count.commitWait(count.prepareWait(), milliseconds(1)));
  EXPECT_FALSE(count.commitWait(count.prepareWait(), milliseconds(0)));
  EXPECT_FALSE(count.commitWait(count.prepareWait(), milliseconds(-5)));
  EXPECT_EQ(count.waiters.load(), 0u);
}

TEST(EventCount, ZeroedMemoryIsOne) {
  alignas(EventCount) std::array<std::byte, sizeof(EventCount)> zeroes{};
  auto* const count = std::launder(reinterpret_cast<EventCount*>(zeroes.data()));
  EXPECT_FALSE(count->commitWait(count->prepareWait(), milliseconds(1)));
}

// What is shared in the stress tests: a counter that players raise in turn.
struct Table {
  EventCount bell;
  std::atomic<uint64_t> turn{0};
  std::atomic<uint32_t> lost{0};
};

bool waitUntil(Table& table, uint64_t turn, uint64_t step) {
  const auto mine = [&] {
    return table.turn.load(std::memory_order_acquire) % step == turn % step;
  };
  while (!mine()) {
    const EventCount::Key key = table.bell.prepareWait();
    if (mine()) {
      table.bell.cancelWait();
      return true;
    }
    if (!table.bell.commitWait(key, kLost)) return mine();
  }
  return true;
}

// One of `players`: waits for its turn, raises the counter, wakes the others. No spinning, so
// nearly every turn needs a wake-up; one that is lost stops everybody.
bool play(Table& table, uint64_t player, uint64_t players, uint64_t rounds) {
  for (uint64_t i = 0; i < rounds; i++) {
    if (table.lost.load() != 0) return false;
    if (!waitUntil(table, player, players)) {
      table.lost.fetch_add(1);
      return false;
    }
    table.turn.fetch_add(1, std::memory_order_release);
    table.bell.notify();
  }
  return true;
}

TEST(EventCount, LosesNoWakeUpBetweenThreads) {
  for (const uint64_t players : {2u, 5u}) {
    Table table;
    std::vector<std::thread> threads;
    for (uint64_t player = 0; player < players; player++) {
      threads.emplace_back([&table, player, players] { play(table, player, players, 4000); });
    }
    for (std::thread& thread : threads)
      thread.join();
    EXPECT_EQ(table.lost.load(), 0u);
    EXPECT_EQ(table.turn.load(), players * 4000);
    EXPECT_EQ(table.bell.waiters.load(), 0u);
  }
}

// A bell each: the usual case, where only one of the two sides sleeps at a time and the changer
// runs on.
TEST(EventCount, WakesASleeperWhoseChangerDoesNotWait) {
  struct alignas(64) Semaphore {
    std::atomic<uint64_t> value{0};
  };
  EventCount bell;
  Semaphore semaphore;
  constexpr uint64_t kIncrements = 200'000;
  std::thread changer([&] {
    for (uint64_t i = 0; i < kIncrements; i++) {
      semaphore.value.fetch_add(1, std::memory_order_release);
      bell.notify();
      if (i % 64 == 0) std::this_thread::yield();
    }
  });
  uint64_t seen = 0;
  bool lost = false;
  while (seen < kIncrements && !lost) {
    const EventCount::Key key = bell.prepareWait();
    if (semaphore.value.load(std::memory_order_acquire) > seen) {
      bell.cancelWait();
    } else {
      lost = !bell.commitWait(key, kLost);
    }
    seen = semaphore.value.load(std::memory_order_acquire);
  }
  changer.join();
  EXPECT_FALSE(lost);
  EXPECT_EQ(seen, kIncrements);
}

TEST(EventCount, LosesNoWakeUpBetweenProcessesThatMapItApart) {
  const OwnedFd memory(memfd_create("eventcount", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), sizeof(Table)), 0);
  const auto map = [&memory] {
    return OwnedMapping(
        mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0),
        sizeof(Table));
  };
  const OwnedMapping first = map();
  auto* const table = new (first.base()) Table;
  constexpr uint64_t kPlayers = 3;
  constexpr uint64_t kRounds = 4000;
  std::vector<std::unique_ptr<Child>> children;
  for (uint64_t player = 1; player < kPlayers; player++) {
    children.push_back(std::make_unique<Child>([&, player] {
      const OwnedMapping second = map();  // while the inherited one stands: elsewhere
      return second.base() != first.base() &&
             play(*std::launder(reinterpret_cast<Table*>(second.base())), player, kPlayers,
                  kRounds);
    }));
  }
  EXPECT_TRUE(play(*table, 0, kPlayers, kRounds));
  for (const auto& child : children)
    EXPECT_TRUE(child->succeeded());
  EXPECT_EQ(table->turn.load(), kPlayers * kRounds);
}

}  // namespace
}  // namespace nccom::emu
