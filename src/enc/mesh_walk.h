// encMeshWalk: composes the events of a subtype, in their order. Each event waits for the arrivals
// of the one before, makes its transfers, and raises the semaphores of those it tells. Events that
// an operation has no use for are passed over, on all ranks alike.
//
//   begin(type)     WAIT for what the event before said must arrive
//   transfer(...)   TRANSFER
//   signal()        INC at each member of dst_neighbor_grp; src_neighbor_grp will arrive
//
// A semaphore counts the arrivals of one type of event at one level, over all passes of all
// operations. Passes stay apart since nobody raises one again before all of the pass before have
// arrived and been heard of: EVT_SYNC, which all tell all, ends each pass.
#pragma once

#include <cstdint>

#include "enc/builder.h"
#include "enc/mesh_event.h"
#include "enc/stage.h"

namespace nccom {

class encMeshWalk {
 public:
  /// `stage` and `subtype` must outlive the walk. All of it goes to the stage's first queue.
  encMeshWalk(encBuilder& builder, const encStage& stage, const enc_alg_mesh_subtype& subtype);

  encBuilder& builder() { return builder_; }
  size_t queue() const { return queue_; }
  bool has(enc_mesh_event_type type) const { return subtype_.find(type) != nullptr; }
  /// Goes on to an event of the subtype, which comes after the current one. After EVT_SYNC the
  /// next pass begins at the first.
  void begin(enc_mesh_event_type type);
  /// The same if the event would do anything; else false, and it is passed over.
  bool beginIfValid(enc_mesh_event_type type);
  /// Tagged as the current event.
  void transfer(encMove move);
  void signal();
  /// Waits for what the last signal() said must arrive.
  void await();
  /// begin, signal, await: for events without transfers.
  void barrier(enc_mesh_event_type type);

 private:
  uint32_t semaphore(const enc_mesh_event& event) const;

  encBuilder& builder_;
  const encStage& stage_;
  const enc_alg_mesh_subtype& subtype_;
  const size_t queue_;
  size_t next_ = 0;                          // events before it are past
  const enc_mesh_event* current_ = nullptr;  // begun
  const enc_mesh_event* pending_ = nullptr;  // signalled, not awaited
};

}  // namespace nccom
