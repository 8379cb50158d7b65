#include "enc/single_cycle.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "enc/flat.h"
#include "misc/check.h"

namespace nccom {
namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t kMinHalf = 8 << 10;  // bytes, by choice: less is not worth its descriptors

uint64_t roundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

class SingleCycle {
 public:
  SingleCycle(encBuilder& builder, const encStage& stage, const encRingOrder& ring);

  void compose();

 private:
  /// A part of the message that goes around at once, in two halves.
  void window(uint64_t begin, uint64_t bytes);
  void sendOwn(uint64_t begin, encPart half);
  void receive(encPart half, int hops);
  void fold(uint64_t begin, uint64_t bytes);
  /// A half of a window; bytes 0: there is none.
  encPart half(uint64_t bytes, int which) const {
    const uint64_t first = std::min(bytes, halfBytes_);
    return which == 0 ? encPart{0, first} : encPart{first, bytes - first};
  }
  /// What we keep of a member's.
  encAddress block(int member, uint64_t offset) const {
    return stage_.work(stage_.self, static_cast<uint64_t>(member) * windowBytes_ + offset);
  }
  /// A partial sum goes to OUTPUT, which may share our INPUT's memory, before all is read; or our
  /// INPUT is multiplied, once for all.
  bool keepsOwn() const { return stage_.n() > kMaxSources || stage_.scaleInputs; }

  encBuilder& builder_;
  encStage stage_;
  std::vector<int> users_;  // users_[i] is the member i hops downstream
  const size_t queue_;
  uint64_t windowBytes_ = 0, halfBytes_ = 0;
  std::optional<encPipe> pipe_;
};

uint64_t windowOf(const encStage& stage, uint64_t slotBytes) {
  const uint64_t share = stage.workBytes / static_cast<uint64_t>(stage.n()) / kLine * kLine;
  return std::min({2 * slotBytes, share, roundUp(stage.messageBytes, kLine)});
}

SingleCycle::SingleCycle(encBuilder& builder, const encStage& stage, const encRingOrder& ring)
    : builder_(builder),
      stage_(stage),
      users_(ring.members),
      queue_(builder.mainQueue(stage.channel)),
      windowBytes_(windowOf(stage, ring.pipe.slotBytes)) {
  const bool splits = windowBytes_ > ring.pipe.slotBytes || windowBytes_ >= 2 * kMinHalf;
  halfBytes_ = splits ? roundUp(windowBytes_ / 2, kLine) : windowBytes_;
  std::rotate(users_.begin(), std::find(users_.begin(), users_.end(), stage.self), users_.end());
  pipe_.emplace(builder, ring.pipe, stage.ranks[users_.back()], stage.ranks[users_[1]], queue_,
                ring.receives);
}

void SingleCycle::sendOwn(uint64_t begin, encPart half) {
  const encSpan own = stage_.in(stage_.self, begin + half.begin);
  pipe_->awaitRoom(encStep::Send);
  encMove move{.step = encStep::Send,
               .sources = {own},
               .destinations = {pipe_->room()},
               .bytes = half.bytes,
               .scaleAll = stage_.scaleInputs};
  if (keepsOwn()) move.destinations.emplace_back(block(stage_.self, half.begin));
  builder_.transfer(queue_, move);
  pipe_->sent(encStep::Send, half.bytes);
}

/// The block of the member so many hops upstream: we keep it, and pass it on unless it is next's.
void SingleCycle::receive(encPart half, int hops) {
  const bool forwards = hops + 1 < stage_.n();
  const encStep step = forwards ? encStep::RecvCopySend : encStep::RecvCopy;
  pipe_->awaitData(step, half.bytes);
  encMove move{.step = step, .sources = {pipe_->data()}, .bytes = half.bytes};
  move.destinations.emplace_back(block(users_[stage_.n() - hops], half.begin));
  if (forwards) {
    pipe_->awaitRoom(step);
    move.destinations.emplace_back(pipe_->room());
  }
  builder_.transfer(queue_, move);
  if (forwards) pipe_->sent(step, half.bytes);
  pipe_->taken(step);
}

void SingleCycle::fold(uint64_t begin, uint64_t bytes) {
  encMove move{.step = encStep::RecvReduceCopy,
               .destinations = {stage_.out(stage_.self, begin)},
               .bytes = bytes,
               .divide = stage_.divide};
  for (int member = 0; member < stage_.n(); member++) {
    const bool fromInput = member == stage_.self && !keepsOwn();
    move.sources.push_back(fromInput ? stage_.in(member, begin) : encSpan(block(member, 0)));
  }
  builder_.transfer(queue_, move);
}

void SingleCycle::window(uint64_t begin, uint64_t bytes) {
  for (int which = 0; which < 2; which++) {
    if (half(bytes, which).bytes > 0) sendOwn(begin, half(bytes, which));
  }
  for (int hops = 1; hops < stage_.n(); hops++) {
    for (int which = 0; which < 2; which++) {
      if (half(bytes, which).bytes > 0) receive(half(bytes, which), hops);
    }
  }
  fold(begin, bytes);
}

void SingleCycle::compose() {
  pipe_->begin();
  const uint64_t windows = stage_.messageBytes / windowBytes_;
  const auto uses = static_cast<uint64_t>(stage_.n() - 1) * (halfBytes_ < windowBytes_ ? 2 : 1);
  const uint64_t unroll = kRingSlots / std::gcd<uint64_t>(uses, kRingSlots);
  const bool loops = stage_.mayLoop && stage_.input.places.empty() && stage_.output.places.empty();
  const uint64_t iterations = loops ? windows / unroll : 0;
  uint64_t done = 0;
  if (iterations > 1) {
    stage_.input.stride = stage_.output.stride = static_cast<int64_t>(unroll * windowBytes_);
    builder_.beginLoop(iterations);
    for (uint64_t i = 0; i < unroll; i++)
      window(i * windowBytes_, windowBytes_);
    builder_.endLoop();
    stage_.input.stride = stage_.output.stride = 0;
    done = iterations * unroll;
  }
  for (; done < windows; done++)
    window(done * windowBytes_, windowBytes_);
  const uint64_t rest = stage_.messageBytes - windows * windowBytes_;
  if (rest > 0) window(windows * windowBytes_, rest);
  pipe_->finish();
}

}  // namespace

Status encStageSingleCycle(encBuilder& builder, const encStage& stage, const encRingOrder& ring) {
  if (stage.messageBytes == 0) return Ok{};
  NCCL_CHECK(stage.op == encOp::AllReduce && stage.n() > 1);
  if (windowOf(stage, ring.pipe.slotBytes) == 0) {
    return fail(ncclInvalidArgument,
                "single_cycle_ring: %d ranks and a work area of %llu bytes: want %llu for each",
                stage.n(), static_cast<unsigned long long>(stage.workBytes),
                static_cast<unsigned long long>(kLine));
  }
  SingleCycle(builder, stage, ring).compose();
  return Ok{};
}

Result<encProgram> encComposeSingleCycle(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  if (task.op != encOp::AllReduce) {
    return fail(ncclInvalidArgument, "single_cycle_ring: %s: want AllReduce", encOpName(task.op));
  }
  if (!info.situation.oneRankPerNode() || info.rank_n < 2) {
    return fail(ncclInvalidArgument,
                "single_cycle_ring: %d ranks on %d servers: want one on each of at least two",
                info.rank_n, info.situation.node_n);
  }
  encBuilder builder(info, task, "single_cycle_ring");
  const encRingOrder ring{info.rings[0], builder.layout().pipe(encPipeKind::Inter, 0),
                          encReceives::Ahead};
  TRY(encStageSingleCycle(builder, encFlatStage(info, task), ring));
  return std::move(builder).finish();
}

}  // namespace nccom
