// Watches the run from a thread of its own: shows on a terminal what takes long, and ends what
// takes longer than the user allows.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "test/perf/failure.h"

namespace nccom::perf {

class Watch {
 public:
  /// @param shows           whether stderr is to show progress
  /// @param timeoutSeconds  for each task; 0: none
  Watch(Failure& failure, bool shows, int timeoutSeconds);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// A task begins; it ends when the next one does, or with idle().
  void begin(const std::string& task);
  /// Also removes what was shown, so that a line can be printed.
  void idle();

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void look();
  void clear();

  Failure& failure_;
  const bool shows_;
  const int timeoutSeconds_;
  const Clock::time_point started_ = Clock::now();
  std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  bool over_ = false;
  bool busy_ = false;
  bool shown_ = false;
  std::string task_;
  Clock::time_point begun_;
  std::thread thread_;  // runs only if there is something to do
};

}  // namespace nccom::perf
