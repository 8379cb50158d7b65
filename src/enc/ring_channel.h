// encRingChannel: one rank's part in a ring of a stage. Turns the ring's steps (send,
// recv_reduce_send, recv_copy_send ...) into descriptors.
//
// Finished data goes directly into next's OUTPUT where next is on our host and its OUTPUT may be
// written by others (encStage::writesOthers); everything else goes through the slots of the pipe.
#pragma once

#include <cstdint>
#include <optional>

#include "enc/pipe.h"
#include "enc/stage.h"

namespace nccom {

/// One step for one half chunk. Offsets are in the stage's INPUT and OUTPUT.
struct encRingStep {
  encStep step = encStep::Send;
  bool receive = false;                           // a source is what prev sent
  bool send = false;                              // next gets the result
  std::optional<uint64_t> input = std::nullopt;   // the other source
  std::optional<uint64_t> output = std::nullopt;  // the other destination
  bool received = false;  // what prev sent is finished: it may be in our OUTPUT at `output` already
  bool sent = false;      // the result is finished: it belongs in next's OUTPUT at `output`
  uint64_t bytes = 0;     // 0: nothing is sent, on either side
  bool divide = false;
};

/// Which of a rank's two hops end at gateways: finished data goes through slots there, too.
struct encRingGateways {
  bool receive = false, send = false;
};

class encRingChannel {
 public:
  /// @param pipe  with next and prev of the ring, or -1 where this rank has none in this operation
  /// @param next  member
  encRingChannel(encBuilder& builder, encStage stage, encPipe pipe, size_t queue, int next,
                 encRingGateways gateways);

  /// Before the first step, if any of them goes through slots.
  void begin() { pipe_.begin(); }
  void step(const encRingStep& step);
  /// Addresses of INPUT and OUTPUT in steps that follow move by so many bytes an iteration.
  void setStride(int64_t bytes);
  /// Whether even finished data goes through slots.
  bool sendsStaged() const {
    return pipe_.sendsRemote() || gateways_.send || !stage_.writesOthers();
  }
  void finish() { pipe_.finish(); }

 private:
  bool receivesDirect(const encRingStep& step) const;
  bool sendsDirect(const encRingStep& step) const;

  encBuilder& builder_;
  encStage stage_;
  encPipe pipe_;
  const size_t queue_;
  const int next_;
  const encRingGateways gateways_;
};

}  // namespace nccom
