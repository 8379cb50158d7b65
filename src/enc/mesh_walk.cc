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
  // Barriers of functions stand at the end of the list, but around the others.
  const bool isBarrier = type == Event::EVT_FUNCTION_BARRIER_FIRST_COLL ||
                         type == Event::EVT_FUNCTION_BARRIER_LAST_COLL;
  if (!isBarrier) {
    const auto number = static_cast<size_t>(event - subtype_.events.data());
    NCCL_CHECK(number >= next_);
    next_ = type == Event::EVT_SYNC ? 0 : number + 1;
  }
  await();
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
  NCCL_CHECK(current_ != nullptr && pending_ == nullptr);
  const encStep step = encMeshStep(current_->evt_type);
  for (const int member : current_->dst_neighbor_grp)
    builder_.append(queue_, encInc(step, stage_.ranks[member], semaphore(*current_)));
  builder_.expect(semaphore(*current_), current_->src_neighbor_grp.size());
  pending_ = current_;
}

void encMeshWalk::await() {
  if (pending_ == nullptr) return;
  const enc_mesh_event& event = *std::exchange(pending_, nullptr);
  if (event.wait_val == 0) return;
  builder_.wait(queue_, encMeshStep(event.evt_type), stage_.ranks[event.src_neighbor_grp.front()],
                semaphore(event));
}

void encMeshWalk::barrier(enc_mesh_event_type type) {
  begin(type);
  signal();
  await();
}

}  // namespace nccom
