#include "enc/mesh_walk.h"

#include <utility>

#include "misc/check.h"

namespace nccom {

using Event = enc_mesh_event_type;

encMeshWalk::encMeshWalk(encBuilder& builder, const encStage& stage,
                         const enc_alg_mesh_subtype& subtype)
    : builder_(builder),
      stage_(stage),
      subtype_(subtype),
      queue_(builder.mainQueue(stage.channel)) {}

uint32_t encMeshWalk::semaphore(const enc_mesh_event& event) const {
  return builder_.layout().eventSemaphore(stage_.level, static_cast<uint32_t>(event.evt_type));
}

void encMeshWalk::begin(enc_mesh_event_type type) {
  const enc_mesh_event* event = subtype_.find(type);
  NCCL_CHECK(event != nullptr);
  const bool isBarrier = type == Event::EVT_FUNCTION_BARRIER_FIRST_COLL ||
                         type == Event::EVT_FUNCTION_BARRIER_LAST_COLL;
  if (!isBarrier) {
    const auto number = static_cast<size_t>(event - subtype_.events.data());
    NCCL_CHECK(number >= next_);
    next_ = type == Event::EVT_SYNC ? 0 : number + 1;
  }
  current_ = event;
}

bool encMeshWalk::beginIfValid(enc_mesh_event_type type) {
  const enc_mesh_event* event = subtype_.find(type);
  if (event == nullptr || !event->valid) return false;
  begin(type);
  return true;
}

void encMeshWalk::transfer(encMove move) {
  NCCL_CHECK(current_ != nullptr);
  move.step = encMeshStep(current_->evt_type);
  builder_.transfer(queue_, move);
}

void encMeshWalk::signal() {
  NCCL_CHECK(current_ != nullptr);
  const encStep step = encMeshStep(current_->evt_type);
  const encLayout& layout = builder_.layout();
  const bool isSync = current_->evt_type == Event::EVT_SYNC;
  const uint32_t done = layout.semaphore(encPeerSemaphore::CollectiveDone, stage_.rank());
  for (const int member : current_->dst_neighbor_grp) {
    builder_.append(queue_,
                    encInc(step, stage_.ranks[member], isSync ? done : semaphore(*current_)));
  }
  for (const int member : current_->src_neighbor_grp) {
    const int rank = stage_.ranks[member];
    builder_.expect(isSync ? layout.semaphore(encPeerSemaphore::CollectiveDone, rank)
                           : semaphore(*current_));
  }
  pending_.push_back(current_);
}

void encMeshWalk::await() {
  for (const enc_mesh_event* event : std::exchange(pending_, {}))
    awaitEvent(*event);
}

void encMeshWalk::awaitEvent(const enc_mesh_event& event) {
  if (event.src_neighbor_grp.empty()) return;
  const encStep step = encMeshStep(event.evt_type);
  if (event.evt_type != Event::EVT_SYNC) {
    builder_.wait(queue_, step, stage_.ranks[event.src_neighbor_grp.front()], semaphore(event));
    return;
  }
  for (const int member : event.src_neighbor_grp) {
    const int rank = stage_.ranks[member];
    builder_.wait(queue_, step, rank,
                  builder_.layout().semaphore(encPeerSemaphore::CollectiveDone, rank));
  }
}

void encMeshWalk::barrier(enc_mesh_event_type type) {
  begin(type);
  signal();
  await();
}

}  // namespace nccom
