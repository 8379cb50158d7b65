// A connection with both its ends in the test: each with memory, a host index and a semaphore.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/unit/proxy/fake_net.h"
#include "transport/proxy.h"

namespace nccom {

/// What a device and a communicator are to one end.
struct Side {
  explicit Side(size_t bytes) : memory(bytes) {}

  void post(uint64_t entries = 1) {
    std::atomic_ref<uint64_t>(index.posted).fetch_add(entries, std::memory_order_release);
  }
  /// The error that was reported; empty: none.
  std::string failure() {
    const std::lock_guard lock(mutex);
    return text;
  }

  nccomHostIndex_v1 index{};
  std::vector<std::byte> memory;
  std::atomic<uint64_t> semaphore{0};
  std::atomic<int> failures{0};
  std::mutex mutex;
  std::string text;
  ncclResult_t code = ncclSuccess;
  std::shared_ptr<NetConnection> connection;
};

struct Pair {
  explicit Pair(size_t bytes, int sender = 0, int receiver = 2)
      : from(bytes), to(bytes), senderRank(sender), receiverRank(receiver) {}

  NetEnd endOf(bool send) {
    Side& side = send ? from : to;
    NetEnd end;
    end.rank = send ? senderRank : receiverRank;
    end.peer = send ? receiverRank : senderRank;
    end.channel = 1;
    end.send = send;
    end.index = &side.index;
    end.memory = side.memory.data();
    end.memoryBytes = side.memory.size();
    end.memoryKind = memoryKind;
    end.complete = [&side](uint64_t entries) { side.semaphore += entries; };
    end.failed = [&side](const Error& error) {
      const std::lock_guard lock(side.mutex);
      side.text = error.message;
      side.code = error.code;
      side.failures++;
    };
    return end;
  }
  /// Both ends, added to their proxies.
  void open(const std::shared_ptr<Net>& net, Proxy& sender, Proxy& receiver) {
    NetHandle handle{};
    auto listening = NetConnection::listen(net, endOf(false), handle);
    ASSERT_TRUE(listening.ok()) << listening.error().message;
    to.connection = listening.value();
    auto connecting = NetConnection::connect(net, endOf(true), handle);
    ASSERT_TRUE(connecting.ok()) << connecting.error().message;
    from.connection = connecting.value();
    receiver.add(to.connection);
    sender.add(from.connection);
  }
  void submit(const std::shared_ptr<const NetEntries>& sends,
              const std::shared_ptr<const NetEntries>& receives) {
    const Status sent = from.connection->submit(sends);
    ASSERT_TRUE(sent.ok()) << sent.error().message;
    const Status received = to.connection->submit(receives);
    ASSERT_TRUE(received.ok()) << received.error().message;
  }

  Side from, to;
  int senderRank, receiverRank;
  NetMemoryKind memoryKind = NetMemoryKind::Host;
};

inline std::shared_ptr<const NetEntries> entriesOf(std::vector<NetBlock> blocks) {
  auto entries = std::make_shared<NetEntries>();
  entries->blocks = std::move(blocks);
  entries->name = "AllReduce count 16";
  return entries;
}

/// Calls proxies until `done`, for a bounded number of rounds.
inline bool driveUntil(const std::vector<Proxy*>& proxies, const std::function<bool()>& done,
                       int rounds = 200000) {
  for (int i = 0; i < rounds; i++) {
    if (done()) return true;
    for (Proxy* proxy : proxies)
      proxy->progress();
  }
  return done();
}

inline Deadline soon() {
  return Deadline::after(std::chrono::seconds(10));
}

/// Waits for another thread's work.
inline bool eventually(const std::function<bool()>& done) {
  const Deadline limit = soon();
  while (!done() && !limit.passed())
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  return done();
}

/// A pair on a fake net and a proxy without a thread, connected.
struct Rig {
  explicit Rig(size_t bytes, unsigned seed = 1, bool isSlow = false)
      : net(std::make_shared<FakeNet>(seed, isSlow)), pair(bytes) {
    pair.open(net, proxy, proxy);
    const Status connected = proxy.awaitConnected(both(), soon());
    EXPECT_TRUE(connected.ok()) << connected.error().message;
  }
  ~Rig() { proxy.remove(both()); }
  NetConnections both() { return {pair.from.connection, pair.to.connection}; }
  bool driveUntil(const std::function<bool()>& done) { return nccom::driveUntil({&proxy}, done); }

  std::shared_ptr<FakeNet> net;
  Proxy proxy{false};
  Pair pair;
};

}  // namespace nccom
