// encKangaringPath: one rank's part in one path of a kangaring.
//
// A rank's semaphores of the path, and who raises them:
//   received   prev: a slot of ours is filled, or a piece of OUTPUT written
//   credit     next: our buffers may be written (once, first); then, for each slot, it is free
//   ready      the rank behind us in our die: its buffers may be used, and those of all behind it
//   done       our primary: has finished with our buffers
// Ready runs along the die, last secondary to primary, so that each semaphore has one raiser.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "enc/builder.h"
#include "enc/chunking.h"
#include "enc/pipe.h"
#include "enc/stage.h"
#include "graph/kangaring.h"

namespace nccom {

/// A path as one member sees it.
struct encKangaringCycle {
  encKangaringCycle(const KangaringPath& path, int self);

  std::vector<std::vector<int>> dies;  // in the order of the cycle: members, the primary first
  size_t own = 0;                      // our die
  size_t place = 0;                    // in it; 0: we are its primary

  /// The die that lies so many hops before ours.
  size_t upstream(size_t hops) const { return (own + dies.size() - hops) % dies.size(); }
  const std::vector<int>& die() const { return dies[own]; }
};

class encKangaringPath {
 public:
  /// @param id  number of the path
  encKangaringPath(encBuilder& builder, encStage stage, const KangaringPath& path, int id,
                   size_t queue);

  bool isPrimary() const { return cycle_.place == 0; }
  /// Tells those who use our buffers that they may, and hears it of others.
  void open();
  /// All steps for one pass over the message, of a primary.
  void pass(const encPass& pass);
  /// Waits until nobody uses our buffers any more.
  void close();
  /// Addresses of INPUT and OUTPUT in passes that follow move by so many bytes an iteration.
  void setStride(int64_t bytes) { stage_.input.stride = stage_.output.stride = bytes; }

 private:
  /// Where a piece of a chunk lies in INPUT and OUTPUT.
  struct Piece {
    int owner = 0;  // member; with parts
    uint64_t input = 0, output = 0, bytes = 0;
  };
  /// Chunks go once around the cycle: those of the ranks at one place of their dies.
  struct Round {
    const encPass& pass;
    size_t place = 0;
  };
  void eachPiece(const Round& round, size_t hops, const std::function<void(const Piece&)>& issue);
  encMove fold(encStep step, const Piece& piece, bool receives);
  void reduce(const Round& round, size_t hops);
  void finishSum(const Round& round);
  void gatherOwn(const Round& round);
  void gather(const Round& round, size_t hops);
  void walk(const Round& round);
  void toDie(const Piece& piece, bool self, encMove& move) const;
  void toNext(const encMove& move, const Piece& piece);
  bool handshakes() const;
  bool gathers() const { return stage_.op != encOp::ReduceScatter; }
  /// Others use so many bytes of a buffer of ours.
  void expose(const encPages& pages, uint64_t bytes);
  uint32_t semaphore(encPipeSemaphore which) const { return map_.semaphore(which); }
  int nextMember() const { return cycle_.dies[(cycle_.own + 1) % cycle_.dies.size()][0]; }
  int prevMember() const { return cycle_.dies[cycle_.upstream(1)][0]; }

  encBuilder& builder_;
  encStage stage_;
  const encKangaringCycle cycle_;
  const int id_;
  const size_t queue_;
  const encPipeMap map_;
  encPipe pipe_;
};

}  // namespace nccom
