#include "enc/verify.h"

#include <algorithm>

#include "enc/verify_run.h"

namespace nccom {
namespace {

/// A run of all iterations may have this many descriptors, after a run with jumps has failed.
constexpr uint64_t kMaxDescriptors = 20'000'000;

/// Descriptors of all iterations; kMaxDescriptors + 1 stands for all that is more.
uint64_t descriptors(const encProgram& program) {
  uint64_t count = 0;
  for (const encQueue& queue : program.queues) {
    for (const encBlock& block : queue.blocks) {
      count += std::min(block.repeat, kMaxDescriptors + 1) * block.descs.size();
    }
  }
  return std::min(count, kMaxDescriptors + 1);
}

uint64_t descriptors(std::span<const encOperation> operations) {
  uint64_t count = 0;
  for (const encOperation& operation : operations) {
    for (const encProgram& program : operation)
      count += descriptors(program);
  }
  return count;
}

}  // namespace

Result<uint64_t> encRun(const encVerifyWorld& world) {
  encVerifyRun run(world, world.options.jump);
  const Status status = run.run();
  if (status.ok()) return run.steps();
  if (!run.jumped() || descriptors(world.operations) > kMaxDescriptors) return status.error();
  encVerifyRun whole(world, false);
  TRY(whole.run());
  return whole.steps();
}

Status encVerify(const enc_comm_info& info, std::span<const encOperation> operations,
                 const encVerifyOptions& options) {
  const encVerifyWorld world = TRY(encInspect(info, operations, options));
  TRY(encRun(world));
  return Ok{};
}

}  // namespace nccom
