// Two processes: each opens the net for itself.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "test/conformance/net_conformance.h"

namespace nccom {
namespace {

using Clock = std::chrono::steady_clock;
using testing::Ne;

constexpr std::chrono::seconds kBound(30);
constexpr size_t kBytes = 100000;
constexpr size_t kMessages = 200;

/// Sends `messages` numbered messages to the holder of the handle in `pipe`; 0: all went.
int sendAll(const NetUnderTest& param, const Pipe& pipe, size_t messages) {
  auto opened = param.open();
  NetHandle handle;
  if (!opened.ok() || !pipe.read(handle.data(), handle.size())) return 2;
  Net& net = *opened.value();
  const auto limit = Clock::now() + kBound;
  NetSendComm* comm = nullptr;
  while (comm == nullptr && Clock::now() < limit) {
    auto connected = net.connect(0, handle);
    if (!connected.ok()) return 3;
    comm = connected.value();
  }
  if (comm == nullptr) return 4;
  const UniqueNetSend send(net, comm);
  std::vector<uint8_t> data(kBytes);
  auto memory = net.regMr(comm, data.data(), data.size(), NetMemoryKind::Host);
  if (!memory.ok()) return 5;
  for (size_t i = 0; i < messages; ++i) {
    const size_t bytes = 1 + i * 7919 % kBytes;
    fillPattern(data.data(), bytes, i);
    NetRequest* request = nullptr;
    while (request == nullptr && Clock::now() < limit) {
      auto posted = net.isend(comm, {data.data(), bytes, 0, memory.value()});
      if (!posted.ok()) return 6;
      request = posted.value();
      if (request == nullptr) std::this_thread::yield();
    }
    bool done = false;
    while (!done && Clock::now() < limit) {
      auto tested = net.test(request, {});
      if (!tested.ok()) return 7;
      done = tested.value();
      if (!done) std::this_thread::yield();
    }
    if (!done) return 8;
  }
  return net.deregMr(comm, memory.value()).ok() ? 0 : 9;
}

}  // namespace

UniqueNetRecv NetProcesses::acceptFrom(const Pipe& pipe) {
  openNow();
  if (!net_) return {};
  NetHandle handle{};
  const UniqueNetListen listener(net(), net().listen(0, handle).value());
  pipe.write(handle.data(), handle.size());
  const auto limit = Clock::now() + kBound;
  while (Clock::now() < limit) {
    auto accepted = net().accept(listener.get());
    EXPECT_TRUE(accepted.ok()) << accepted.error().message;
    if (!accepted.ok()) break;
    if (accepted.value() != nullptr) return UniqueNetRecv(net(), accepted.value());
  }
  ADD_FAILURE() << "nobody connected";
  return {};
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NetProcesses);

TEST_P(NetProcesses, ExchangeMessages) {
  const Pipe pipe;
  ChildProcess child([&] { return sendAll(GetParam(), pipe, kMessages); });
  NetLink link;
  link.recv = acceptFrom(pipe);
  ASSERT_TRUE(link.recv);
  {
    RecvBuffer to(net(), link.recv.get(), kBytes);
    for (size_t i = 0; i < kMessages; ++i) {
      const size_t bytes = 1 + i * 7919 % kBytes;
      const auto sizes = finishOne(irecv(link, {to.whole()}));
      ASSERT_FALSE(sizes.empty());
      ASSERT_EQ(sizes[0], static_cast<int>(bytes));
      ASSERT_EQ(wrongByte(to.data(), bytes, i), -1) << "message " << i;
    }
  }
  EXPECT_EQ(child.join(), 0);
}

TEST_P(NetProcesses, AKilledSenderBecomesAnError) {
  const Pipe pipe;
  ChildProcess child([&] { return sendAll(GetParam(), pipe, 1000000); });
  NetLink link;
  link.recv = acceptFrom(pipe);
  ASSERT_TRUE(link.recv);
  std::string error;
  {
    RecvBuffer to(net(), link.recv.get(), 4 * kBytes);
    for (size_t i = 0; i < 20; ++i)
      finishOne(irecv(link, {to.part(0, kBytes)}));
    child.kill();
    const auto limit = Clock::now() + kBound;
    while (error.empty() && Clock::now() < limit) {
      const auto posted = net().irecv(link.recv.get(), std::vector<NetBuffer>{to.part(0, kBytes)});
      if (!posted.ok()) {
        error = posted.error().message;
      } else if (posted.value() != nullptr) {
        error = errorOf(posted.value());
      }
    }
  }
  EXPECT_THAT(error, Ne(""));
  EXPECT_EQ(child.join(), 128 + 9);
  const auto start = Clock::now();
  link.recv.reset();
  EXPECT_LT(Clock::now() - start, kBound);
}

TEST_P(NetProcesses, AKilledReceiverBecomesAnError) {
  const Pipe handles, ready;
  ChildProcess child([&] {
    auto opened = GetParam().open();
    NetHandle handle{};
    auto listening = opened.value()->listen(0, handle);
    handles.write(handle.data(), handle.size());
    NetRecvComm* comm = nullptr;
    while (comm == nullptr)
      comm = opened.value()->accept(listening.value()).value();
    std::vector<uint8_t> data(kBytes);
    auto memory = opened.value()->regMr(comm, data.data(), data.size(), NetMemoryKind::Host);
    for (int i = 0;; ++i) {  // until it is killed
      NetRequest* request = nullptr;
      const std::vector<NetBuffer> group = {{data.data(), data.size(), 0, memory.value()}};
      while (request == nullptr)
        request = opened.value()->irecv(comm, group).value();
      while (!opened.value()->test(request, {}).value())
        std::this_thread::yield();
      if (i == 5) ready.write("x", 1);
    }
    return 0;
  });
  openNow();
  ASSERT_TRUE(net_);
  NetHandle handle;
  ASSERT_TRUE(handles.read(handle.data(), handle.size()));
  NetLink link;
  const auto connectLimit = Clock::now() + kBound;
  while (!link.send && Clock::now() < connectLimit) {
    link.send = UniqueNetSend(net(), net().connect(0, handle).value());
  }
  ASSERT_TRUE(link.send);
  std::string error;
  {
    SendBuffer from(net(), link.send.get(), kBytes);
    for (int i = 0; i < 10; ++i)
      finishOne(isend(link, from.whole()));
    char byte = 0;
    ASSERT_TRUE(ready.read(&byte, 1));
    child.kill();
    const auto limit = Clock::now() + kBound;
    while (error.empty() && Clock::now() < limit) {
      const auto posted = net().isend(link.send.get(), from.whole());
      if (!posted.ok()) {
        error = posted.error().message;
      } else if (posted.value() != nullptr) {
        error = errorOf(posted.value());
      }
    }
  }
  EXPECT_THAT(error, Ne(""));
  const auto start = Clock::now();
  link.send.reset();
  EXPECT_LT(Clock::now() - start, kBound);
}

}  // namespace nccom
