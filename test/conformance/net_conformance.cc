#include "test/conformance/net_conformance.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

namespace nccom {
namespace {

using Clock = std::chrono::steady_clock;

// A test that waits longer has failed. Generous, as the machine may be busy with other things.
constexpr std::chrono::seconds kPatience(60);

}  // namespace

void NetConformance::SetUp() {
  auto opened = GetParam().open();
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  net_ = std::move(opened).value();
}

int NetConformance::maxRecvs() {
  const auto properties = net().properties(0);
  EXPECT_TRUE(properties.ok()) << properties.error().message;
  return properties.ok() ? properties.value().maxRecvs : 1;
}

NetLink NetConformance::makeLink() {
  return std::move(makeLinks(1).at(0));
}

std::vector<NetLink> NetConformance::makeLinks(size_t count) {
  NetHandle handle{};
  auto listening = net().listen(0, handle);
  EXPECT_TRUE(listening.ok()) << listening.error().message;
  if (!listening.ok()) return std::vector<NetLink>(count);
  const UniqueNetListen listener(net(), listening.value());
  std::vector<NetLink> links(count);
  const auto limit = Clock::now() + kPatience;
  for (NetLink& link : links) {
    NetHandle copy = handle;
    while ((!link.send || !link.recv) && Clock::now() < limit) {
      if (!link.send) {
        auto sending = net().connect(0, copy);
        EXPECT_TRUE(sending.ok()) << sending.error().message;
        if (!sending.ok()) return links;
        if (sending.value() != nullptr) link.send = UniqueNetSend(net(), sending.value());
      }
      if (!link.recv) {
        auto receiving = net().accept(listener.get());
        EXPECT_TRUE(receiving.ok()) << receiving.error().message;
        if (!receiving.ok()) return links;
        if (receiving.value() != nullptr) link.recv = UniqueNetRecv(net(), receiving.value());
      }
    }
    EXPECT_TRUE(link.send && link.recv) << "no connection in time";
  }
  return links;
}

NetRequest* NetConformance::isend(const NetLink& link, const NetBuffer& buffer) {
  const auto limit = Clock::now() + kPatience;
  while (Clock::now() < limit) {
    auto request = net().isend(link.send.get(), buffer);
    EXPECT_TRUE(request.ok()) << request.error().message;
    if (!request.ok() || request.value() != nullptr) {
      return request.ok() ? request.value() : nullptr;
    }
  }
  ADD_FAILURE() << "isend found no room in time";
  return nullptr;
}

NetRequest* NetConformance::irecv(const NetLink& link, std::vector<NetBuffer> buffers) {
  const auto limit = Clock::now() + kPatience;
  while (Clock::now() < limit) {
    auto request = net().irecv(link.recv.get(), buffers);
    EXPECT_TRUE(request.ok()) << request.error().message;
    if (!request.ok() || request.value() != nullptr) {
      return request.ok() ? request.value() : nullptr;
    }
  }
  ADD_FAILURE() << "irecv found no room in time";
  return nullptr;
}

std::vector<std::vector<int>> NetConformance::finish(const std::vector<NetRequest*>& requests) {
  std::vector<std::vector<int>> sizes(requests.size());
  std::vector<NetRequest*> left = requests;
  size_t open = static_cast<size_t>(std::count_if(
      left.begin(), left.end(), [](const NetRequest* request) { return request != nullptr; }));
  const auto limit = Clock::now() + kPatience;
  while (open > 0 && Clock::now() < limit) {
    std::this_thread::yield();  // the peer may need this core
    for (size_t i = 0; i < left.size(); ++i) {
      if (left[i] == nullptr) continue;
      std::array<int, 32> got{};
      const auto done = net().test(left[i], got);
      EXPECT_TRUE(done.ok()) << done.error().message;
      if (!done.ok()) return sizes;
      if (!done.value()) continue;
      sizes[i].assign(got.begin(), got.end());
      left[i] = nullptr;
      --open;
    }
  }
  EXPECT_EQ(open, 0U) << "requests are not done in time";
  return sizes;
}

std::string NetConformance::errorOf(NetRequest* request) {
  const auto limit = Clock::now() + kPatience;
  while (Clock::now() < limit) {
    const auto done = net().test(request, {});
    if (!done.ok()) return done.error().message;
    if (done.value()) return "";
    std::this_thread::yield();
  }
  return "";
}

void fillPattern(uint8_t* data, size_t bytes, uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (size_t i = 0; i < bytes; ++i) {
    if (i % 8 == 0) state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    data[i] = static_cast<uint8_t>(state >> (8 * (i % 8)));
  }
}

ssize_t wrongByte(const uint8_t* data, size_t bytes, uint64_t seed) {
  std::vector<uint8_t> expected(bytes);
  fillPattern(expected.data(), bytes, seed);
  for (size_t i = 0; i < bytes; ++i) {
    if (data[i] != expected[i]) return static_cast<ssize_t>(i);
  }
  return -1;
}

ChildProcess::ChildProcess(const std::function<int()>& body) {
  fflush(nullptr);
  pid_ = fork();
  if (pid_ != 0) return;
  alarm(static_cast<unsigned>(kPatience.count()));  // ends with its parent, or without
  _exit(body());
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::kill() {
  ::kill(pid_, SIGKILL);
}

int ChildProcess::join() {
  int status = 0;
  const auto limit = Clock::now() + kPatience;
  while (Clock::now() < limit) {
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    poll(nullptr, 0, 1);
  }
  return -1;
}

Pipe::Pipe() {
  EXPECT_EQ(pipe2(fds_, O_CLOEXEC), 0);
}

Pipe::~Pipe() {
  close(fds_[0]);
  close(fds_[1]);
}

void Pipe::write(const void* data, size_t bytes) const {
  EXPECT_EQ(::write(fds_[1], data, bytes), static_cast<ssize_t>(bytes));
}

bool Pipe::read(void* data, size_t bytes) const {
  pollfd entry{fds_[0], POLLIN, 0};
  const int patienceMs = static_cast<int>(std::chrono::milliseconds(kPatience).count());
  return poll(&entry, 1, patienceMs) == 1 &&
         ::read(fds_[0], data, bytes) == static_cast<ssize_t>(bytes);
}

}  // namespace nccom
