#include "enc/mesh_switch_compose.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "enc/mesh_compose.h"
#include "enc/mesh_passes.h"
#include "enc/mesh_walk.h"
#include "misc/check.h"

namespace nccom {
namespace {

using Event = enc_mesh_event_type;

class Composer {
 public:
  Composer(encBuilder& builder, const encStage& stage, const encSwitchGrid& grid,
           const enc_alg_mesh_subtype& subtype)
      : stage_(stage),
        grid_(grid),
        subtype_(subtype),
        mates_(grid.mates()),
        alongCol_(grid.alongCol()),
        walk_(builder, stage_, subtype) {}

  Status compose(uint64_t workBytes);

 private:
  void declare();
  void handshake();
  // Reduce-scatter.
  void foldDevice(const encMeshPass& pass);
  void foldRow(const encMeshPass& pass);
  void foldAll(const encMeshPass& pass);
  // All-gather.
  void gather(const encMeshPass& pass);
  void give(int member, const encMeshPass& pass, const std::vector<int>& to);
  void passOn(const encMeshPass& pass);
  void toDevice(const encMeshPass& pass);
  void fetch(const encMeshPass& pass);
  // The others.
  void copyInputs(const encMeshPass& pass);
  void foldCopies(const encMeshPass& pass);
  void exchange(Event event, const std::vector<int>& with);

  bool reduces() const { return stage_.op != encOp::AllGather; }
  bool gathers() const { return stage_.op != encOp::ReduceScatter; }
  bool valid(Event type) const {
    const enc_mesh_event* event = subtype_.find(type);
    return event != nullptr && event->valid;
  }
  int self() const { return stage_.self; }
  int row() const { return grid_.row[self()]; }
  int col() const { return grid_.col[self()]; }
  int slot() const { return grid_.slot[self()]; }
  encPart lane(int member, const encMeshPass& pass) const {
    return encMeshLane(parts_[member], pass);
  }
  /// Partial sums in the work area of a member: of a column for each row, then of each row. A
  /// single row's are only those of the columns.
  encAddress ofCol(int member, int fromCol, int forRow) const {
    return room(member, fromCol * grid_.rows + forRow);
  }
  encAddress ofRow(int member, int fromRow) const {
    return room(member, grid_.devices() + fromRow);
  }
  encAddress room(int member, int number) const {
    return stage_.work(member, static_cast<uint64_t>(number) * slotBytes_);
  }

  encStage stage_;  // its addresses move in loops
  const encSwitchGrid& grid_;
  const enc_alg_mesh_subtype& subtype_;
  const std::vector<int> mates_, alongCol_;
  encMeshWalk walk_;
  std::vector<encPart> parts_;
  uint64_t slotBytes_ = 0;
};

/// Others name our buffers.
void Composer::declare() {
  const bool single = subtype_.is_single_step_mesh, a2a = stage_.op == encOp::AlltoAll;
  const bool read = a2a ? !stage_.writesOthers() : reduces() && !single && !mates_.empty();
  const bool written = !single && gathers();
  if (read && stage_.input.buffer == encBuffer::Input) walk_.builder().peersReadInputs();
  if (written && stage_.output.buffer == encBuffer::Output) walk_.builder().peersWriteOutputs();
}

void Composer::handshake() {
  for (const enc_mesh_event& event : subtype_.events) {
    const Event type = event.evt_type;
    if (type != Event::EVT_LOCAL_HNDSHK && type != Event::EVT_GLOBAL_HNDSHK) continue;
    if (walk_.beginIfValid(type)) walk_.signal();
  }
  walk_.await();
}

Status Composer::compose(uint64_t workBytes) {
  const bool single = subtype_.is_single_step_mesh, a2a = stage_.op == encOp::AlltoAll;
  uint64_t step = std::max(stage_.partBytes, uint64_t{1});
  int shares = 0;
  if (single) {
    parts_ = {{0, stage_.messageBytes}};
    shares = grid_.n();
  } else {
    for (int member = 0; member < stage_.n(); member++)
      parts_.push_back(stage_.part(member));
    if (stage_.op == encOp::AllReduce) parts_ = encMeshParts(stage_);
    if (reduces() && !a2a) shares = grid_.devices() + (grid_.rows > 1 ? grid_.rows : 0);
  }
  if (shares > 0) {
    step = slotBytes_ =
        TRY(encMeshPassBytes(workBytes / static_cast<uint64_t>(shares), stage_.elementBytes));
  }
  declare();
  handshake();
  encMeshPasses(walk_.builder(), stage_, parts_, step, [&](const encMeshPass& pass) {
    if (a2a) {
      exchange(Event::EVT_INTER_GRP_BRDCST, grid_.inRow());
      exchange(Event::EVT_INTER_GRP_BRDCST_2, grid_.beyond());
    } else if (single) {
      copyInputs(pass);
      foldCopies(pass);
    } else {
      if (reduces()) {
        foldDevice(pass);
        foldRow(pass);
        foldAll(pass);
      }
      if (gathers()) stage_.writesOthers() ? gather(pass) : fetch(pass);
    }
    walk_.barrier(Event::EVT_SYNC);
  });
  return Ok{};
}

// ---- reduce-scatter -------------------------------------------------------------------------

/// What our device has for those in our slot: for each column, to the one in our row.
void Composer::foldDevice(const encMeshPass& pass) {
  walk_.begin(Event::EVT_REDUCE_COPY);
  for (int k = 0; k < grid_.cols; k++) {
    const int toCol = (col() + 1 + k) % grid_.cols;
    for (int forRow = 0; forRow < grid_.rows; forRow++) {
      const encPart part = lane(grid_.at(forRow, toCol, slot()), pass);
      encMove move{.bytes = part.bytes, .scaleAll = stage_.scaleInputs};
      for (int from = 0; from < grid_.slots; from++)
        move.sources.push_back(stage_.in(grid_.at(row(), col(), from), part.begin));
      move.destinations = {ofCol(grid_.at(row(), toCol, slot()), col(), forRow)};
      walk_.transfer(std::move(move));
    }
  }
  walk_.signal();
  walk_.await();
}

/// What our row has for our slot and column: to each row.
void Composer::foldRow(const encMeshPass& pass) {
  walk_.begin(Event::EVT_REDUCE_COPY_2);
  for (int k = 0; k < grid_.rows && grid_.rows > 1; k++) {
    const int toRow = (row() + 1 + k) % grid_.rows;
    const int to = grid_.at(toRow, col(), slot());
    encMove move{.destinations = {ofRow(to, row())}, .bytes = lane(to, pass).bytes};
    for (int fromCol = 0; fromCol < grid_.cols; fromCol++)
      move.sources.emplace_back(ofCol(self(), fromCol, toRow));
    walk_.transfer(std::move(move));
  }
  walk_.signal();
  walk_.await();
}

void Composer::foldAll(const encMeshPass& pass) {
  walk_.begin(Event::EVT_REDUCE_WRITE);
  const encPart mine = lane(self(), pass);
  // Where OUTPUT is one part, it is our own.
  const uint64_t to = gathers() ? mine.begin : mine.begin - parts_[self()].begin;
  encMove move{
      .destinations = {stage_.out(self(), to)}, .bytes = mine.bytes, .divide = stage_.divide};
  for (int from = 0; from < grid_.cols && grid_.rows == 1; from++)
    move.sources.emplace_back(ofCol(self(), from, 0));
  for (int from = 0; from < grid_.rows && grid_.rows > 1; from++)
    move.sources.emplace_back(ofRow(self(), from));
  walk_.transfer(std::move(move));
}

// ---- all-gather -----------------------------------------------------------------------------

/// A part that is in our OUTPUT.
void Composer::give(int member, const encMeshPass& pass, const std::vector<int>& to) {
  const encPart part = lane(member, pass);
  encMove move{.sources = {stage_.out(self(), part.begin)}, .bytes = part.bytes};
  for (const int other : to)
    move.destinations.push_back(stage_.out(other, part.begin));
  if (!to.empty()) walk_.transfer(std::move(move));
}

void Composer::gather(const encMeshPass& pass) {
  walk_.begin(Event::EVT_INTER_GRP_BRDCST);
  const std::vector<int>& to = subtype_.find(Event::EVT_INTER_GRP_BRDCST)->dst_neighbor_grp;
  if (reduces()) {
    give(self(), pass, to);
  } else {
    const encPart mine = lane(self(), pass);
    encMove move{.sources = {stage_.in(self(), pass.begin)},
                 .destinations = {stage_.out(self(), mine.begin)},
                 .bytes = mine.bytes};
    for (const int other : to)
      move.destinations.push_back(stage_.out(other, mine.begin));
    walk_.transfer(std::move(move));
  }
  walk_.signal();
  passOn(pass);
  if (valid(Event::EVT_INTRA_GRP_BRDCST)) toDevice(pass);
  walk_.await();
}

/// What has come along the row, or of it what is of our slot: along the column. Our own does not
/// wait for the others.
void Composer::passOn(const encMeshPass& pass) {
  walk_.begin(Event::EVT_INTER_GRP_BRDCST_2);
  give(self(), pass, alongCol_);
  walk_.await();
  const bool all = !subtype_.is_bw_opt;
  for (int k = 0; k < grid_.cols; k++) {
    for (int from = 0; from < grid_.slots; from++) {
      const int member = grid_.at(row(), (col() + k) % grid_.cols, from);
      if (member != self() && (all || from == slot())) give(member, pass, alongCol_);
    }
  }
  walk_.signal();
}

/// All parts of our slot: those of our row while the others are under way.
void Composer::toDevice(const encMeshPass& pass) {
  walk_.begin(Event::EVT_INTRA_GRP_BRDCST);
  for (int k = 0; k < grid_.rows; k++) {
    if (k == 1) walk_.await();
    for (int c = 0; c < grid_.cols; c++)
      give(grid_.at((row() + k) % grid_.rows, c, slot()), pass, mates_);
  }
}

/// Where nothing may be written into others' OUTPUT, everybody reads there.
void Composer::fetch(const encMeshPass& pass) {
  walk_.begin(Event::EVT_INTER_GRP_BRDCST);
  if (!reduces()) {
    const encPart mine = lane(self(), pass);
    walk_.transfer({.sources = {stage_.in(self(), pass.begin)},
                    .destinations = {stage_.out(self(), mine.begin)},
                    .bytes = mine.bytes});
  }
  walk_.signal();
  walk_.await();
  walk_.begin(Event::EVT_INTER_GRP_BRDCST_2);
  for (const std::vector<int>& from : {mates_, grid_.inRow(), grid_.beyond()}) {
    for (const int member : from) {
      const encPart part = lane(member, pass);
      walk_.transfer({.sources = {stage_.out(member, part.begin)},
                      .destinations = {stage_.out(self(), part.begin)},
                      .bytes = part.bytes});
    }
  }
}

// ---- the others -----------------------------------------------------------------------------

/// Everybody's INPUT into everybody's work area, by way of our row.
void Composer::copyInputs(const encMeshPass& pass) {
  walk_.begin(Event::EVT_INTER_GRP_BRDCST);
  const auto copy = [&](int member, const std::vector<int>& to) {
    encMove move{.bytes = pass.bytes};
    move.sources = {member == self() ? stage_.in(self(), pass.begin)
                                     : encSpan(room(self(), member))};
    for (const int other : to)
      move.destinations.emplace_back(room(other, member));
    if (!to.empty()) walk_.transfer(std::move(move));
  };
  copy(self(), subtype_.find(Event::EVT_INTER_GRP_BRDCST)->dst_neighbor_grp);
  walk_.signal();
  walk_.begin(Event::EVT_INTER_GRP_BRDCST_2);
  copy(self(), alongCol_);
  walk_.await();
  for (const std::vector<int>& from : {mates_, grid_.inRow()}) {
    for (const int member : from)
      copy(member, alongCol_);
  }
  walk_.signal();
  walk_.await();
}

/// In order of members, so that all get the same.
void Composer::foldCopies(const encMeshPass& pass) {
  walk_.begin(Event::EVT_REDUCE_WRITE);
  encMove move{.destinations = {stage_.out(self(), pass.begin)},
               .bytes = pass.bytes,
               .scaleAll = stage_.scaleInputs,
               .divide = stage_.divide};
  for (int member = 0; member < stage_.n(); member++) {
    move.sources.push_back(member == self() ? stage_.in(self(), pass.begin)
                                            : encSpan(room(self(), member)));
  }
  walk_.transfer(std::move(move));
}

/// Parts with some of the members; with our row, also those that stay on our device.
void Composer::exchange(Event event, const std::vector<int>& with) {
  walk_.begin(event);
  const uint64_t mine = parts_[self()].begin;
  const auto give = [&](int member) {
    const uint64_t theirs = parts_[member].begin;
    encMove move{.sources = {stage_.in(self(), theirs)},
                 .destinations = {stage_.out(member, mine)},
                 .bytes = stage_.partBytes};
    if (!stage_.writesOthers()) {
      move.sources = {stage_.in(member, mine)};
      move.destinations = {stage_.out(self(), theirs)};
    }
    walk_.transfer(std::move(move));
  };
  for (const int member : with)
    give(member);
  if (event != Event::EVT_INTER_GRP_BRDCST) return;
  for (const int mate : mates_)
    give(mate);
  give(self());
}

}  // namespace

Status encComposeSwitchStage(encBuilder& builder, const encStage& stage, const encSwitchGrid& grid,
                             const enc_alg_mesh_subtype& subtype, uint64_t workBytes) {
  if (stage.n() != grid.n() || stage.self != grid.self) {
    return fail(ncclInvalidArgument,
                "switch mesh: member %d of %d in the stage, %d of %d in the grid", stage.self,
                stage.n(), grid.self, grid.n());
  }
  return Composer(builder, stage, grid, subtype).compose(workBytes);
}

}  // namespace nccom
