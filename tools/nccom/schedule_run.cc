#include "tools/nccom/schedule_run.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "enc/layout.h"

namespace nccom {
namespace {

class UnitRun {
 public:
  UnitRun(std::span<const encProgram> programs, size_t maxSpans)
      : programs_(programs), maxSpans_(maxSpans), semaphores_(programs.size()) {
    for (size_t rank = 0; rank < programs.size(); rank++) {
      queues_.emplace_back(programs[rank].queues.size());
      for (size_t queue = 0; queue < queues_[rank].size(); queue++)
        wake(0, static_cast<int>(rank), queue);
    }
  }

  Result<ScheduleRun> run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (run_.spans.size() > maxSpans_ && event.time > now_) {
        cut();
        break;
      }
      now_ = event.time;
      if (event.queue == kNet) {
        deliver(event);
      } else {
        goOn(event.rank, event.queue);
      }
    }
    if (!run_.isCut) TRY(checkEnded());
    for (const RunSpan& span : run_.spans)
      run_.steps = std::max(run_.steps, span.end);
    return std::move(run_);
  }

 private:
  static constexpr size_t kNet = SIZE_MAX;

  struct Queue {
    size_t block = 0, desc = 0;
    uint64_t iteration = 0;
    int64_t since = -1;  // waits since then; -1: it does not
  };
  struct Event {
    int64_t time = 0;
    uint64_t number = 0;  // of equal times, the older first
    int rank = 0;         // of a network entry: the place of its wire
    size_t queue = 0;     // kNet: an entry has arrived
    bool operator<(const Event& other) const {
      return std::pair(time, number) > std::pair(other.time, other.number);
    }
  };
  struct Wire {
    std::deque<RunSpan> sends, receives;  // that were posted: rank, queue and descriptor
    int64_t freeAt = 0;
    std::deque<std::pair<int, uint32_t>> raises;  // of entries under way: rank and semaphore
  };

  void wake(int64_t time, int rank, size_t queue) { events_.push({time, number_++, rank, queue}); }

  const encQueue& queueOf(int rank, size_t queue) const { return programs_[rank].queues[queue]; }

  /// Whole steps stay: what began at or after the last full one goes.
  void cut() {
    int64_t last = 0;
    for (const RunSpan& span : run_.spans)
      last = std::max(last, span.begin);
    while (run_.spans.size() > maxSpans_ && last > 0) {
      std::erase_if(run_.spans, [&](const RunSpan& span) { return span.begin >= last; });
      last--;
    }
    run_.isCut = true;
  }

  RunSpan spanAt(int rank, size_t queue, RunSpanKind kind) const {
    const Queue& at = queues_[rank][queue];
    RunSpan span;
    span.kind = kind;
    span.rank = rank;
    span.queue = queue;
    span.begin = now_;
    span.end = now_ + 1;
    span.desc = &queueOf(rank, queue).blocks[at.block].descs[at.desc];
    span.iteration = at.iteration;
    return span;
  }

  void advance(int rank, size_t queue) {
    Queue& at = queues_[rank][queue];
    const encBlock& block = queueOf(rank, queue).blocks[at.block];
    if (++at.desc < block.descs.size()) return;
    at.desc = 0;
    if (++at.iteration < block.repeat) return;
    at.iteration = 0;
    at.block++;
  }

  /// Runs a queue until it has to wait, or something takes time.
  void goOn(int rank, size_t queue) {
    Queue& at = queues_[rank][queue];
    while (at.block < queueOf(rank, queue).blocks.size()) {
      const encDesc& desc = queueOf(rank, queue).blocks[at.block].descs[at.desc];
      switch (desc.type) {
        case encDescType::Transfer:
          if (!hasMail(rank, queue, desc)) return;
          run_.spans.push_back(spanAt(rank, queue, RunSpanKind::Transfer));
          advance(rank, queue);
          wake(now_ + 1, rank, queue);
          return;
        case encDescType::Wait:
          if (!hasWaited(rank, queue, desc)) return;
          break;
        case encDescType::Inc:
          raise(desc.rank, desc.semaphore, desc.value);
          break;
        case encDescType::Post:
          if (!hasPosted(rank, queue, desc)) return;
          break;
        case encDescType::NetSend:
        case encDescType::NetRecv:
          post(rank, queue, desc);
          break;
      }
      advance(rank, queue);
    }
  }

  bool hasWaited(int rank, size_t queue, const encDesc& desc) {
    Queue& at = queues_[rank][queue];
    const int64_t wanted = desc.value + static_cast<int64_t>(at.iteration) * desc.stride;
    if (semaphores_[rank][desc.semaphore] < wanted) {
      if (at.since < 0) at.since = now_;
      waiting_[{rank, desc.semaphore}].push_back(queue);
      return false;
    }
    if (at.since >= 0 && at.since < now_) {
      RunSpan span = spanAt(rank, queue, RunSpanKind::Wait);
      span.begin = at.since;
      span.end = now_;
      run_.spans.push_back(span);
    }
    at.since = -1;
    return true;
  }

  void raise(int rank, uint32_t semaphore, int64_t value) {
    semaphores_[rank][semaphore] += value;
    const auto waiters = waiting_.find({rank, semaphore});
    if (waiters == waiting_.end()) return;
    for (const size_t queue : std::exchange(waiters->second, {}))
      wake(now_, rank, queue);
  }

  /// Messages from one rank to another.
  struct Mail {
    std::set<int64_t> posted, read;               // numbers
    std::vector<std::pair<int, size_t>> waiting;  // rank and queue
  };
  void wakeAll(Mail& mail) {
    for (const auto& [rank, queue] : std::exchange(mail.waiting, {}))
      wake(now_, rank, queue);
  }

  /// The messages that a transfer reads are there.
  bool hasMail(int rank, size_t queue, const encDesc& desc) {
    for (const encAddress& source : desc.sources) {
      if (source.buffer != encBuffer::Posted) continue;
      Mail& mail = mail_[{source.rank, rank}];
      if (!mail.posted.contains(source.index)) {
        mail.waiting.emplace_back(rank, queue);
        return false;
      }
      mail.read.insert(source.index);
      wakeAll(mail);
    }
    return true;
  }

  bool hasPosted(int rank, size_t queue, const encDesc& desc) {
    Mail& mail = mail_[{rank, desc.rank}];
    const int64_t before = desc.value - encPostedAhead(desc.byValue);
    if (before >= 0 && !mail.read.contains(before)) {
      mail.waiting.emplace_back(rank, queue);
      return false;
    }
    mail.posted.insert(desc.value);
    wakeAll(mail);
    return true;
  }

  void post(int rank, size_t queue, const encDesc& desc) {
    const encConnection& connection = programs_[rank].connections[desc.connection];
    const bool sends = desc.type == encDescType::NetSend;
    const int from = sends ? rank : connection.peer;
    const int to = sends ? connection.peer : rank;
    const auto [place, isNew] =
        wireAt_.emplace(std::tuple(from, to, connection.channel), wires_.size());
    if (isNew) wires_.emplace_back();
    Wire& wire = wires_[place->second];
    (sends ? wire.sends : wire.receives).push_back(spanAt(rank, queue, RunSpanKind::Net));
    if (wire.sends.empty() || wire.receives.empty()) return;
    const RunSpan receive = wire.receives.front();
    RunSpan span = wire.sends.front();
    wire.sends.pop_front();
    wire.receives.pop_front();
    span.begin = std::max(now_, wire.freeAt);
    span.end = wire.freeAt = span.begin + 1;
    span.peer = to;
    span.peerQueue = receive.queue;
    run_.spans.push_back(span);
    wire.raises.emplace_back(from, semaphoreOf(from, *span.desc));
    wire.raises.emplace_back(to, semaphoreOf(to, *receive.desc));
    wake(span.end, static_cast<int>(place->second), kNet);
  }

  uint32_t semaphoreOf(int rank, const encDesc& desc) const {
    return programs_[rank].connections[desc.connection].semaphore;
  }

  /// Both proxies say that the wire's oldest entry is through.
  void deliver(const Event& event) {
    for (int end = 0; end < 2; end++) {
      const auto [rank, semaphore] = wires_[event.rank].raises.front();
      wires_[event.rank].raises.pop_front();
      raise(rank, semaphore, 1);
    }
  }

  Status checkEnded() const {
    for (size_t rank = 0; rank < queues_.size(); rank++) {
      for (size_t queue = 0; queue < queues_[rank].size(); queue++) {
        const Queue& at = queues_[rank][queue];
        const encQueue& all = programs_[rank].queues[queue];
        if (at.block == all.blocks.size()) continue;
        return fail(ncclInternalError, "rank %zu queue %zu waits for ever: %s", rank, queue,
                    encDump(all.blocks[at.block].descs[at.desc]).c_str());
      }
    }
    return Ok{};
  }

  std::span<const encProgram> programs_;
  const size_t maxSpans_;
  ScheduleRun run_;
  int64_t now_ = 0;
  uint64_t number_ = 0;
  std::priority_queue<Event> events_;
  std::vector<std::vector<Queue>> queues_;                           // [rank][queue]
  std::vector<std::map<uint32_t, int64_t>> semaphores_;              // [rank]
  std::map<std::pair<int, uint32_t>, std::vector<size_t>> waiting_;  // queues of the rank
  std::map<std::pair<int, int>, Mail> mail_;                         // {from, to}
  std::map<std::tuple<int, int, int>, size_t> wireAt_;               // {from, to, channel}
  std::vector<Wire> wires_;
};

}  // namespace

Result<ScheduleRun> runSchedule(std::span<const encProgram> programs, size_t maxSpans) {
  return UnitRun(programs, maxSpans).run();
}

}  // namespace nccom
