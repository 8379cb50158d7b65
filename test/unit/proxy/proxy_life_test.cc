// Connecting, closing, reporting, and the proxy's thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "test/unit/proxy/fake_net.h"
#include "test/unit/proxy/pair.h"
#include "transport/net_socket.h"
#include "transport/proxy.h"

namespace nccom {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

// ---- connecting and closing -------------------------------------------------------------------

TEST(Proxy, APeerThatDoesNotConnectIsNamedWithTheNet) {
  auto net = std::make_shared<FakeNet>();
  net->faults.neverConnects = true;
  Proxy proxy(false);
  Pair pair(64);
  pair.open(net, proxy, proxy);
  const NetConnections both = {pair.from.connection, pair.to.connection};
  const Status connected = proxy.awaitConnected({pair.from.connection}, Deadline::after(20ms));
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().code, ncclRemoteError);
  EXPECT_EQ(connected.error().message,
            "rank 0 -> rank 2 channel 1 over Fake/0: not connected within 20 ms");
  proxy.remove(both);
  EXPECT_EQ(net->open, 0);
}

TEST(Proxy, ConnectingEndsWhenAborted) {
  auto net = std::make_shared<FakeNet>();
  net->faults.neverConnects = true;
  Proxy proxy(true);
  Pair pair(64);
  pair.open(net, proxy, proxy);
  std::atomic<uint32_t> flag{0};
  std::thread aborter([&] {
    std::this_thread::sleep_for(10ms);
    flag = 1;
  });
  const Status connected =
      proxy.awaitConnected({pair.from.connection}, Deadline::after(10s, &flag));
  aborter.join();
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.error().code, ncclInternalError);
}

TEST(Proxy, FailuresToConnectSayWhichStep) {
  const auto outcome = [](const FakeFaults& faults) -> std::string {
    auto net = std::make_shared<FakeNet>();
    net->faults = faults;
    Proxy proxy(false);
    Pair pair(64);
    NetHandle handle{};
    auto listening = NetConnection::listen(net, pair.endOf(false), handle);
    if (!listening.ok()) return listening.error().message;
    auto connecting = NetConnection::connect(net, pair.endOf(true), handle);
    proxy.add(listening.value());
    proxy.add(connecting.value());
    const NetConnections both = {connecting.value(), listening.value()};
    const Status connected = proxy.awaitConnected(both, soon());
    proxy.remove(both);
    EXPECT_EQ(net->open, 0);
    return connected.ok() ? "" : connected.error().message;
  };
  EXPECT_EQ(outcome({.connectFails = true}),
            "rank 0 -> rank 2 channel 1 over Fake/0: connect failed: nobody home");
  EXPECT_EQ(outcome({.acceptFails = true}),
            "rank 2 <- rank 0 channel 1 over Fake/0: accept failed: no descriptor left");
  EXPECT_EQ(outcome({.listenFails = true}),
            "rank 2 <- rank 0 channel 1 over Fake/0: listen failed: no port left");
  EXPECT_THAT(outcome({.regMrFails = true}), HasSubstr("registering memory failed: out of memory"));
}

TEST(Proxy, ClosingIsBoundedWhateverThePeersDo) {
  auto net = std::make_shared<FakeNet>();
  Proxy proxy(true);
  std::vector<std::unique_ptr<Pair>> pairs;
  NetConnections all;
  for (int i = 0; i < 30; i++) {
    pairs.push_back(std::make_unique<Pair>(64));
    pairs.back()->open(net, proxy, proxy);
    all.push_back(pairs.back()->from.connection);
    all.push_back(pairs.back()->to.connection);
  }
  ASSERT_TRUE(proxy.awaitConnected(all, soon()).ok());
  net->faults.neverDone = true;
  for (auto& pair : pairs) {
    pair->submit(entriesOf({{8, {{0, 8, 0}}}}), entriesOf({{8, {{0, 8, 0}}}}));
    pair->from.post(8);
    pair->to.post(8);
    proxy.netPosted();
  }
  ASSERT_TRUE(eventually([&] {
    return std::all_of(all.begin(), all.end(),
                       [](const auto& each) { return each->counters().started == 8; });
  }));
  const auto before = std::chrono::steady_clock::now();
  proxy.remove(all);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 2s);
  EXPECT_EQ(net->open, 0);
}

TEST(Proxy, ClosingLetsWhatIsBeingSentOut) {
  Rig rig(64, 7, true);
  rig.pair.submit(entriesOf({{6, {{0, 8, 0}}}}), entriesOf({{6, {{0, 8, 0}}}}));
  rig.pair.from.post(6);
  rig.proxy.remove({rig.pair.from.connection});
  rig.pair.to.post(6);
  EXPECT_TRUE(rig.driveUntil([&] { return rig.pair.to.semaphore == 6; }));
}

TEST(Proxy, ReportsWhatStandsStill) {
  Rig rig(64);
  rig.net->faults.neverDone = true;
  rig.pair.submit(entriesOf({{20, {{0, 8, 0}}}}), entriesOf({{20, {{0, 8, 0}}}}));
  EXPECT_EQ(rig.proxy.report(), "");
  rig.pair.from.post(10);
  for (int i = 0; i < 10; i++)
    rig.proxy.progress();
  EXPECT_EQ(
      rig.proxy.report(),
      "rank 0 -> rank 2 channel 1 over Fake/0: AllReduce count 16: 0 entries complete, 8 with "
      "the net, 2 waiting for it, 10 not posted by the device\n");
  EXPECT_TRUE(rig.pair.from.connection->stalled());
  EXPECT_FALSE(rig.pair.to.connection->stalled()) << "nothing is posted there";
}

// ---- with threads -----------------------------------------------------------------------------

TEST(Proxy, TheThreadWakesForEveryPost) {
  auto net = std::make_shared<FakeNet>(1, false);
  Proxy proxy(true);
  Pair pair(64);
  pair.open(net, proxy, proxy);
  const NetConnections both = {pair.from.connection, pair.to.connection};
  ASSERT_TRUE(proxy.awaitConnected(both, soon()).ok());
  std::mt19937 random(5);
  pair.submit(entriesOf({{300, {{0, 8, 0}}}}), entriesOf({{300, {{0, 8, 0}}}}));
  for (uint64_t i = 1; i <= 300; i++) {
    pair.to.post();
    proxy.netPosted();
    pair.from.post();
    proxy.netPosted();
    ASSERT_TRUE(eventually([&] { return pair.to.semaphore == i; })) << i;
    // Around the time at which the thread goes to sleep.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
  }
  proxy.remove(both);
}

TEST(Proxy, TwoProcessesWorthOfProxiesOverTheSocketNet) {
  auto opened = openSocketNet({"=lo", ""});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const std::shared_ptr<Net> net = std::move(opened).value();
  constexpr uint64_t kSlots = 4, kSlotBytes = 65536, kEntries = 400;
  Proxy sender(true), receiver(true);
  Pair pair(kSlots * kSlotBytes);
  pair.open(net, sender, receiver);
  ASSERT_TRUE(sender.awaitConnected({pair.from.connection}, soon()).ok());
  ASSERT_TRUE(receiver.awaitConnected({pair.to.connection}, soon()).ok());
  std::mt19937 random(11);
  std::vector<NetBlock> blocks(1);
  for (uint64_t i = 0; i < kEntries; i++)
    blocks[0].entries.push_back({i % kSlots * kSlotBytes, random() % (kSlotBytes + 1), 0});
  pair.submit(entriesOf(blocks), entriesOf(blocks));
  std::thread producer([&] {
    for (uint64_t i = 0; i < kEntries; i++) {
      ASSERT_TRUE(eventually([&] { return pair.from.semaphore + kSlots > i; }));
      const NetEntry& entry = blocks[0].entries[i];
      std::fill_n(pair.from.memory.data() + entry.offset, entry.bytes, static_cast<std::byte>(i));
      pair.from.post();
      sender.netPosted();
    }
  });
  pair.to.post(kSlots);
  receiver.netPosted();
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kEntries; i++) {
    ASSERT_TRUE(eventually([&] { return pair.to.semaphore > i; })) << pair.to.failure();
    const NetEntry& entry = blocks[0].entries[i];
    for (uint64_t k = 0; k < entry.bytes; k++)
      wrong += pair.to.memory[entry.offset + k] != static_cast<std::byte>(i);
    if (i + kSlots < kEntries) {
      pair.to.post();
      receiver.netPosted();
    }
  }
  producer.join();
  EXPECT_EQ(wrong, 0U);
  sender.remove(pair.from.connection);
  receiver.remove(pair.to.connection);
}

TEST(Proxy, AClosedPeerFailsTheReceiver) {
  auto opened = openSocketNet({"=lo", ""});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const std::shared_ptr<Net> net = std::move(opened).value();
  Proxy proxy(true);
  Pair pair(64);
  pair.open(net, proxy, proxy);
  ASSERT_TRUE(proxy.awaitConnected({pair.from.connection, pair.to.connection}, soon()).ok());
  pair.submit(entriesOf({{1, {{0, 8, 0}}}}), entriesOf({{1, {{0, 8, 0}}}}));
  pair.to.post();
  proxy.netPosted();
  proxy.remove(pair.from.connection);
  ASSERT_TRUE(eventually([&] { return pair.to.failures == 1; }));
  EXPECT_THAT(pair.to.failure(), HasSubstr("rank 2 <- rank 0 channel 1 over Socket/0: "));
}

/// Threads that drive a proxy until told to stop.
struct Engines {
  Engines(Proxy& proxy, size_t count) {
    threads.reserve(count);
    for (size_t i = 0; i < count; i++)
      threads.emplace_back([this, &proxy] { drive(proxy); });
  }
  void drive(Proxy& proxy) const {
    while (!stop) {
      if (!proxy.progress()) std::this_thread::yield();
    }
  }
  ~Engines() {
    stop = true;
    for (std::thread& thread : threads)
      thread.join();
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
};

void driveWithEngines(bool hasThread) {
  auto net = std::make_shared<FakeNet>(9, true);
  Proxy proxy(hasThread);
  std::vector<std::unique_ptr<Pair>> pairs;
  NetConnections all;
  for (int i = 0; i < 4; i++) {
    pairs.push_back(std::make_unique<Pair>(64));
    pairs.back()->open(net, proxy, proxy);
    all.push_back(pairs.back()->from.connection);
    all.push_back(pairs.back()->to.connection);
    pairs.back()->submit(entriesOf({{200, {{0, 8, 0}}}}), entriesOf({{200, {{0, 8, 0}}}}));
  }
  ASSERT_TRUE(proxy.awaitConnected(all, soon()).ok());
  const Engines engines(proxy, 2);
  for (auto& pair : pairs) {
    pair->from.post(200);
    pair->to.post(200);
    proxy.netPosted();
  }
  EXPECT_TRUE(eventually([&] {
    return std::all_of(pairs.begin(), pairs.end(),
                       [](const auto& pair) { return pair->to.semaphore == 200; });
  }));
  proxy.remove(all);  // while they still drive
  EXPECT_EQ(net->open, 0);
}

TEST(Proxy, EnginesMayDriveItTogether) {
  driveWithEngines(false);
}

TEST(Proxy, EnginesMayDriveItWithTheThread) {
  driveWithEngines(true);
}

}  // namespace
}  // namespace nccom
