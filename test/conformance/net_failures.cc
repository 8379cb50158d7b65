// What goes wrong: messages that do not fit, peers that leave or die, strangers; and threads.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "misc/socket.h"
#include "test/conformance/net_conformance.h"

namespace nccom {
namespace {

using Clock = std::chrono::steady_clock;
using testing::HasSubstr;
using testing::Ne;

// Within it a peer's death must have become an error.
constexpr std::chrono::seconds kBound(30);

/// Both nets of this library write the listener's address here in their handles.
SocketAddress listenerOf(const NetHandle& handle) {
  SocketAddress address;
  memcpy(&address, handle.data() + 24, sizeof address);
  return address;
}

}  // namespace

TEST_P(NetConformance, AMessageLargerThanItsReceiveIsAnError) {
  for (const size_t bytes : {size_t{101}, size_t{5000}, size_t{1} << 20}) {
    SCOPED_TRACE(bytes);
    const NetLink link = makeLink();
    SendBuffer from(net(), link.send.get(), bytes, 0x11);
    RecvBuffer to(net(), link.recv.get(), bytes + 100, 0x22);
    NetRequest* recv = irecv(link, {to.part(0, 100)});
    NetRequest* send = isend(link, from.whole());
    std::string error;
    const auto limit = Clock::now() + kBound;
    while (error.empty() && Clock::now() < limit) {
      const auto done = net().test(recv, {});
      if (!done.ok()) error = done.error().message;
      ASSERT_FALSE(done.ok() && done.value()) << "it was received";
      if (send != nullptr) {
        const auto sent = net().test(send, {});
        if (!sent.ok() || sent.value()) send = nullptr;
      }
    }
    EXPECT_THAT(error, HasSubstr("receive of 100 bytes"));
    EXPECT_TRUE(
        std::all_of(to.data() + 100, to.data() + bytes + 100, [](uint8_t b) { return b == 0x22; }));
  }
}

TEST_P(NetConformance, AReceiveFailsWhenThePeerHasClosed) {
  NetLink link = makeLink();
  SendBuffer* from = nullptr;
  auto owned = std::make_unique<SendBuffer>(net(), link.send.get(), 1000, 1);
  from = owned.get();
  RecvBuffer to(net(), link.recv.get(), 2000);
  NetRequest* first = irecv(link, {to.part(0, 1000)});
  NetRequest* second = irecv(link, {to.part(1000, 1000)});
  finish({isend(link, from->whole()), first});
  owned.reset();
  link.send.reset();
  EXPECT_THAT(errorOf(second), Ne(""));
}

TEST_P(NetConformance, WhatWasSentBeforeClosingStillArrives) {
  NetLink link = makeLink();
  RecvBuffer to(net(), link.recv.get(), 3 * 1000);
  {
    SendBuffer from(net(), link.send.get(), 3 * 1000);
    fillPattern(from.data(), 3 * 1000, 5);
    for (size_t i = 0; i < 3; ++i) {
      // Small messages may be done before they are received.
      NetRequest* send = isend(link, from.part(i * 1000, 1000));
      NetRequest* recv = i == 0 ? irecv(link, {to.part(0, 1000)}) : nullptr;
      finish({send, recv});
    }
  }
  link.send.reset();
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(finishOne(irecv(link, {to.part(i * 1000, 1000)})).at(0), 1000);
  }
  EXPECT_EQ(wrongByte(to.data(), 3 * 1000, 5), -1);
}

TEST_P(NetConformance, ASendFailsWhenThePeerHasClosed) {
  NetLink link = makeLink();
  constexpr size_t kBytes = 4 << 20;
  SendBuffer from(net(), link.send.get(), kBytes);
  link.recv.reset();
  std::string error;
  NetRequest* request = nullptr;
  const auto limit = Clock::now() + kBound;
  while (error.empty() && Clock::now() < limit) {
    if (request == nullptr) {
      const auto posted = net().isend(link.send.get(), from.whole());
      if (!posted.ok()) error = posted.error().message;
      if (posted.ok()) request = posted.value();
    } else {
      const auto done = net().test(request, {});
      if (!done.ok()) error = done.error().message;
      if (done.ok() && done.value()) request = nullptr;
    }
  }
  EXPECT_THAT(error, Ne(""));
}

TEST_P(NetConformance, ClosesWithMessagesUnderWay) {
  const auto start = Clock::now();
  for (const bool sendFirst : {true, false}) {
    NetLink link = makeLink();
    std::vector<uint8_t> bytes(2 << 20);
    NetMemory* ofSend =
        net().regMr(link.send.get(), bytes.data(), bytes.size(), NetMemoryKind::Host).value();
    NetMemory* ofRecv =
        net().regMr(link.recv.get(), bytes.data(), bytes.size(), NetMemoryKind::Host).value();
    irecv(link, {{bytes.data(), 1000, 7, ofRecv}});
    ASSERT_TRUE(net().isend(link.send.get(), {bytes.data(), bytes.size(), 5, ofSend}).ok());
    EXPECT_TRUE(net().deregMr(link.send.get(), ofSend).ok());
    EXPECT_TRUE(net().deregMr(link.recv.get(), ofRecv).ok());
    if (sendFirst) {
      link.send.reset();
      link.recv.reset();
    } else {
      link.recv.reset();
      link.send.reset();
    }
  }
  EXPECT_LT(Clock::now() - start, kBound);
  const NetLink again = makeLink();  // the device is as good as before
  SendBuffer from(net(), again.send.get(), 10);
  RecvBuffer to(net(), again.recv.get(), 10);
  finish({irecv(again, {to.whole()}), isend(again, from.whole())});
}

TEST_P(NetConformance, ConnectingToAClosedListenerFails) {
  NetHandle handle{};
  auto listening = net().listen(0, handle);
  ASSERT_TRUE(listening.ok()) << listening.error().message;
  ASSERT_TRUE(net().closeListen(listening.value()).ok());
  std::string error;
  const auto limit = Clock::now() + kBound;
  while (error.empty() && Clock::now() < limit) {
    auto sending = net().connect(0, handle);
    if (!sending.ok()) error = sending.error().message;
    ASSERT_FALSE(sending.ok() && sending.value() != nullptr);
  }
  EXPECT_THAT(error, HasSubstr("efused"));
}

TEST_P(NetConformance, RefusesAHandleThatIsNotItsOwn) {
  NetHandle handle{};
  EXPECT_FALSE(net().connect(0, handle).ok());
  NetHandle good{};
  const UniqueNetListen listener(net(), net().listen(0, good).value());
  EXPECT_FALSE(net().connect(99, good).ok());
  EXPECT_FALSE(net().listen(99, handle).ok());
}

TEST_P(NetConformance, StrangersDoNotDisturbTheListener) {
  NetHandle handle{};
  const UniqueNetListen listener(net(), net().listen(0, handle).value());
  const SocketAddress address = listenerOf(handle);
  ASSERT_TRUE(address.valid());
  const Deadline soon = Deadline::after(kBound);
  Socket silent = Socket::connect(address, soon).value();
  Socket http = Socket::connect(address, soon).value();
  const std::string words = "GET / HTTP/1.0\r\n\r\n" + std::string(2000, 'x');
  ASSERT_TRUE(http.send(words.data(), words.size(), soon).ok());
  Socket brief = Socket::connect(address, soon).value();
  ASSERT_TRUE(brief.send("abc", 3, soon).ok());
  Socket::connect(address, soon).value().close();
  Socket rude = Socket::connect(address, soon).value();
  const linger reset{1, 0};
  setsockopt(rude.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  rude.close();

  UniqueNetSend send;
  UniqueNetRecv recv;
  while ((!send || !recv) && !soon.passed()) {
    if (!send) send = UniqueNetSend(net(), net().connect(0, handle).value());
    if (!recv) recv = UniqueNetRecv(net(), net().accept(listener.get()).value());
  }
  ASSERT_TRUE(send && recv);
  const NetLink link{std::move(send), std::move(recv)};
  SendBuffer from(net(), link.send.get(), 10);
  RecvBuffer to(net(), link.recv.get(), 10);
  finish({irecv(link, {to.whole()}), isend(link, from.whole())});
}

TEST_P(NetConformance, ThreadsDriveTheirOwnConnections) {
  constexpr size_t kThreads = 4, kMessages = 60, kBytes = 30000;
  const std::vector<NetLink> links = makeLinks(kThreads);
  std::atomic<int> wrong{0};
  const auto wait = [this](NetRequest* request) {
    const auto limit = Clock::now() + kBound;
    while (Clock::now() < limit) {
      const auto done = net().test(request, {});
      if (!done.ok()) return false;
      if (done.value()) return true;
      std::this_thread::yield();
    }
    return false;
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      SendBuffer from(net(), links[i].send.get(), kBytes);
      fillPattern(from.data(), kBytes, i);
      for (size_t m = 0; m < kMessages; ++m) {
        if (!wait(isend(links[i], from.whole()))) ++wrong;
      }
    });
    threads.emplace_back([&, i] {
      RecvBuffer to(net(), links[i].recv.get(), kBytes);
      for (size_t m = 0; m < kMessages; ++m) {
        std::fill(to.data(), to.data() + kBytes, uint8_t{0});
        if (!wait(irecv(links[i], {to.whole()}))) ++wrong;
        if (wrongByte(to.data(), kBytes, i) != -1) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace nccom
