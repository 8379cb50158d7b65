#include "enc/ring_channel.h"

#include <utility>

namespace nccom {

encRingChannel::encRingChannel(encBuilder& builder, encStage stage, encPipe pipe, size_t queue,
                               int next, encRingGateways gateways)
    : builder_(builder),
      stage_(std::move(stage)),
      pipe_(std::move(pipe)),
      queue_(queue),
      next_(next),
      gateways_(gateways) {}

void encRingChannel::setStride(int64_t bytes) {
  stage_.input.stride = stage_.output.stride = bytes;
}

bool encRingChannel::receivesDirect(const encRingStep& step) const {
  return step.receive && step.received && stage_.writesOthers() && !pipe_.receivesRemote() &&
         !gateways_.receive;
}

bool encRingChannel::sendsDirect(const encRingStep& step) const {
  return step.send && step.sent && !sendsStaged();
}

void encRingChannel::step(const encRingStep& step) {
  if (step.bytes == 0) return;
  const bool fromOutput = receivesDirect(step), toOutput = sendsDirect(step);
  encMove move{.step = step.step, .bytes = step.bytes, .divide = step.divide};
  if (fromOutput) {
    pipe_.awaitSignal(step.step);
    move.sources.push_back(stage_.out(stage_.self, *step.output));
  } else if (step.receive) {
    pipe_.awaitData(step.step, step.bytes);
    move.sources.emplace_back(pipe_.data());
  }
  if (step.input) {
    if (stage_.scaleInputs) move.scaledSources = uint64_t{1} << move.sources.size();
    move.sources.push_back(stage_.in(stage_.self, *step.input));
  }
  // A rank that only passes on keeps nothing.
  if (step.output) move.destinations.push_back(stage_.out(stage_.self, *step.output));
  if (toOutput) {
    move.destinations.push_back(stage_.out(next_, *step.output));
  } else if (step.send) {
    pipe_.awaitRoom(step.step);
    move.destinations.emplace_back(pipe_.room());
  }
  builder_.transfer(queue_, move);
  if (toOutput) {
    builder_.peersWriteOutputs();
    pipe_.signal(step.step);
  } else if (step.send) {
    pipe_.sent(step.step, step.bytes);
  }
  if (fromOutput) {
    builder_.peersWriteOutputs();
  } else if (step.receive) {
    pipe_.taken(step.step);
  }
}

}  // namespace nccom
