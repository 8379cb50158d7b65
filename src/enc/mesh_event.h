// Events, and the subtypes that they form: what a mesh is made of.
//
// A mesh is built once for a communicator, and composed for each operation: whoever composes walks
// the events of a subtype in their order (mesh_walk.h). An event says whom we tell, and of whom we
// hear, by members of the stage; ranks agree without talking since all of them build all of it by
// the same rules: b is told by a exactly if a hears of b (encCheckMeshes).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "enc/alg_limits.h"
#include "enc/alg_types.h"
#include "enc/mesh_types.h"
#include "misc/result.h"

namespace nccom {

enum class encMeshTrigger : uint8_t {
  Empty,   // recorded, but nothing happens
  Direct,  // a semaphore of each destination is raised
  Dma,     // so it is, after transfers
};

// Fields of the runtime's that nothing here has a use for are left out: in-place support (all of
// our subtypes have it), routing through remote virtual links, iterations of AlltoAll, shares of
// engine groups. Its subtypes of RDH are an algorithm of its own here (intra_rdh.h).
//
// NOLINTBEGIN(readability-identifier-naming): the runtime's names
struct enc_mesh_event {
  std::vector<int> src_neighbor_grp;  // members whose arrivals are awaited
  std::vector<int> dst_neighbor_grp;  // members that are told
  std::vector<int> net_neighbor_grp;  // members that are told, and heard of, through the proxy
  bool valid = false;
  enc_mesh_event_type evt_type = enc_mesh_event_type::EVT_SYNC;
  encMeshTrigger trigger = encMeshTrigger::Empty;
  int wait_val = 0;        // arrivals to wait for: neither bytes nor folds
  int proxy_wait_val = 0;  // 2 where the network takes part
  /// DMA rings that the runtime spreads the event's transfers over, where that is known; 0: it is
  /// not. Recorded only: here an event's transfers are in one queue.
  int num_fold = 0;
  bool operator==(const enc_mesh_event&) const = default;
};

struct enc_alg_mesh_subtype {
  std::string name;  // of its size window
  std::vector<enc_mesh_event> events;
  std::array<uint64_t, kEncOps> op_max_limit{}, op_min_limit{};
  std::array<uint64_t, kEncOps> op_max_limit_sbuf{}, op_min_limit_sbuf{};
  bool is_use_chnl_buffer = false;  // data waits in work areas
  bool is_single_step_mesh = false;
  bool is_two_step_pod_mesh = false;
  bool is_latency_opt = false;
  bool is_bw_opt = false;
  /// Of the second pass, for larger messages: the runtime gives its events more DMA rings. Recorded
  /// only, as num_fold: the two passes differ in their limits.
  bool increase_dma = false;

  int num_events() const { return static_cast<int>(events.size()); }
  /// nullptr: it has none of the type.
  const enc_mesh_event* find(enc_mesh_event_type type) const;
  bool composes(enc_op_type op) const { return op_max_limit[static_cast<size_t>(op)] > 0; }
  /// More than the minimum (or a minimum of 0), at most the maximum.
  bool takes(enc_op_type op, uint64_t bytes) const;
  /// The limits of a window for some of its operations; the others keep theirs.
  void limit(const encWindow& window, encOpMask ops);
  bool operator==(const enc_alg_mesh_subtype&) const = default;
};

struct enc_alg_mesh {
  enc_alg_mesh_type mesh_type = enc_alg_mesh_type::Invalid;
  int group_id = -1;
  int num_groups = 0;
  int src_devs = 0;                        // peers that no network lies between
  uint64_t buffer_max = 0;                 // of work area that it may use
  uint64_t max_chbuf_space_per_group = 0;  // for what one group deposits
  uint64_t max_chbuf_space_per_rank = 0;   // for what one rank deposits: single-step
  bool double_buffer = true;               // handshakes are skipped where no work area is touched
  bool use_net = false;
  std::vector<enc_alg_mesh_subtype> mesh_subtype;  // slots that are taken
  bool operator==(const enc_alg_mesh&) const = default;
};
// NOLINTEND(readability-identifier-naming)

/// An event in words: whom it tells and whom it hears of. Both lists empty: it is recorded invalid.
enc_mesh_event encMeshEvent(enc_mesh_event_type type, encMeshTrigger trigger,
                            std::vector<int> sources, std::vector<int> destinations);

/// @error ncclInternalError  a type that the subtype has already, more than 64 events, or one that
///                           waits for the proxy but for no arrival
Status encAddMeshEvent(enc_alg_mesh_subtype& subtype, enc_mesh_event event);

/// Takes the next slot.
/// @error ncclInternalError  all 20 are taken, or the subtype has no events
Status encAddMeshSubtype(enc_alg_mesh& mesh, enc_alg_mesh_subtype subtype);

/// That what waits in a work area fits into it whole: no operation's limit exceeds the buffer.
/// @error ncclInternalError  the operation, its limit, and the buffer
Status encCheckMeshLimits(const enc_alg_mesh_subtype& subtype, uint64_t bufferBytes);

/// Appends the barriers before the first, and after the last collective of a function to all
/// subtypes: `others` are told and awaited.
Status encAppendFnBarriers(enc_alg_mesh& mesh, const std::vector<int>& others);

/// The subtype for an operation of a size: the first that takes it; where none does, the last that
/// composes the operation, in windows.
/// @param singleStep  of those that do it in one step, or of the others
/// @error ncclInvalidArgument  there is none
Result<const enc_alg_mesh_subtype*> encMeshSubtypeFor(const enc_alg_mesh& mesh, enc_op_type op,
                                                      uint64_t bytes, bool singleStep);

/// That the meshes of all members agree: equal shapes, and who is told hears of it.
/// @error ncclInternalError  the subtype, the event, and the two members
Status encCheckMeshes(const std::vector<enc_alg_mesh>& meshes);

}  // namespace nccom
