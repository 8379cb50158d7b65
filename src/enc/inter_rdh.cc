#include "enc/inter_rdh.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "enc/mesh_passes.h"
#include "enc/pipe.h"
#include "misc/check.h"

namespace nccom {
namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t kSlotsAWindow = 64;  // by choice: a window's first round fills half as many

uint64_t divideUp(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// Records of one round in the plan's queues.
struct Records {
  size_t firstSend = 0, sends = 0, firstRecv = 0, recvs = 0;
  size_t posted = 0, taken = 0;  // receives
};

class InterRdh {
 public:
  InterRdh(encBuilder& builder, const encStage& stage);

  Status compose();

 private:
  uint64_t members() const { return static_cast<uint64_t>(stage_.n()); }
  bool isWhole() const { return stage_.op == encOp::AllReduce; }
  bool reduces() const { return stage_.op != encOp::AllGather; }

  Result<uint64_t> windowPart() const;
  encRdhTiling tiling(const encMeshPass& pass, int number) const;
  Result<encInterRdhPlan> schedule(const encMeshPass& pass);
  Status window(const encMeshPass& pass);
  uint64_t unrollOf(const encInterRdhPlan& plan) const;

  void actuate(const encInterRdhPlan& plan);
  void exchange(const encInterRdhPlan& plan, size_t round);
  void post(const encInterRdhPlan& plan, size_t round);
  void send(const encRdhRound& round, const inter_rdh_send& record);
  void receive(const encRdhRound& round, const inter_rdh_recv& record,
               const inter_rdh_reduction& made);
  encSpan span(const encRdhRun& run, encRdhPlace place) const;

  encBuilder& builder_;
  encStage stage_;  // its addresses move in loops
  const size_t queue_;
  const int bits_;
  encRdhIndices indices_;
  std::vector<encPipe> pipes_;    // by bit
  std::vector<encPart> parts_;    // of the message, as windows go over them
  std::vector<Records> records_;  // of the plan that is put into effect
  int windows_ = 0;               // so far
};

InterRdh::InterRdh(encBuilder& builder, const encStage& stage)
    : builder_(builder),
      stage_(stage),
      queue_(builder.mainQueue(stage.channel)),
      bits_(std::countr_zero(static_cast<unsigned>(stage.n()))),
      indices_(bits_) {
  for (int bit = 0; bit < bits_; bit++) {
    const int peer = stage.ranks[encRdhReducePeer(stage.self, bit)];
    pipes_.emplace_back(builder, builder.layout().pipe(encPipeKind::InterRdh, bit), peer, peer,
                        queue_, encReceives::InOrder);
    pipes_.back().begin();
  }
  for (int member = 0; member < stage.n() && !isWhole(); member++)
    parts_.push_back(stage.part(member));
  if (isWhole()) parts_ = {{0, stage.messageBytes}};
}

/// Bytes of each partition in a window: partial sums of half a window fit into the work area, and
/// no round fills slots for long.
Result<uint64_t> InterRdh::windowPart() const {
  const uint64_t work = std::min(stage_.workBytes, builder_.info().options.interRdhBufferBytes);
  const uint64_t slots = kSlotsAWindow * pipes_[0].slotBytes() / members();
  const uint64_t kept = reduces() ? work / (members() / 2) : UINT64_MAX;
  const uint64_t unit = isWhole() ? kLine : stage_.elementBytes;
  const uint64_t all = isWhole() ? divideUp(divideUp(stage_.messageBytes, members()), kLine) * kLine
                                 : stage_.partBytes;
  const uint64_t part = std::max(std::min(slots, kept) / kLine * kLine, unit);
  if (part <= kept) return std::min(part, all);
  return fail(ncclInvalidArgument,
              "inter_rdh: %d ranks from rank %d on: a work area of %llu bytes: want at least %llu "
              "for each of %llu partial sums",
              stage_.n(), stage_.ranks[0], static_cast<unsigned long long>(work),
              static_cast<unsigned long long>(unit),
              static_cast<unsigned long long>(members() / 2));
}

encRdhTiling InterRdh::tiling(const encMeshPass& pass, int number) const {
  encRdhTiling t{stage_.op, bits_, stage_.self, number, {}, pass.bytes, 0};
  t.tileBytes = pipes_[0].slotBytes() / stage_.elementBytes * stage_.elementBytes;
  if (isWhole()) t.workPart = divideUp(divideUp(pass.bytes, members()), kLine) * kLine;
  for (int p = 0; p < stage_.n(); p++) {
    if (!isWhole()) {
      t.parts.push_back(encMeshLane(parts_[p], pass));
      continue;
    }
    const uint64_t begin =
        std::min(pass.bytes, static_cast<uint64_t>(encRdhOrder(p, bits_)) * t.workPart);
    t.parts.push_back({pass.begin + begin, std::min(t.workPart, pass.bytes - begin)});
  }
  return t;
}

Result<encInterRdhPlan> InterRdh::schedule(const encMeshPass& pass) {
  return encPlanInterRdh(tiling(pass, windows_++), indices_);
}

/// Of a loop: windows that an iteration needs so that it uses each slot equally often.
uint64_t InterRdh::unrollOf(const encInterRdhPlan& plan) const {
  std::vector<uint64_t> uses(2 * pipes_.size(), 0);
  for (const inter_rdh_send& send : plan.send_fifo)
    uses[2 * static_cast<size_t>(plan.rounds[send.round].bit)]++;
  for (const inter_rdh_recv& recv : plan.recv_fifo)
    uses[2 * static_cast<size_t>(plan.rounds[recv.round].bit) + 1]++;
  uint64_t common = kRingSlots;
  for (const uint64_t count : uses)
    common = std::gcd(common, count);
  return kRingSlots / common;
}

encSpan InterRdh::span(const encRdhRun& run, encRdhPlace place) const {
  // Where INPUT or OUTPUT is one part, it is our own.
  const uint64_t own = isWhole() ? 0 : parts_[stage_.self].begin;
  switch (place) {
    case encRdhPlace::Input:
      return stage_.in(stage_.self, run.message - (reduces() ? 0 : own));
    case encRdhPlace::Output:
      return stage_.out(stage_.self, run.message - (stage_.op == encOp::ReduceScatter ? own : 0));
    case encRdhPlace::Work:
      break;
  }
  return stage_.work(stage_.self, run.work);
}

encAddress plus(encAddress address, uint64_t bytes) {
  address.offset += static_cast<int64_t>(bytes);
  return address;
}

void InterRdh::send(const encRdhRound& round, const inter_rdh_send& record) {
  encPipe& pipe = pipes_[round.bit];
  pipe.awaitRoom(encStep::Send);
  uint64_t at = 0;
  for (const encRdhRun& run : record.runs) {
    encMove move{.step = encStep::Send,
                 .sources = {span(run, round.from)},
                 .destinations = {plus(pipe.room(), at)},
                 .bytes = run.bytes};
    if (round.from == encRdhPlace::Input) {
      move.scaleAll = stage_.scaleInputs;
      // All-gather: on the way it gets to where it belongs here.
      if (!reduces()) move.destinations.push_back(span(run, encRdhPlace::Output));
    }
    builder_.transfer(queue_, move);
    at += run.bytes;
  }
  pipe.sent(encStep::Send, record.bytes);
}

void InterRdh::receive(const encRdhRound& round, const inter_rdh_recv& record,
                       const inter_rdh_reduction& made) {
  const bool last = round.to == encRdhPlace::Output;
  const encStep step = !round.adds ? encStep::RecvCopy
                       : last      ? encStep::RecvReduceCopy
                                   : encStep::RecvReduceSend;
  encPipe& pipe = pipes_[round.bit];
  pipe.awaitData(step, record.bytes);
  uint64_t at = 0;
  for (const encRdhRun& run : made.runs) {
    encMove move{.step = step, .destinations = {span(run, round.to)}, .bytes = run.bytes};
    if (round.adds) {
      move.sources.push_back(span(run, round.from));
      if (round.from == encRdhPlace::Input && stage_.scaleInputs) move.scaledSources = 1;
      move.divide = last && stage_.divide;
    }
    move.sources.emplace_back(plus(pipe.data(), at));
    builder_.transfer(queue_, move);
    at += run.bytes;
  }
  pipe.taken(step);
}

/// Posts receives of a round, as many as the pipe has slots for.
void InterRdh::post(const encInterRdhPlan& plan, size_t round) {
  Records& r = records_[round];
  for (; r.posted < r.recvs && r.posted < r.taken + kRingSlots; r.posted++) {
    pipes_[plan.rounds[round].bit].expectData(encStep::PostRecv,
                                              plan.recv_fifo[r.firstRecv + r.posted].bytes);
  }
}

void InterRdh::exchange(const encInterRdhPlan& plan, size_t round) {
  const encRdhRound& how = plan.rounds[round];
  Records& r = records_[round];
  post(plan, round);
  if (round + 1 < plan.rounds.size() && plan.rounds[round + 1].bit != how.bit) {
    post(plan, round + 1);
  }
  size_t sent = 0;
  const auto sendNext = [&] {
    if (sent < r.sends) send(how, plan.send_fifo[r.firstSend + sent++]);
  };
  for (uint32_t i = 0; i < kRingSlots; i++)
    sendNext();
  for (; r.taken < r.recvs; sendNext()) {
    receive(how, plan.recv_fifo[r.firstRecv + r.taken], plan.red_fifo[r.firstRecv + r.taken]);
    r.taken++;
    post(plan, round);
  }
  while (sent < r.sends)
    sendNext();
}

void InterRdh::actuate(const encInterRdhPlan& plan) {
  records_.assign(plan.rounds.size(), {});
  for (const inter_rdh_send& send : plan.send_fifo)
    records_[send.round].sends++;
  for (const inter_rdh_recv& recv : plan.recv_fifo)
    records_[recv.round].recvs++;
  for (size_t i = 1; i < records_.size(); i++) {
    records_[i].firstSend = records_[i - 1].firstSend + records_[i - 1].sends;
    records_[i].firstRecv = records_[i - 1].firstRecv + records_[i - 1].recvs;
  }
  for (size_t round = 0; round < plan.rounds.size(); round++)
    exchange(plan, round);
}

Status InterRdh::window(const encMeshPass& pass) {
  actuate(TRY(schedule(pass)));
  return Ok{};
}

Status InterRdh::compose() {
  const uint64_t part = TRY(windowPart());
  const uint64_t step = isWhole() ? part * members() : part;
  uint64_t least = UINT64_MAX, most = 0, done = 0;
  for (const encPart& p : parts_) {
    least = std::min(least, p.bytes);
    most = std::max(most, p.bytes);
  }
  const bool simple = stage_.input.places.empty() && stage_.output.places.empty();
  if (stage_.mayLoop && simple && least / step > 1) {
    const uint64_t unroll = unrollOf(TRY(schedule({0, step})));
    const uint64_t iterations = least / step / unroll;
    if (iterations > 1) {
      stage_.input.stride = stage_.output.stride = static_cast<int64_t>(unroll * step);
      builder_.beginLoop(iterations);
      for (uint64_t i = 0; i < unroll; i++)
        TRY(window({i * step, step}));
      builder_.endLoop();
      stage_.input.stride = stage_.output.stride = 0;
      done = iterations * unroll * step;
    }
  }
  for (; done < most; done += step)
    TRY(window({done, std::min(step, most - done)}));
  for (encPipe& pipe : pipes_)
    pipe.finish();
  return Ok{};
}

}  // namespace

Status encStageInterRdh(encBuilder& builder, const encStage& stage) {
  if (stage.n() < kMinInterRdhMembers || !std::has_single_bit(static_cast<unsigned>(stage.n()))) {
    return fail(ncclInvalidArgument,
                "inter_rdh: %d ranks from rank %d on: want a power of two, %d or more", stage.n(),
                stage.ranks.empty() ? -1 : stage.ranks[0], kMinInterRdhMembers);
  }
  const bool known = stage.op == encOp::AllReduce || stage.op == encOp::ReduceScatter ||
                     stage.op == encOp::AllGather;
  if (!known) {
    return fail(ncclInvalidArgument, "inter_rdh: %s: want AllReduce, ReduceScatter or AllGather",
                encOpName(stage.op));
  }
  if (1 << builder.layout().nAxes < stage.n()) {
    return fail(ncclInvalidArgument,
                "inter_rdh: %d ranks from rank %d on, of %d servers: want one of each server",
                stage.n(), stage.ranks[0], builder.info().situation.node_n);
  }
  if (stage.messageBytes == 0) return Ok{};
  return InterRdh(builder, stage).compose();
}

}  // namespace nccom
