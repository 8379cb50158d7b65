#include "plugins/device_emu/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/unit/device_emu/forked.h"
#include "test/unit/device_emu/neighbour.h"

namespace nccom::emu {
namespace {

using testing::HasSubstr;

TEST(PeerProcesses, AttachesToItselfWithoutAConnection) {
  Process process;
  const auto own = process.attach(process.peers->self(), seconds(0));
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_TRUE(own.value()->own());
  EXPECT_EQ(own.value()->base(), process.hbm->base());
  EXPECT_EQ(own.value()->pid(), getpid());
  EXPECT_EQ(own.value()->state(), PeerState::Alive);
  EXPECT_NE(own.value()->cmaCheck().value, 0u);
  EXPECT_TRUE(cmaProbe(own.value()->cmaCheck()).ok());
}

TEST(PeerProcesses, ShareTheirMemoryBothWays) {
  Pipe toChild;
  Pipe toParent;
  Child child([&] {
    Process process;
    const auto parent = toChild.receive<ProcessExport>();
    if (!parent) return false;
    toParent.send(process.peers->self());
    const auto offset = toChild.receive<uint64_t>();
    const auto peer = process.attach(*parent);
    if (!peer.ok() || !offset) return false;
    auto* const theirs = static_cast<uint64_t*>(peer.value()->at(*offset, 16).value());
    auto* const mine = static_cast<uint64_t*>(process.hbm->alloc(3 << 20).value());
    mine[0] = theirs[0] + 1;
    theirs[1] = 99;
    toParent.send(process.hbm->offsetOf(mine));
    return toChild.receive<char>().has_value() && mine[1] == 77;
  });
  Process process;
  auto* const mine = static_cast<uint64_t*>(process.hbm->alloc(16).value());
  mine[0] = 41;
  toChild.send(process.peers->self());
  toChild.send(process.hbm->offsetOf(mine));
  const auto theirExport = toParent.receive<ProcessExport>();
  ASSERT_TRUE(theirExport);
  const auto peer = process.attach(*theirExport);
  ASSERT_TRUE(peer.ok()) << peer.error().message;
  EXPECT_FALSE(peer.value()->own());
  EXPECT_EQ(peer.value()->pid(), child.pid());
  const auto offset = toParent.receive<uint64_t>();
  ASSERT_TRUE(offset);
  auto* const theirs = static_cast<uint64_t*>(peer.value()->at(*offset, 3 << 20).value());
  EXPECT_EQ(theirs[0], 42u);
  EXPECT_EQ(mine[1], 99u);
  theirs[1] = 77;
  toChild.send('c');
  EXPECT_TRUE(child.succeeded());
}

TEST(PeerProcesses, MapAProcessOnceForAllWhoAsk) {
  Neighbour neighbour;
  const ProcessExport there = neighbour.meet();
  Process process;
  std::vector<std::shared_ptr<PeerProcess>> got(8);
  std::vector<std::thread> threads;
  threads.reserve(got.size());
  for (auto& slot : got) {
    threads.emplace_back([&] {
      auto peer = process.attach(there);
      if (peer.ok()) slot = peer.value();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const auto& peer : got) {
    ASSERT_TRUE(peer);
    EXPECT_EQ(peer, got[0]);
  }
  EXPECT_EQ(*static_cast<uint64_t*>(got[0]->at(neighbour.offset(), 8).value()), 4711u);

  // The last to let go unmaps it; whoever asks again maps it again.
  const std::weak_ptr<PeerProcess> before = got[0];
  got.clear();
  EXPECT_TRUE(before.expired());
  const auto again = process.attach(there);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*static_cast<uint64_t*>(again.value()->at(neighbour.offset(), 8).value()), 4711u);
  EXPECT_EQ(again.value()->state(), PeerState::Alive);
  EXPECT_TRUE(neighbour.leave());
}

TEST(PeerProcesses, CheckOffsetsThatPeersSend) {
  Process process(kMinHbmBytes);
  const auto own = process.attach(process.peers->self()).value();
  EXPECT_TRUE(own->at(0, kMinHbmBytes).ok());
  EXPECT_TRUE(own->at(kMinHbmBytes, 0).ok());
  EXPECT_FALSE(own->at(0, kMinHbmBytes + 1).ok());
  EXPECT_FALSE(own->at(kMinHbmBytes + 1, 0).ok());
  EXPECT_FALSE(own->at(8, UINT64_MAX - 4).ok());
}

TEST(PeerProcesses, NoticeAKilledPeerWithinASecond) {
  Neighbour neighbour;
  const ProcessExport there = neighbour.meet();
  Process process;
  const auto peer = process.attach(there).value();
  ASSERT_TRUE(neighbour.callOn(process.peers->self()));
  EXPECT_EQ(process.deaths, 0);
  neighbour.die();  // waits until the kernel has taken it down, which a busy machine may delay
  const auto killed = Clock::now();
  ASSERT_TRUE(eventually([&] { return process.deaths > 0; }));
  EXPECT_LT(Clock::now() - killed, seconds(1));
  EXPECT_EQ(peer->state(), PeerState::Died);
  EXPECT_TRUE(process.peers->died(there.token));
  EXPECT_EQ(process.deadPid, there.pid);

  // What it left is still there, and nobody new gets to it.
  EXPECT_EQ(*static_cast<uint64_t*>(peer->at(neighbour.offset(), 8).value()), 4711u);
  EXPECT_THAT(messageOf(process.attach(there)), HasSubstr("has died"));
  // Both connections have ended by now, or will; it is one death.
  process.peers.reset();
  EXPECT_EQ(process.deaths, 1);
}

TEST(PeerProcesses, NoticeTheDeathOfOneThatOnlyCalledOnThem) {
  Neighbour neighbour;
  const ProcessExport there = neighbour.meet();
  Process process;
  ASSERT_TRUE(neighbour.callOn(process.peers->self()));
  neighbour.die();
  EXPECT_TRUE(eventually([&] { return process.deaths == 1; }));
  EXPECT_TRUE(process.peers->died(there.token));
}

TEST(PeerProcesses, TellLeavingFromDying) {
  Neighbour neighbour;
  const ProcessExport there = neighbour.meet();
  Process process;
  const auto peer = process.attach(there).value();
  ASSERT_TRUE(neighbour.callOn(process.peers->self()));
  ASSERT_TRUE(neighbour.leave());
  ASSERT_TRUE(eventually([&] { return peer->gone(); }));
  EXPECT_EQ(peer->state(), PeerState::Left);
  EXPECT_EQ(*static_cast<uint64_t*>(peer->at(neighbour.offset(), 8).value()), 4711u);
  EXPECT_THAT(messageOf(process.attach(there)), HasSubstr("closed"));
  process.peers.reset();
  EXPECT_EQ(process.deaths, 0);
}

TEST(PeerProcesses, LettingGoOfAPeerIsNoDeath) {
  Pipe toChild;
  Pipe toParent;
  Child child([&] {
    Process process;
    toParent.send(process.peers->self());
    const bool told = toChild.receive<char>().has_value();
    process.peers.reset();  // what came before has been read
    return told && process.deaths == 0;
  });
  const auto there = toParent.receive<ProcessExport>();
  ASSERT_TRUE(there);
  Process process;
  const auto descriptors = entries("/proc/self/fd");
  for (int i = 0; i < 20; i++)
    ASSERT_TRUE(process.attach(*there).ok());
  EXPECT_TRUE(eventually([&] { return entries("/proc/self/fd") == descriptors; }));
  process.peers.reset();
  toChild.send('e');
  EXPECT_TRUE(child.succeeded());
}

TEST(PeerProcesses, SayThatAProcessHasEnded) {
  Neighbour neighbour;
  const ProcessExport there = neighbour.meet();
  Process process;
  neighbour.die();
  const auto gone = process.attach(there);
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().code, ncclRemoteError);
  EXPECT_THAT(gone.error().message, HasSubstr(std::to_string(there.pid)));
  EXPECT_THAT(gone.error().message, HasSubstr("has ended"));
}

TEST(PeerProcesses, GiveUpOnASilentProcessAtTheDeadline) {
  Neighbour neighbour;
  const ProcessExport there = neighbour.meet();
  Process process;
  neighbour.child().stop();
  std::vector<std::string> messages(3);
  std::vector<std::thread> threads;
  threads.reserve(messages.size());
  for (std::string& message : messages) {
    threads.emplace_back([&] { message = messageOf(process.attach(there, milliseconds(50))); });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const std::string& message : messages)
    EXPECT_THAT(message, HasSubstr("did not answer"));
  neighbour.child().signal(SIGCONT);
  EXPECT_TRUE(process.attach(there).ok())
      << "a failed attempt must not stand in the way of the next";
  EXPECT_TRUE(neighbour.leave());
}

TEST(PeerProcesses, RefuseHandlesOfAnotherVersion) {
  Process process(kMinHbmBytes);
  const auto refused = process.attach(ProcessExport{});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ncclInvalidArgument);
}

// ---- beginnings and ends
// ------------------------------------------------------------------------------

TEST(PeerProcesses, LeaveNoThreadAndNoDescriptor) {
  const auto descriptors = entries("/proc/self/fd");
  const auto threads = entries("/proc/self/task");
  {
    Process process;
    const OwnedFd fd = callAt(process.peers->self());
    EXPECT_EQ(entries("/proc/self/task"), threads + 1);
  }
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  EXPECT_TRUE(eventually([&] { return entries("/proc/self/task") == threads; }));
}

TEST(PeerProcesses, KeepAPeersMemoryAfterClosing) {
  Neighbour neighbour;
  const ProcessExport there = neighbour.meet();
  Process process;
  const auto peer = process.attach(there).value();
  process.peers.reset();
  EXPECT_EQ(*static_cast<uint64_t*>(peer->at(neighbour.offset(), 8).value()), 4711u);
  EXPECT_TRUE(neighbour.leave());
}

TEST(PeerProcesses, RingEachOthersBells) {
  Pipe toChild;
  Pipe toParent;
  Child child([&] {
    Process process;
    const auto own = process.attach(process.peers->self()).value();
    const EventCount::Key key = own->bell().prepareWait();
    toParent.send(process.peers->self());
    return own->bell().commitWait(key, seconds(20));
  });
  const auto there = toParent.receive<ProcessExport>();
  ASSERT_TRUE(there);
  Process process;
  const auto peer = process.attach(*there);
  ASSERT_TRUE(peer.ok()) << peer.error().message;
  peer.value()->bell().notify();
  EXPECT_TRUE(child.succeeded());
}

#ifndef __SANITIZE_THREAD__  // which does not follow a process with threads through fork()
TEST(PeerProcesses, AreNotForAForkedChild) {
  auto process = std::make_unique<Process>();
  Child child([&] {
    const auto own = process->attach(process->peers->self());
    process.reset();  // must not wait for a thread that is not here
    return !own.ok() && own.error().code == ncclInvalidUsage;
  });
  EXPECT_TRUE(child.succeeded());
  EXPECT_TRUE(process->attach(process->peers->self()).ok());
}
#endif

}  // namespace
}  // namespace nccom::emu
