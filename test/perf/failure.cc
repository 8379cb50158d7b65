#include "test/perf/failure.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace nccom::perf {

Status did(ncclResult_t result, const std::string& call) {
  if (result == ncclSuccess) return Ok{};
  const std::string detail = ncclGetLastError(nullptr);
  // The library's text begins with the call.
  return fail(result, "%s: %s", ncclGetErrorString(result),
              detail.empty() ? call.c_str() : detail.c_str());
}

void Failure::stop(const Error& error) {
  // Relaxed: nothing is published, only one thread may pass.
  while (said_.test_and_set(std::memory_order_relaxed))
    pause();
  fflush(stdout);
  const std::string text = program_ + ": " + error.message + "\n";
  fwrite(text.data(), 1, text.size(), stderr);
  fflush(stderr);
  processes_.abort(1);
  std::_Exit(1);  // not reached, but the compiler cannot know that of a virtual function
}

}  // namespace nccom::perf
