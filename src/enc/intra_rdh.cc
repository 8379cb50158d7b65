#include "enc/intra_rdh.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "enc/flat.h"
#include "enc/mesh_passes.h"
#include "enc/rdh_intra_plan.h"
#include "misc/check.h"

namespace nccom {
namespace {

/// By choice: what a rank stores of a window should still be in a cache when its partners read it.
constexpr uint64_t kMaxStoredBytes = 256 << 10;

uint64_t divideUp(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

class IntraRdh {
 public:
  IntraRdh(encBuilder& builder, const encStage& stage, const encRdhGeometry& geometry);

  Status compose();

 private:
  bool isWhole() const { return stage_.op == encOp::AllReduce; }
  uint64_t capacity() const;
  Result<uint64_t> chunkBytes() const;
  encRdhWindow window(const encMeshPass& pass) const;
  encSpan span(int member, const encRdhAddress& address) const;
  void steps(const std::vector<encRdhStep>& list);
  void signals(const encRdhStep& step);
  void transfers(const encRdhStep& step);
  void transfer(const rdh_transfer& t, encStep step);

  encBuilder& builder_;
  encStage stage_;  // its addresses move in loops
  const encRdhGeometry& geometry_;
  const size_t queue_;
  std::vector<encPart> parts_;  // of the message, as passes go over them
};

IntraRdh::IntraRdh(encBuilder& builder, const encStage& stage, const encRdhGeometry& geometry)
    : builder_(builder),
      stage_(stage),
      geometry_(geometry),
      queue_(builder.mainQueue(stage.channel)) {
  for (int member = 0; member < stage.n(); member++) {
    if (!isWhole()) parts_.push_back(stage.part(member));
  }
  if (isWhole()) parts_ = {{0, stage.messageBytes}};
}

uint64_t IntraRdh::capacity() const {
  const encAlgOptions& options = builder_.info().options;
  const uint64_t standard = geometry_.splitsDiagonal ? 40 * kMiB : 80 * kMiB;
  const uint64_t buffer = options.intraRdhBufferBytes > 0 ? options.intraRdhBufferBytes : standard;
  return std::min({buffer, stage_.workBytes, kMaxStoredBytes});
}

/// Of a window: so many that what is stored of it fits.
Result<uint64_t> IntraRdh::chunkBytes() const {
  const auto stored = static_cast<uint64_t>(geometry_.devices() - 1);
  const uint64_t all =
      isWhole()
          ? encRdhBufferBytes(divideUp(stage_.messageBytes, static_cast<uint64_t>(stage_.n())))
          : stage_.partBytes;
  if (stage_.op == encOp::AllGather || stored == 0) return all;
  const uint64_t most = capacity() / stored / encRdhBufferBytes(1) * encRdhBufferBytes(1);
  if (most > 0) return std::min(all, most);
  return fail(
      ncclInvalidArgument,
      "intra_rdh: %d ranks from rank %d on: a work area of %llu bytes for %llu chunks: want "
      "at least %llu for each",
      stage_.n(), stage_.ranks[0], static_cast<unsigned long long>(capacity()),
      static_cast<unsigned long long>(stored),
      static_cast<unsigned long long>(encRdhBufferBytes(1)));
}

/// Chunks of AllReduce lie section by section, in the order of their positions: what a rank holds
/// of a section at any time is in one piece.
encRdhWindow IntraRdh::window(const encMeshPass& pass) const {
  encRdhWindow w{stage_.op, stage_.writesOthers(), {}, pass.begin, capacity()};
  const auto n = static_cast<uint64_t>(stage_.n());
  const uint64_t chunk = encRdhBufferBytes(divideUp(pass.bytes, n));
  for (int member = 0; member < stage_.n(); member++) {
    if (!isWhole()) {
      w.chunks.push_back(encMeshLane(parts_[member], pass));
      continue;
    }
    const int number =
        geometry_.mate[member] * geometry_.devices() + encRdhPosition(geometry_, member);
    const uint64_t begin = std::min(pass.bytes, static_cast<uint64_t>(number) * chunk);
    w.chunks.push_back({pass.begin + begin, std::min(chunk, pass.bytes - begin)});
  }
  return w;
}

encSpan IntraRdh::span(int member, const encRdhAddress& address) const {
  switch (address.buffer) {
    case encRdhBuffer::Input:
      return stage_.in(member, address.offset);
    case encRdhBuffer::Output:
      return stage_.out(member, address.offset);
    case encRdhBuffer::Work:
      break;
  }
  return stage_.work(member, address.offset);
}

void IntraRdh::transfer(const rdh_transfer& t, encStep step) {
  encMove move{.step = step, .bytes = t.size};
  for (size_t i = 0; i < t.src_devs.size(); i++) {
    const bool isInput = t.src_addrs[i].buffer == encRdhBuffer::Input;
    if (isInput && stage_.scaleInputs) move.scaledSources |= uint64_t{1} << i;
    move.sources.push_back(span(t.src_devs[i], t.src_addrs[i]));
  }
  for (size_t i = 0; i < t.dst_devs.size(); i++)
    move.destinations.push_back(span(t.dst_devs[i], t.dst_addrs[i]));
  const bool completes = t.src_devs.size() > 1 && t.dst_addrs[0].buffer == encRdhBuffer::Output;
  move.divide = completes && stage_.divide;
  builder_.transfer(queue_, move);
}

/// Whether `next` goes on where `t` ends, everywhere.
bool goesOn(const rdh_transfer& t, const rdh_transfer& next) {
  if (t.src_devs != next.src_devs || t.dst_devs != next.dst_devs) return false;
  const auto adjoins = [&](const encRdhAddress& a, const encRdhAddress& b) {
    return a.buffer == b.buffer && a.offset + t.size == b.offset;
  };
  return std::equal(t.src_addrs.begin(), t.src_addrs.end(), next.src_addrs.begin(), adjoins) &&
         std::equal(t.dst_addrs.begin(), t.dst_addrs.end(), next.dst_addrs.begin(), adjoins);
}

void IntraRdh::transfers(const encRdhStep& step) {
  for (size_t i = 0; i < step.transfers.size();) {
    rdh_transfer t = step.transfers[i++];
    for (; i < step.transfers.size() && goesOn(t, step.transfers[i]); i++)
      t.size += step.transfers[i].size;
    transfer(t, encMeshStep(step.event));
  }
}

void IntraRdh::signals(const encRdhStep& step) {
  const encStep tag = encMeshStep(step.event);
  const auto semaphore = [&](int at, int raiser) {
    const enc_mesh_event_type event = encRdhSemaphore(geometry_, at, raiser, step.doubling);
    return builder_.layout().eventSemaphore(stage_.level, static_cast<uint32_t>(event));
  };
  for (const int peer : step.peers)
    builder_.append(queue_, encInc(tag, stage_.ranks[peer], semaphore(peer, stage_.self)));
  for (const int peer : step.peers) {
    builder_.expect(semaphore(stage_.self, peer));
    builder_.wait(queue_, tag, stage_.ranks[peer], semaphore(stage_.self, peer));
  }
}

void IntraRdh::steps(const std::vector<encRdhStep>& list) {
  for (const encRdhStep& step : list) {
    if (step.fetches) signals(step);
    transfers(step);
    if (!step.fetches) signals(step);
  }
}

Status IntraRdh::compose() {
  const uint64_t chunk = TRY(chunkBytes());
  const uint64_t step = isWhole() ? chunk * static_cast<uint64_t>(stage_.n()) : chunk;
  const encRdhWindow ends = window({0, 0});
  if (stage_.op != encOp::AllGather && stage_.input.buffer == encBuffer::Input) {
    builder_.peersReadInputs();
  }
  if (stage_.op != encOp::ReduceScatter && stage_.writesOthers()) builder_.peersWriteOutputs();
  if (!stage_.first) steps(encRdhOpening(geometry_, ends, stage_.self));
  encMeshPasses(builder_, stage_, parts_, step, [&](const encMeshPass& pass) {
    Result<std::vector<encRdhStep>> schedule = encScheduleRdh(geometry_, window(pass), stage_.self);
    NCCL_CHECK(schedule.ok() && "chunkBytes() sees to it that all is stored");
    steps(schedule.value());
  });
  steps(encRdhClosing(geometry_, ends, stage_.self));
  return Ok{};
}

}  // namespace

Status encStageIntraRdh(encBuilder& builder, const encStage& stage,
                        const encRdhGeometry& geometry) {
  const bool known = stage.op == encOp::AllReduce || stage.op == encOp::ReduceScatter ||
                     stage.op == encOp::AllGather;
  if (!known) {
    return fail(ncclInvalidArgument, "intra_rdh: %s: want AllReduce, ReduceScatter or AllGather",
                encOpName(stage.op));
  }
  NCCL_CHECK(geometry.device.size() == stage.ranks.size());
  if (stage.messageBytes == 0) return Ok{};
  return IntraRdh(builder, stage, geometry).compose();
}

}  // namespace nccom
