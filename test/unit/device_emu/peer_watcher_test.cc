#include "plugins/device_emu/peer_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "plugins/device_emu/peer_wire.h"
#include "test/unit/device_emu/forked.h"
#include "test/unit/device_emu/neighbour.h"

namespace nccom::emu {
namespace {

using testing::HasSubstr;

// --------------------------------------------------------------------------------------

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
  std::vector<OwnedFd> silent(200);
  for (OwnedFd& fd : silent)
    fd = callAt(there);
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

}  // namespace
}  // namespace nccom::emu
