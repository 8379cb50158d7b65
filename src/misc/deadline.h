// When a wait gives up: a point in time, or a flag that another thread raises.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace nccom {

/// Every wait takes one. Copyable; the flag, if any, outlives it.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// Expires `length` from now, or when `abortFlag` (borrowed, may be null) becomes non-zero.
  static Deadline after(std::chrono::milliseconds length,
                        const std::atomic<uint32_t>* abortFlag = nullptr) {
    return Deadline(Clock::now() + length, length, abortFlag);
  }
  /// Waits as long as it takes, or until `abortFlag` becomes non-zero.
  static Deadline never(const std::atomic<uint32_t>* abortFlag = nullptr) {
    return Deadline(Clock::time_point::max(), std::chrono::milliseconds::max(), abortFlag);
  }

  bool passed() const { return at_ != Clock::time_point::max() && Clock::now() >= at_; }
  // relaxed: the flag only ends the wait; whoever raises it publishes nothing through it
  bool aborted() const {
    return abortFlag_ != nullptr && abortFlag_->load(std::memory_order_relaxed) != 0;
  }

  /// The length it was made with, for messages.
  std::chrono::milliseconds length() const { return length_; }

  /// How long to sleep before looking again, in ms, at most `most`; 0 when passed. Short enough to
  /// notice the flag within kAbortPollMs.
  int sleepMs(int most = 1000) const {
    if (abortFlag_ != nullptr) most = std::min(most, kAbortPollMs);
    if (at_ == Clock::time_point::max()) return most;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, most));
  }

  static constexpr int kAbortPollMs = 20;

 private:
  Deadline(Clock::time_point at, std::chrono::milliseconds length,
           const std::atomic<uint32_t>* abortFlag)
      : at_(at), length_(length), abortFlag_(abortFlag) {}

  Clock::time_point at_;
  std::chrono::milliseconds length_;
  const std::atomic<uint32_t>* abortFlag_;
};

}  // namespace nccom
