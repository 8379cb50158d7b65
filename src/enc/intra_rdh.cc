#include "enc/intra_rdh.h"

#include <algorithm>
#include <utility>

#include "enc/mesh_types.h"
#include "misc/check.h"

namespace nccom {
namespace {

using Event = enc_mesh_event_type;

constexpr uint64_t kAlign = 64;            // of parts of AllReduce
constexpr uint64_t kPartials = 256 << 10;  // of a window in the work area: stays in a cache

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

Event plus(Event event, int steps) {
  return static_cast<Event>(static_cast<int>(event) + steps);
}

/// Positions [begin, end): parts in the order in which they are exchanged.
struct Range {
  int begin = 0, end = 0;
};

/// Some bytes of each part. Positions are mate by mate; within a mate's section, devices in the
/// order of their reversed coordinates, so that what is left after some axes is one range.
struct Window {
  encPages input, output;
  uint64_t begin = 0;           // AllReduce: of the message; else of each part
  uint64_t part = 0;            // bytes of a position, as far as the message goes
  std::vector<uint64_t> bytes;  // [position]
};

class IntraRdh {
 public:
  IntraRdh(encBuilder& builder, const encStage& stage, const encRdhGeometry& geometry)
      : builder_(builder),
        stage_(stage),
        geometry_(geometry),
        queue_(builder.mainQueue(stage.channel)),
        device_(geometry.device[stage.self]),
        mate_(geometry.mate[stage.self]) {}

  void compose();

 private:
  bool isWhole() const { return stage_.op == encOp::AllReduce; }
  int devices() const { return geometry_.devices(); }
  int mates() const { return geometry_.mates(); }
  int memberAt(int position) const {
    return geometry_
        .memberAt[bitReverse(position % devices(), geometry_.axes)][position / devices()];
  }
  Range section(int mate) const { return {mate * devices(), (mate + 1) * devices()}; }
  Range held(int axes) const;
  int onAxis(int axis) const { return geometry_.memberAt[device_ ^ 1 << axis][mate_]; }
  uint32_t doneBy(int rank) const {
    return builder_.layout().semaphore(encPeerSemaphore::CollectiveDone, rank);
  }
  int onDevice(int bits) const { return geometry_.memberAt[device_][mate_ ^ bits]; }

  uint64_t partOfWindow() const;
  Window window(uint64_t begin, uint64_t bytes, int64_t stride) const;
  uint64_t offsetOf(int position, const Window& w, bool alone) const;
  encSpan input(int member, int position, const Window& w) const;
  encSpan output(int member, int position, const Window& w) const;
  encAddress partial(int member, int position, const Window& w) const;
  template <class Make>
  void move(const Window& w, Range range, bool together, const Make& make);
  void push(const Window& w, Range range, const std::vector<int>& members, Event event);
  void tell(int member, Event event);
  void await(int count, int raisedBy, Event event);

  void one(const Window& w);
  void reduceOnDevice(const Window& w);
  void reduceAxis(const Window& w, int axis);
  void gatherAxis(const Window& w, int axis);
  void gatherOnDevice(const Window& w);
  void closeReduce();

  encBuilder& builder_;
  const encStage& stage_;
  const encRdhGeometry& geometry_;
  const size_t queue_;
  const int device_, mate_;
};

/// What a rank holds of its section after some axes: those whose coordinates agree with ours there.
Range IntraRdh::held(int axes) const {
  const int count = devices() >> axes;
  const int first = bitReverse(device_, geometry_.axes) / count * count;
  return {section(mate_).begin + first, section(mate_).begin + first + count};
}

uint64_t IntraRdh::partOfWindow() const {
  const uint64_t unit = isWhole() ? std::max(kAlign, stage_.elementBytes) : stage_.elementBytes;
  const uint64_t most = std::min(stage_.workBytes, kPartials) / static_cast<uint64_t>(devices());
  const auto n = static_cast<uint64_t>(stage_.n());
  const uint64_t all =
      isWhole() ? roundUp(divideUp(stage_.messageBytes, n), unit) : stage_.partBytes;
  return std::min(std::max(most / unit * unit, unit), all);
}

/// Where a position's bytes of the window begin in the stage's INPUT or OUTPUT.
uint64_t IntraRdh::offsetOf(int position, const Window& w, bool alone) const {
  if (alone) return w.begin;
  if (isWhole()) return w.begin + static_cast<uint64_t>(position) * w.part;
  return stage_.part(memberAt(position)).begin + w.begin;
}

encSpan IntraRdh::input(int member, int position, const Window& w) const {
  const bool alone = stage_.op == encOp::AllGather;
  return {w.input, stage_.ranks[member], offsetOf(position, w, alone)};
}

encSpan IntraRdh::output(int member, int position, const Window& w) const {
  const bool alone = stage_.op == encOp::ReduceScatter;
  return {w.output, stage_.ranks[member], offsetOf(position, w, alone)};
}

/// @param begin, bytes  AllReduce: of the message; else of each part
Window IntraRdh::window(uint64_t begin, uint64_t bytes, int64_t stride) const {
  Window w;
  const auto n = static_cast<uint64_t>(stage_.n());
  const uint64_t unit = std::max(kAlign, stage_.elementBytes);
  w.part = isWhole() ? roundUp(divideUp(bytes, n), unit) : bytes;
  for (int position = 0; position < stage_.n(); position++) {
    const uint64_t before = static_cast<uint64_t>(position) * w.part;
    uint64_t own = bytes - std::min(bytes, before);
    if (!isWhole()) {
      const uint64_t part = stage_.part(memberAt(position)).bytes;
      own = part - std::min(part, begin);
    }
    w.bytes.push_back(std::min(own, w.part));
  }
  w.begin = begin;
  w.input = stage_.input;
  w.output = stage_.output;
  w.input.stride = w.output.stride = stride;
  return w;
}

/// Where a member keeps its partial sum of a position of our section.
encAddress IntraRdh::partial(int member, int position, const Window& w) const {
  return stage_.work(member, static_cast<uint64_t>(position % devices()) * w.part);
}

/// A transfer over positions: as one if they lie `together` and all are full.
template <class Make>
void IntraRdh::move(const Window& w, Range range, bool together, const Make& make) {
  const auto first = w.bytes.begin() + range.begin, end = w.bytes.begin() + range.end;
  const bool full = std::all_of(first, end, [&](uint64_t bytes) { return bytes == w.part; });
  if (together && full) {
    encMove whole = make(range.begin);
    whole.bytes = w.part * static_cast<uint64_t>(range.end - range.begin);
    builder_.transfer(queue_, whole);
    return;
  }
  for (int position = range.begin; position < range.end; position++) {
    if (w.bytes[position] == 0) continue;
    encMove part = make(position);
    part.bytes = w.bytes[position];
    builder_.transfer(queue_, part);
  }
}

void IntraRdh::tell(int member, Event event) {
  builder_.append(
      queue_, encInc(encMeshStep(event), stage_.ranks[member],
                     builder_.layout().eventSemaphore(stage_.level, static_cast<uint32_t>(event))));
}

void IntraRdh::await(int count, int raisedBy, Event event) {
  if (count == 0) return;
  const uint32_t semaphore =
      builder_.layout().eventSemaphore(stage_.level, static_cast<uint32_t>(event));
  builder_.expect(semaphore, static_cast<uint64_t>(count));
  builder_.wait(queue_, encMeshStep(event), stage_.ranks[raisedBy], semaphore);
}

void IntraRdh::reduceOnDevice(const Window& w) {
  const bool last = geometry_.axes == 0;
  builder_.peersReadInputs();
  move(w, section(mate_), isWhole(), [&](int position) {
    encMove fold{.step = encMeshStep(Event::EVT_RH_STEP_0)};
    for (const int member : geometry_.memberAt[device_])
      fold.sources.push_back(input(member, position, w));
    fold.destinations.push_back(last ? output(stage_.self, position, w)
                                     : encSpan(partial(stage_.self, position, w)));
    fold.scaleAll = stage_.scaleInputs;
    fold.divide = last && stage_.divide;
    return fold;
  });
  for (int bits = 1; bits < mates(); bits++) {
    builder_.append(queue_, encInc(encMeshStep(Event::EVT_RDH_LOCAL_PEER_HANDSHAKE),
                                   stage_.ranks[onDevice(bits)], doneBy(stage_.rank())));
  }
}

/// The partner reads the other half of our partial sums where they are, and we read its half.
void IntraRdh::reduceAxis(const Window& w, int axis) {
  const Event ready = plus(Event::EVT_RH_STEP_1, axis);
  const int partner = onAxis(axis);
  const bool last = axis == geometry_.axes - 1;
  tell(partner, ready);
  await(1, partner, ready);
  move(w, held(axis + 1), isWhole() || !last, [&](int position) {
    return encMove{.step = encMeshStep(ready),
                   .sources = {partial(stage_.self, position, w), partial(partner, position, w)},
                   .destinations = {last ? output(stage_.self, position, w)
                                         : encSpan(partial(stage_.self, position, w))},
                   .divide = last && stage_.divide};
  });
  tell(partner, Event::EVT_RDH_AXES_HANDSHAKE);
}

/// All have finished with our INPUT and our partial sums. The ranks of the device have a semaphore
/// each: nothing keeps one from the next window until all others have said so of this one.
void IntraRdh::closeReduce() {
  for (int bits = 1; bits < mates(); bits++) {
    const int mate = stage_.ranks[onDevice(bits)];
    builder_.expect(doneBy(mate));
    builder_.wait(queue_, encMeshStep(Event::EVT_RDH_LOCAL_PEER_HANDSHAKE), mate, doneBy(mate));
  }
  if (geometry_.axes == 0) return;
  await(geometry_.axes, onAxis(geometry_.axes - 1), Event::EVT_RDH_AXES_HANDSHAKE);
}

/// Writes positions of our OUTPUT to the same places of others, who hear of it by `event`.
void IntraRdh::push(const Window& w, Range range, const std::vector<int>& members, Event event) {
  move(w, range, isWhole(), [&](int position) {
    encMove copy{.step = encMeshStep(event), .sources = {output(stage_.self, position, w)}};
    for (const int member : members)
      copy.destinations.push_back(output(member, position, w));
    return copy;
  });
}

void IntraRdh::gatherAxis(const Window& w, int axis) {
  const Event event = plus(Event::EVT_RD_STEP_0, axis);
  const int partner = onAxis(axis);
  push(w, held(axis + 1), {partner}, event);
  tell(partner, event);
  await(1, partner, event);
}

void IntraRdh::gatherOnDevice(const Window& w) {
  if (geometry_.mateBits == 0) return;
  std::vector<int> nearest{onDevice(1)};
  if (geometry_.mateBits > 1) nearest.push_back(onDevice(2));
  const auto all = [&](Event event) {
    for (const int member : nearest)
      tell(member, event);
    await(static_cast<int>(nearest.size()), nearest.back(), event);
  };
  push(w, section(mate_), nearest, Event::EVT_1DEV_RD_STEP_1);
  all(Event::EVT_1DEV_RD_STEP_1);
  if (geometry_.mateBits > 1) {
    // What has come across the RMTV goes on across the dies, and the other way round.
    const Range fromRmtv = section(mate_ ^ 1), fromDie = section(mate_ ^ 2);
    const int half = geometry_.splitsDiagonal ? devices() / 2 : devices();
    push(w, {fromRmtv.begin, fromRmtv.begin + half}, {onDevice(2)}, Event::EVT_1DEV_RD_STEP_2);
    push(w, {fromDie.begin + half, fromDie.end}, {onDevice(1)}, Event::EVT_1DEV_RD_STEP_2);
    all(Event::EVT_1DEV_RD_STEP_2);
  }
  if (geometry_.mateBits > 2) {
    const Event event = Event::EVT_RD_STEP_6;
    push(w, {section(mate_ & 4).begin, section(mate_ | 3).end}, {onDevice(4)}, event);
    tell(onDevice(4), event);
    await(1, onDevice(4), event);
  }
}

void IntraRdh::one(const Window& w) {
  if (stage_.op != encOp::AllGather) {
    reduceOnDevice(w);
    for (int axis = 0; axis < geometry_.axes; axis++)
      reduceAxis(w, axis);
  }
  if (stage_.op != encOp::ReduceScatter) {
    NCCL_CHECK(stage_.writesOthers());
    builder_.peersWriteOutputs();
    if (stage_.op == encOp::AllGather) {
      const Range own = held(geometry_.axes);
      move(w, own, isWhole(), [&](int position) {
        return encMove{.step = encMeshStep(Event::EVT_RD_STEP_0),
                       .sources = {input(stage_.self, position, w)},
                       .destinations = {output(stage_.self, position, w)}};
      });
    }
    for (int axis = geometry_.axes - 1; axis >= 0; axis--)
      gatherAxis(w, axis);
    gatherOnDevice(w);
  }
  if (stage_.op != encOp::AllGather) closeReduce();
}

void IntraRdh::compose() {
  const bool reads = stage_.op != encOp::AllGather;
  if (!stage_.first && reads) {
    for (int bits = 1; bits < mates(); bits++)
      tell(onDevice(bits), Event::EVT_RDH_LOCAL_HANDSHAKE);
    await(mates() - 1, onDevice(mates() - 1), Event::EVT_RDH_LOCAL_HANDSHAKE);
  }
  const uint64_t total = isWhole() ? stage_.messageBytes : stage_.partBytes;
  const uint64_t step = partOfWindow() * (isWhole() ? static_cast<uint64_t>(stage_.n()) : 1);
  const bool full =
      isWhole() || stage_.messageBytes == stage_.partBytes * static_cast<uint64_t>(stage_.n());
  const bool simple = stage_.input.places.empty() && stage_.output.places.empty();
  const uint64_t iterations = stage_.mayLoop && full && simple ? total / step : 0;
  uint64_t done = 0;
  if (iterations > 1) {
    builder_.beginLoop(iterations);
    one(window(0, step, static_cast<int64_t>(step)));
    builder_.endLoop();
    done = iterations * step;
  }
  for (; done < total; done += step)
    one(window(done, std::min(step, total - done), 0));
}

}  // namespace

Status encStageIntraRdh(encBuilder& builder, const encStage& stage,
                        const encRdhGeometry& geometry) {
  const bool known = stage.op == encOp::AllReduce || stage.op == encOp::ReduceScatter ||
                     stage.op == encOp::AllGather;
  if (!known) {
    return fail(ncclInvalidArgument,
                "%s by recursive halving and doubling: want AllReduce, ReduceScatter or AllGather",
                encOpName(stage.op));
  }
  NCCL_CHECK(geometry.device.size() == stage.ranks.size());
  if (stage.messageBytes > 0) IntraRdh(builder, stage, geometry).compose();
  return Ok{};
}

}  // namespace nccom
