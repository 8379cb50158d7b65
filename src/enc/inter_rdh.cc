#include "enc/inter_rdh.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "enc/pipe.h"
#include "misc/check.h"

namespace nccom {
namespace {

constexpr uint64_t kAlign = 64;           // of partitions of AllReduce
constexpr uint64_t kSlotsAWindow = 16;    // a window's first round fills half as many slots
constexpr uint64_t kUnroll = kRingSlots;  // windows of an iteration: uses of slots come out even

uint64_t roundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}
uint64_t divideUp(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

int bitReverse(int value, int bits) {
  int result = 0;
  for (int bit = 0; bit < bits; bit++)
    result |= (value >> bit & 1) << (bits - 1 - bit);
  return result;
}

/// Bytes of a window, in the order in which partitions are exchanged.
struct Range {
  uint64_t begin = 0, end = 0;
  uint64_t bytes() const { return end - begin; }
};

/// One window of the message: `part` bytes of each partition.
struct Window {
  encPages input, output;  // by position; of our own part alone where the operation has it alone
  uint64_t part = 0;
  uint64_t bytes = 0;  // of all partitions together: the last ones may be short
};

class InterRdh {
 public:
  InterRdh(encBuilder& builder, const encStage& stage)
      : builder_(builder),
        stage_(stage),
        queue_(builder.mainQueue(stage.channel)),
        bits_(std::countr_zero(static_cast<unsigned>(stage.n()))),
        position_(static_cast<uint64_t>(bitReverse(stage.self, bits_))) {
    const encLayout& layout = builder.layout();
    for (int bit = 0; bit < bits_; bit++) {
      const int peer = stage.ranks[encRdhReducePeer(stage.self, bit)];
      pipes_.emplace_back(builder, layout.pipe(encPipeKind::InterRdh, bit), peer, peer, queue_,
                          encReceives::InOrder);
      pipes_.back().begin();
    }
  }

  void compose();

 private:
  uint64_t members() const { return static_cast<uint64_t>(stage_.n()); }
  bool isWhole() const { return stage_.op == encOp::AllReduce; }
  uint64_t partOfWindow() const;
  Window window(uint64_t begin, uint64_t bytes, int64_t stride) const;
  encPages pagesOf(const encPages& pages, bool alone, uint64_t begin, uint64_t bytes) const;
  Range held(int rounds, const Window& w) const;
  void one(const Window& w);
  void reduce(const Window& w);
  void reduceRound(const Window& w, int round);
  void gather(const Window& w);
  void gatherAxis(const Window& w, int axis);
  template <class Send, class Take>
  void exchange(int bit, Range out, Range in, const Send& send, const Take& take);

  encBuilder& builder_;
  const encStage& stage_;
  const size_t queue_;
  const int bits_;
  const uint64_t position_;  // of our own partition
  std::vector<encPipe> pipes_;
};

/// Bytes of each partition in a window: the partials of half a window fit into the work area, and
/// no round fills slots for long.
uint64_t InterRdh::partOfWindow() const {
  const uint64_t most = std::min(2 * stage_.workBytes, kSlotsAWindow * pipes_[0].slotBytes());
  const uint64_t unit = isWhole() ? std::max(kAlign, stage_.elementBytes) : stage_.elementBytes;
  const uint64_t part = std::max(most / members() / unit * unit, unit);
  const uint64_t all =
      isWhole() ? roundUp(divideUp(stage_.messageBytes, members()), unit) : stage_.partBytes;
  return std::min(part, all);
}

/// Places of the window's partitions, by position.
encPages InterRdh::pagesOf(const encPages& pages, bool alone, uint64_t begin,
                           uint64_t bytes) const {
  encPages result = pages;
  if (isWhole() || alone) {
    NCCL_CHECK(pages.run(begin, bytes) == bytes);
    result.places.clear();
    result.base = pages.at(0, begin).offset;
    return result;
  }
  result.base = 0;
  result.pieceBytes = bytes;
  result.places.clear();
  for (int position = 0; position < stage_.n(); position++) {
    const uint64_t part = stage_.part(bitReverse(position, bits_)).begin + begin;
    NCCL_CHECK(pages.run(part, bytes) == bytes);
    result.places.push_back(pages.at(0, part).offset);
  }
  return result;
}

/// @param begin, bytes  AllReduce: of the message; else of each part
Window InterRdh::window(uint64_t begin, uint64_t bytes, int64_t stride) const {
  Window w;
  w.part = isWhole() ? std::min(partOfWindow(), roundUp(divideUp(bytes, members()),
                                                        std::max(kAlign, stage_.elementBytes)))
                     : bytes;
  w.bytes = isWhole() ? bytes : bytes * members();
  w.input = pagesOf(stage_.input, stage_.op == encOp::AllGather, begin, bytes);
  w.output = pagesOf(stage_.output, stage_.op == encOp::ReduceScatter, begin, bytes);
  w.input.stride = w.output.stride = stride;
  return w;
}

/// What we hold partial sums of after some rounds: the partitions whose low bits are ours.
Range InterRdh::held(int rounds, const Window& w) const {
  const uint64_t count = members() >> rounds;
  const uint64_t first = position_ / count * count;
  return {std::min(w.bytes, first * w.part), std::min(w.bytes, (first + count) * w.part)};
}

/// Sends a range, message by message, and takes the other one, in slots of at most one each.
template <class Send, class Take>
void InterRdh::exchange(int bit, Range out, Range in, const Send& send, const Take& take) {
  encPipe& pipe = pipes_[bit];
  const uint64_t slot = pipe.slotBytes() / stage_.elementBytes * stage_.elementBytes;
  uint64_t posted = in.begin;
  const auto post = [&] {
    const uint64_t bytes = std::min(slot, in.end - posted);
    if (bytes > 0) pipe.expectData(encStep::PostRecv, bytes);
    posted += bytes;
  };
  for (uint32_t i = 0; i < kRingSlots; i++)
    post();
  while (out.bytes() > 0 || in.bytes() > 0) {
    if (const uint64_t bytes = std::min(slot, out.bytes()); bytes > 0) {
      pipe.awaitRoom(encStep::Send);
      send(out.begin, bytes, pipe.room());
      pipe.sent(encStep::Send, bytes);
      out.begin += bytes;
    }
    if (const uint64_t bytes = std::min(slot, in.bytes()); bytes > 0) {
      pipe.awaitData(encStep::RecvCopy, bytes);
      take(in.begin, bytes, pipe.data());
      pipe.taken(encStep::RecvCopy);
      in.begin += bytes;
      post();
    }
  }
}

void InterRdh::reduceRound(const Window& w, int round) {
  const Range before = held(round, w), kept = held(round + 1, w);
  const Range given =
      kept.begin == before.begin ? Range{kept.end, before.end} : Range{before.begin, kept.begin};
  const uint64_t base = held(1, w).begin;  // of the partials in the work area
  const auto partial = [&](uint64_t at) { return stage_.work(stage_.self, at - base); };
  const bool first = round == 0, last = round == bits_ - 1;
  const auto own = [&](uint64_t at) {
    return first ? encSpan(w.input, stage_.rank(), at) : encSpan(partial(at));
  };
  const auto send = [&](uint64_t at, uint64_t bytes, const encAddress& room) {
    builder_.transfer(queue_, {.step = encStep::Send,
                               .sources = {own(at)},
                               .destinations = {room},
                               .bytes = bytes,
                               .scaleAll = first && stage_.scaleInputs});
  };
  const auto take = [&](uint64_t at, uint64_t bytes, const encAddress& data) {
    // A part that is alone has no position: bytes count from its begin.
    const uint64_t place = stage_.op == encOp::ReduceScatter ? at - kept.begin : at;
    encMove move{
        .step = last ? encStep::RecvReduceCopy : encStep::RecvReduceSend,
        .sources = {own(at), data},
        .destinations = {last ? encSpan(w.output, stage_.rank(), place) : encSpan(partial(at))},
        .bytes = bytes,
        .divide = last && stage_.divide};
    if (first && stage_.scaleInputs) move.scaledSources = 1;
    builder_.transfer(queue_, move);
  };
  exchange(round, given, kept, send, take);
}

void InterRdh::reduce(const Window& w) {
  for (int round = 0; round < bits_; round++)
    reduceRound(w, round);
}

void InterRdh::gatherAxis(const Window& w, int axis) {
  const Range have = held(bits_ - axis, w), all = held(bits_ - 1 - axis, w);
  const Range other =
      have.begin == all.begin ? Range{have.end, all.end} : Range{all.begin, have.begin};
  const auto send = [&](uint64_t at, uint64_t bytes, const encAddress& room) {
    builder_.transfer(queue_, {.step = encStep::Send,
                               .sources = {encSpan(w.output, stage_.rank(), at)},
                               .destinations = {room},
                               .bytes = bytes});
  };
  const auto take = [&](uint64_t at, uint64_t bytes, const encAddress& data) {
    builder_.transfer(queue_, {.step = encStep::RecvCopy,
                               .sources = {data},
                               .destinations = {encSpan(w.output, stage_.rank(), at)},
                               .bytes = bytes});
  };
  exchange(bits_ - 1 - axis, have, other, send, take);
}

void InterRdh::gather(const Window& w) {
  if (stage_.op == encOp::AllGather) {
    const Range own = held(bits_, w);
    builder_.transfer(queue_, {.step = encStep::Copy,
                               .sources = {encSpan(w.input, stage_.rank(), 0)},
                               .destinations = {encSpan(w.output, stage_.rank(), own.begin)},
                               .bytes = own.bytes()});
  }
  for (int axis = 0; axis < bits_; axis++)
    gatherAxis(w, axis);
}

void InterRdh::one(const Window& w) {
  if (stage_.op != encOp::AllGather) reduce(w);
  if (stage_.op != encOp::ReduceScatter) gather(w);
}

void InterRdh::compose() {
  const uint64_t total = isWhole() ? stage_.messageBytes : stage_.partBytes;
  const uint64_t step = isWhole() ? partOfWindow() * members() : partOfWindow();
  uint64_t done = 0;
  const uint64_t iterations = stage_.mayLoop ? total / (step * kUnroll) : 0;
  if (iterations > 1) {
    builder_.beginLoop(iterations);
    for (uint64_t i = 0; i < kUnroll; i++)
      one(window(i * step, step, static_cast<int64_t>(kUnroll * step)));
    builder_.endLoop();
    done = iterations * kUnroll * step;
  }
  for (; done < total; done += step)
    one(window(done, std::min(step, total - done), 0));
  for (encPipe& pipe : pipes_)
    pipe.finish();
}

}  // namespace

std::vector<int> encRdhReduceIndices(int r, int round, int bits, bool send) {
  NCCL_CHECK(round >= 0 && round < bits && r >= 0 && r < 1 << bits);
  const int start = ((send ? 1 << round : 0) ^ (r & 1 << round)) + (r & ((1 << round) - 1));
  std::vector<int> indices;
  for (int i = 0; i < 1 << (bits - 1 - round); i++)
    indices.push_back(start + i * (1 << (round + 1)));
  return indices;
}

std::vector<int> encRdhGatherIndices(int r, int axis, int bits, bool send) {
  NCCL_CHECK(axis >= 0 && axis < bits && r >= 0 && r < 1 << bits);
  const int holder = send ? r : encRdhGatherPeer(r, axis, bits);
  const int modulus = 1 << (bits - axis);
  std::vector<int> indices;
  for (int p = holder % modulus; p < 1 << bits; p += modulus)
    indices.push_back(p);
  return indices;
}

Status encStageInterRdh(encBuilder& builder, const encStage& stage) {
  if (stage.n() < 2 || !std::has_single_bit(static_cast<unsigned>(stage.n()))) {
    return fail(ncclInvalidArgument,
                "recursive halving and doubling of %d ranks (the first is rank %d): want a power "
                "of two",
                stage.n(), stage.ranks.empty() ? -1 : stage.ranks[0]);
  }
  const bool known = stage.op == encOp::AllReduce || stage.op == encOp::ReduceScatter ||
                     stage.op == encOp::AllGather;
  if (!known) {
    return fail(ncclInvalidArgument,
                "%s by recursive halving and doubling: want AllReduce, "
                "ReduceScatter or AllGather",
                encOpName(stage.op));
  }
  if (stage.messageBytes == 0) return Ok{};
  NCCL_CHECK(stage.op == encOp::AllReduce ||
             stage.messageBytes == stage.partBytes * static_cast<uint64_t>(stage.n()));
  InterRdh(builder, stage).compose();
  return Ok{};
}

}  // namespace nccom
