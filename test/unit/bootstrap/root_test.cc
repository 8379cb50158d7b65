// Check-ins that go wrong: what every rank is told, and strangers at the door.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>

#include "comm/bootstrap_root.h"
#include "test/unit/bootstrap/ranks.h"

namespace nccom {
namespace {

using testing::HasSubstr;

Result<std::unique_ptr<Bootstrap>> join(BootstrapRoots& roots, const ncclUniqueId& id, int rank,
                                        int nRanks, int64_t timeoutMs = 20000) {
  return Bootstrap::init(loopback(timeoutMs), roots, id, rank, nRanks, nullptr);
}

TEST(BootstrapRoot, RanksMayComeInAnyOrder) {
  BootstrapRoots roots;
  constexpr int kRanks = 5;
  std::atomic<int> turn{kRanks - 1};  // the last rank checks in first
  const World world =
      startWorld(roots, roots.getUniqueId(loopback()).value(), kRanks, loopback(), [&](int rank) {
        while (turn.load() != rank)
          std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        turn.fetch_sub(1);
      });
  EXPECT_TRUE(world.ok()) << world.errors();
}

TEST(BootstrapRoot, EveryRankHearsWhoIsMissing) {
  BootstrapRoots roots;
  const BootstrapConfig config = loopback(300);
  const ncclUniqueId id = roots.getUniqueId(config).value();
  onRanks(6, [&](int rank) {
    if (rank == 2 || rank == 4) return;
    const auto made = join(roots, id, rank, 6, 20000);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, ncclRemoteError);
    EXPECT_THAT(made.error().message,
                HasSubstr("ranks 2 and 4 of 6 have not checked in within 300 ms"));
  });
  const auto late = join(roots, id, 2, 6);
  ASSERT_FALSE(late.ok());
  EXPECT_THAT(late.error().message, HasSubstr("ranks 2 and 4 of 6 have not checked in"));
}

TEST(BootstrapRoot, OneMissingRankIsNamed) {
  BootstrapRoots roots;
  const ncclUniqueId id = roots.getUniqueId(loopback(1000)).value();
  const auto made = join(roots, id, 0, 2);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("rank 1 of 2 has not checked in within 1 s"));
}

TEST(BootstrapRoot, ARankThatChecksInTwiceFailsAll) {
  BootstrapRoots roots;
  const ncclUniqueId id = roots.getUniqueId(loopback()).value();
  onRanks(4, [&](int thread) {
    const int rank = thread == 3 ? 1 : thread;  // 0, 1, 2, 1: the last of four never comes
    const auto made = join(roots, id, rank, 4);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, ncclInvalidUsage);
    EXPECT_THAT(made.error().message, HasSubstr("rank 1 checked in twice"));
  });
}

TEST(BootstrapRoot, EachSideHearsTheOthersNumberOfRanks) {
  BootstrapRoots roots;
  const ncclUniqueId id = roots.getUniqueId(loopback()).value();
  onRanks(2, [&](int rank) {
    const int nRanks = rank == 0 ? 2 : 3;
    const auto made = join(roots, id, rank, nRanks);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, ncclInvalidUsage);
    const char* wanted =
        rank == 0 ? "nranks is 2 here, 3 at rank 1" : "nranks is 3 here, 2 at rank 0";
    EXPECT_THAT(made.error().message, HasSubstr(wanted));
  });
}

TEST(BootstrapRoot, AnIdServesOneCommunicator) {
  BootstrapRoots roots;
  const ncclUniqueId id = roots.getUniqueId(loopback()).value();
  const World first = startWorld(roots, id, 2);
  ASSERT_TRUE(first.ok()) << first.errors();
  const World second = startWorld(roots, id, 2);
  for (const Status& outcome : second.outcome) {
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().code, ncclInvalidUsage);
    EXPECT_THAT(outcome.error().message,
                HasSubstr("this id has been used by another communicator"));
  }
  EXPECT_TRUE(first.ranks[0]->send(1, 1, "x", 1, "test").ok()) << "the first is unharmed";
}

TEST(BootstrapRoot, TheIdOfAnotherProcessesRootIsNotServed) {
  BootstrapRoots roots;
  BootstrapId other = unpackUniqueId(roots.getUniqueId(loopback()).value()).value();
  other.secret ^= 0x100;
  const auto made = join(roots, packUniqueId(other), 0, 2);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("not one of host "));
}

TEST(BootstrapRoot, AnEndedRootIsSaidToHaveEnded) {
  auto roots = std::make_unique<BootstrapRoots>();
  const ncclUniqueId id = roots->getUniqueId(loopback()).value();
  std::atomic<bool> refused{false};
  std::thread waiting([&] {
    BootstrapRoots none;
    const auto made = join(none, id, 0, 2);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, ncclRemoteError);
    refused = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  roots.reset();  // the process that made the id ends
  waiting.join();
  EXPECT_TRUE(refused);
  BootstrapRoots none;
  const auto late = join(none, id, 1, 2, 500);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ncclRemoteError);
  EXPECT_THAT(late.error().message, HasSubstr("has the process that made the unique id ended?"));
}

TEST(BootstrapRoot, ARankThatGivesUpIsNamedToTheOthers) {
  BootstrapRoots roots;
  const ncclUniqueId id = roots.getUniqueId(loopback()).value();
  std::atomic<uint32_t> abortFlag{0};
  onRanks(3, [&](int rank) {
    if (rank == 2) return;  // keeps the others waiting
    if (rank == 1) {
      std::thread aborter([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        abortFlag = 1;
      });
      const auto made = Bootstrap::init(loopback(), roots, id, 1, 3, &abortFlag);
      aborter.join();
      ASSERT_FALSE(made.ok());
      EXPECT_EQ(made.error().code, ncclInternalError);
      EXPECT_THAT(made.error().message, HasSubstr("aborted"));
      return;
    }
    const auto made = join(roots, id, 0, 3);
    ASSERT_FALSE(made.ok());
    EXPECT_THAT(made.error().message, HasSubstr("rank 1 (host "));
    EXPECT_THAT(made.error().message, HasSubstr("left before all ranks had checked in"));
  });
}

TEST(Bootstrap, AnAbortEndsEveryWait) {
  BootstrapRoots roots;
  const ncclUniqueId id = roots.getUniqueId(loopback()).value();
  std::atomic<uint32_t> abortFlag{0};
  std::unique_ptr<Bootstrap> ranks[2];
  onRanks(2, [&](int rank) {
    auto made = Bootstrap::init(loopback(), roots, id, rank, 2, &abortFlag);
    ASSERT_TRUE(made.ok()) << made.error().message;
    ranks[rank] = std::move(made).value();
  });
  std::vector<char> much(64 << 20);
  char one = 0;
  std::thread gathering(
      [&] { EXPECT_EQ(ranks[0]->barrier("test").error().code, ncclInternalError); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  abortFlag = 1;
  gathering.join();
  EXPECT_EQ(ranks[0]->recv(1, 1, &one, 1, "test").error().code, ncclInternalError);
  EXPECT_EQ(ranks[0]->send(1, 1, much.data(), much.size(), "test").error().code, ncclInternalError);
}

BootstrapConfig withCommId(const std::string& text) {
  BootstrapConfig config = loopback();
  config.commId = text;
  return config;
}

/// A port that was free a moment ago.
std::string freeAddress() {
  return ListenSocket::open(SocketAddress::loopback(AF_INET)).value().address().text();
}

TEST(CommId, RankZeroServesIt) {
  BootstrapRoots roots;
  const BootstrapConfig config = withCommId(freeAddress());
  const World world = startWorld(roots, roots.getUniqueId(config).value(), 4, config, [](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  EXPECT_TRUE(world.ok()) << world.errors();
}

TEST(CommId, EveryRankDerivesTheSameId) {
  BootstrapRoots roots;
  const BootstrapConfig config = withCommId("127.0.0.1:4711");
  const ncclUniqueId a = roots.getUniqueId(config).value();
  const ncclUniqueId b = roots.getUniqueId(config).value();
  EXPECT_EQ(memcmp(&a, &b, sizeof a), 0);
}

TEST(CommId, ServesOneCommunicatorAfterAnother) {
  BootstrapRoots roots;
  const BootstrapConfig config = withCommId(freeAddress());
  const ncclUniqueId id = roots.getUniqueId(config).value();
  for (int i = 0; i < 20; i++) {
    const World world = startWorld(roots, id, 3, config);
    ASSERT_TRUE(world.ok()) << "communicator " << i << "\n" << world.errors();
  }
}

TEST(CommId, AnAddressInUseIsSaidToBe) {
  BootstrapRoots roots;
  const auto taken = ListenSocket::open(SocketAddress::loopback(AF_INET)).value();
  const BootstrapConfig config = withCommId(taken.address().text());
  const auto made =
      Bootstrap::init(config, roots, roots.getUniqueId(config).value(), 0, 2, nullptr);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("NCCL_COMM_ID " + taken.address().text()));
  EXPECT_THAT(made.error().message, HasSubstr("in use"));
}

// ---- strangers --------------------------------------------------------------------------------

enum class Manner { Http, Close, Reset, Silent, ThreeBytes, Magic };

/// Connects to `to` and behaves; returns what is still open.
Socket disturb(const SocketAddress& to, Manner manner) {
  const Deadline soon = Deadline::after(std::chrono::milliseconds(2000));
  auto made = Socket::connect(to, soon);
  if (!made.ok()) return Socket();
  Socket socket = std::move(made).value();
  switch (manner) {
    case Manner::Http:
      EXPECT_TRUE(socket.send("GET / HTTP/1.0\r\n\r\n", 18, soon).ok());
      return socket;
    case Manner::Close:
      return Socket();
    case Manner::Reset: {
      const linger hard{1, 0};
      setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
      return Socket();
    }
    case Manner::Silent:
      return socket;
    case Manner::ThreeBytes:
      EXPECT_TRUE(socket.send("nc\x01", 3, soon).ok());
      return socket;
    case Manner::Magic:  // says the first word and no more
      EXPECT_TRUE(socket.send(&kBootstrapMagic, sizeof kBootstrapMagic, soon).ok());
      return socket;
  }
  return Socket();
}

constexpr Manner kManners[] = {Manner::Http,   Manner::Close,      Manner::Reset,
                               Manner::Silent, Manner::ThreeBytes, Manner::Magic};

TEST(Strangers, AtTheRootHoldNobodyUp) {
  BootstrapRoots roots;
  const ncclUniqueId id = roots.getUniqueId(loopback()).value();
  const SocketAddress root = unpackUniqueId(id).value().root;
  std::vector<Socket> open;
  for (const Manner manner : kManners)
    open.push_back(disturb(root, manner));
  std::atomic<bool> stop{false};
  std::thread during([&] {
    std::vector<Socket> more;
    for (size_t i = 0; !stop; i++)
      more.push_back(disturb(root, kManners[i % std::size(kManners)]));
  });
  World world = startWorld(roots, id, 4, loopback(), [](int rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * rank));
  });
  stop = true;
  during.join();
  EXPECT_TRUE(world.ok()) << world.errors();
  for (const Manner manner : kManners)
    open.push_back(disturb(root, manner));
  EXPECT_TRUE(startWorld(roots, roots.getUniqueId(loopback()).value(), 3).ok());
}

TEST(Strangers, AtARanksOwnDoorHoldNobodyUp) {
  BootstrapRoots roots;
  World world = startWorld(roots, roots.getUniqueId(loopback()).value(), 3);
  ASSERT_TRUE(world.ok()) << world.errors();
  const std::string place = world.ranks[0]->describe(0);  // "rank 0 (host h, pid 1, 127.0.0.1:2)"
  const size_t comma = place.rfind(", ") + 2;
  const auto door = SocketAddress::parse(place.substr(comma, place.size() - comma - 1)).value();
  std::vector<Socket> open;
  for (const Manner manner : kManners)
    open.push_back(disturb(door, manner));
  Hello wrongSecret;
  wrongSecret.kind = HelloKind::Messages;
  wrongSecret.from = 1;
  open.push_back(disturb(door, Manner::Silent));
  const Deadline soon = Deadline::after(std::chrono::milliseconds(2000));
  ASSERT_TRUE(open.back().send(&wrongSecret, sizeof wrongSecret, soon).ok());
  onRanks(3, [&](int rank) {
    int value = 40 + rank;
    if (rank > 0) {
      ASSERT_TRUE(world.ranks[rank]->send(0, 1, &value, sizeof value, "test").ok());
      return;
    }
    for (const int peer : {2, 1}) {
      const Status got = world.ranks[0]->recv(peer, 1, &value, sizeof value, "test");
      ASSERT_TRUE(got.ok()) << got.error().message;
      EXPECT_EQ(value, 40 + peer);
    }
  });
}

}  // namespace
}  // namespace nccom
