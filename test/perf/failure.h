// How a program ends when something failed: one text on stderr, and no thread or process is left.
#pragma once

#include <atomic>
#include <string>

#include "include/nccl.h"
#include "misc/result.h"
#include "test/perf/processes.h"

namespace nccom::perf {

/// Makes a failed call of the library an Error that says what the library says.
/// @param call  its name, and where it helps, for which rank
Status did(ncclResult_t result, const std::string& call);
inline Status did(ncclResult_t result, const char* call) {
  return result == ncclSuccess ? Status(Ok{}) : did(result, std::string(call));
}

class Failure {
 public:
  Failure(std::string program, Processes& processes)
      : program_(std::move(program)), processes_(processes) {}

  /// Prints the error and ends all processes with status 1. Of several threads the first speaks.
  [[noreturn]] void stop(const Error& error);

 private:
  const std::string program_;
  Processes& processes_;
  std::atomic_flag said_;
};

}  // namespace nccom::perf
