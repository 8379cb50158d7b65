#include "enc/hier.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "enc/alg_select.h"
#include "enc/alg_stages.h"
#include "enc/buffers.h"
#include "enc/builder.h"
#include "enc/flat.h"
#include "enc/levels.h"
#include "enc/situation_of.h"
#include "enc/stage_compose.h"
#include "misc/check.h"

namespace nccom {
namespace {

constexpr uint64_t kAlign = 256;  // of sections and of the partials in the work area
constexpr uint32_t kTempSlots = 2;

uint64_t roundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}
uint64_t divideUp(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// One rank's stages over one window (or slice) of the message.
class Hierarchy {
 public:
  Hierarchy(encBuilder& builder, const encTask& task, const encHierChoices& choices)
      : builder_(builder),
        flat_(encFlatStage(builder.info(), task)),
        levels_(encLevelsOf(builder.info())),
        choices_(choices) {
    const encSituation& situation = builder.info().situation;
    const uint64_t half = flat_.workBytes / 2 / kAlign * kAlign;
    tempBytes_ = std::min(half, encHierScratchBytes(situation));
    // Several streams would share the queues of the stages.
    const int slices = situation.streams == 1 ? builder.info().options.hierPipelineSlices : 1;
    slices_ = static_cast<uint64_t>(std::max(1, slices));
    if (slices_ > 1) tempBytes_ = tempBytes_ / kTempSlots / kAlign * kAlign;
  }

  Status compose();

 private:
  struct Window {
    uint64_t begin = 0, bytes = 0;  // AllReduce: of the message; else of each part
    uint64_t number = 0;
  };

  bool pipelined() const { return slices_ > 1; }
  uint64_t places() const { return static_cast<uint64_t>(levels_.placeCount()); }
  uint64_t servers() const { return static_cast<uint64_t>(levels_.serverCount()); }
  uint64_t windowBytes() const;

  Status window(const Window& w);
  Status allReduce(const Window& w);
  Status reduceScatter(const Window& w);
  Status allGather(const Window& w);

  encStage stageOf(encLevel level, encOp op, int position) const;
  encPages temp(const Window& w) const;
  encPages piecesOf(encBuffer buffer, const Window& w, bool allPlaces) const;
  Status run(const encStage& stage, encHierSlot slot);
  void enter(int position, const Window& w);
  void leave(int position, bool last);

  encBuilder& builder_;
  const encStage flat_;
  const encLevels levels_;
  const encHierChoices& choices_;
  uint64_t slices_ = 1;
  uint64_t tempBytes_ = 0;
};

/// So large that partials fit, and so small that there are as many slices as asked for.
uint64_t Hierarchy::windowBytes() const {
  const uint64_t element = flat_.elementBytes;
  uint64_t total = flat_.partBytes, most = flat_.partBytes;
  if (flat_.op == encOp::AllReduce) {
    total = flat_.messageBytes;
    most = tempBytes_ * places();
  }
  if (flat_.op == encOp::ReduceScatter) most = tempBytes_ / servers();
  most = std::max(most / element * element, element);
  if (pipelined()) most = std::min(most, roundUp(divideUp(total, slices_), element));
  return std::min(most, total);
}

Status Hierarchy::compose() {
  const bool whole = flat_.op == encOp::AllReduce;
  const uint64_t total = whole ? flat_.messageBytes : flat_.partBytes;
  if (total == 0) return Ok{};
  const uint64_t step = windowBytes();
  Window w;
  for (; w.begin < total; w.begin += step, w.number++) {
    w.bytes = std::min(step, total - w.begin);
    TRY(window(w));
  }
  return Ok{};
}

Status Hierarchy::window(const Window& w) {
  switch (flat_.op) {
    case encOp::AllReduce:
      return allReduce(w);
    case encOp::ReduceScatter:
      return reduceScatter(w);
    case encOp::AllGather:
      return allGather(w);
    default:
      break;
  }
  NCCL_CHECK(false && "an operation that has a hierarchical form");
}

/// A stage of the level; `position` is its place in the chain: with a pipeline, its queue.
encStage Hierarchy::stageOf(encLevel level, encOp op, int position) const {
  encStage stage;
  stage.op = op;
  stage.level = level;
  stage.ranks = level == encLevel::Intra ? levels_.intra() : levels_.inter();
  stage.self = level == encLevel::Intra ? levels_.place : levels_.server;
  stage.elementBytes = flat_.elementBytes;
  stage.first = position == 0;
  stage.workBegin = flat_.workBegin + flat_.workBytes / 2 / kAlign * kAlign;
  stage.workBytes = flat_.workBegin + flat_.workBytes - stage.workBegin;
  stage.channel = pipelined() ? static_cast<uint32_t>(position) : 0;
  stage.maxChannels = 1;
  stage.mayLoop = false;
  return stage;
}

/// Where the partials of a window are.
encPages Hierarchy::temp(const Window& w) const {
  encPages pages;
  pages.buffer = encBuffer::Scratch;
  const uint64_t slot = pipelined() ? w.number % kTempSlots : 0;
  pages.base = static_cast<int64_t>(flat_.workBegin + slot * tempBytes_);
  return pages;
}

/// The window's pieces of the parts of all ranks, in order of places, then of servers; or of the
/// ranks at our place only.
encPages Hierarchy::piecesOf(encBuffer buffer, const Window& w, bool allPlaces) const {
  encPages pages;
  pages.buffer = buffer;
  pages.pieceBytes = w.bytes;
  for (int place = 0; place < levels_.placeCount(); place++) {
    if (!allPlaces && place != levels_.place) continue;
    for (const std::vector<int>& members : levels_.servers) {
      const auto part = static_cast<uint64_t>(members[place]);
      pages.places.push_back(static_cast<int64_t>(part * flat_.partBytes + w.begin));
    }
  }
  return pages;
}

Status Hierarchy::run(const encStage& stage, encHierSlot slot) {
  const enc_alg_type alg =
      pipelined() ? enc_alg_type::Ring : choices_[static_cast<size_t>(slot)].alg;
  return encStageCompose(builder_, stage, alg, levels_);
}

/// The stage before has finished the window, and what comes after is done with the temp slot.
void Hierarchy::enter(int position, const Window& w) {
  if (!pipelined()) return;
  const size_t queue = builder_.mainQueue(static_cast<uint32_t>(position));
  const encLayout& layout = builder_.layout();
  if (position > 0) {
    const uint32_t joint = layout.jointSemaphore(static_cast<uint32_t>(position - 1));
    builder_.expect(joint);
    builder_.wait(queue, encStep::Sync, builder_.self(), joint);
  } else if (flat_.op != encOp::AllGather && w.number >= kTempSlots) {
    const uint32_t joint = layout.jointSemaphore(kJointSemaphores - 1);
    builder_.append(queue, encWait(encStep::Sync, builder_.self(), joint,
                                   static_cast<int64_t>(w.number - kTempSlots + 1)));
  }
}

void Hierarchy::leave(int position, bool last) {
  if (!pipelined()) return;
  const size_t queue = builder_.mainQueue(static_cast<uint32_t>(position));
  const encLayout& layout = builder_.layout();
  if (!last) {
    builder_.append(queue, encInc(encStep::Sync, builder_.self(),
                                  layout.jointSemaphore(static_cast<uint32_t>(position))));
  }
  if (position == 1 && flat_.op != encOp::AllGather) {
    const uint32_t joint = layout.jointSemaphore(kJointSemaphores - 1);
    builder_.append(queue, encInc(encStep::Sync, builder_.self(), joint));
    builder_.expect(joint);
  }
}

Status Hierarchy::allReduce(const Window& w) {
  const uint64_t section =
      roundUp(divideUp(w.bytes, places()), std::max(kAlign, flat_.elementBytes));
  const uint64_t mine = std::min(w.bytes, section * static_cast<uint64_t>(levels_.place));
  encPages input = flat_.input, output = flat_.output, own = flat_.output;
  input.base = output.base = static_cast<int64_t>(w.begin);
  own.base = static_cast<int64_t>(w.begin + mine);

  encStage reduce = stageOf(encLevel::Intra, encOp::ReduceScatter, 0);
  reduce.partBytes = section;
  reduce.messageBytes = w.bytes;
  reduce.input = input;
  reduce.output = temp(w);
  reduce.scaleInputs = flat_.scaleInputs;
  enter(0, w);
  TRY(run(reduce, encHierSlot::IntraReduceScatter));
  leave(0, false);

  encStage between = stageOf(encLevel::Inter, encOp::AllReduce, 1);
  between.messageBytes = std::min(section, w.bytes - mine);
  between.input = temp(w);
  between.output = own;
  between.divide = flat_.divide;
  enter(1, w);
  TRY(run(between, encHierSlot::InterAllReduce));
  leave(1, false);

  encStage gather = stageOf(encLevel::Intra, encOp::AllGather, 2);
  gather.partBytes = section;
  gather.messageBytes = w.bytes;
  gather.inPlace = true;
  gather.input = own;
  gather.output = output;
  enter(2, w);
  TRY(run(gather, encHierSlot::IntraAllGather));
  leave(2, true);
  return Ok{};
}

Status Hierarchy::reduceScatter(const Window& w) {
  encStage reduce = stageOf(encLevel::Intra, encOp::ReduceScatter, 0);
  reduce.partBytes = w.bytes * servers();
  reduce.messageBytes = reduce.partBytes * places();
  reduce.input = piecesOf(encBuffer::Input, w, true);
  reduce.output = temp(w);
  reduce.scaleInputs = flat_.scaleInputs;
  enter(0, w);
  TRY(run(reduce, encHierSlot::IntraReduceScatter));
  leave(0, false);

  encStage between = stageOf(encLevel::Inter, encOp::ReduceScatter, 1);
  between.partBytes = w.bytes;
  between.messageBytes = w.bytes * servers();
  between.input = temp(w);
  between.output = flat_.output;
  between.output.base = static_cast<int64_t>(w.begin);
  between.divide = flat_.divide;
  enter(1, w);
  TRY(run(between, encHierSlot::InterReduceScatter));
  leave(1, true);
  return Ok{};
}

Status Hierarchy::allGather(const Window& w) {
  encStage between = stageOf(encLevel::Inter, encOp::AllGather, 0);
  between.partBytes = w.bytes;
  between.messageBytes = w.bytes * servers();
  between.input = flat_.input;
  between.input.base = static_cast<int64_t>(w.begin);
  between.output = piecesOf(encBuffer::Output, w, false);
  enter(0, w);
  TRY(run(between, encHierSlot::InterAllGather));
  leave(0, false);

  encStage gather = stageOf(encLevel::Intra, encOp::AllGather, 1);
  gather.partBytes = w.bytes * servers();
  gather.messageBytes = gather.partBytes * places();
  gather.inPlace = true;
  gather.input = piecesOf(encBuffer::Output, w, false);
  gather.output = piecesOf(encBuffer::Output, w, true);
  enter(1, w);
  TRY(run(gather, encHierSlot::IntraAllGather));
  leave(1, true);
  return Ok{};
}

}  // namespace

uint64_t encHierScratchBytes(const encSituation& situation) {
  const bool isSmall = situation.isHost() || situation.family == NeuronFamily::Sunda;
  return (isSmall ? 32 : 128) * kMiB;
}

Result<encProgram> encComposeHier(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  const encSituation situation = TRY(encSituationOf(info, task));
  const encHierChoices choices = TRY(encSelectHier(situation, info.options));
  encBuilder builder(info, task, "hier");
  Hierarchy hierarchy(builder, task, choices);
  TRY(hierarchy.compose());
  return std::move(builder).finish();
}

}  // namespace nccom
