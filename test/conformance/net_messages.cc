// Messages between two ends in one thread: content, sizes, order, tags, groups, back-pressure.
#include <algorithm>
#include <random>

#include "test/conformance/net_conformance.h"

namespace nccom {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NetConformance);

TEST_P(NetConformance, HasDevicesThatSayWhatTheyAre) {
  const auto count = net().devices();
  ASSERT_TRUE(count.ok()) << count.error().message;
  ASSERT_GE(count.value(), 1);
  EXPECT_FALSE(net().name().empty());
  for (int dev = 0; dev < count.value(); ++dev) {
    const auto properties = net().properties(dev);
    ASSERT_TRUE(properties.ok()) << properties.error().message;
    EXPECT_FALSE(properties.value().name.empty());
    EXPECT_TRUE(properties.value().hostMemory);
    EXPECT_GE(properties.value().maxRecvs, 1);
    EXPECT_GE(properties.value().maxComms, 1);
    EXPECT_GE(properties.value().speedMbps, 0);
  }
  EXPECT_FALSE(net().properties(count.value()).ok());
  EXPECT_FALSE(net().properties(-1).ok());
}

TEST_P(NetConformance, CarriesMessagesOfEverySize) {
  const NetLink link = makeLink();
  constexpr size_t kMost = 8 << 20;
  SendBuffer from(net(), link.send.get(), kMost);
  RecvBuffer to(net(), link.recv.get(), kMost);
  const std::vector<size_t> sizes = {
      0,    1,     2,     7,     8,     63,    64,     128,     1000,          4096, 4097,
      8191, 16368, 16384, 16385, 65536, 65537, 262144, 1 << 20, (1 << 20) + 3, kMost};
  for (const size_t bytes : sizes) {
    SCOPED_TRACE(bytes);
    fillPattern(from.data(), bytes, bytes);
    NetRequest* recv = irecv(link, {to.part(0, bytes)});
    NetRequest* send = isend(link, from.part(0, bytes));
    const auto done = finish({recv, send});
    ASSERT_FALSE(done[0].empty());
    ASSERT_EQ(done[0][0], static_cast<int>(bytes));
    ASSERT_EQ(done[1][0], static_cast<int>(bytes));
    ASSERT_EQ(wrongByte(to.data(), bytes, bytes), -1);
  }
}

TEST_P(NetConformance, CarriesLargeMessages) {
  const NetLink link = makeLink();
  constexpr size_t kBytes = (size_t{64} << 20) + 5;
  SendBuffer from(net(), link.send.get(), kBytes);
  RecvBuffer to(net(), link.recv.get(), kBytes);
  fillPattern(from.data(), kBytes, 1);
  NetRequest* send = isend(link, from.whole());
  NetRequest* recv = irecv(link, {to.whole()});
  EXPECT_EQ(finish({send, recv})[1].at(0), static_cast<int>(kBytes));
  EXPECT_EQ(wrongByte(to.data(), kBytes, 1), -1);
}

TEST_P(NetConformance, AReceiveMayBeLargerThanItsMessage) {
  const NetLink link = makeLink();
  for (const size_t bytes : {size_t{0}, size_t{5}, size_t{20000}, size_t{300000}}) {
    SCOPED_TRACE(bytes);
    SendBuffer from(net(), link.send.get(), bytes, 0x5a);
    RecvBuffer to(net(), link.recv.get(), 400000, 0x77);
    NetRequest* recv = irecv(link, {to.whole()});
    NetRequest* send = isend(link, from.whole());
    EXPECT_EQ(finish({send, recv})[1].at(0), static_cast<int>(bytes));
    EXPECT_TRUE(std::all_of(to.data(), to.data() + bytes, [](uint8_t b) { return b == 0x5a; }));
    EXPECT_TRUE(
        std::all_of(to.data() + bytes, to.data() + 400000, [](uint8_t b) { return b == 0x77; }));
  }
}

TEST_P(NetConformance, TestWithoutSizesWorks) {
  const NetLink link = makeLink();
  SendBuffer from(net(), link.send.get(), 100);
  RecvBuffer to(net(), link.recv.get(), 100);
  NetRequest* requests[] = {irecv(link, {to.whole()}), isend(link, from.whole())};
  for (NetRequest* request : requests) {
    while (true) {
      const auto done = net().test(request, {});
      ASSERT_TRUE(done.ok()) << done.error().message;
      if (done.value()) break;
    }
  }
}

TEST_P(NetConformance, KeepsTheOrderOfOneTag) {
  const NetLink link = makeLink();
  constexpr size_t kMessages = 400, kOutstanding = 16, kMost = 70000;
  SendBuffer from(net(), link.send.get(), kMessages * 8 + kMost);
  RecvBuffer to(net(), link.recv.get(), kOutstanding * kMost);
  const auto sizeOf = [](size_t i) { return i % 5 == 0 ? kMost - i : 1 + i * 37 % 3000; };
  fillPattern(from.data(), kMessages * 8 + kMost, 3);
  size_t sent = 0, posted = 0, received = 0;
  std::vector<NetRequest*> sends, recvs(kOutstanding);
  while (received < kMessages) {
    for (; posted < kMessages && posted < received + kOutstanding; ++posted) {
      recvs[posted % kOutstanding] = irecv(link, {to.part(posted % kOutstanding * kMost, kMost)});
    }
    for (; sent < posted; ++sent)
      sends.push_back(isend(link, from.part(sent * 8, sizeOf(sent))));
    // In turns, the oldest of both: neither end has a thread of its own.
    if (!sends.empty()) {
      const auto gone = net().test(sends.front(), {});
      ASSERT_TRUE(gone.ok()) << gone.error().message;
      if (gone.value()) sends.erase(sends.begin());
    }
    int size = -1;
    const size_t slot = received % kOutstanding;
    const auto done = net().test(recvs[slot], std::span(&size, 1));
    ASSERT_TRUE(done.ok()) << done.error().message;
    if (!done.value()) continue;
    ASSERT_EQ(size, static_cast<int>(sizeOf(received))) << received;
    ASSERT_TRUE(std::equal(to.data() + slot * kMost, to.data() + slot * kMost + sizeOf(received),
                           from.data() + received * 8))
        << received;
    ++received;
  }
  finish(sends);
}

TEST_P(NetConformance, Keeps32ReceivesOutstanding) {
  const NetLink link = makeLink();
  constexpr size_t kOutstanding = 32, kBytes = 5000;
  SendBuffer from(net(), link.send.get(), kBytes * kOutstanding);
  RecvBuffer to(net(), link.recv.get(), kBytes * kOutstanding);
  fillPattern(from.data(), kBytes * kOutstanding, 9);
  std::vector<NetRequest*> requests;
  for (size_t i = 0; i < kOutstanding; ++i) {
    const auto request =
        net().irecv(link.recv.get(), std::vector<NetBuffer>{to.part(i * kBytes, kBytes)});
    ASSERT_TRUE(request.ok()) << request.error().message;
    ASSERT_NE(request.value(), nullptr) << "no room for receive " << i;
    requests.push_back(request.value());
  }
  for (size_t i = 0; i < kOutstanding; ++i) {
    requests.push_back(isend(link, from.part(i * kBytes, kBytes)));
  }
  // The newest first: any request may be tested, not only the oldest.
  std::reverse(requests.begin(), requests.end());
  finish(requests);
  EXPECT_EQ(wrongByte(to.data(), kBytes * kOutstanding, 9), -1);
}

TEST_P(NetConformance, HoldsBackASenderThatRunsAhead) {
  const NetLink link = makeLink();
  constexpr size_t kBytes = 4096, kMost = 1 << 18;  // 1 GiB, if nothing holds it back
  SendBuffer from(net(), link.send.get(), kBytes);
  RecvBuffer to(net(), link.recv.get(), kBytes);
  finish({isend(link, from.whole()), irecv(link, {to.whole()})});  // the ends have met
  std::vector<NetRequest*> sends;
  size_t sent = 0, refused = 0;
  while (sent < kMost && refused < 2000) {
    const auto request = net().isend(link.send.get(), from.whole());
    ASSERT_TRUE(request.ok()) << request.error().message;
    if (request.value() == nullptr) {
      ++refused;
    } else {
      refused = 0;
      ++sent;
      sends.push_back(request.value());
    }
    if (!sends.empty()) {
      const auto done = net().test(sends.front(), {});
      ASSERT_TRUE(done.ok()) << done.error().message;
      if (done.value()) sends.erase(sends.begin());
    }
  }
  EXPECT_LT(sent, kMost);
  EXPECT_GE(sent, 8U);
  for (size_t received = 0; received < sent; ++received) {
    NetRequest* recv = irecv(link, {to.whole()});
    for (bool arrived = false; !arrived;) {  // in turns: neither end has a thread of its own
      const auto done = net().test(recv, {});
      ASSERT_TRUE(done.ok()) << done.error().message;
      arrived = done.value();
      if (sends.empty()) continue;
      const auto gone = net().test(sends.front(), {});
      ASSERT_TRUE(gone.ok()) << gone.error().message;
      if (gone.value()) sends.erase(sends.begin());
    }
  }
  finish(sends);
}

TEST_P(NetConformance, ReceivesAGroupByTags) {
  const int n = std::min(maxRecvs(), 8);
  const NetLink link = makeLink();
  constexpr size_t kMost = 100000;
  SendBuffer from(net(), link.send.get(), 8 * kMost);
  RecvBuffer to(net(), link.recv.get(), 8 * kMost);
  fillPattern(from.data(), 8 * kMost, 4);
  for (const size_t base : {size_t{10}, size_t{5000}, kMost - 8}) {
    std::vector<NetBuffer> group;
    for (int i = 0; i < n; ++i) {
      group.push_back(to.part(static_cast<size_t>(i) * kMost, kMost, 100 + i));
    }
    std::vector<NetRequest*> requests = {irecv(link, group)};
    for (int i = n - 1; i >= 0; --i) {  // the last tag first
      const auto at = static_cast<size_t>(i);
      requests.push_back(isend(link, from.part(at * kMost, base + at, 100 + i)));
    }
    const auto sizes = finish(requests)[0];
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      EXPECT_EQ(sizes.at(i), static_cast<int>(base + i));
      EXPECT_TRUE(std::equal(to.data() + i * kMost, to.data() + i * kMost + base + i,
                             from.data() + i * kMost));
    }
  }
}

TEST_P(NetConformance, AMessageMayBelongToALaterGroup) {
  if (maxRecvs() < 2) GTEST_SKIP() << "receives are single";
  const NetLink link = makeLink();
  for (const size_t bytes : {size_t{100}, size_t{200000}}) {
    SendBuffer from(net(), link.send.get(), 4 * bytes);
    RecvBuffer to(net(), link.recv.get(), 4 * bytes);
    fillPattern(from.data(), 4 * bytes, 6);
    NetRequest* first = irecv(link, {to.part(0, bytes, 1), to.part(bytes, bytes, 2)});
    NetRequest* second = irecv(link, {to.part(2 * bytes, bytes, 3), to.part(3 * bytes, bytes, 4)});
    std::vector<NetRequest*> sends = {isend(link, from.part(3 * bytes, bytes, 4)),
                                      isend(link, from.part(bytes, bytes, 2)),
                                      isend(link, from.part(2 * bytes, bytes, 3))};
    sends.push_back(second);
    finish(sends);  // while tag 1 has not been sent
    finish({isend(link, from.part(0, bytes, 1)), first});
    EXPECT_EQ(wrongByte(to.data(), 4 * bytes, 6), -1);
  }
}

TEST_P(NetConformance, MessagesMayComeBeforeTheirGroups) {
  if (maxRecvs() < 2) GTEST_SKIP() << "receives are single";
  const NetLink link = makeLink();
  constexpr size_t kBytes = 3000, kCount = 12;
  SendBuffer from(net(), link.send.get(), kCount * kBytes);
  RecvBuffer to(net(), link.recv.get(), kCount * kBytes);
  fillPattern(from.data(), kCount * kBytes, 8);
  std::vector<NetRequest*> sends;
  for (size_t i = 0; i < kCount; ++i) {
    sends.push_back(isend(link, from.part(i * kBytes, kBytes, static_cast<int>(i % 4))));
  }
  // Groups of two, in another order of tags than they were sent; message i has tag i % 4.
  for (const size_t first : {size_t{2}, size_t{0}, size_t{6}, size_t{10}, size_t{4}, size_t{8}}) {
    const int tag = static_cast<int>(first % 4);
    NetRequest* recv = irecv(link, {to.part((first + 1) * kBytes, kBytes, tag + 1),
                                    to.part(first * kBytes, kBytes, tag)});
    finishOne(recv);
  }
  finish(sends);
  EXPECT_EQ(wrongByte(to.data(), kCount * kBytes, 8), -1);
}

TEST_P(NetConformance, RefusesAGroupThatIsTooLargeOrEmpty) {
  const NetLink link = makeLink();
  RecvBuffer to(net(), link.recv.get(), 64);
  const std::vector<NetBuffer> many(static_cast<size_t>(maxRecvs()) + 1, to.part(0, 1));
  EXPECT_FALSE(net().irecv(link.recv.get(), many).ok());
  EXPECT_FALSE(net().irecv(link.recv.get(), {}).ok());
}

TEST_P(NetConformance, RegistersTheSameMemoryManyTimesWithBothEnds) {
  const NetLink link = makeLink();
  std::vector<uint8_t> bytes(1 << 16);
  std::vector<NetMemory*> ofSend, ofRecv;
  for (int i = 0; i < 20; ++i) {
    const auto sending =
        net().regMr(link.send.get(), bytes.data(), bytes.size(), NetMemoryKind::Host);
    const auto receiving =
        net().regMr(link.recv.get(), bytes.data(), bytes.size(), NetMemoryKind::Host);
    ASSERT_TRUE(sending.ok()) << sending.error().message;
    ASSERT_TRUE(receiving.ok()) << receiving.error().message;
    ofSend.push_back(sending.value());
    ofRecv.push_back(receiving.value());
  }
  finish({isend(link, {bytes.data(), 10, 0, ofSend[3]}),
          irecv(link, {{bytes.data() + 100, 10, 0, ofRecv[4]}})});
  for (NetMemory* memory : ofSend)
    EXPECT_TRUE(net().deregMr(link.send.get(), memory).ok());
  for (NetMemory* memory : ofRecv)
    EXPECT_TRUE(net().deregMr(link.recv.get(), memory).ok());
}

TEST_P(NetConformance, KeepsManyConnectionsApart) {
  constexpr size_t kLinks = 24, kRounds = 6, kBytes = 20000;
  const std::vector<NetLink> links = makeLinks(kLinks);
  std::vector<std::unique_ptr<SendBuffer>> from;
  std::vector<std::unique_ptr<RecvBuffer>> to;
  for (const NetLink& link : links) {
    from.push_back(std::make_unique<SendBuffer>(net(), link.send.get(), kRounds * kBytes));
    to.push_back(std::make_unique<RecvBuffer>(net(), link.recv.get(), kRounds * kBytes));
    fillPattern(from.back()->data(), kRounds * kBytes, from.size());
  }
  std::vector<NetRequest*> requests;
  for (size_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < kLinks; ++i) {
      requests.push_back(irecv(links[i], {to[i]->part(round * kBytes, kBytes)}));
    }
    for (size_t i = kLinks; i-- > 0;) {
      requests.push_back(isend(links[i], from[i]->part(round * kBytes, kBytes)));
    }
  }
  finish(requests);
  for (size_t i = 0; i < kLinks; ++i) {
    EXPECT_EQ(wrongByte(to[i]->data(), kRounds * kBytes, i + 1), -1) << "link " << i;
  }
}

TEST_P(NetConformance, RandomTrafficArrivesWholeAndInOrder) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&random](size_t limit) { return static_cast<size_t>(random() % limit); };
  constexpr size_t kLinks = 3, kMessages = 150, kMost = 100000;
  const std::vector<NetLink> links = makeLinks(kLinks);
  struct Flow {
    std::vector<size_t> sizes;
    std::unique_ptr<SendBuffer> from;
    std::unique_ptr<RecvBuffer> to;
    size_t sent = 0, posted = 0, received = 0;
    std::vector<NetRequest*> sends, recvs;
  };
  std::vector<Flow> flows(kLinks);
  for (size_t i = 0; i < kLinks; ++i) {
    for (size_t m = 0; m < kMessages; ++m) {
      flows[i].sizes.push_back(below(2) == 0 ? below(300) : below(kMost));
    }
    flows[i].from = std::make_unique<SendBuffer>(net(), links[i].send.get(), kMost + kMessages);
    flows[i].to = std::make_unique<RecvBuffer>(net(), links[i].recv.get(), 8 * kMost);
    fillPattern(flows[i].from->data(), kMost + kMessages, i);
  }
  for (size_t left = kLinks * kMessages; left > 0;) {
    const size_t i = below(kLinks);
    Flow& flow = flows[i];
    switch (below(3)) {
      case 0:
        if (flow.sent == kMessages) break;
        if (const auto r =
                net().isend(links[i].send.get(), flow.from->part(flow.sent, flow.sizes[flow.sent]));
            r.ok()) {
          if (r.value() == nullptr) break;
          flow.sends.push_back(r.value());
          ++flow.sent;
        } else {
          FAIL() << r.error().message;
        }
        break;
      case 1:
        if (flow.posted == kMessages || flow.posted - flow.received == 8) break;
        flow.recvs.push_back(irecv(links[i], {flow.to->part(flow.posted % 8 * kMost, kMost)}));
        ++flow.posted;
        break;
      case 2: {
        if (!flow.sends.empty()) {
          const auto done = net().test(flow.sends.front(), {});
          ASSERT_TRUE(done.ok()) << done.error().message;
          if (done.value()) flow.sends.erase(flow.sends.begin());
        }
        if (flow.received == flow.posted) break;
        int size = 0;
        const auto done = net().test(flow.recvs[flow.received], std::span(&size, 1));
        ASSERT_TRUE(done.ok()) << done.error().message;
        if (!done.value()) break;
        const uint8_t* got = flow.to->data() + flow.received % 8 * kMost;
        const uint8_t* expected = flow.from->data() + flow.received;
        ASSERT_EQ(size, static_cast<int>(flow.sizes[flow.received]));
        ASSERT_TRUE(std::equal(got, got + size, expected)) << "message " << flow.received;
        ++flow.received;
        --left;
        break;
      }
    }
  }
  for (const Flow& flow : flows)
    finish(flow.sends);
}

}  // namespace nccom
