// The verifier: runs the programs of all ranks symbolically, and proves for every order of events
// what a run can only show for one.
//
// It checks of one operation, or of a sequence of them on one communicator (semaphores go on
// counting, scratch is used again):
//   a. every output element holds each rank's contribution exactly once, or the right rank's data;
//   b. nothing is read before it is written;
//   c. no two accesses to the same bytes, one of them a write, are without order. Order comes from
//      semaphores: an increment releases, a wait acquires those increments without which it cannot
//      be satisfied; and from messages: a post releases to who reads them, their reading to the
//      post that waits for it;
//   d. no deadlock;
//   e. addresses stay in their buffers and within the host, scratch keeps one writer for ever, and
//      links lead from where a transfer reads to where it writes (links.h);
//   f. each semaphore gets the increments that its owner declares, waits can be satisfied, network
//      sends and receives of a connection pair up in number and size;
//   g. nobody touches a rank's INPUT or OUTPUT before its program started or after it ended, nor
//      its work area before knowing that it started; and the network is done with what it posted
//      when it ends;
//   h. each semaphore has one writer, or is a count of passes: whoever raises it for the next one
//      knows all increments that a wait for the last one relies on; and one queue of its owner
//      waits for it;
//   i. messages are read once, whole and in order, and none is left; what goes by value is what was
//      in the buffer at the post;
//   j. what AllReduce leaves on all ranks was added in the same order: it is equal bit by bit.
// Memory is kept as intervals with symbolic contents, so the cost does not depend on bytes. What a
// queue knows of others is shared with whom it has it from (verify_clock.h), so the cost of a
// descriptor grows with what is new to its queue, not with the number of ranks.
//
// Repeated blocks. Of a block with many iterations only the first kHeadIterations and the last
// kTailIterations are run; between them the queue makes the increments of the others at once. What
// is skipped is no different from what is run: descriptors are affine in the iteration, scratch
// addresses do not depend on it, and INPUT and OUTPUT move by the same stride, by at least what one
// iteration touches, and no semaphore counts passes (checked; else all iterations are run). Hence
// each skipped iteration is the translation of one in the head: its contents are right if theirs
// are, and it can only conflict with the iterations next to it, as theirs do. Conflicts between
// iterations further apart share scratch bytes with all iterations in between, each ordered with
// the next. The jump adds order, but only across itself: head, tail, and what follows a block keep
// their own. If anything fails in a run with jumps, all iterations are run before it is reported,
// as far as kMaxDescriptors allows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "enc/comm_info.h"
#include "enc/program.h"
#include "misc/result.h"

namespace nccom {

struct encVerifyOptions {
  bool inPlace = false;  // OUTPUT and INPUT share memory where NCCL's rules for in place allow it
  bool jump = true;      // skip the middle of long repeated blocks
  bool links = true;     // where the platform is known, bytes of transfers go over its links
};

/// Programs of all ranks, by rank, for one operation.
using encOperation = std::vector<encProgram>;

/// @param info        of any rank of the communicator
/// @param operations  in the order in which every rank launches them
/// @error ncclInvalidArgument  info or a task are wrong by themselves
/// @error ncclInternalError  the first violation: rank, queue, block, descriptor, step, bytes, and
///                           what was expected
Status encVerify(const enc_comm_info& info, std::span<const encOperation> operations,
                 const encVerifyOptions& options = {});

}  // namespace nccom
