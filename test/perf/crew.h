// The threads of this process, and through them those of all others: meeting points of the test.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "test/perf/options.h"
#include "test/perf/processes.h"

namespace nccom::perf {

/// Every call is made by all threads of all processes, and returns when all have made it.
class Crew {
 public:
  /// @param threads  of each process
  Crew(int threads, Processes& processes) : threads_(threads), processes_(processes) {}

  void barrier();
  double sum(double value);
  /// @param thread  index of the calling thread in its process
  double average(double value, Average how, int thread);

 private:
  template <class Join, class Finish>
  double meet(Join join, Finish finish);
  double combine(double value, Combine how);

  const int threads_;
  Processes& processes_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable met_;
  int arrived_ = 0;
  uint64_t meetings_ = 0;
  double partial_ = 0;
  double result_ = 0;
};

}  // namespace nccom::perf
