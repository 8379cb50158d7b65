#include "comm/monitor.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "misc/log.h"
#include "misc/thread.h"

namespace nccom {
namespace {

constexpr uint32_t kControlMagic = 0x6c72746e;  // "ntrl" in memory
constexpr size_t kMaxText = 4096;               // bytes of a fault's text on the wire
constexpr size_t kReadBytes = 4096;

enum class ControlKind : uint32_t { Goodbye = 1, Fault = 2, Question = 3 };

struct ControlHeader {
  uint32_t magic = kControlMagic;
  ControlKind kind = ControlKind::Goodbye;
  int32_t rank = -1;
  int32_t code = 0;
  uint32_t textBytes = 0;
  uint32_t reserved = 0;
  uint64_t collective = 0;  // of a question
};
static_assert(sizeof(ControlHeader) == 32);

std::string messageOf(ControlHeader header, const std::string& text) {
  header.textBytes = static_cast<uint32_t>(std::min(text.size(), kMaxText));
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) +
         text.substr(0, header.textBytes);
}

std::string goodbye(int rank) {
  ControlHeader header;
  header.rank = rank;
  return messageOf(header, "");
}

std::string faultMessage(const Fault& fault) {
  ControlHeader header;
  header.kind = ControlKind::Fault;
  header.rank = fault.rank;
  header.code = fault.code;
  return messageOf(header, fault.text);
}

std::string questionMessage(const Question& question) {
  ControlHeader header;
  header.kind = ControlKind::Question;
  header.rank = question.rank;
  header.collective = question.collective;
  return messageOf(header, question.call);
}

/// A host that loses power says nothing: the kernel asks, and gives up after about 20 s.
void keepAlive(int fd) {
  const int on = 1, idleSec = 5, intervalSec = 5, probes = 3;
  const unsigned unansweredMs = 20000;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idleSec, sizeof idleSec);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &intervalSec, sizeof intervalSec);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unansweredMs, sizeof unansweredMs);
}

}  // namespace

Monitor::~Monitor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    wake();
  }
  if (thread_.joinable()) thread_.join();
}

Status Monitor::begin() {
  if (thread_.joinable()) return Ok{};
  wake_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_) return fail(ncclSystemError, "monitor: eventfd: %s", strerror(errno));
  thread_ = std::thread([this] { run(); });
  return Ok{};
}

void Monitor::wake() {
  const uint64_t one = 1;
  if (wake_ && write(wake_.get(), &one, sizeof one) < 0 && errno != EAGAIN) {
    WARN("monitor: eventfd: %s", strerror(errno));
  }
}

Result<uint64_t> Monitor::join(ControlRing ring, OnFault onFault, OnQuestion onQuestion) {
  const std::lock_guard lock(mutex_);
  if (ring.nRanks > 1) TRY(begin());
  const uint64_t id = ++lastId_;
  Member& member = members_[id];
  member.rank = ring.rank;
  member.onFault = std::make_shared<const OnFault>(std::move(onFault));
  if (onQuestion) member.onQuestion = std::make_shared<const OnQuestion>(std::move(onQuestion));
  if (ring.nRanks == 1) return id;
  Edge& prev = member.edges[0];
  prev.socket = std::move(ring.prev);
  prev.peer = (ring.rank + ring.nRanks - 1) % ring.nRanks;
  prev.name = ring.prevName;
  Edge& next = member.edges[1];
  next.socket = std::move(ring.next);
  next.peer = (ring.rank + 1) % ring.nRanks;
  next.name = ring.nextName;
  prev.nRanks = next.nRanks = ring.nRanks;
  keepAlive(prev.socket.fd());
  keepAlive(next.socket.fd());
  wake();
  return id;
}

void Monitor::fault(uint64_t member, ncclResult_t code, const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(member);
  if (found == members_.end() || found->second.faulted) return;
  found->second.faulted = true;
  const std::string message = faultMessage({found->second.rank, code, text});
  for (Edge& edge : found->second.edges)
    say(edge, message);
  wake();
}

void Monitor::suspect(uint64_t member, ncclResult_t code, const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(member);
  if (found == members_.end() || found->second.faulted || found->second.suspicion) return;
  found->second.suspicion = Fault{found->second.rank, code, text};
  found->second.suspectedUntil = Clock::now() + grace_;
  wake();
}

void Monitor::ask(uint64_t member, uint64_t collective, const std::string& call) {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(member);
  if (found == members_.end() || found->second.faulted) return;
  say(found->second.edges[1], questionMessage({found->second.rank, collective, call}));
  wake();
}

void Monitor::leave(uint64_t member) {
  std::unique_lock lock(mutex_);
  const auto found = members_.find(member);
  if (found == members_.end() || found->second.left) return;
  found->second.left = true;
  for (Edge& edge : found->second.edges)
    say(edge, goodbye(found->second.rank));
  wake();
  if (!thread_.joinable()) {  // all members are alone
    members_.erase(found);
  } else if (std::this_thread::get_id() != thread_.get_id()) {
    called_.wait(lock, [&] { return calling_ != member; });
  }
}

void Monitor::say(Edge& edge, const std::string& message) {
  if (!edge.socket) return;
  edge.out += message;
  flush(edge);  // at once, so that it is out even if the process ends next
}

/// An error is left for receive() to meet: the socket keeps it.
void Monitor::flush(Edge& edge) {
  while (!edge.out.empty()) {
    const auto sent = edge.socket.trySend(edge.out.data(), edge.out.size());
    if (!sent.ok()) edge.out.clear();
    if (!sent.ok() || sent.value() == 0) return;
    edge.out.erase(0, sent.value());
  }
}

void Monitor::run() {
  becomeInternalThread("nccom-monitor");
  std::vector<pollfd> fds;
  std::vector<Call> calls;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    fds.assign(1, {wake_.get(), POLLIN, 0});
    for (const auto& [id, member] : members_) {
      for (const Edge& edge : member.edges) {
        const short events = edge.out.empty() ? POLLIN : POLLIN | POLLOUT;
        if (edge.socket) fds.push_back({edge.socket.fd(), events, 0});
      }
    }
    const int wait = pollMs();
    lock.unlock();
    const int ready = poll(fds.data(), fds.size(), wait);
    lock.lock();
    uint64_t count = 0;
    if (ready > 0 && fds[0].revents != 0 && read(wake_.get(), &count, sizeof count) < 0 &&
        errno != EAGAIN) {
      WARN("monitor: eventfd: %s", strerror(errno));
    }
    calls.clear();
    for (auto& [id, member] : members_) {
      step(id, member, calls);
      judge(id, member, calls);
    }
    std::erase_if(members_, [](const auto& entry) {
      const Member& member = entry.second;
      return member.left && !member.edges[0].socket && !member.edges[1].socket;
    });
    callBack(calls, lock);
  }
}

/// Until the first suspicion is due; -1: there is none.
int Monitor::pollMs() const {
  int wait = -1;
  for (const auto& [id, member] : members_) {
    if (!member.suspicion || member.faulted || member.left) continue;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(member.suspectedUntil - Clock::now());
    const int ms = static_cast<int>(std::max<int64_t>(left.count(), 0));
    wait = wait < 0 ? ms : std::min(wait, ms);
  }
  return wait;
}

/// No better cause has come in time: the suspicion is the fault.
void Monitor::judge(uint64_t id, Member& member, std::vector<Call>& calls) {
  if (!member.suspicion || member.faulted || member.left) return;
  if (Clock::now() < member.suspectedUntil) return;
  member.faulted = true;
  for (Edge& edge : member.edges)
    say(edge, faultMessage(*member.suspicion));
  calls.push_back(callOf(id, member, *member.suspicion));
}

Monitor::Call Monitor::callOf(uint64_t id, const Member& member, const Fault& fault) {
  return {id, [onFault = member.onFault, fault] {
            INFO(kLogInit, "fault of rank %d: %s", fault.rank, fault.text.c_str());
            (*onFault)(fault);
          }};
}

/// Questions go once around, in the direction of `next`.
void Monitor::takeQuestions(uint64_t id, Member& member, const std::vector<Question>& questions,
                            std::vector<Call>& calls) {
  for (const Question& question : questions) {
    if (question.rank == member.rank) continue;
    say(member.edges[1], questionMessage(question));
    if (member.left || member.onQuestion == nullptr) continue;
    calls.push_back({id, [onQuestion = member.onQuestion, question] { (*onQuestion)(question); }});
  }
}

void Monitor::step(uint64_t id, Member& member, std::vector<Call>& calls) {
  for (int side = 0; side < 2; side++) {
    Edge& edge = member.edges[side];
    if (!edge.socket) continue;
    Heard heard;
    receive(edge, heard);
    takeQuestions(id, member, heard.questions, calls);
    if (!heard.faults.empty() && !member.faulted) {
      member.faulted = true;
      say(member.edges[1 - side], faultMessage(heard.faults.front()));
      if (!member.left) calls.push_back(callOf(id, member, heard.faults.front()));
    }
    if (edge.socket) flush(edge);
    if (edge.heardGoodbye && member.left && edge.out.empty()) edge.socket.close();
  }
}

/// Reads all there is; closes the edge at its end, which is a fault if it comes without a goodbye.
void Monitor::receive(Edge& edge, Heard& heard) {
  char bytes[kReadBytes];
  std::string lost;
  while (lost.empty()) {
    const auto got = edge.socket.tryRecv(bytes, sizeof bytes);
    if (!got.ok()) {
      lost = "its connection closed (" + got.error().message + ")";
    } else if (got.value() == 0) {
      return;
    } else {
      edge.in.append(bytes, got.value());
      lost = takeMessages(edge, heard);
    }
  }
  edge.socket.close();
  edge.out.clear();
  if (edge.heardGoodbye) return;
  heard.faults.push_back(
      {edge.peer, ncclRemoteError, describeRank(edge.peer, edge.name) + " was lost: " + lost});
}

/// Takes the complete messages out of edge.in. Returns what is wrong with them, if anything is.
std::string Monitor::takeMessages(Edge& edge, Heard& heard) {
  while (edge.in.size() >= sizeof(ControlHeader)) {
    ControlHeader header;
    memcpy(&header, edge.in.data(), sizeof header);
    const bool known = header.kind >= ControlKind::Goodbye && header.kind <= ControlKind::Question;
    const bool isOfARank = header.rank >= 0 && header.rank < edge.nRanks;
    const bool isAResult = header.code >= ncclSuccess && header.code < ncclNumResults;
    if (header.magic != kControlMagic || !known || !isOfARank || !isAResult ||
        header.textBytes > kMaxText) {
      return "it does not speak this protocol";
    }
    const size_t bytes = sizeof header + header.textBytes;
    if (edge.in.size() < bytes) return "";
    const std::string text = edge.in.substr(sizeof header, header.textBytes);
    if (header.kind == ControlKind::Goodbye) {
      edge.heardGoodbye = true;
    } else if (header.kind == ControlKind::Fault) {
      heard.faults.push_back({header.rank, static_cast<ncclResult_t>(header.code), text});
    } else {
      heard.questions.push_back({header.rank, header.collective, text});
    }
    edge.in.erase(0, bytes);
  }
  return "";
}

/// Calls without the lock, so that the called may use the monitor.
void Monitor::callBack(const std::vector<Call>& calls, std::unique_lock<std::mutex>& lock) {
  for (const Call& call : calls) {
    const auto found = members_.find(call.member);
    if (found == members_.end() || found->second.left) continue;
    calling_ = call.member;
    lock.unlock();
    call.run();
    lock.lock();
    calling_ = 0;
    called_.notify_all();
  }
}

}  // namespace nccom
