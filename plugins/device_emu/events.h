// The events of a process, by handle.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "plugins/device_emu/status.h"
#include "plugins/device_emu/stream.h"

namespace nccom::emu {

/// Thread-safe. A handle that was destroyed, or never given out, is an error. An event that is
/// still in a stream lives until it is reached.
class EventTable {
 public:
  void* create() {
    auto event = std::make_shared<Event>();
    void* handle = event.get();
    const std::lock_guard lock(mutex_);
    events_.emplace(handle, std::move(event));
    return handle;
  }

  Result<std::shared_ptr<Event>> find(void* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = events_.find(handle);
    if (found != events_.end()) return found->second;
    return fail(ncclInvalidArgument, "%p is not an event", handle);
  }

  Status destroy(void* handle) {
    const std::lock_guard lock(mutex_);
    if (events_.erase(handle) != 0) return Ok{};
    return fail(ncclInvalidArgument, "%p is not an event", handle);
  }

 private:
  std::mutex mutex_;  // guards events_
  std::map<void*, std::shared_ptr<Event>> events_;
};

}  // namespace nccom::emu
