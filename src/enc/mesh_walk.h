// encMeshWalk: composes the events of a subtype, in their order, as wait, transfers, signal. Events
// that an operation has no use for are passed over, on all ranks alike.
//
//   begin(type)     the next event
//   await()         WAIT for the arrivals of all events that were signalled before
//   transfer(...)   TRANSFER, tagged with the event
//   signal()        INC at each member of dst_neighbor_grp; src_neighbor_grp will arrive
//
// A semaphore counts the arrivals of one type of event at one level, over all passes of all
// operations. Passes stay apart since EVT_SYNC ends each, which all tell all: whoever has heard of
// all of them knows that everything that they raised before has been raised. EVT_SYNC itself cannot
// be a count, as nothing comes after it: there each peer has a semaphore of its own.
#pragma once

#include <cstdint>
#include <vector>

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
  /// next pass begins at the first. Barriers of functions may come anywhere.
  void begin(enc_mesh_event_type type);
  /// The same if there is such an event and it would do anything; else it is passed over.
  bool beginIfValid(enc_mesh_event_type type);
  void transfer(encMove move);
  void signal();
  void await();
  /// begin, signal, await: an event without transfers.
  void barrier(enc_mesh_event_type type);

 private:
  uint32_t semaphore(const enc_mesh_event& event) const;
  void awaitEvent(const enc_mesh_event& event);

  encBuilder& builder_;
  const encStage& stage_;
  const enc_alg_mesh_subtype& subtype_;
  const size_t queue_;
  size_t next_ = 0;                             // events before it are past
  const enc_mesh_event* current_ = nullptr;     // begun
  std::vector<const enc_mesh_event*> pending_;  // signalled, not awaited
};

}  // namespace nccom
