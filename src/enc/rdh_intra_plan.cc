#include "enc/rdh_intra_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "misc/check.h"

namespace nccom {
namespace {

using Event = enc_mesh_event_type;

// Ways to another core of the device, as bits of the difference of places.
constexpr int kRmtv = 1, kD2d = 2, kD2dRmtv = 3, kLocal = 4;
constexpr int kMaxAxes = 4;

Event plus(Event event, int steps) {
  return static_cast<Event>(static_cast<int>(event) + steps);
}

/// Positions [begin, end) of a section.
struct Range {
  int begin = 0, end = 0;
};

/// What a rank passes on of one section, in one step.
struct Passed {
  int mate = 0;  // whose section
  Range range;
  int half = 0;  // 0: whole chunks; 1, 2: the first, the second half of each
  std::vector<int> to;
  int dstIdx = kRdhPassedOn;
};

/// A step of all-gather, as every rank takes it.
struct Gathering {
  Event event = Event::EVT_RD_STEP_0;
  std::vector<int> peers;
  std::vector<Passed> passed;
};

std::vector<int> onAxes(const encRdhGeometry& g, int member) {
  std::vector<int> peers;
  peers.reserve(static_cast<size_t>(g.axes));
  for (int axis = 0; axis < g.axes; axis++)
    peers.push_back(g.memberAt[g.device[member] ^ 1 << axis][g.mate[member]]);
  return peers;
}

/// All that a rank gives its own data, or passes on that of others to.
std::vector<int> directPeers(const encRdhGeometry& g, int member) {
  std::vector<int> peers = onAxes(g, member);
  for (const int way : {kRmtv, kD2d, kD2dRmtv, kLocal}) {
    if (way >= g.mates() || (way == kD2dRmtv && g.splitsDiagonal)) continue;
    peers.push_back(g.memberAt[g.device[member]][g.mate[member] ^ way]);
  }
  return peers;
}

class Scheduler {
 public:
  Scheduler(const encRdhGeometry& geometry, const encRdhWindow& window, int member)
      : g_(geometry), w_(window), self_(member) {}

  Result<std::vector<encRdhStep>> schedule();

 private:
  bool reduces() const { return w_.op != encOp::AllGather; }
  bool gathers() const { return w_.op != encOp::ReduceScatter; }
  int d() const { return g_.devices(); }
  int mate() const { return g_.mate[self_]; }

  // Axes and positions.
  int axis(int mate, int turn) const { return (turn + mate) % g_.axes; }
  int position(int member) const { return encRdhPosition(g_, member); }
  int memberAt(int mate, int position) const;
  int partner(int member, int turn) const {
    return g_.memberAt[g_.device[member] ^ 1 << axis(g_.mate[member], turn)][g_.mate[member]];
  }
  int beside(int member, int way) const {
    return g_.memberAt[g_.device[member]][g_.mate[member] ^ way];
  }
  Range held(int member, int turns) const;
  Range given(int member, int turn) const;

  // Halving.
  Result<std::vector<uint64_t>> stored(int member) const;
  Status halve(std::vector<encRdhStep>& steps);
  rdh_transfer sumOf(int idx, int turn) const;
  encRdhAddress own(encRdhBuffer buffer, int idx) const;

  // Doubling.
  std::vector<Gathering> gatherings(int member) const;
  void onDevice(int member, std::vector<Gathering>& steps) const;
  void passOn(const Passed& passed, int from, const std::vector<int>& to, encRdhStep& step) const;
  void fetchFrom(int peer, size_t number, encRdhStep& step) const;
  void gather(std::vector<encRdhStep>& steps);

  const encRdhGeometry& g_;
  const encRdhWindow& w_;
  const int self_;
  std::vector<std::vector<uint64_t>> stored_;  // [turn][position] of its partner's work area
  std::vector<uint64_t> storedHere_;           // [position]
};

int Scheduler::memberAt(int mate, int position) const {
  int device = 0;
  for (int turn = 0; turn < g_.axes; turn++) {
    if ((position >> (g_.axes - 1 - turn) & 1) != 0) device |= 1 << axis(mate, turn);
  }
  return g_.memberAt[device][mate];
}

/// Of a member's section, what it holds after some turns: its half of its half ...
Range Scheduler::held(int member, int turns) const {
  const int count = d() >> turns;
  const int first = position(member) / count * count;
  return {first, first + count};
}

/// What it gives away then: the other half.
Range Scheduler::given(int member, int turn) const {
  const Range before = held(member, turn), kept = held(member, turn + 1);
  return kept.begin == before.begin ? Range{kept.end, before.end} : Range{before.begin, kept.begin};
}

/// Where a member stores what it gives away, by position; the same on whoever asks.
Result<std::vector<uint64_t>> Scheduler::stored(int member) const {
  std::vector<uint64_t> places(static_cast<size_t>(d()), 0);
  encRdhBuffers buffers(w_.capacity);
  for (int turn = 0; turn < g_.axes; turn++) {
    const Range range = given(member, turn);
    for (int at = range.begin; at < range.end; at++)
      places[at] = TRY(buffers.getNewBuffer(w_.chunks[memberAt(g_.mate[member], at)].bytes));
  }
  return places;
}

encRdhAddress Scheduler::own(encRdhBuffer buffer, int idx) const {
  const bool alone = buffer == encRdhBuffer::Input ? !reduces() : !gathers();
  return {buffer, alone ? w_.alone : w_.chunks[idx].begin};
}

/// All that we know of a chunk after some turns.
rdh_transfer Scheduler::sumOf(int idx, int turn) const {
  rdh_transfer sum;
  sum.idx = idx;
  sum.size = w_.chunks[idx].bytes;
  for (const int member : g_.memberAt[g_.device[self_]]) {
    sum.src_devs.push_back(member);
    sum.src_addrs.push_back(own(encRdhBuffer::Input, idx));
  }
  for (int earlier = 0; earlier < turn; earlier++) {
    sum.src_devs.push_back(partner(self_, earlier));
    sum.src_addrs.push_back({encRdhBuffer::Work, stored_[earlier][position(idx)]});
  }
  return sum;
}

Status Scheduler::halve(std::vector<encRdhStep>& steps) {
  storedHere_ = TRY(stored(self_));
  for (int turn = 0; turn < g_.axes; turn++) {
    const int to = partner(self_, turn);
    stored_.push_back(TRY(stored(to)));
    encRdhStep step;
    step.event = plus(Event::EVT_RH_STEP_0, axis(mate(), turn));
    step.peers = {to};
    const Range range = given(self_, turn);
    for (int at = range.begin; at < range.end; at++) {
      rdh_transfer sum = sumOf(memberAt(mate(), at), turn);
      if (sum.size == 0) continue;
      sum.dst_devs = {self_};
      sum.dst_addrs = {{encRdhBuffer::Work, storedHere_[at]}};
      sum.dst_idx = kRdhPassedOn;
      step.transfers.push_back(std::move(sum));
    }
    steps.push_back(std::move(step));
  }
  return Ok{};
}

/// What a member passes on in each step.
std::vector<Gathering> Scheduler::gatherings(int member) const {
  std::vector<Gathering> steps;
  const int section = g_.mate[member];
  for (int turn = g_.axes - 1; turn >= 0; turn--) {
    const int to = partner(member, turn);
    steps.push_back({plus(Event::EVT_RD_STEP_0, axis(section, turn)),
                     {to},
                     {{section, held(member, turn + 1), 0, {to}, kRdhPassedOn}}});
  }
  if (g_.mateBits > 0) onDevice(member, steps);
  return steps;
}

void Scheduler::onDevice(int member, std::vector<Gathering>& steps) const {
  const int section = g_.mate[member];
  const bool halves = g_.mateBits > 1 && g_.splitsDiagonal;
  const bool hasBeside = g_.mateBits > 2;
  const Range all{0, d()};
  std::vector<int> near{beside(member, kRmtv)};
  if (g_.mateBits > 1) near.push_back(beside(member, kD2d));
  if (g_.mateBits > 1 && !halves) near.push_back(beside(member, kD2dRmtv));
  const int first = halves || hasBeside ? kRdhPassedOn : kRdhLeaf;
  steps.push_back({Event::EVT_RD_STEP_4, near, {{section, all, 0, near, first}}});
  if (halves) {
    // What came one way goes on the other one: half of each chunk, to who has not got it yet.
    const int rmtv = beside(member, kRmtv), d2d = beside(member, kD2d);
    steps.push_back({Event::EVT_RD_STEP_5,
                     {rmtv, d2d},
                     {{section ^ kRmtv, all, 1, {d2d}, kRdhHalfChunk},
                      {section ^ kD2d, all, 2, {rmtv}, kRdhHalfChunk}}});
  }
  if (!hasBeside) return;
  Gathering last{Event::EVT_RD_STEP_6, {beside(member, kLocal)}, {}};
  for (int other = section & kLocal; other < (section & kLocal) + kLocal; other++)
    last.passed.push_back({other, all, 0, last.peers, kRdhLeaf});
  steps.push_back(std::move(last));
}

/// Appends the transfers from `from` to those of its destinations that are wanted.
void Scheduler::passOn(const Passed& passed, int from, const std::vector<int>& to,
                       encRdhStep& step) const {
  for (int at = passed.range.begin; at < passed.range.end; at++) {
    const int idx = memberAt(passed.mate, at);
    const encPart& chunk = w_.chunks[idx];
    const uint64_t middle = std::min(chunk.bytes, encRdhBufferBytes(chunk.bytes / 2));
    const uint64_t begin = passed.half == 2 ? middle : 0;
    const uint64_t end = passed.half == 1 ? middle : chunk.bytes;
    if (begin == end) continue;
    rdh_transfer transfer;
    transfer.idx = idx;
    transfer.size = end - begin;
    // What is too short for two halves is whole.
    const bool isWhole = transfer.size == chunk.bytes && passed.half != 0;
    transfer.dst_idx = isWhole ? kRdhPassedOn : passed.dstIdx;
    const encRdhAddress address{encRdhBuffer::Output, chunk.begin + begin};
    transfer.src_devs = {from};
    transfer.src_addrs = {address};
    transfer.dst_devs = to;
    transfer.dst_addrs.assign(to.size(), address);
    step.transfers.push_back(std::move(transfer));
  }
}

/// What a peer would pass on to us in a step of all-gather.
void Scheduler::fetchFrom(int peer, size_t number, encRdhStep& step) const {
  const Gathering theirs = gatherings(peer)[number];
  for (const Passed& passed : theirs.passed) {
    if (std::count(passed.to.begin(), passed.to.end(), self_) > 0)
      passOn(passed, peer, {self_}, step);
  }
}

/// The own chunk to OUTPUT, and at once to whom it goes first; then what has come goes on.
void Scheduler::gather(std::vector<encRdhStep>& steps) {
  rdh_transfer result = reduces() ? sumOf(self_, g_.axes) : rdh_transfer{};
  if (!reduces()) {
    result.idx = self_;
    result.size = w_.chunks[self_].bytes;
    result.src_devs = {self_};
    result.src_addrs = {own(encRdhBuffer::Input, self_)};
  }
  result.dst_devs = {self_};
  const std::vector<Gathering> gathered = gathers() ? gatherings(self_) : std::vector<Gathering>();
  encRdhStep first;
  first.event = gathers() ? gathered.front().event : plus(Event::EVT_RH_STEP_0, kMaxAxes);
  first.doubling = gathers();
  const bool goesOn = gathers() && w_.writesOthers;
  if (goesOn) {
    const Gathering& next = gathered.front();
    first.peers = next.peers;
    result.dst_devs.insert(result.dst_devs.end(), next.peers.begin(), next.peers.end());
    result.dst_idx = kRdhPassedOn;
  }
  result.dst_addrs.assign(result.dst_devs.size(), own(encRdhBuffer::Output, self_));
  if (result.size > 0) first.transfers.push_back(std::move(result));
  steps.push_back(std::move(first));
  for (size_t i = goesOn ? 1 : 0; i < gathered.size(); i++) {
    encRdhStep step;
    step.event = gathered[i].event;
    step.doubling = true;
    step.peers = gathered[i].peers;
    step.fetches = !w_.writesOthers;
    if (w_.writesOthers) {
      for (const Passed& passed : gathered[i].passed)
        passOn(passed, self_, passed.to, step);
    }
    if (step.fetches) {
      for (const int peer : step.peers)
        fetchFrom(peer, i, step);
    }
    steps.push_back(std::move(step));
  }
}

Result<std::vector<encRdhStep>> Scheduler::schedule() {
  std::vector<encRdhStep> steps;
  if (reduces()) TRY(halve(steps));
  gather(steps);
  // Others have finished with what we stored, or had for them to fetch. (Where they write, their
  // writing says so.)
  const bool closes = gathers() ? !w_.writesOthers : g_.axes > 0;
  if (!closes) return steps;
  encRdhStep done;
  done.event = Event::EVT_RDH_AXES_HANDSHAKE_2;
  done.doubling = gathers();
  done.peers = gathers() ? directPeers(g_, self_) : onAxes(g_, self_);
  steps.push_back(std::move(done));
  return steps;
}

/// All ranks of the device know of each other that they have come so far.
std::vector<encRdhStep> meetOnDevice(const encRdhGeometry& g, int member, Event event) {
  std::vector<encRdhStep> steps;
  for (int bit = 0; bit < g.mateBits; bit++) {
    encRdhStep step;
    step.event = event;
    step.peers = {g.memberAt[g.device[member]][g.mate[member] ^ 1 << bit]};
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

Result<uint64_t> encRdhBuffers::getNewBuffer(uint64_t bytes) {
  const uint64_t begin = offset_;
  if (capacity_ - begin < encRdhBufferBytes(bytes)) {
    return fail(ncclInvalidArgument,
                "intra_rdh: %llu bytes of a work area of %llu, of which %llu are left",
                static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(capacity_),
                static_cast<unsigned long long>(capacity_ - begin));
  }
  offset_ += encRdhBufferBytes(bytes);
  return begin;
}

int encRdhPosition(const encRdhGeometry& geometry, int member) {
  int position = 0;
  for (int turn = 0; turn < geometry.axes; turn++) {
    const int axis = (turn + geometry.mate[member]) % geometry.axes;
    position = 2 * position + (geometry.device[member] >> axis & 1);
  }
  return position;
}

enc_mesh_event_type encRdhSemaphore(const encRdhGeometry& geometry, int member, int raiser,
                                    bool doubling) {
  const int axes = geometry.device[member] ^ geometry.device[raiser];
  const int ways = geometry.mate[member] ^ geometry.mate[raiser];
  NCCL_CHECK((axes == 0) != (ways == 0));
  int way = 0;
  if (axes != 0) {
    NCCL_CHECK(std::has_single_bit(static_cast<unsigned>(axes)) && axes < 1 << kMaxAxes);
    way = std::countr_zero(static_cast<unsigned>(axes));
  } else {
    NCCL_CHECK(ways <= kLocal);
    const int numbers[] = {0, 4, 5, 7, 6};
    way = numbers[ways];
  }
  if (!doubling) return plus(Event::EVT_RH_STEP_0, way);
  return way == 7 ? Event::EVT_1DEV_RD_STEP_1 : plus(Event::EVT_RD_STEP_0, way);
}

Result<std::vector<encRdhStep>> encScheduleRdh(const encRdhGeometry& geometry,
                                               const encRdhWindow& window, int member) {
  NCCL_CHECK(window.chunks.size() == geometry.device.size());
  return Scheduler(geometry, window, member).schedule();
}

std::vector<encRdhStep> encRdhOpening(const encRdhGeometry& geometry, const encRdhWindow& window,
                                      int member) {
  if (window.op != encOp::AllGather) {
    return meetOnDevice(geometry, member, Event::EVT_RDH_LOCAL_HANDSHAKE);
  }
  if (!window.writesOthers) return {};
  // Those that will write our OUTPUT.
  encRdhStep step;
  step.event = Event::EVT_RDH_AXES_HANDSHAKE;
  step.doubling = true;
  step.peers = directPeers(geometry, member);
  return {step};
}

std::vector<encRdhStep> encRdhClosing(const encRdhGeometry& geometry, const encRdhWindow& window,
                                      int member) {
  if (window.op != encOp::ReduceScatter) return {};
  return meetOnDevice(geometry, member, Event::EVT_RDH_LOCAL_PEER_HANDSHAKE);
}

namespace {

std::string text(const std::vector<int>& devs, const std::vector<encRdhAddress>& addrs) {
  constexpr const char* kNames[] = {"input", "output", "work"};
  std::string out;
  for (size_t i = 0; i < devs.size(); i++) {
    out += (i == 0 ? "" : " + ") + std::string(kNames[static_cast<size_t>(addrs[i].buffer)]) + "[" +
           std::to_string(devs[i]) + "]+" + std::to_string(addrs[i].offset);
  }
  return out;
}

}  // namespace

std::string encRdhPlanText(const std::vector<encRdhStep>& steps) {
  std::string out;
  for (size_t i = 0; i < steps.size(); i++) {
    const encRdhStep& step = steps[i];
    out += "step " + std::to_string(i) + " " + encMeshEventName(step.event);
    out += step.fetches ? ", after hearing of" : ", then meets";
    for (const int peer : step.peers)
      out += " " + std::to_string(peer);
    out += step.peers.empty() ? " nobody\n" : "\n";
    for (const rdh_transfer& t : step.transfers) {
      out += "  chunk " + std::to_string(t.idx) +
             (t.dst_idx == kRdhHalfChunk ? ", half of it" : "") + ": " +
             text(t.src_devs, t.src_addrs) + " -> " + text(t.dst_devs, t.dst_addrs) + ", " +
             std::to_string(t.size) + " bytes\n";
    }
  }
  return out;
}

}  // namespace nccom
