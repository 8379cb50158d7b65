// The C handles of communicators.
#include <mutex>
#include <utility>

#include "comm/comm.h"
#include "comm/process.h"

// What ncclComm_t points to. Never freed: a handle that is used after its communicator was
// destroyed is an error, not a crash. 64 bytes a communicator.
struct ncclComm {
  static constexpr uint64_t kMagic = 0x6d6d6f43204c4343;  // "CCL Comm"
  uint64_t magic = kMagic;
  std::mutex mutex;  // guards body
  std::shared_ptr<nccom::Communicator> body;
};

namespace nccom {
namespace {

/// Keeps the handles reachable.
struct Handles {
  std::mutex mutex;  // guards all
  std::vector<std::unique_ptr<ncclComm>> all;
};

Handles& handles() {
  static Handles& theHandles = *new Handles;  // NOLINT: see ncclComm
  return theHandles;
}

Status check(ncclComm_t handle) {
  if (handle == nullptr) return fail(ncclInvalidArgument, "comm is NULL");
  if (Process::inForkedChild()) {
    return fail(ncclInvalidUsage,
                "comm %p is the parent's: this process was forked from the one "
                "that made it",
                static_cast<void*>(handle));
  }
  if (handle->magic != ncclComm::kMagic) {
    return fail(ncclInvalidArgument, "comm %p is not a communicator", static_cast<void*>(handle));
  }
  return Ok{};
}

template <class Calls>
std::optional<Status> repeatHeld(ncclComm_t handle, const Calls& calls) {
  if (!check(handle).ok()) return std::nullopt;
  // Held for the call, which does not wait: cheaper than a share of the communicator.
  const std::lock_guard lock(handle->mutex);
  return handle->body == nullptr ? std::nullopt : handle->body->repeat(calls);
}

}  // namespace

ncclComm_t makeHandle(std::shared_ptr<Communicator> comm) {
  auto handle = std::make_unique<ncclComm>();
  handle->body = std::move(comm);
  Handles& registry = handles();
  const std::lock_guard lock(registry.mutex);
  registry.all.push_back(std::move(handle));
  return registry.all.back().get();
}

Result<std::shared_ptr<Communicator>> commOf(ncclComm_t handle) {
  TRY(check(handle));
  const std::lock_guard lock(handle->mutex);
  if (handle->body != nullptr) return handle->body;
  return fail(ncclInvalidArgument, "comm %p has been destroyed", static_cast<void*>(handle));
}

std::optional<Status> repeatOn(ncclComm_t handle, const CollectiveCall& call) {
  return repeatHeld(handle, call);
}

std::optional<Status> repeatOn(ncclComm_t handle, std::span<const MessageCall> calls) {
  return repeatHeld(handle, calls);
}

Result<std::shared_ptr<Communicator>> takeHandle(ncclComm_t handle) {
  TRY(check(handle));
  const std::lock_guard lock(handle->mutex);
  if (handle->body != nullptr) return std::exchange(handle->body, nullptr);
  return fail(ncclInvalidArgument, "comm %p has been destroyed already",
              static_cast<void*>(handle));
}

}  // namespace nccom
