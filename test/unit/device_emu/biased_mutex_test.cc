#include "plugins/device_emu/biased_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace nccom::emu {
namespace {

constexpr int kOften = 1000;  // more than it takes to own it

void take(BiasedMutex& mutex, uint64_t& counter, int times) {
  for (int i = 0; i < times; i++) {
    const std::lock_guard lock(mutex);
    counter++;
  }
}

TEST(BiasedMutex, IsOneThreadsAfterTheOther) {
  BiasedMutex mutex;
  uint64_t counter = 0;
  for (int turn = 0; turn < 20; turn++)
    std::thread([&] { take(mutex, counter, kOften << (turn / 4)); }).join();
  EXPECT_EQ(counter, uint64_t{4} * kOften * (1 + 2 + 4 + 8 + 16));
}

// An owner at full speed, and others that come now and then: each time they take it from the owner.
TEST(BiasedMutex, LosesNoCountBetweenAnOwnerAndOthers) {
  for (const int others : {1, 3}) {
    BiasedMutex mutex;
    uint64_t counter = 0, owned = 0;
    std::atomic<bool> stop{false};
    std::thread owner([&] {
      while (!stop.load()) {
        take(mutex, counter, 100);
        owned += 100;
      }
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < others; i++) {
      threads.emplace_back([&] {
        for (int turn = 0; turn < 200; turn++) {
          take(mutex, counter, 1 + turn % 3);
          std::this_thread::sleep_for(std::chrono::microseconds(turn * 7 % 1000));
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    stop.store(true);
    owner.join();
    const uint64_t taken = 1 * 67 + 2 * 67 + 3 * 66;
    EXPECT_EQ(counter, owned + taken * static_cast<uint64_t>(others));
  }
}

TEST(BiasedMutex, LosesNoCountWhereAllContend) {
  BiasedMutex mutex;
  uint64_t counter = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([&] { take(mutex, counter, 50'000); });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(counter, 200'000U);
}

// While the owner holds it, others wait; and they get it although the owner never stops.
TEST(BiasedMutex, IsHeldByOneOnly) {
  BiasedMutex mutex;
  uint64_t counter = 0;
  take(mutex, counter, kOften);
  std::atomic<bool> taken{false};
  mutex.lock();
  std::thread other([&] {
    const std::lock_guard lock(mutex);
    taken.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(taken.load());
  mutex.unlock();
  other.join();
  EXPECT_TRUE(taken.load());
  take(mutex, counter, kOften);
  EXPECT_EQ(counter, 2U * kOften);
}

}  // namespace
}  // namespace nccom::emu
