#include "enc/mesh_compose.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "enc/mesh_passes.h"
#include "enc/mesh_walk.h"

namespace nccom {
namespace {

using Event = enc_mesh_event_type;

constexpr uint64_t kLine = 64;
constexpr int kMaxFolded = 64;  // sources of a transfer of the device

using Pass = encMeshPass;

class Composer {
 public:
  Composer(encBuilder& builder, const encStage& stage, const encMeshPlan& plan,
           const enc_alg_mesh_subtype& subtype)
      : stage_(stage),
        mesh_(plan.mesh),
        teams_(plan.teams),
        subtype_(subtype),
        walk_(builder, stage_, subtype) {}

  Status compose();

 private:
  // What the subtype is like.
  bool combines() const {
    return valid(Event::EVT_REDUCE_COPY) && teams_.size() > 1 && teams_.count() > 1;
  }
  bool valid(Event type) const {
    const enc_mesh_event* event = subtype_.find(type);
    return event != nullptr && event->valid;
  }
  bool handsOn() const { return teams_.handsOn && stage_.writesOthers(); }
  bool touchesWork() const { return subtype_.is_use_chnl_buffer && stage_.op != encOp::AllGather; }

  // Passes.
  template <class Body>
  void passes(uint64_t step, const Body& body) {
    encMeshPasses(walk_.builder(), stage_, parts_, step, body);
  }
  void handshake();
  void declare(const encPages& pages);
  void sync() { walk_.barrier(Event::EVT_SYNC); }

  // Members and parts.
  int self() const { return stage_.self; }
  int own() const { return teams_.team[self()]; }
  const std::vector<int>& team() const { return teams_.members[own()]; }
  std::vector<int> others() const;
  std::vector<int> mates() const;
  encPart lane(int member, const Pass& pass) const { return encMeshLane(parts_[member], pass); }
  uint64_t slotOf(int team) const { return static_cast<uint64_t>(team < own() ? team : team - 1); }
  uint64_t outOffset(const encPart& part) const;

  // Two steps.
  Status inTwoSteps();
  void combine(const Pass& pass);
  encMove sourcesOf(const encPart& part);
  void fold(const Pass& pass);
  void deal(const Pass& pass);
  void allGather();
  void handOver(const Pass& pass, bool fromInput);
  void handOn(const Pass& pass);
  void pull(const Pass& pass, bool fromInput);

  // The others.
  Status inOneStep();
  void foldCopies(const Pass& pass);
  void allToAll();
  void exchange(Event event, const std::function<bool(int)>& with);

  encStage stage_;  // its addresses move in loops
  const enc_alg_mesh& mesh_;
  const encMeshTeams& teams_;
  const enc_alg_mesh_subtype& subtype_;
  encMeshWalk walk_;
  std::vector<encPart> parts_;
  uint64_t slotBytes_ = 0;
};

std::vector<int> Composer::others() const {
  std::vector<int> found;
  for (int k = 1; k < stage_.n(); k++)
    found.push_back((self() + k) % stage_.n());
  return found;
}

std::vector<int> Composer::mates() const {
  std::vector<int> found;
  for (const int member : team()) {
    if (member != self()) found.push_back(member);
  }
  return found;
}

/// Where OUTPUT is one part, it is our own.
uint64_t Composer::outOffset(const encPart& part) const {
  return stage_.op == encOp::ReduceScatter ? part.begin - parts_[self()].begin : part.begin;
}

/// Buffers of launched operations need none, work areas do, and so do later stages.
void Composer::handshake() {
  if (stage_.first && mesh_.double_buffer && !touchesWork()) return;
  const bool a2a = walk_.has(Event::EVT_LOCAL_HNDSHK_1);
  for (const Event type : {a2a ? Event::EVT_LOCAL_HNDSHK_1 : Event::EVT_LOCAL_HNDSHK,
                           a2a ? Event::EVT_GLOBAL_HNDSHK_1 : Event::EVT_GLOBAL_HNDSHK}) {
    if (walk_.beginIfValid(type)) walk_.signal();
  }
  walk_.await();
}

/// Others name our buffers.
void Composer::declare(const encPages& pages) {
  if (pages.buffer == encBuffer::Input) walk_.builder().peersReadInputs();
  if (pages.buffer == encBuffer::Output) walk_.builder().peersWriteOutputs();
}

Status Composer::compose() {
  for (int member = 0; member < stage_.n(); member++)
    parts_.push_back(stage_.part(member));
  if (stage_.op == encOp::AllReduce) parts_ = encMeshParts(stage_);
  handshake();
  if (stage_.op == encOp::AlltoAll) {
    allToAll();
    return Ok{};
  }
  const bool copies = subtype_.is_single_step_mesh && subtype_.is_use_chnl_buffer;
  return copies ? inOneStep() : inTwoSteps();
}

// ---- two steps ------------------------------------------------------------------------------

Status Composer::inTwoSteps() {
  declare(stage_.input);
  if (stage_.op != encOp::ReduceScatter) declare(stage_.output);
  if (stage_.op == encOp::AllGather) {
    allGather();
    return Ok{};
  }
  if (combines()) {
    slotBytes_ = TRY(encMeshPassBytes(mesh_.max_chbuf_space_per_group, stage_.elementBytes));
  }
  passes(combines() ? slotBytes_ : UINT64_MAX, [&](const Pass& pass) {
    if (combines()) combine(pass);
    fold(pass);
    if (stage_.op == encOp::AllReduce) deal(pass);
    sync();
  });
  return Ok{};
}

/// For our counterparts in other teams: what our team has for them, in one.
void Composer::combine(const Pass& pass) {
  walk_.begin(Event::EVT_REDUCE_COPY);
  for (int k = 1; k < teams_.count(); k++) {
    const std::vector<int>& there = teams_.members[(own() + k) % teams_.count()];
    const int to = there[teams_.place[self()]];
    const encPart part = lane(to, pass);
    const int slot = own() < teams_.team[to] ? own() : own() - 1;
    encMove move{.bytes = part.bytes, .scaleAll = stage_.scaleInputs};
    for (const int member : team())
      move.sources.push_back(stage_.in(member, part.begin));
    move.destinations = {stage_.work(to, static_cast<uint64_t>(slot) * slotBytes_)};
    walk_.transfer(move);
  }
  walk_.signal();
  walk_.await();
}

/// What there is for us: of our team INPUT, of others what they combined; else everybody's INPUT.
encMove Composer::sourcesOf(const encPart& part) {
  encMove move{.bytes = part.bytes, .divide = stage_.divide};
  if (!combines()) {
    move.scaleAll = stage_.scaleInputs;
    // What is folded beyond the first sources is added to OUTPUT, which may be our INPUT.
    const int first = stage_.n() > kMaxFolded ? self() : 0;
    for (int k = 0; k < stage_.n(); k++)
      move.sources.push_back(stage_.in((first + k) % stage_.n(), part.begin));
    return move;
  }
  for (int from = 0; from < teams_.count(); from++) {
    if (from != own()) {
      move.sources.emplace_back(stage_.work(self(), slotOf(from) * slotBytes_));
      continue;
    }
    for (const int member : team()) {
      if (stage_.scaleInputs) move.scaledSources |= uint64_t{1} << move.sources.size();
      move.sources.push_back(stage_.in(member, part.begin));
    }
  }
  return move;
}

void Composer::fold(const Pass& pass) {
  walk_.begin(walk_.has(Event::EVT_REDUCE_WRITE) ? Event::EVT_REDUCE_WRITE
                                                 : Event::EVT_REDUCE_COPY);
  const encPart part = lane(self(), pass);
  encMove move = sourcesOf(part);
  move.destinations = {stage_.out(self(), outOffset(part))};
  if (stage_.op == encOp::AllReduce && stage_.writesOthers()) {
    for (const int member : handsOn() ? mates() : others())
      move.destinations.push_back(stage_.out(member, part.begin));
  }
  walk_.transfer(move);
}

/// The rest of AllReduce: sums are where fold() wrote them.
void Composer::deal(const Pass& pass) {
  if (walk_.beginIfValid(Event::EVT_REDUCE_LOCAL_HNDSHK)) {
    walk_.signal();
    walk_.await();
  }
  if (!stage_.writesOthers()) {
    pull(pass, false);
  } else if (handsOn()) {
    handOver(pass, false);
    walk_.begin(Event::EVT_INTRA_GRP_BRDCST);
    handOn(pass);
  }
}

void Composer::allGather() {
  const Pass all{0, UINT64_MAX};
  const encPart& part = parts_[self()];
  encMove own{.sources = {stage_.in(self(), 0)},
              .destinations = {stage_.out(self(), part.begin)},
              .bytes = part.bytes};
  encMove given = own;
  given.destinations.clear();
  if (stage_.writesOthers()) {
    for (const int member : handsOn() ? mates() : others())
      given.destinations.push_back(stage_.out(member, part.begin));
  }
  // What is sent on, or fetched, before it is known to be in INPUT, comes from OUTPUT.
  const bool sendsForMates = handsOn() && teams_.server[0][1] >= 0;
  const bool isRead = sendsForMates || !stage_.writesOthers();  // by others
  const bool fromInput = stage_.first || !isRead;
  if (!isRead || !fromInput)
    given.destinations.insert(given.destinations.begin(), own.destinations[0]);
  if (!fromInput) {
    walk_.begin(Event::EVT_REDUCE_LOCAL_HNDSHK);
    walk_.transfer(given);
    walk_.signal();
    walk_.await();
  }
  if (!stage_.writesOthers()) {
    pull(all, fromInput);
  } else if (handsOn()) {
    handOver(all, fromInput);
    walk_.begin(Event::EVT_INTRA_GRP_BRDCST);
    if (fromInput) walk_.transfer(given);
    handOn(all);
  } else {
    walk_.begin(Event::EVT_INTER_GRP_BRDCST);
    walk_.transfer(given);
  }
  sync();
  // Where OUTPUT is INPUT, others have read it by now.
  if (isRead && fromInput) walk_.transfer(own);
}

/// To other teams, once each: what our team has for them, as far as it is ours to send.
void Composer::handOver(const Pass& pass, bool fromInput) {
  walk_.begin(Event::EVT_INTER_GRP_BRDCST);
  for (int k = 1; k < teams_.count(); k++) {
    const int to = (own() + k) % teams_.count();
    for (const int member : team()) {
      if (teams_.serverOf(member, to) != self()) continue;
      const encPart part = lane(member, pass);
      walk_.transfer(
          {.sources = {fromInput ? stage_.in(member, 0) : stage_.out(self(), part.begin)},
           .destinations = {stage_.out(teams_.rootOf(member, to), part.begin)},
           .bytes = part.bytes});
    }
  }
  walk_.signal();
}

/// To our team: what other teams have handed over to us.
void Composer::handOn(const Pass& pass) {
  walk_.await();
  for (int k = 1; k < teams_.count(); k++) {
    for (const int member : teams_.members[(own() + k) % teams_.count()]) {
      if (teams_.rootOf(member, own()) != self()) continue;
      const encPart part = lane(member, pass);
      encMove move{.sources = {stage_.out(self(), part.begin)}, .bytes = part.bytes};
      for (const int mate : mates())
        move.destinations.push_back(stage_.out(mate, part.begin));
      walk_.transfer(move);
    }
  }
}

/// Everything from where its owner has it.
void Composer::pull(const Pass& pass, bool fromInput) {
  const bool second = !fromInput && walk_.has(Event::EVT_INTER_GRP_BRDCST_2);
  walk_.begin(second ? Event::EVT_INTER_GRP_BRDCST_2 : Event::EVT_INTER_GRP_BRDCST);
  for (const int member : others()) {
    const encPart part = lane(member, pass);
    walk_.transfer({.sources = {fromInput ? stage_.in(member, 0) : stage_.out(member, part.begin)},
                    .destinations = {stage_.out(self(), part.begin)},
                    .bytes = part.bytes});
  }
}

// ---- the others -----------------------------------------------------------------------------

Status Composer::inOneStep() {
  slotBytes_ = TRY(encMeshPassBytes(mesh_.max_chbuf_space_per_rank, stage_.elementBytes));
  parts_ = {{0, stage_.messageBytes}};
  passes(slotBytes_, [&](const Pass& pass) {
    const uint64_t slot = static_cast<uint64_t>(self()) * slotBytes_;
    for (const Event type : {Event::EVT_INTRA_GRP_BRDCST, Event::EVT_INTER_GRP_BRDCST}) {
      if (!walk_.beginIfValid(type)) continue;
      encMove move{.sources = {stage_.in(self(), pass.begin)}, .bytes = pass.bytes};
      for (const int member : subtype_.find(type)->dst_neighbor_grp)
        move.destinations.emplace_back(stage_.work(member, slot));
      walk_.transfer(move);
      walk_.signal();
    }
    foldCopies(pass);
    sync();
  });
  return Ok{};
}

/// The copies of all, and our own INPUT; in order of members, so that all get the same.
void Composer::foldCopies(const Pass& pass) {
  walk_.begin(Event::EVT_REDUCE_WRITE);
  encMove move{.destinations = {stage_.out(self(), pass.begin)},
               .bytes = pass.bytes,
               .scaleAll = stage_.scaleInputs,
               .divide = stage_.divide};
  const bool copies = stage_.n() > kMaxFolded;  // what comes first is in OUTPUT, our INPUT perhaps
  for (int member = 0; member < stage_.n(); member++) {
    const encAddress slot = stage_.work(self(), static_cast<uint64_t>(member) * slotBytes_);
    if (member == self() && copies) {
      walk_.transfer({.sources = {stage_.in(self(), pass.begin)},
                      .destinations = {slot},
                      .bytes = pass.bytes});
    }
    if (member == self() && !copies) {
      move.sources.push_back(stage_.in(self(), pass.begin));
    } else {
      move.sources.emplace_back(slot);
    }
  }
  walk_.await();
  walk_.transfer(move);
}

void Composer::allToAll() {
  declare(stage_.writesOthers() ? stage_.output : stage_.input);
  if (walk_.has(Event::EVT_INTER_GRP_BRDCST)) {
    exchange(Event::EVT_INTER_GRP_BRDCST, [](int) { return true; });
  } else {
    const auto isMate = [&](int member) { return teams_.team[member] == own(); };
    exchange(Event::EVT_INTER_GRP_BRDCST_1, [&](int member) { return !isMate(member); });
    exchange(Event::EVT_INTRA_GRP_BRDCST_1, isMate);
  }
  sync();
}

/// Parts with some of the members, the next one first.
void Composer::exchange(Event event, const std::function<bool(int)>& with) {
  walk_.begin(event);
  const uint64_t mine = parts_[self()].begin;
  for (int k = 0; k < stage_.n(); k++) {
    const int member = (self() + k) % stage_.n();
    if (!with(member)) continue;
    const uint64_t theirs = parts_[member].begin;
    encMove move{.sources = {stage_.in(self(), theirs)},
                 .destinations = {stage_.out(member, mine)},
                 .bytes = stage_.partBytes};
    if (!stage_.writesOthers()) {
      move.sources = {stage_.in(member, mine)};
      move.destinations = {stage_.out(self(), theirs)};
    }
    walk_.transfer(move);
  }
}

}  // namespace

Result<uint64_t> encMeshPassBytes(uint64_t share, uint64_t elementBytes) {
  const uint64_t unit = share >= kLine ? kLine : elementBytes;
  if (share >= unit) return share / unit * unit;
  return fail(ncclInvalidArgument,
              "mesh: work areas have room for %llu bytes of each rank or group: want at least one "
              "element of %llu",
              static_cast<unsigned long long>(share),
              static_cast<unsigned long long>(elementBytes));
}

std::vector<encPart> encMeshParts(const encStage& stage) {
  const auto n = static_cast<uint64_t>(stage.n());
  const uint64_t lines = (stage.messageBytes + kLine - 1) / kLine;
  const uint64_t each = (lines + n - 1) / n * kLine;
  std::vector<encPart> parts;
  for (uint64_t member = 0; member < n; member++) {
    const uint64_t begin = std::min(stage.messageBytes, member * each);
    parts.push_back({begin, std::min(stage.messageBytes - begin, each)});
  }
  return parts;
}

Status encComposeMeshByMemory(encBuilder& builder, const encStage& stage, const encMeshPlan& plan,
                              const enc_alg_mesh_subtype& subtype) {
  return Composer(builder, stage, plan, subtype).compose();
}

}  // namespace nccom
