#include "plugins/device_emu/peer_watcher.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "plugins/device_emu/peer_wire.h"

namespace nccom::emu {
namespace {

constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr int kAcceptsATurn = 32;

// Comparing a secret must not tell by its duration how much of it was right.
bool sameSecret(const ProcessToken& a, const ProcessToken& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.bytes.size(); i++)
    difference |= unsigned{a.bytes[i]} ^ b.bytes[i];
  return difference == 0;
}

// Starts a thread that takes no signals: those belong to the application's threads.
template <class Body>
Result<std::thread> startThread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  int error = 0;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& failure) {
    error = failure.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return fail(ncclSystemError, "no thread to watch peers: %s", strerror(error));
  pthread_setname_np(thread.native_handle(), "nccom-peers");
  return thread;
}

}  // namespace

void PollBell::ring() const {
  // Fails only when 2^64 - 2 rings are pending, and then it is rung.
  [[maybe_unused]] const int rung = eventfd_write(fd_.get(), 1);
}

void PollBell::clear() const {
  eventfd_t rings = 0;
  [[maybe_unused]] const int cleared = eventfd_read(fd_.get(), &rings);  // EAGAIN: it was not rung
}

Result<std::unique_ptr<PeerWatcher>> PeerWatcher::open(const ProcessExport& self, int hbmFd,
                                                       PeerProcesses::OnDeath onDeath,
                                                       Limits limits) {
  std::unique_ptr<PeerWatcher> watcher(new PeerWatcher(self, hbmFd, std::move(onDeath), limits));
  watcher->listener_ = EMU_TRY(listenAt(self.name));
  OwnedFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) return fail(ncclSystemError, "eventfd: %s", strerror(errno));
  watcher->bell_ = std::make_shared<PollBell>(std::move(bell));
  watcher->thread_ = EMU_TRY(startThread([w = watcher.get()] { w->run(); }));
  return watcher;
}

PeerWatcher::PeerWatcher(const ProcessExport& self, int hbmFd, PeerProcesses::OnDeath onDeath,
                         Limits limits)
    : self_(self), hbmFd_(hbmFd), onDeath_(std::move(onDeath)), limits_(limits), pid_(getpid()) {}

PeerWatcher::~PeerWatcher() {
  if (!thread_.joinable()) return;
  if (getpid() != pid_) {
    // A forked child has no such thread, and its goodbyes would be taken for the parent's.
    thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  bell_->ring();
  thread_.join();
}

void PeerWatcher::watch(OwnedFd connection, const std::shared_ptr<PeerProcess>& peer) {
  setNonBlocking(connection.get());
  {
    const std::lock_guard lock(mutex_);
    incoming_.push_back(
        {std::move(connection), Phase::Outbound, peer->token(), peer->pid(), {}, peer});
  }
  bell_->ring();
}

bool PeerWatcher::died(const ProcessToken& token) const {
  const std::lock_guard lock(mutex_);
  return dead_.contains(token);
}

void PeerWatcher::run() {
  std::vector<pollfd> polled;
  while (true) {
    expire();
    // Index 0: the bell; 1: the listener, -1 (ignored) while paused; then the connections in order.
    polled.clear();
    polled.push_back({bell_->fd(), POLLIN, 0});
    polled.push_back({Clock::now() < acceptAfter_ ? -1 : listener_.get(), POLLIN, 0});
    for (const Connection& connection : connections_)
      polled.push_back({connection.fd.get(), POLLIN, 0});
    if (poll(polled.data(), polled.size(), pollTimeoutMs()) < 0) continue;

    for (size_t i = 0; i < connections_.size(); i++) {
      if (polled[i + 2].revents != 0) serve(connections_[i]);
    }
    if (polled[1].revents != 0) acceptAll();
    if (polled[0].revents != 0) {
      bell_->clear();
      adopt();
      const std::lock_guard lock(mutex_);
      if (stop_) break;
    }
  }
  for (const Connection& connection : connections_) {
    const GoodbyeMessage goodbye;
    if (connection.phase == Phase::Inbound || connection.phase == Phase::Outbound) {
      sendPacket(connection.fd.get(), &goodbye, sizeof goodbye);
    }
  }
  connections_.clear();
  listener_ = OwnedFd();
}

// Takes over what watch() was given.
void PeerWatcher::adopt() {
  const std::lock_guard lock(mutex_);
  for (Connection& connection : incoming_)
    connections_.push_back(std::move(connection));
  incoming_.clear();
}

// Closes what has ended, callers who are silent too long, and connections to peers that nobody
// uses.
void PeerWatcher::expire() {
  const auto now = Clock::now();
  for (Connection& connection : connections_) {
    if (connection.phase == Phase::Pending && now >= connection.until)
      connection.phase = Phase::Closed;
    if (connection.phase == Phase::Outbound && connection.peer.expired()) {
      const GoodbyeMessage goodbye;
      sendPacket(connection.fd.get(), &goodbye, sizeof goodbye);
      connection.phase = Phase::Closed;
    }
  }
  std::erase_if(connections_, [](const Connection& c) { return c.phase == Phase::Closed; });
}

int PeerWatcher::pollTimeoutMs() const {
  const auto now = Clock::now();
  auto next = Clock::time_point::max();
  if (acceptAfter_ > now) next = acceptAfter_;
  for (const Connection& connection : connections_) {
    if (connection.phase == Phase::Pending) next = std::min(next, connection.until);
  }
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void PeerWatcher::acceptAll() {
  for (int i = 0; i < kAcceptsATurn; i++) {
    OwnedFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      // Without descriptors or memory the listener stays readable: come back later, do not spin.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        acceptAfter_ = Clock::now() + kAcceptPause;
      return;
    }
    const auto caller = credentialsOf(fd.get());
    if (!caller.ok() || caller.value().uid != geteuid()) continue;
    dropOldestPending();
    connections_.push_back({std::move(fd),
                            Phase::Pending,
                            {},
                            caller.value().pid,
                            Clock::now() + limits_.helloTime,
                            {}});
  }
}

// Makes room for one more caller.
void PeerWatcher::dropOldestPending() {
  const auto pending = [](const Connection& c) { return c.phase == Phase::Pending; };
  const auto count = std::count_if(connections_.begin(), connections_.end(), pending);
  if (static_cast<size_t>(count) < limits_.maxPending) return;
  std::find_if(connections_.begin(), connections_.end(), pending)->phase = Phase::Closed;
}

void PeerWatcher::serve(Connection& connection) {
  HelloMessage message;  // the longest that anybody may send
  message.magic = 0;
  const ssize_t bytes = receivePacket(connection.fd.get(), &message, sizeof message);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  switch (connection.phase) {
    case Phase::Pending:
      welcome(connection, message, bytes);
      return;
    case Phase::Inbound:
    case Phase::Outbound:
      if (bytes <= 0) {
        ended(connection, false);
      } else if (bytes == sizeof(GoodbyeMessage) && message.magic == GoodbyeMessage::kMagic) {
        ended(connection, true);
      }
      return;
    case Phase::Closed:
      return;
  }
}

void PeerWatcher::welcome(Connection& connection, const HelloMessage& hello, ssize_t bytes) {
  connection.phase = Phase::Closed;
  if (bytes != sizeof hello || hello.magic != HelloMessage::kMagic || hello.version != kPeerVersion)
    return;
  if (!sameSecret(hello.to, self_.token)) return;
  WelcomeMessage answer;
  answer.hbmBytes = self_.hbmBytes;
  if (!sendPacket(connection.fd.get(), &answer, sizeof answer, hbmFd_)) return;
  connection.phase = Phase::Inbound;
  connection.token = hello.from;
}

void PeerWatcher::ended(Connection& connection, bool goodbye) {
  const bool outbound = connection.phase == Phase::Outbound;
  connection.phase = Phase::Closed;
  if (goodbye) {
    const auto peer = connection.peer.lock();
    if (outbound && peer) peer->setState(PeerState::Left);
    return;
  }
  // There may be a connection each way: all of them learn of it from the first that ends.
  for (const Connection& other : connections_) {
    if (other.token != connection.token) continue;
    if (const auto peer = other.peer.lock()) peer->setState(PeerState::Died);
  }
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = dead_.insert(connection.token).second;
  }
  if (first && onDeath_) onDeath_(connection.token, connection.pid);
}

}  // namespace nccom::emu
