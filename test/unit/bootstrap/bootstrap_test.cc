#include "comm/bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>

#include "test/unit/bootstrap/ranks.h"

namespace nccom {
namespace {

using testing::HasSubstr;

TEST(UniqueId, KeepsItsContent) {
  const BootstrapId id{0x1234567890abcdef, SocketAddress::loopback(AF_INET6, 4711), true};
  EXPECT_EQ(unpackUniqueId(packUniqueId(id)).value(), id);
}

TEST(UniqueId, AllZeroIsSaidToBeNeverFilled) {
  const auto content = unpackUniqueId(ncclUniqueId{});
  ASSERT_FALSE(content.ok());
  EXPECT_EQ(content.error().code, ncclInvalidArgument);
  EXPECT_THAT(content.error().message, HasSubstr("all zero"));
}

TEST(UniqueId, AnyChangedByteOfTheContentIsFound) {
  const ncclUniqueId good = packUniqueId({99, SocketAddress::loopback(AF_INET, 80), false});
  for (size_t i = 0; i < 56; i++) {
    ncclUniqueId bad = good;
    bad.internal[i] = static_cast<char>(bad.internal[i] ^ 0x10);
    EXPECT_FALSE(unpackUniqueId(bad).ok()) << "byte " << i;
  }
}

TEST(UniqueId, NoTwoAreAlike) {
  BootstrapRoots roots;
  std::set<std::string> seen;
  for (int i = 0; i < 100; i++) {
    const ncclUniqueId id = roots.getUniqueId(loopback()).value();
    seen.insert(std::string(id.internal, sizeof id.internal));
  }
  EXPECT_EQ(seen.size(), 100U);
}

TEST(UniqueId, ACommIdThatIsNoAddressNamesTheVariable) {
  BootstrapRoots roots;
  std::vector<std::string> wrong = {":",
                                    "[]",
                                    "host:",
                                    "127.0.0.1:0",
                                    "127.0.0.1:65536",
                                    "127.0.0.1:-1",
                                    "[::1]:" + std::string(40, '9'),
                                    "[fe80::1%" + std::string(40, 'i') + "]:1"};
  for (const size_t length : {63, 64, 65, 128, 4096})
    wrong.emplace_back(length, 'A');
  for (const std::string& text : wrong) {
    BootstrapConfig config = loopback();
    config.commId = text;
    const auto id = roots.getUniqueId(config);
    ASSERT_FALSE(id.ok()) << text;
    EXPECT_EQ(id.error().code, ncclInvalidArgument) << text;
    EXPECT_THAT(id.error().message, HasSubstr("NCCL_COMM_ID")) << text;
  }
}

TEST(UniqueId, AnInterfaceThatIsNotThereNamesTheVariable) {
  BootstrapRoots roots;
  BootstrapConfig config;
  config.ifname = "=nope0";
  const auto id = roots.getUniqueId(config);
  ASSERT_FALSE(id.ok());
  EXPECT_THAT(id.error().message, HasSubstr("NCCL_SOCKET_IFNAME"));
}

struct Sizes : testing::TestWithParam<int> {};

TEST_P(Sizes, AllRanksGatherAllParts) {
  BootstrapRoots roots;
  const int nRanks = GetParam();
  const World world = startWorld(roots, roots.getUniqueId(loopback()).value(), nRanks);
  ASSERT_TRUE(world.ok()) << world.errors();
  onRanks(nRanks, [&](int rank) {
    Bootstrap& self = *world.ranks[rank];
    for (const size_t bytes : {0, 1, 8, 1000, 4800000 / (nRanks * nRanks)}) {
      std::vector<char> all(bytes * static_cast<size_t>(nRanks), '?');
      std::vector<char> wanted(all.size());
      for (size_t i = 0; i < wanted.size(); i++)
        wanted[i] = static_cast<char>(i / bytes * 37 + i % 101);
      std::copy_n(wanted.begin() + static_cast<ptrdiff_t>(bytes) * rank, bytes,
                  all.begin() + static_cast<ptrdiff_t>(bytes) * rank);
      const Status done = self.allGather(all.data(), bytes, "test");
      ASSERT_TRUE(done.ok()) << done.error().message;
      EXPECT_TRUE(all == wanted) << "rank " << rank << ", " << bytes << " bytes";
    }
    EXPECT_EQ(self.clusterId(), world.ranks[0]->clusterId());
    EXPECT_EQ(self.epoch(), world.ranks[0]->epoch());
  });
}

TEST_P(Sizes, AnyTwoRanksExchangeMessagesByTag) {
  BootstrapRoots roots;
  const int nRanks = GetParam();
  const World world = startWorld(roots, roots.getUniqueId(loopback()).value(), nRanks);
  ASSERT_TRUE(world.ok()) << world.errors();
  onRanks(nRanks, [&](int rank) {
    Bootstrap& self = *world.ranks[rank];
    for (int peer = 0; peer < nRanks; peer++) {
      for (const uint32_t tag : {1, 2}) {
        const int value = rank * 1000 + peer * 10 + static_cast<int>(tag);
        ASSERT_TRUE(self.send(peer, tag, &value, sizeof value, "test").ok());
      }
    }
    for (int peer = nRanks - 1; peer >= 0; peer--) {
      for (const uint32_t tag : {2, 1}) {
        int value = -1;
        const Status got = self.recv(peer, tag, &value, sizeof value, "test");
        ASSERT_TRUE(got.ok()) << got.error().message;
        EXPECT_EQ(value, peer * 1000 + rank * 10 + static_cast<int>(tag));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sizes, testing::Values(1, 2, 3, 4, 5, 8, 17));

TEST(Bootstrap, SixtyFourRanksOfOneProcessMeet) {
  BootstrapRoots roots;
  const World world = startWorld(roots, roots.getUniqueId(loopback()).value(), 64);
  ASSERT_TRUE(world.ok()) << world.errors();
  onRanks(64, [&](int rank) { EXPECT_TRUE(world.ranks[rank]->barrier("test").ok()); });
}

TEST(Bootstrap, MeetsOnTheInterfaceOfTheDefaultRoute) {
  BootstrapRoots roots;
  const BootstrapConfig config;
  const World world = startWorld(roots, roots.getUniqueId(config).value(), 3, config);
  EXPECT_TRUE(world.ok()) << world.errors();
}

TEST(Bootstrap, TwoRanksThatSendMuchToEachOtherDoNotBlock) {
  BootstrapRoots roots;
  const World world = startWorld(roots, roots.getUniqueId(loopback()).value(), 2);
  ASSERT_TRUE(world.ok()) << world.errors();
  onRanks(2, [&](int rank) {
    const std::vector<char> out(16 << 20, static_cast<char>('a' + rank));
    std::vector<char> in(out.size());
    ASSERT_TRUE(world.ranks[rank]->send(1 - rank, 7, out.data(), out.size(), "test").ok());
    ASSERT_TRUE(world.ranks[rank]->recv(1 - rank, 7, in.data(), in.size(), "test").ok());
    EXPECT_EQ(in.front(), 'a' + 1 - rank);
    EXPECT_EQ(in.back(), 'a' + 1 - rank);
  });
}

TEST(Bootstrap, MessagesOfOneTagKeepTheirOrder) {
  BootstrapRoots roots;
  const World world = startWorld(roots, roots.getUniqueId(loopback()).value(), 2);
  ASSERT_TRUE(world.ok()) << world.errors();
  for (int i = 0; i < 100; i++)
    ASSERT_TRUE(world.ranks[0]->send(1, 3, &i, sizeof i, "test").ok());
  for (int i = 0; i < 100; i++) {
    int got = -1;
    ASSERT_TRUE(world.ranks[1]->recv(0, 3, &got, sizeof got, "test").ok());
    EXPECT_EQ(got, i);
  }
}

TEST(Bootstrap, AMessageOfAnotherSizeNamesBothSizes) {
  BootstrapRoots roots;
  const World world = startWorld(roots, roots.getUniqueId(loopback()).value(), 2);
  ASSERT_TRUE(world.ok()) << world.errors();
  ASSERT_TRUE(world.ranks[0]->send(1, 3, "hello", 5, "test").ok());
  char in[8];
  const Status got = world.ranks[1]->recv(0, 3, in, 8, "test");
  ASSERT_FALSE(got.ok());
  EXPECT_THAT(got.error().message, HasSubstr("recv 'test': rank 0"));
  EXPECT_THAT(got.error().message, HasSubstr("5 bytes came; expected 8"));
}

TEST(Bootstrap, AnEndedRankIsNamedToWhoWaitsForIt) {
  BootstrapRoots roots;
  World world = startWorld(roots, roots.getUniqueId(loopback()).value(), 3);
  ASSERT_TRUE(world.ok()) << world.errors();
  ASSERT_TRUE(world.ranks[1]->send(2, 1, "x", 1, "test").ok());
  world.ranks[1].reset();
  char in = 0;
  EXPECT_TRUE(world.ranks[2]->recv(1, 1, &in, 1, "test").ok()) << "what it had sent still counts";
  const Status got = world.ranks[2]->recv(1, 1, &in, 1, "test");
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ncclRemoteError);
  EXPECT_THAT(got.error().message, HasSubstr("rank 1"));
  const Status gathered = world.ranks[2]->allGather(std::vector<char>(3).data(), 1, "peers");
  ASSERT_FALSE(gathered.ok());
  EXPECT_THAT(gathered.error().message, HasSubstr("allGather 'peers': rank 1"));
}

TEST(Bootstrap, AnAllGatherNamesTheRankWhosePartIsMissing) {
  BootstrapRoots roots;
  const World world = startWorld(roots, roots.getUniqueId(loopback()).value(), 4, loopback(1000));
  ASSERT_TRUE(world.ok()) << world.errors();
  onRanks(4, [&](int rank) {
    if (rank == 1) return;  // never calls it
    const Status done = world.ranks[rank]->barrier("peers");
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, ncclRemoteError);
    EXPECT_THAT(done.error().message, HasSubstr("allGather 'peers': the part of rank 1 "));
  });
}

TEST(Bootstrap, GatheringDifferentThingsIsFoundOut) {
  BootstrapRoots roots;
  const World world = startWorld(roots, roots.getUniqueId(loopback()).value(), 2);
  ASSERT_TRUE(world.ok()) << world.errors();
  onRanks(2, [&](int rank) {
    std::vector<char> all(64);
    const Status done = rank == 0 ? world.ranks[0]->allGather(all.data(), 32, "peers")
                                  : world.ranks[1]->allGather(all.data(), 16, "graph");
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, ncclInvalidUsage);
    EXPECT_THAT(done.error().message, HasSubstr("32 bytes"));
    EXPECT_THAT(done.error().message, HasSubstr("16 bytes"));
  });
}

TEST(Bootstrap, ARankOutsideTheCommunicatorIsAnInvalidArgument) {
  BootstrapRoots roots;
  const ncclUniqueId id = roots.getUniqueId(loopback()).value();
  for (const auto& [rank, nRanks] : {std::pair{-1, 2}, {2, 2}, {0, 0}, {0, -3}}) {
    const auto made = Bootstrap::init(loopback(), roots, id, rank, nRanks, nullptr);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, ncclInvalidArgument) << rank << " of " << nRanks;
  }
}

TEST(Bootstrap, OneRankNeedsNoSocket) {
  BootstrapRoots roots;
  BootstrapConfig nowhere;
  nowhere.ifname = "=nope0";
  const ncclUniqueId id = packUniqueId({1, SocketAddress::loopback(AF_INET, 1), false});
  auto made = Bootstrap::init(nowhere, roots, id, 0, 1, nullptr);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(made.value()->barrier("test").ok());
  int value = 5;
  EXPECT_TRUE(made.value()->send(0, 1, &value, sizeof value, "test").ok());
  int got = 0;
  EXPECT_TRUE(made.value()->recv(0, 1, &got, sizeof got, "test").ok());
  EXPECT_EQ(got, 5);
}

}  // namespace
}  // namespace nccom
