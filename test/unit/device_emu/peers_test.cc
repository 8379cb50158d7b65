#include "plugins/device_emu/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "plugins/device_emu/memory.h"
#include "plugins/device_emu/peer_watcher.h"
#include "plugins/device_emu/peer_wire.h"
#include "test/unit/device_emu/forked.h"

namespace nccom::emu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Clock = PeerProcesses::Clock;

// What a process has when it has initialised.
struct Process {
  std::unique_ptr<Hbm> hbm;
  std::atomic<int> deaths{0};
  std::atomic<pid_t> deadPid{0};
  std::unique_ptr<PeerProcesses> peers;

  explicit Process(uint64_t bytes = kDefaultHbmBytes) {
    HbmOptions options;
    options.bytes = bytes;
    hbm = std::move(Hbm::open(options).value());
    peers = std::move(PeerProcesses::open(*hbm, [this](const ProcessToken&, pid_t pid) {
                        deadPid = pid;
                        deaths++;
                      }).value());
  }
  Result<std::shared_ptr<PeerProcess>> attach(const ProcessExport& process,
                                              Clock::duration within = seconds(20)) {
    return peers->attach(process, Clock::now() + within);
  }
};

// Bounded by far more than it should take; what is measured is said by the caller.
template <class Condition>
bool eventually(Condition condition, Clock::duration within = seconds(20)) {
  const auto deadline = Clock::now() + within;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

template <class T>
std::string messageOf(const Result<T>& result) {
  return result.ok() ? "" : result.error().message;
}

// A process that opens its door, says where it is, and ends in order when told to, or by SIGKILL.
class Neighbour {
 public:
  Neighbour()
      : child_([this] {
          Process process;
          auto* const block = static_cast<uint64_t*>(process.hbm->alloc(4096).value());
          block[0] = 4711;
          toParent_.send(process.peers->self());
          toParent_.send(process.hbm->offsetOf(block));
          const auto parent = toChild_.receive<ProcessExport>(60'000);
          if (!parent) return false;
          if (parent->magic == 0) return true;  // told to end without a look at us
          const auto attached = process.attach(*parent);
          if (!attached.ok()) return false;
          toParent_.send('a');
          return toChild_.receive<char>(60'000).has_value();
        }) {}

  /// Where it is. After this, threads may be started here.
  ProcessExport meet() {
    const auto process = toParent_.receive<ProcessExport>();
    const auto offset = toParent_.receive<uint64_t>();
    EXPECT_TRUE(process && offset);
    offset_ = offset.value_or(0);
    return process.value_or(ProcessExport{});
  }
  uint64_t offset() const { return offset_; }
  /// Has it attach to `process`.
  bool callOn(const ProcessExport& process) {
    toChild_.send(process);
    attached_ = toParent_.receive<char>().has_value();
    return attached_;
  }
  bool leave() {
    if (attached_) {
      toChild_.send('e');
    } else {
      toChild_.send(ProcessExport{});
    }
    return child_.succeeded();
  }
  void die() {
    child_.signal(SIGKILL);
    child_.succeeded();
  }
  Child& child() { return child_; }

 private:
  Pipe toParent_;
  Pipe toChild_;
  uint64_t offset_ = 0;
  bool attached_ = false;
  Child child_;
};

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
  for (int i = 0; i < 20; i++)
    ASSERT_TRUE(process.attach(*there).ok());
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

// ---- strangers
// --------------------------------------------------------------------------------------

auto entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

OwnedFd callAt(const ProcessExport& process) {
  Connected connected = connectTo(process.name, Clock::now() + seconds(20));
  EXPECT_EQ(connected.error, 0) << strerror(connected.error);
  setSocketDeadline(connected.fd.get(), Clock::now() + seconds(20));
  return std::move(connected.fd);
}

bool isDropped(const OwnedFd& fd) {
  char byte = 0;
  const ssize_t got = receivePacket(fd.get(), &byte, 1);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

TEST(PeerProcesses, DropCallersThatDoNotKnowTheToken) {
  Neighbour neighbour;
  ProcessExport there = neighbour.meet();
  Process process;
  ProcessExport wrong = there;
  wrong.token.bytes[15] ^= 1;
  EXPECT_THAT(messageOf(process.attach(wrong)), HasSubstr("refused"));
  EXPECT_TRUE(process.attach(there).ok());
  EXPECT_TRUE(neighbour.leave());
}

TEST(PeerProcesses, DropJunk) {
  Process process;
  const ProcessExport& self = process.peers->self();
  const std::vector<char> junk(5000, 'j');
  for (const size_t bytes : {size_t{1}, size_t{8}, sizeof(HelloMessage), junk.size()}) {
    const OwnedFd fd = callAt(self);
    ASSERT_TRUE(sendPacket(fd.get(), junk.data(), bytes));
    EXPECT_TRUE(isDropped(fd)) << bytes;
  }
  HelloMessage hello;
  hello.to = self.token;
  hello.version = kPeerVersion + 1;
  const OwnedFd fd = callAt(self);
  ASSERT_TRUE(sendPacket(fd.get(), &hello, sizeof hello));
  EXPECT_TRUE(isDropped(fd));
  EXPECT_EQ(process.deaths, 0);
}

TEST(PeerProcesses, KeepNoDescriptorThatAStrangerSends) {
  Process process(kMinHbmBytes);
  const auto before = entries("/proc/self/fd");
  {
    const OwnedFd fd = callAt(process.peers->self());
    ASSERT_TRUE(sendPacket(fd.get(), "junk", 4, fd.get()));
    EXPECT_TRUE(isDropped(fd));
  }
  EXPECT_EQ(entries("/proc/self/fd"), before);
}

TEST(PeerProcesses, AreNotHeldUpBySilentCallers) {
  Neighbour neighbour;
  const ProcessExport there = neighbour.meet();
  Process process;
  std::vector<OwnedFd> silent;
  for (int i = 0; i < 200; i++)
    silent.push_back(callAt(there));
  const auto peer = process.attach(there);
  EXPECT_TRUE(peer.ok()) << messageOf(peer);
  EXPECT_TRUE(neighbour.leave());
}

// A door without a process behind it.
struct Door {
  std::unique_ptr<Hbm> hbm;
  ProcessExport self;
  std::unique_ptr<PeerWatcher> watcher;

  explicit Door(PeerWatcher::Limits limits) : hbm(std::move(Hbm::open().value())) {
    EXPECT_TRUE(randomBytes(self.name.data(), self.name.size()).ok());
    watcher = std::move(PeerWatcher::open(self, hbm->fd(), {}, limits).value());
  }
};

TEST(PeerWatcher, DropsCallersThatStaySilent) {
  const Door door({.helloTime = milliseconds(20), .maxPending = 4});
  EXPECT_TRUE(isDropped(callAt(door.self)));
}

TEST(PeerWatcher, DropsTheOldestOfTooManyCallers) {
  const Door door({.helloTime = std::chrono::hours(1), .maxPending = 4});
  std::vector<OwnedFd> callers(7);
  for (OwnedFd& fd : callers)
    fd = callAt(door.self);
  for (size_t i = 0; i < 3; i++)
    EXPECT_TRUE(isDropped(callers[i])) << i;
  for (size_t i = 3; i < callers.size(); i++) {
    setNonBlocking(callers[i].get());
    EXPECT_FALSE(isDropped(callers[i])) << i;
  }
}

TEST(PeerWire, HearsAGoodbyeThroughAReset) {
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const OwnedFd ours(ends[0]);
  GoodbyeMessage goodbye;
  {
    const OwnedFd theirs(ends[1]);
    ASSERT_TRUE(sendPacket(ours.get(), &goodbye, sizeof goodbye));
    ASSERT_TRUE(sendPacket(theirs.get(), &goodbye, sizeof goodbye));
  }  // closes without having read ours
  goodbye.magic = 0;
  ASSERT_EQ(receivePacket(ours.get(), &goodbye, sizeof goodbye),
            static_cast<ssize_t>(sizeof goodbye));
  EXPECT_EQ(goodbye.magic, GoodbyeMessage::kMagic);
  EXPECT_LE(receivePacket(ours.get(), &goodbye, sizeof goodbye), 0);
}

TEST(PeerProcesses, DropProcessesOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  Pipe toChild;
  Child stranger([&] {
    const auto there = toChild.receive<ProcessExport>();
    if (!there || setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
      return false;
    // It knows the token, and may find the door; its own check speaks first, so it calls without
    // one.
    const OwnedFd fd = connectTo(there->name, Clock::now() + seconds(20)).fd;
    if (!fd) return false;
    setSocketDeadline(fd.get(), Clock::now() + seconds(20));
    HelloMessage hello;
    hello.to = there->token;
    sendPacket(fd.get(), &hello, sizeof hello);  // may come too late
    char byte = 0;
    if (receivePacket(fd.get(), &byte, 1) > 0) return false;
    Process process(kMinHbmBytes);
    return messageOf(process.attach(*there)).find("user 0") != std::string::npos;
  });
  Process process(kMinHbmBytes);
  toChild.send(process.peers->self());
  EXPECT_TRUE(stranger.succeeded());
}

TEST(PeerProcesses, NameANetworkNamespaceThatDiffers) {
  Neighbour neighbour;
  const ProcessExport there = neighbour.meet();
  Child apart([&] {
    if (unshare(CLONE_NEWNET) != 0) return true;  // not permitted here: nothing to see
    Process process(kMinHbmBytes);
    const auto refused = process.attach(there);
    return !refused.ok() && refused.error().message.find("network namespace") != std::string::npos;
  });
  EXPECT_TRUE(apart.succeeded());
  EXPECT_TRUE(neighbour.leave());
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
