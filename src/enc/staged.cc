#include "enc/staged.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "enc/builder.h"
#include "enc/direct.h"
#include "enc/flat.h"

namespace nccom {
namespace {

constexpr uint64_t kLine = 64;
// What a rank stages at once, by measurement: little enough to stay in caches, so much that meeting
// costs little beside. The latter is more where ranks share cores.
constexpr uint64_t kWindowBytes = 512 << 10, kSharedWindowBytes = 1 << 20;
// Windows under way: one is filled while the other is read.
constexpr uint64_t kWindows = 2;
// Ranks that each fold all, and meet once: with more, reading everything of everybody costs more
// than meeting twice. By measurement; half of the work of each is to read what the other wrote.
constexpr int kMostWhole = 2;

uint64_t roundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

class Staged {
 public:
  /// @param byRank  the scalar that INPUTs are multiplied by is each rank's own
  Staged(encBuilder& builder, const encStage& stage, bool byRank);

  /// Bytes of the message, or of each part, in a window; 0: the work area is too small.
  uint64_t windowBytes() const { return windowBytes_; }
  void compose();

 private:
  /// A piece of the message, or of each of its parts.
  struct Window {
    uint64_t begin, bytes;
    uint64_t room;  // in the work area
  };

  bool byParts() const {
    return op() == encOp::ReduceScatter || op() == encOp::AllGather || op() == encOp::AlltoAll;
  }
  /// Whether parts of a window for different ranks are staged side by side.
  bool sidesBySide() const { return op() == encOp::ReduceScatter || op() == encOp::AlltoAll; }
  /// Whether ranks fold slices, and sums are collected.
  bool collects() const {
    return op() == encOp::Reduce || (op() == encOp::AllReduce && stage_.n() > kMostWhole);
  }
  bool isRoot() const { return stage_.self == stage_.root; }
  bool reads(int reader, int owner) const {
    return reader != owner && (op() != encOp::Broadcast || owner == stage_.root);
  }
  /// Sums of more sources than a transfer has go on in OUTPUT, which may be our INPUT's memory. And
  /// what is multiplied is rounded when it is staged: all ranks must add the same.
  bool stagesOwn() const { return stage_.n() > kMaxSources || scalesOwn_; }

  void window(const Window& w);
  void put(const Window& w);
  void make(const Window& w);
  void collect(const Window& w);
  void fold(const Window& w, encPart part, uint64_t at, std::vector<encSpan> to);
  void copy(encStep step, encSpan from, std::vector<encSpan> to, uint64_t bytes);
  encPart slice(const Window& w, int member) const;
  encSpan own(uint64_t at) const { return stage_.in(stage_.self, at); }
  encSpan out(uint64_t at) const { return stage_.out(stage_.self, at); }
  /// A byte of what a member has staged, for whom it may concern.
  encSpan staged(const Window& w, int member, uint64_t at) const {
    return stage_.work(member, w.room + at);
  }
  /// A member's sum of its slice.
  encSpan sum(const Window& w, int member) const {
    return stage_.work(member, w.room + windowBytes_);
  }

  uint32_t semaphore(encPeerSemaphore which, int member) const {
    return builder_.layout().semaphore(which, stage_.ranks[member]);
  }
  void tell(encPeerSemaphore which, int member);
  void awaitStaged(int member);
  void awaitTaken(int64_t slack);
  encOp op() const { return stage_.op; }

  encBuilder& builder_;
  encStage stage_;
  const bool scalesOwn_;  // what is staged is multiplied already
  const size_t queue_;
  uint64_t roomBytes_ = 0;  // of a window in the work area
  uint64_t windowBytes_ = 0;
};

Staged::Staged(encBuilder& builder, const encStage& stage, bool byRank)
    : builder_(builder),
      stage_(stage),
      scalesOwn_(byRank && stage.scaleInputs),
      queue_(builder.mainQueue(0)) {
  const auto n = static_cast<uint64_t>(stage.n());
  const uint64_t sides = sidesBySide() ? n : 1;
  const uint64_t most = stage.workBytes / kWindows / (sides + (collects() ? 1 : 0));
  const uint64_t wanted = std::max((n > 2 ? kSharedWindowBytes : kWindowBytes) / sides, kLine);
  windowBytes_ = std::min(wanted, most) / kLine * kLine;
  roomBytes_ = windowBytes_ * (sides + (collects() ? 1 : 0));
}

/// A member's share of a window: lines are not shared between slices, whose writers differ.
encPart Staged::slice(const Window& w, int member) const {
  const auto n = static_cast<uint64_t>(stage_.n());
  const uint64_t share = roundUp((w.bytes + n - 1) / n, kLine);
  const uint64_t begin = std::min(w.bytes, static_cast<uint64_t>(member) * share);
  return {begin, std::min(share, w.bytes - begin)};
}

void Staged::tell(encPeerSemaphore which, int member) {
  const uint32_t theirs = builder_.layout().semaphore(which, stage_.rank());
  builder_.append(queue_, encInc(encStep::Sync, stage_.ranks[member], theirs));
}

void Staged::awaitStaged(int member) {
  const uint32_t there = semaphore(encPeerSemaphore::Staged, member);
  builder_.expect(there);
  builder_.wait(queue_, encStep::Sync, stage_.ranks[member], there);
}

/// Waits until all readers have done with our windows but the last `slack`.
void Staged::awaitTaken(int64_t slack) {
  for (int member = 0; member < stage_.n(); member++) {
    if (!reads(member, stage_.self)) continue;
    const uint32_t taken = semaphore(encPeerSemaphore::Taken, member);
    if (!builder_.inLoop() && builder_.expect(taken, 0) <= slack) continue;
    builder_.wait(queue_, encStep::Sync, stage_.ranks[member], taken, slack);
  }
}

void Staged::copy(encStep step, encSpan from, std::vector<encSpan> to, uint64_t bytes) {
  builder_.transfer(queue_, {.step = step,
                             .sources = {from},
                             .destinations = std::move(to),
                             .bytes = bytes,
                             .scaleAll = scalesOwn_ && step == encStep::Copy});
}

/// What the others are to read of our INPUT.
void Staged::put(const Window& w) {
  const int self = stage_.self;
  if (sidesBySide()) {
    for (int member = 0; member < stage_.n(); member++) {
      if (member == self && !stagesOwn()) continue;
      const uint64_t place = static_cast<uint64_t>(member) * windowBytes_;
      copy(encStep::Copy, own(stage_.part(member).begin + w.begin), {staged(w, self, place)},
           w.bytes);
    }
  } else if (collects() && !stagesOwn()) {
    const encPart kept = slice(w, self);
    const uint64_t behind = kept.begin + kept.bytes;
    copy(encStep::Copy, own(w.begin), {staged(w, self, 0)}, kept.begin);
    copy(encStep::Copy, own(w.begin + behind), {staged(w, self, behind)}, w.bytes - behind);
  } else if (op() == encOp::AllGather) {
    copy(encStep::Copy, own(w.begin), {staged(w, self, 0), out(stage_.part(self).begin + w.begin)},
         w.bytes);
  } else if (op() == encOp::Broadcast) {
    if (isRoot()) copy(encStep::Copy, own(w.begin), {staged(w, self, 0), out(w.begin)}, w.bytes);
  } else {
    copy(encStep::Copy, own(w.begin), {staged(w, self, 0)}, w.bytes);
  }
}

/// The sum of `part` of the window, which is at `at` of INPUT.
void Staged::fold(const Window& w, encPart part, uint64_t at, std::vector<encSpan> to) {
  encMove move{.step = encStep::RecvReduceCopy,
               .destinations = std::move(to),
               .bytes = part.bytes,
               .scaleAll = stage_.scaleInputs && !scalesOwn_,
               .divide = stage_.divide};
  for (int member = 0; member < stage_.n(); member++) {
    const bool fromInput = member == stage_.self && !stagesOwn();
    move.sources.push_back(fromInput ? own(at) : staged(w, member, part.begin));
  }
  builder_.transfer(queue_, move);
}

/// Own OUTPUT, or own slice of it, of what all have staged.
void Staged::make(const Window& w) {
  const int self = stage_.self;
  const auto place = static_cast<uint64_t>(self) * windowBytes_;
  for (int distance = 1; distance < stage_.n(); distance++) {
    const int member = (self + distance) % stage_.n();
    if (!reads(self, member)) continue;
    awaitStaged(member);
    const uint64_t there = stage_.part(member).begin + w.begin;
    if (op() == encOp::AllGather) {
      copy(encStep::Pull, staged(w, member, 0), {out(there)}, w.bytes);
    } else if (op() == encOp::Broadcast) {
      copy(encStep::Pull, staged(w, member, 0), {out(w.begin)}, w.bytes);
    } else if (op() == encOp::AlltoAll) {
      copy(encStep::Pull, staged(w, member, place), {out(there)}, w.bytes);
    }
  }
  const uint64_t ours = stage_.part(self).begin + w.begin;
  if (op() == encOp::AlltoAll) {
    copy(encStep::Copy, own(ours), {out(ours)}, w.bytes);
  } else if (op() == encOp::ReduceScatter) {
    fold(w, {place, w.bytes}, ours, {out(w.begin)});
  } else if (collects()) {
    const encPart part = slice(w, self);
    std::vector<encSpan> to;
    if (op() == encOp::AllReduce || isRoot()) to.push_back(out(w.begin + part.begin));
    if (op() == encOp::AllReduce || !isRoot()) to.push_back(sum(w, self));
    fold(w, part, w.begin + part.begin, std::move(to));
  } else if (op() == encOp::AllReduce) {
    fold(w, {0, w.bytes}, w.begin, {out(w.begin)});
  }
}

/// The other slices of OUTPUT, of the sums that the others have staged.
void Staged::collect(const Window& w) {
  const bool all = op() == encOp::AllReduce;
  const int n = stage_.n();
  for (int distance = 1; distance < n; distance++) {
    const int member = (stage_.self + distance) % n;
    if (all || member == stage_.root) tell(encPeerSemaphore::Staged, member);
  }
  if (!all && !isRoot()) return;
  for (int distance = 1; distance < n; distance++) {
    const int member = (stage_.self + distance) % n;
    awaitStaged(member);
    const encPart part = slice(w, member);
    copy(encStep::Pull, sum(w, member), {out(w.begin + part.begin)}, part.bytes);
  }
}

void Staged::window(const Window& w) {
  const int n = stage_.n();
  awaitTaken(kWindows - 1);
  put(w);
  for (int distance = 1; distance < n; distance++) {
    const int member = (stage_.self + distance) % n;
    if (reads(member, stage_.self)) tell(encPeerSemaphore::Staged, member);
  }
  make(w);
  if (collects()) collect(w);
  for (int distance = 1; distance < n; distance++) {
    const int member = (stage_.self + distance) % n;
    if (reads(stage_.self, member)) tell(encPeerSemaphore::Taken, member);
    if (reads(member, stage_.self)) builder_.expect(semaphore(encPeerSemaphore::Taken, member));
  }
}

void Staged::compose() {
  const uint64_t bytes = byParts() ? stage_.partBytes : stage_.messageBytes;
  const uint64_t windows = bytes / windowBytes_;
  uint64_t done = 0;
  if (windows >= 2 * kWindows) {
    done = windows / kWindows * kWindows;
    stage_.input.stride = stage_.output.stride = static_cast<int64_t>(kWindows * windowBytes_);
    builder_.beginLoop(done / kWindows);
    for (uint64_t i = 0; i < kWindows; i++)
      window({i * windowBytes_, windowBytes_, i * roomBytes_});
    builder_.endLoop();
    stage_.input.stride = stage_.output.stride = 0;
  }
  for (uint64_t begin = done * windowBytes_; begin < bytes; begin += windowBytes_, done++)
    window({begin, std::min(windowBytes_, bytes - begin), done % kWindows * roomBytes_});
  awaitTaken(0);
}

}  // namespace

bool encHasStaged(const encProgram& program) {
  return program.algorithm == "direct" && program.task.count > 0 &&
         !encDirectIsShort(program.task, program.nRanks);
}

Result<encProgram> encComposeStaged(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  TRY(encCheckShared("staged", info, task));
  encBuilder builder(info, task, "staged");
  const encStage stage = encFlatStage(info, task);
  if (stage.messageBytes == 0) return std::move(builder).finish();
  Staged staged(builder, stage, task.redOp == kRedOpPreMulSum);
  if (staged.windowBytes() == 0) {
    return fail(ncclInvalidArgument,
                "staged: a work area of %llu bytes (NCCOM_WORK_SIZE) for %d ranks: want two lines "
                "for each",
                static_cast<unsigned long long>(stage.workBytes), info.rank_n);
  }
  staged.compose();
  return std::move(builder).finish();
}

}  // namespace nccom
