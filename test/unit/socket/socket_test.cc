#include "misc/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

namespace nccom {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}
Deadline brief() {
  return Deadline::after(milliseconds(30));
}

struct Pair {
  Socket client, server;
};

Pair makePair(int family = AF_INET) {
  ListenSocket listener = ListenSocket::open(SocketAddress::loopback(family)).value();
  Socket client = Socket::connect(listener.address(), soon()).value();
  return {std::move(client), listener.accept(soon()).value()};
}

TEST(Socket, CarriesBytesBothWaysInBothFamilies) {
  for (const int family : {AF_INET, AF_INET6}) {
    Pair pair = makePair(family);
    ASSERT_TRUE(pair.client.send("hello", 5, soon()).ok());
    ASSERT_TRUE(pair.server.send("world", 5, soon()).ok());
    char got[6] = "";
    ASSERT_TRUE(pair.server.recv(got, 5, soon()).ok());
    EXPECT_STREQ(got, "hello");
    ASSERT_TRUE(pair.client.recv(got, 5, soon()).ok());
    EXPECT_STREQ(got, "world");
    EXPECT_EQ(pair.server.peer(), pair.client.local().value());
    EXPECT_EQ(pair.client.peer(), pair.server.local().value());
  }
}

TEST(Socket, MovesMoreThanItsBuffersHold) {
  Pair pair = makePair();
  std::vector<char> data(16 << 20), got(data.size());
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<char>(i * 31 >> 8);
  std::thread sender([&] { ASSERT_TRUE(pair.client.send(data.data(), data.size(), soon()).ok()); });
  EXPECT_TRUE(pair.server.recv(got.data(), got.size(), soon()).ok());
  sender.join();
  EXPECT_TRUE(got == data);
}

TEST(Socket, NeverBlocksInTheTryCalls) {
  Pair pair = makePair();
  char byte = 0;
  EXPECT_EQ(pair.server.tryRecv(&byte, 1).value(), 0U);
  const std::vector<char> data(1 << 20);
  size_t sent = 0;
  while (true) {  // until the buffers are full
    const size_t now = pair.client.trySend(data.data(), data.size()).value();
    if (now == 0) break;
    sent += now;
  }
  EXPECT_GT(sent, 0U);
  EXPECT_EQ(pair.client.trySend(data.data(), 0).value(), 0U);
  EXPECT_EQ(pair.server.tryRecv(&byte, 0).value(), 0U);
}

TEST(Socket, SetsNoDelayAndCloseOnExec) {
  Pair pair = makePair();
  for (const Socket* end : {&pair.client, &pair.server}) {
    int on = 0;
    socklen_t length = sizeof on;
    getsockopt(end->fd(), IPPROTO_TCP, TCP_NODELAY, &on, &length);
    EXPECT_NE(on, 0);
    EXPECT_NE(fcntl(end->fd(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST(Socket, ADeadPeerIsAnErrorAndNoSignal) {
  struct sigaction old {};
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &old), 0);
  ASSERT_EQ(old.sa_handler, SIG_DFL);
  Pair pair = makePair();
  pair.server.close();
  char byte = 0;
  const Status received = pair.client.recv(&byte, 1, soon());
  ASSERT_FALSE(received.ok());
  EXPECT_EQ(received.error().code, ncclRemoteError);
  EXPECT_THAT(received.error().message, HasSubstr("closed the connection"));
  EXPECT_THAT(received.error().message, HasSubstr(pair.client.peer().text()));
  Status sent = Ok{};
  while (sent.ok())
    sent = pair.client.send("x", 1, soon());
  EXPECT_EQ(sent.error().code, ncclRemoteError);
}

TEST(Socket, DeadlinesEndEveryWait) {
  Pair pair = makePair();
  char byte = 0;
  const Status received = pair.client.recv(&byte, 1, brief());
  ASSERT_FALSE(received.ok());
  EXPECT_EQ(received.error().code, ncclRemoteError);
  EXPECT_THAT(received.error().message, HasSubstr("within 30 ms"));
  const std::vector<char> data(64 << 20);
  EXPECT_FALSE(pair.client.send(data.data(), data.size(), brief()).ok());
  ListenSocket listener = ListenSocket::open(SocketAddress::loopback(AF_INET)).value();
  const auto accepted = listener.accept(brief());
  ASSERT_FALSE(accepted.ok());
  EXPECT_THAT(accepted.error().message, HasSubstr("nobody connected within 30 ms"));
}

TEST(Socket, AnAbortFlagEndsEveryWait) {
  std::atomic<uint32_t> abortFlag{1};
  Pair pair = makePair();
  char byte = 0;
  const Status received = pair.client.recv(&byte, 1, Deadline::never(&abortFlag));
  ASSERT_FALSE(received.ok());
  EXPECT_EQ(received.error().code, ncclInternalError);
  EXPECT_THAT(received.error().message, HasSubstr("aborted"));
  ListenSocket listener = ListenSocket::open(SocketAddress::loopback(AF_INET)).value();
  EXPECT_FALSE(listener.accept(Deadline::never(&abortFlag)).ok());
  const SocketAddress nobody = listener.address();
  listener.close();
  EXPECT_FALSE(Socket::connect(nobody, Deadline::never(&abortFlag)).ok());
}

TEST(Socket, ConnectRetriesUntilThePeerListens) {
  ListenSocket probe = ListenSocket::open(SocketAddress::loopback(AF_INET)).value();
  const SocketAddress address = probe.address();
  probe.close();
  const auto refused = Socket::connect(address, brief());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ncclRemoteError);
  EXPECT_THAT(refused.error().message, HasSubstr("connect to " + address.text()));
  EXPECT_THAT(refused.error().message, HasSubstr("Connection refused"));

  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(30));
    ListenSocket listener = ListenSocket::open(address).value();
    EXPECT_TRUE(listener.accept(soon()).ok());
  });
  EXPECT_TRUE(Socket::connect(address, soon()).ok());
  late.join();
}

TEST(Socket, NeverConnectsToItself) {
  ListenSocket probe = ListenSocket::open(SocketAddress::loopback(AF_INET)).value();
  const SocketAddress address = probe.address();
  probe.close();
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Socket::connect(address, Deadline::after(milliseconds(50))).ok());
  }
}

TEST(Socket, ConnectsInSteps) {
  ListenSocket listener = ListenSocket::open(SocketAddress::loopback(AF_INET6)).value();
  EXPECT_FALSE(listener.tryAccept().value());
  Socket client = Socket::startConnect(listener.address()).value();
  Socket server;
  while (!server)
    server = listener.tryAccept().value();
  while (!client.connected().value()) {
  }
  EXPECT_TRUE(server.send("x", 1, soon()).ok());
  const SocketAddress address = listener.address();
  listener.close();

  Socket refused = Socket::startConnect(address).value();
  Result<bool> outcome = false;
  while (outcome.ok() && !outcome.value())
    outcome = refused.connected();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, ncclRemoteError);
}

TEST(Socket, ANamedPortCanBeUsedAgainAtOnce) {
  ListenSocket probe = ListenSocket::open(SocketAddress::loopback(AF_INET)).value();
  const SocketAddress address = probe.address();
  probe.close();
  ListenSocket first = ListenSocket::open(address).value();
  {
    Socket client = Socket::connect(address, soon()).value();
    Socket server = first.accept(soon()).value();
    server.close();  // this side closes first and keeps TIME_WAIT
  }
  first.close();
  const auto again = ListenSocket::open(address);
  EXPECT_TRUE(again.ok()) << again.error().message;
}

TEST(Socket, RefusesToUseNoAddress) {
  EXPECT_EQ(Socket::connect(SocketAddress(), brief()).error().code, ncclInvalidArgument);
  EXPECT_EQ(ListenSocket::open(SocketAddress()).error().code, ncclInvalidArgument);
  const auto foreign = ListenSocket::open(SocketAddress::parse("192.0.2.77:1").value());
  ASSERT_FALSE(foreign.ok());
  EXPECT_THAT(foreign.error().message, HasSubstr("bind to 192.0.2.77:1"));
}

}  // namespace
}  // namespace nccom
