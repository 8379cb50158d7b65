#include "enc/mesh_pod.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "enc/alg_table.h"
#include "enc/flat.h"
#include "enc/mesh_compose.h"
#include "enc/mesh_meet.h"
#include "enc/mesh_passes.h"
#include "enc/mesh_walk.h"
#include "enc/situation_of.h"
#include "misc/check.h"

namespace nccom {
namespace {

using Event = enc_mesh_event_type;

constexpr size_t kMaxFolded = 64;  // sources of a transfer of the device
constexpr int kBits[2] = {1, 2};   // of positions: direct, proxy
constexpr uint64_t kSlots = 7;     // of halves, in a work area
constexpr uint64_t kTempSlot = 6;
constexpr uint64_t kLine = 64;  // of a cache

// ---- build ----------------------------------------------------------------------------------

std::vector<int> matesOf(const encPodGrid& grid) {
  std::vector<int> mates;
  for (int k = 1; k < grid.places(); k++)
    mates.push_back(grid.node()[(grid.place + k) % grid.places()]);
  return mates;
}

/// Events of one operation. `pod` are the neighbours, to whom data goes between nodes.
encMeshBuilder& addEvents(encMeshBuilder& b, const encPodGrid& grid, encOp op,
                          const std::vector<int>& pod) {
  const encMeshUse& use = b.use();
  const std::vector<int> mates = matesOf(grid);
  const bool reduces = op != encOp::AllGather, gathers = op != encOp::ReduceScatter;
  const std::vector<int> none;
  b.subtype().is_two_step_pod_mesh = true;
  b.subtype().is_use_chnl_buffer = reduces;
  b.signals(Event::EVT_LOCAL_HNDSHK, use.meets() ? mates : none);
  b.signals(Event::EVT_GLOBAL_HNDSHK, use.meets() || reduces ? pod : none);
  if (reduces) {
    b.data(Event::EVT_REDUCE_COPY, pod, pod)
        .data(Event::EVT_REDUCE_COPY_2, pod, pod)
        .data(Event::EVT_REDUCE_WRITE, none, none);
  }
  if (gathers && use.writesOthers) {
    b.data(Event::EVT_LOCAL_AND_POD_GRP_BRDCST, pod, pod)
        .data(Event::EVT_LOCAL_AND_POD_GRP_BRDCST_2, pod, pod)
        .data(Event::EVT_INTRA_GRP_BRDCST, none, none);
  } else if (gathers) {
    // Nothing may be written there: everybody says when its part is complete, and fetches.
    b.data(Event::EVT_LOCAL_AND_POD_GRP_BRDCST, b.others(), b.others())
        .data(Event::EVT_LOCAL_AND_POD_GRP_BRDCST_2, none, none);
  }
  if (!use.writesOthers) return b.sync();
  // All who touch our buffers.
  std::vector<int> touched = mates;
  touched.insert(touched.end(), pod.begin(), pod.end());
  return b.signals(Event::EVT_SYNC, touched);
}

// ---- compose --------------------------------------------------------------------------------

class Composer {
 public:
  Composer(encBuilder& builder, const encStage& stage, const encPodGrid& grid,
           const enc_alg_mesh_subtype& subtype)
      : stage_(stage), grid_(grid), mates_(matesOf(grid)), walk_(builder, stage_, subtype) {}

  Status compose(uint64_t workBytes);

 private:
  struct Fold {
    encPart part;                 // of the message
    std::vector<uint64_t> slots;  // of our work area, that are added
    encSpan to;
    bool last = false;  // the sum is complete
  };

  void declare();
  void handshake();
  void reduce(const encMeshPass& pass);
  void fold(const Fold& fold);
  void gather(const encMeshPass& pass);
  void give(const encPart& part, const std::vector<int>& neighbours);
  void fetch(const encMeshPass& pass);

  bool reduces() const { return stage_.op != encOp::AllGather; }
  bool gathers() const { return stage_.op != encOp::ReduceScatter; }
  int self() const { return stage_.self; }
  /// The part of the member in our place at a position.
  encPart lane(int position, const encMeshPass& pass) const {
    return encMeshLane(parts_[grid_.at(position)], pass);
  }
  encPart half(const encPart& part, int which) const {
    const uint64_t first = std::min(part.bytes, half_);
    return which == 0 ? encPart{part.begin, first}
                      : encPart{part.begin + first, part.bytes - first};
  }
  encAddress slot(int member, uint64_t number) const {
    return stage_.work(member, number * slotBytes_);
  }
  /// Where OUTPUT is one part, it is our own.
  uint64_t outOffset(uint64_t begin) const {
    return stage_.op == encOp::ReduceScatter ? begin - parts_[self()].begin : begin;
  }

  encStage stage_;  // its addresses move in loops
  const encPodGrid& grid_;
  const std::vector<int> mates_;
  encMeshWalk walk_;
  std::vector<encPart> parts_;
  uint64_t slotBytes_ = 0, half_ = 0;  // of a half: room; bytes of the first, in this pass
};

/// Others name our buffers.
void Composer::declare() {
  const auto named = [&](const encPages& pages, bool read) {
    if (read && pages.buffer == encBuffer::Input) walk_.builder().peersReadInputs();
    if (pages.buffer == encBuffer::Output) walk_.builder().peersWriteOutputs();
  };
  if (reduces() && !mates_.empty()) named(stage_.input, true);
  if (gathers()) named(stage_.output, false);
}

void Composer::handshake() {
  for (const Event type : {Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK}) {
    if (walk_.beginIfValid(type)) walk_.signal();
  }
  walk_.await();
}

Status Composer::compose(uint64_t workBytes) {
  for (int member = 0; member < stage_.n(); member++)
    parts_.push_back(stage_.part(member));
  if (stage_.op == encOp::AllReduce) parts_ = encMeshParts(stage_);
  uint64_t step = std::max(stage_.partBytes, uint64_t{1});
  if (reduces()) {
    slotBytes_ = TRY(encMeshPassBytes(workBytes / kSlots, stage_.elementBytes));
    step = 2 * slotBytes_;
  }
  declare();
  handshake();
  encMeshPasses(walk_.builder(), stage_, parts_, step, [&](const encMeshPass& pass) {
    uint64_t most = 0;
    for (const encPart& part : parts_)
      most = std::max(most, encMeshLane(part, pass).bytes);
    const uint64_t unit = most > 2 * kLine ? kLine : stage_.elementBytes;
    half_ = ((most + 1) / 2 + unit - 1) / unit * unit;
    if (reduces()) reduce(pass);
    if (gathers()) stage_.writesOthers() ? gather(pass) : fetch(pass);
    walk_.barrier(Event::EVT_SYNC);
  });
  return Ok{};
}

/// Slots of a work area: 0 and 2, what is for its owner of the first and second half, after one
/// step; 1 and 3, what is for the neighbour across the other dimension; 4 and 5, what is for the
/// owner, after two steps.
void Composer::reduce(const encMeshPass& pass) {
  const int own = grid_.position;
  walk_.begin(Event::EVT_REDUCE_COPY);
  for (int h = 0; h < 2; h++) {
    const int across = own ^ kBits[h];
    const uint64_t first = 2 * static_cast<uint64_t>(h);
    fold({half(lane(across, pass), h), {}, slot(grid_.at(across), first)});
    fold({half(lane(own ^ 3, pass), h), {}, slot(grid_.at(across), first + 1)});
  }
  walk_.signal();
  walk_.await();
  walk_.begin(Event::EVT_REDUCE_COPY_2);
  for (int h = 0; h < 2; h++) {
    const int across = own ^ kBits[1 - h];
    const auto first = static_cast<uint64_t>(h);
    fold({half(lane(across, pass), h), {2 * first + 1}, slot(grid_.at(across), 4 + first)});
  }
  walk_.signal();
  walk_.await();
  walk_.begin(Event::EVT_REDUCE_WRITE);
  for (int h = 0; h < 2; h++) {
    const encPart mine = half(lane(own, pass), h);
    const auto first = static_cast<uint64_t>(h);
    fold({mine, {2 * first, 4 + first}, stage_.out(self(), outOffset(mine.begin)), true});
  }
}

/// What our node has of a part, and some of our slots. Our own INPUT, which OUTPUT may be, is read
/// before anything is written.
void Composer::fold(const Fold& fold) {
  encMove move{.destinations = {fold.to}, .bytes = fold.part.bytes};
  move.sources.push_back(stage_.in(self(), fold.part.begin));
  for (const int mate : mates_)
    move.sources.push_back(stage_.in(mate, fold.part.begin));
  move.scaleAll = stage_.scaleInputs;
  const size_t inputs = move.sources.size();
  if (inputs + fold.slots.size() > kMaxFolded) {
    move.destinations = {slot(self(), kTempSlot)};
    walk_.transfer(move);
    move.sources = {slot(self(), kTempSlot)};
    move.destinations = {fold.to};
    move.scaleAll = false;
    if (fold.slots.empty() && !fold.last) {
      walk_.transfer(move);
      return;
    }
  } else if (move.scaleAll && !fold.slots.empty()) {
    move.scaleAll = false;
    move.scaledSources = (uint64_t{1} << inputs) - 1;
  }
  for (const uint64_t number : fold.slots)
    move.sources.emplace_back(slot(self(), number));
  move.divide = fold.last && stage_.divide;
  walk_.transfer(move);
}

/// What is complete in our OUTPUT: to our node, and to some neighbours.
void Composer::give(const encPart& part, const std::vector<int>& neighbours) {
  encMove move{.sources = {stage_.out(self(), part.begin)}, .bytes = part.bytes};
  for (const int neighbour : neighbours)
    move.destinations.push_back(stage_.out(neighbour, part.begin));
  for (const int mate : mates_)
    move.destinations.push_back(stage_.out(mate, part.begin));
  if (!move.destinations.empty()) walk_.transfer(std::move(move));
}

void Composer::gather(const encMeshPass& pass) {
  const int own = grid_.position;
  walk_.begin(Event::EVT_LOCAL_AND_POD_GRP_BRDCST);
  if (!reduces()) {
    walk_.transfer({.sources = {stage_.in(self(), pass.begin)},
                    .destinations = {stage_.out(self(), lane(own, pass).begin)},
                    .bytes = lane(own, pass).bytes});
  }
  give(lane(own, pass), {grid_.direct(), grid_.proxy()});
  walk_.signal();
  walk_.await();
  walk_.begin(Event::EVT_LOCAL_AND_POD_GRP_BRDCST_2);
  give(half(lane(own ^ 1, pass), 0), {grid_.proxy()});
  give(half(lane(own ^ 2, pass), 1), {grid_.direct()});
  walk_.signal();
  give(half(lane(own ^ 1, pass), 1), {});
  give(half(lane(own ^ 2, pass), 0), {});
  walk_.await();
  walk_.begin(Event::EVT_INTRA_GRP_BRDCST);
  give(lane(own ^ 3, pass), {});
}

/// Where nothing may be written into others' OUTPUT, everybody reads there.
void Composer::fetch(const encMeshPass& pass) {
  walk_.begin(Event::EVT_LOCAL_AND_POD_GRP_BRDCST);
  if (!reduces()) {
    const encPart mine = lane(grid_.position, pass);
    walk_.transfer({.sources = {stage_.in(self(), pass.begin)},
                    .destinations = {stage_.out(self(), mine.begin)},
                    .bytes = mine.bytes});
  }
  walk_.signal();
  walk_.await();
  walk_.begin(Event::EVT_LOCAL_AND_POD_GRP_BRDCST_2);
  for (int k = 1; k < stage_.n(); k++) {
    const int member = (self() + k) % stage_.n();
    const encPart theirs = encMeshLane(parts_[member], pass);
    walk_.transfer({.sources = {stage_.out(member, theirs.begin)},
                    .destinations = {stage_.out(self(), theirs.begin)},
                    .bytes = theirs.bytes});
  }
}

}  // namespace

Result<encMeshPlan> encBuildPodMesh(const encMeshGeometry& geometry, const encPodGrid& grid,
                                    const encMeshUse& use) {
  encMeshPlan plan;
  plan.mesh = encEmptyMesh(geometry, use, enc_alg_mesh_type::MeshTrn2, kPodNodes);
  plan.mesh.src_devs = geometry.n();
  encMeshBuilder b(geometry, use, plan);
  const std::pair<const char*, encOp> ops[] = {{"pod all-gather", encOp::AllGather},
                                               {"pod all-reduce", encOp::AllReduce},
                                               {"pod reduce-scatter", encOp::ReduceScatter}};
  for (const auto& [name, op] : ops) {
    const encPodPartners partners = encPodPartnersOf(grid, op);
    TRY(encCheckPodPartners(partners, op));
    b.begin(name, "two-step pod", opMask(encOpTypeOf(op)));
    TRY(addEvents(b, grid, op, {partners.proxy_neighbor, partners.direct_neighbor}).end());
  }
  TRY(encAppendFnBarriers(plan.mesh, b.others()));
  return plan;
}

Status encStagePodMesh(encBuilder& builder, const encStage& stage, const encMeshGeometry& geometry,
                       const encMeshOptions& options) {
  const encPodGrid grid = TRY(encPodGridOf(builder.info(), stage.ranks, stage.self));
  const encMeshPlan plan =
      TRY(encBuildPodMesh(geometry, grid, encMeshUse::of(stage, builder.info().options)));
  const enc_op_type op = encOpTypeOf(stage.op);
  const auto& subtypes = plan.mesh.mesh_subtype;
  const auto subtype =
      std::find_if(subtypes.begin(), subtypes.end(), [&](const auto& s) { return s.composes(op); });
  if (subtype == subtypes.end()) {
    return fail(ncclInvalidArgument,
                "two_step_pod_mesh: %s: want AllGather, AllReduce or ReduceScatter",
                encOpName(stage.op));
  }
  encMeshWalk walk(builder, stage, *subtype);
  encMeetFirst(walk, options, stage.messageBytes == 0);
  if (stage.messageBytes > 0) {
    TRY(Composer(builder, stage, grid, *subtype).compose(plan.mesh.buffer_max));
  }
  encMeetLast(walk, options, stage.messageBytes == 0);
  return Ok{};
}

Result<encProgram> encComposePodMesh(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  encBuilder builder(info, task, encAlgName(enc_alg_type::TwoStepPodMesh));
  const encStage stage = encFlatStage(info, task);
  const encMeshGeometry geometry = TRY(encMeshGeometryOf(info, stage.ranks, stage.self));
  TRY(encStagePodMesh(builder, stage, geometry));
  return std::move(builder).finish();
}

}  // namespace nccom
