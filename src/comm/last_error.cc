#include "comm/last_error.h"

#include <mutex>

namespace nccom {
namespace {

thread_local std::string threadError;

struct Shared {
  std::mutex mutex;  // guards text
  std::string text;
};

Shared& shared() {
  static Shared& theShared = *new Shared;  // NOLINT: outlives every thread that may still ask
  return theShared;
}

}  // namespace

void setLastError(const std::string& text) {
  threadError = text;
  Shared& process = shared();
  const std::lock_guard lock(process.mutex);
  process.text = text;
}

const char* lastError() {
  if (threadError.empty()) {
    Shared& process = shared();
    const std::lock_guard lock(process.mutex);
    threadError = process.text;
  }
  return threadError.c_str();
}

}  // namespace nccom
