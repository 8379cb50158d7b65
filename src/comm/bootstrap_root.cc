#include "comm/bootstrap_root.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "misc/ifaces.h"
#include "misc/log.h"
#include "misc/thread.h"

namespace nccom {
namespace {

constexpr std::chrono::milliseconds kStrangerTime{10000};  // to say a complete check-in
constexpr std::chrono::milliseconds kAnswerTime{10000};    // to take the answer
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kAcceptPatience{2000};  // with ranks that cannot be accepted
constexpr size_t kRanksListed = 10;
constexpr rlim_t kFilesARank = 8;  // descriptors if all ranks live in this process
constexpr rlim_t kFilesBeside = 256;

/// "rank 3 of 8 has", "ranks 3 and 5 of 8 have", "ranks 3, 5, ... and 12 more of 64 have".
template <class Present>
std::string missingRanks(const std::map<int, Present>& present, int nRanks) {
  const size_t missing = static_cast<size_t>(nRanks) - present.size();
  std::string out = missing == 1 ? "rank " : "ranks ";
  size_t shown = 0;
  for (int rank = 0; rank < nRanks && shown < std::min(missing, kRanksListed); rank++) {
    if (present.count(rank) != 0) continue;
    shown++;
    out += (shown == 1 ? "" : shown == missing ? " and " : ", ") + std::to_string(rank);
  }
  if (shown < missing) out += " and " + std::to_string(missing - shown) + " more";
  return out + " of " + std::to_string(nRanks) + (missing == 1 ? " has" : " have");
}

std::string duration(int64_t ms) {
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

/// Lets this process open about as many files as `nRanks` ranks need; as far as permitted.
void allowFiles(int nRanks) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted =
      std::min(limit.rlim_max, kFilesBeside + kFilesARank * static_cast<rlim_t>(nRanks));
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    INFO(kLogBootstrap, "setrlimit NOFILE to %llu: %s", static_cast<unsigned long long>(wanted),
         strerror(errno));
  }
}

}  // namespace

BootstrapRoots::~BootstrapRoots() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    wake();
  }
  if (thread_.joinable()) thread_.join();
}

Status BootstrapRoots::begin() {
  if (thread_.joinable()) return Ok{};
  wake_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_) return fail(ncclSystemError, "bootstrap root: eventfd: %s", strerror(errno));
  thread_ = std::thread([this] { run(); });
  return Ok{};
}

void BootstrapRoots::wake() {
  const uint64_t one = 1;
  if (wake_ && write(wake_.get(), &one, sizeof one) < 0 && errno != EAGAIN) {
    WARN("bootstrap root: eventfd: %s", strerror(errno));
  }
}

Result<ncclUniqueId> BootstrapRoots::getUniqueId(const BootstrapConfig& config) {
  if (!config.commId.empty()) {
    const int family = config.family == "AF_INET"    ? AF_INET
                       : config.family == "AF_INET6" ? AF_INET6
                                                     : AF_UNSPEC;
    return packUniqueId(TRY(idFromCommId(config.commId, family)));
  }
  const Interface interface = TRY(findInterfaces({config.ifname, config.family}, 1)).front();
  const std::lock_guard lock(mutex_);
  auto at = std::find_if(listeners_.begin(), listeners_.end(), [&](const Listener& listener) {
    SocketAddress host = listener.socket.address();
    host.setPort(0);
    return listener.session == 0 && host == interface.address;
  });
  if (at == listeners_.end()) {
    Listener listener{TRY(ListenSocket::open(interface.address)), 0, {}, {}};
    at = listeners_.insert(listeners_.end(), std::move(listener));
    INFO(kLogBootstrap, "bootstrap root listens at %s (%s)", at->socket.address().text().c_str(),
         interface.name.c_str());
  }
  TRY(begin());
  const BootstrapId id{TRY(randomBits()) | 1, at->socket.address(), false};
  Session& session = sessions_[id.secret];
  session.secret = id.secret;
  session.timeout = config.timeout();
  wake();
  return packUniqueId(id);
}

Status BootstrapRoots::serve(const BootstrapId& id, int nRanks, const BootstrapConfig& config) {
  const std::lock_guard lock(mutex_);
  const auto old = sessions_.find(id.secret);
  if (old != sessions_.end() && old->second.code == ncclSuccess) {
    return fail(ncclInvalidUsage,
                "NCCL_COMM_ID %s: another communicator is being created at this address",
                id.root.text().c_str());
  }
  if (old != sessions_.end()) {  // failed, and only there to tell latecomers
    listeners_.remove_if([&](const Listener& l) { return l.session == id.secret; });
    sessions_.erase(old);
  }
  auto socket = ListenSocket::open(id.root);
  if (!socket.ok()) {
    return fail(ncclInvalidUsage, "NCCL_COMM_ID %s is to be served by rank 0: %s",
                id.root.text().c_str(), socket.error().message.c_str());
  }
  TRY(begin());
  listeners_.push_back({std::move(socket).value(), id.secret, {}, {}});
  Session& session = sessions_[id.secret];
  session.secret = id.secret;
  session.timeout = config.timeout();
  session.fromCommId = true;
  session.nRanks = nRanks;
  session.begun = true;
  session.until = Clock::now() + session.timeout;
  wake();
  return Ok{};
}

void BootstrapRoots::run() {
  becomeInternalThread("nccom-root");
  std::vector<pollfd> fds;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const int waitMs = pollAll(fds);
    lock.unlock();
    const int ready = poll(fds.data(), fds.size(), waitMs);
    lock.lock();
    uint64_t count = 0;
    if (ready > 0 && fds[0].revents != 0 && read(wake_.get(), &count, sizeof count) < 0 &&
        errno != EAGAIN) {
      WARN("bootstrap root: eventfd: %s", strerror(errno));
    }
    for (Listener& listener : listeners_) {
      if (Clock::now() >= listener.pauseUntil) acceptAll(listener);
    }
    for (Visitor& visitor : visitors_) {
      if (!visitor.gone) step(visitor);
    }
    expire(Clock::now());
    visitors_.remove_if([](const Visitor& visitor) { return visitor.gone; });
  }
}

/// What to poll for, and for how long: until the next thing expires.
int BootstrapRoots::pollAll(std::vector<pollfd>& fds) {
  const auto now = Clock::now();
  auto next = Clock::time_point::max();
  fds.clear();
  fds.push_back({wake_.get(), POLLIN, 0});
  for (const Listener& listener : listeners_) {
    const bool paused = now < listener.pauseUntil;
    if (paused) next = std::min(next, listener.pauseUntil);
    fds.push_back({paused ? -1 : listener.socket.fd(), POLLIN, 0});
  }
  for (const Visitor& visitor : visitors_) {
    const short events = visitor.answer.empty() ? POLLIN : POLLOUT;
    fds.push_back({visitor.socket.fd(), events, 0});
    if (visitor.session == nullptr) next = std::min(next, visitor.until);
  }
  for (const auto& [secret, session] : sessions_) {
    const bool counts =
        session.begun && !session.used && (session.code == ncclSuccess || session.fromCommId);
    if (counts) next = std::min(next, session.until);
  }
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60000));
}

void BootstrapRoots::acceptAll(Listener& listener) {
  while (true) {
    auto accepted = listener.socket.tryAccept();
    if (!accepted.ok()) {
      acceptFailed(listener, accepted.error());
      return;
    }
    listener.failingSince.reset();
    if (!accepted.value()) return;
    Visitor visitor;
    visitor.socket = std::move(accepted).value();
    visitor.until = Clock::now() + kStrangerTime;
    visitors_.push_back(std::move(visitor));
  }
}

/// Out of descriptors: those that wait in the queue keep waiting for a while. Strangers may hold
/// the descriptors, and will be dropped; ranks that have checked in would hold them until all have
/// come.
void BootstrapRoots::acceptFailed(Listener& listener, const Error& error) {
  const auto now = Clock::now();
  listener.pauseUntil = now + kAcceptPause;
  if (!listener.failingSince) {
    WARN("bootstrap root: %s", error.message.c_str());
    listener.failingSince = now;
  }
  const bool strangers = std::any_of(visitors_.begin(), visitors_.end(), [](const Visitor& v) {
    return v.session == nullptr && !v.gone;
  });
  if (strangers || now - *listener.failingSince < kAcceptPatience) return;
  for (auto& [secret, session] : sessions_) {
    const bool isServed = listener.session == 0 ? !session.fromCommId : listener.session == secret;
    if (!isServed || !session.begun || session.used || session.code != ncclSuccess) continue;
    failSession(session, error.code,
                "the bootstrap root can take in no more than " +
                    std::to_string(session.ranks.size()) + " of " + std::to_string(session.nRanks) +
                    " ranks: " + error.message);
  }
}

void BootstrapRoots::step(Visitor& visitor) {
  if (!visitor.answer.empty()) {
    const auto sent = visitor.socket.trySend(visitor.answer.data() + visitor.sent,
                                             visitor.answer.size() - visitor.sent);
    if (sent.ok()) visitor.sent += sent.value();
    visitor.gone = !sent.ok() || visitor.sent == visitor.answer.size();
    return;
  }
  if (visitor.session == nullptr) {
    readCheckIn(visitor);
    return;
  }
  char more = 0;  // nothing should come from a rank that waits but its end
  const auto got = visitor.socket.tryRecv(&more, 1);
  if (!got.ok() || got.value() > 0) lose(visitor);
}

void BootstrapRoots::readCheckIn(Visitor& visitor) {
  char* bytes = reinterpret_cast<char*>(&visitor.checkIn);
  const auto got =
      visitor.socket.tryRecv(bytes + visitor.received, sizeof(CheckIn) - visitor.received);
  const char* complaint = nullptr;
  if (!got.ok()) {
    complaint = "left without a check-in";
  } else {
    visitor.received += got.value();
    if (memcmp(bytes, &kBootstrapMagic, std::min(visitor.received, sizeof kBootstrapMagic)) != 0) {
      complaint = "does not speak this protocol";
    }
  }
  if (complaint != nullptr) {
    INFO(kLogBootstrap, "bootstrap root: %s %s", visitor.socket.peer().text().c_str(), complaint);
    visitor.gone = true;
  } else if (visitor.received == sizeof(CheckIn)) {
    admit(visitor);
  }
}

void BootstrapRoots::admit(Visitor& visitor) {
  const CheckIn& in = visitor.checkIn;
  const auto found = sessions_.find(in.secret);
  if (found == sessions_.end()) {
    tell(visitor, ncclInvalidUsage,
         "this unique id is not one of " + describeProcess(ownName()) +
             ": the process that made it has ended, or NCCL_COMM_ID differs between ranks");
    return;
  }
  Session& session = found->second;
  if (session.used) {
    tell(visitor, ncclInvalidUsage,
         "this id has been used by another communicator; each needs one of its own");
  } else if (session.code != ncclSuccess) {
    refuse(visitor, session);
  } else {
    arrive(session, visitor);
  }
}

void BootstrapRoots::arrive(Session& session, Visitor& visitor) {
  const CheckIn& in = visitor.checkIn;
  if (!session.begun) {
    session.begun = true;
    session.until = Clock::now() + session.timeout;
  }
  const auto twin = session.ranks.find(in.rank);
  const auto failWith = [&](ncclResult_t code, const std::string& text) {
    failSession(session, code, text);
    refuse(visitor, session);
  };
  if (in.version != kBootstrapVersion) {
    failWith(ncclInvalidUsage, describeRank(in.rank, in.name) + " speaks bootstrap version " +
                                   std::to_string(in.version) + ", the root version " +
                                   std::to_string(kBootstrapVersion));
  } else if (session.nRanks != 0 && in.nRanks != session.nRanks) {
    session.otherRank = in.rank;
    session.otherNRanks = in.nRanks;
    failWith(ncclInvalidUsage, "");
  } else if (in.rank < 0 || in.rank >= in.nRanks || !in.listen.valid()) {
    failWith(ncclInvalidUsage, "a check-in of rank " + std::to_string(in.rank) + " of " +
                                   std::to_string(in.nRanks) + " at " + in.listen.text() +
                                   " makes no sense");
  } else if (twin != session.ranks.end()) {
    failWith(ncclInvalidUsage, "rank " + std::to_string(in.rank) + " checked in twice: " +
                                   describeRank(in.rank, twin->second->checkIn.name) + " and " +
                                   describeRank(in.rank, in.name));
  } else {
    if (session.nRanks == 0) {
      session.nRanks = in.nRanks;
      session.nRanksSaidBy = in.rank;
    }
    if (session.ranks.empty()) allowFiles(in.nRanks);
    session.ranks[in.rank] = &visitor;
    visitor.session = &session;
    if (session.ranks.size() == static_cast<size_t>(session.nRanks)) complete(session);
  }
}

void BootstrapRoots::complete(Session& session) {
  Verdict verdict;
  const auto bits = randomBits();
  verdict.clusterId = bits.ok() ? bits.value() : session.secret;
  verdict.epoch = static_cast<uint64_t>(time(nullptr));
  for (auto& [rank, visitor] : session.ranks) {
    const CheckIn& next = session.ranks[(rank + 1) % session.nRanks]->checkIn;
    verdict.next = next.listen;
    verdict.nextName = next.name;
    answer(*visitor, verdict, "");
  }
  INFO(kLogBootstrap, "bootstrap root: all %d ranks have checked in", session.nRanks);
  session.ranks.clear();
  session.used = true;
  if (session.fromCommId) {  // the address is free for the next communicator
    const uint64_t secret = session.secret;
    listeners_.remove_if([&](const Listener& listener) { return listener.session == secret; });
    sessions_.erase(secret);
  }
}

void BootstrapRoots::failSession(Session& session, ncclResult_t code, std::string text) {
  session.code = code;
  session.failure = std::move(text);
  for (auto& [rank, visitor] : session.ranks)
    refuse(*visitor, session);
  session.ranks.clear();
}

void BootstrapRoots::refuse(Visitor& visitor, const Session& session) {
  std::string text = session.failure;
  if (session.otherRank >= 0) {
    const int here = visitor.checkIn.nRanks;
    const bool isOther = here == session.otherNRanks;
    text = "nranks is " + std::to_string(here) + " here, " +
           std::to_string(isOther ? session.nRanks : session.otherNRanks) + " at rank " +
           std::to_string(isOther ? session.nRanksSaidBy : session.otherRank);
  }
  tell(visitor, session.code, text);
}

void BootstrapRoots::tell(Visitor& visitor, ncclResult_t code, const std::string& text) {
  Verdict verdict;
  verdict.code = code;
  answer(visitor, verdict, text);
}

void BootstrapRoots::answer(Visitor& visitor, Verdict verdict, const std::string& text) {
  const std::string cut = text.substr(0, kMaxVerdictText);
  verdict.textBytes = static_cast<uint32_t>(cut.size());
  visitor.answer.assign(reinterpret_cast<const char*>(&verdict), sizeof verdict);
  visitor.answer += cut;
  visitor.session = nullptr;
  visitor.until = Clock::now() + kAnswerTime;
  step(visitor);  // nearly always goes at once
}

/// A rank that had checked in is gone before all have.
void BootstrapRoots::lose(Visitor& visitor) {
  Session& session = *visitor.session;
  visitor.gone = true;
  session.ranks.erase(visitor.checkIn.rank);
  failSession(session, ncclRemoteError,
              describeRank(visitor.checkIn.rank, visitor.checkIn.name) +
                  " left before all ranks had checked in");
}

void BootstrapRoots::expire(Clock::time_point now) {
  for (Visitor& visitor : visitors_) {
    if (visitor.gone || visitor.session != nullptr || now < visitor.until) continue;
    visitor.gone = true;
    INFO(kLogBootstrap, "bootstrap root: %s said nothing that completes a check-in; dropped",
         visitor.socket.peer().text().c_str());
  }
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    Session& session = at->second;
    const bool due = session.begun && !session.used && now >= session.until;
    if (due && session.code == ncclSuccess) {
      failSession(session, ncclRemoteError,
                  missingRanks(session.ranks, session.nRanks) + " not checked in within " +
                      duration(session.timeout.count()));
      if (session.fromCommId) session.until = now + session.timeout;
    } else if (due && session.fromCommId) {  // latecomers have been told for long enough
      const uint64_t secret = session.secret;
      listeners_.remove_if([&](const Listener& listener) { return listener.session == secret; });
      at = sessions_.erase(at);
      continue;
    }
    ++at;
  }
}

}  // namespace nccom
