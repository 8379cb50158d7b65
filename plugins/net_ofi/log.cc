#include "plugins/net_ofi/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace nccom::ofi {
namespace {

// release by init, acquire by every thread that logs: the host's logger is ready when it is seen
std::atomic<ncclDebugLogger_t> theLogger{nullptr};

constexpr int kMaxLine = 1024;

void say(ncclDebugLogLevel level, const char* format, va_list args) {
  const ncclDebugLogger_t logger = theLogger.load(std::memory_order_acquire);  // pairs: setLogger
  if (logger == nullptr) return;
  char text[kMaxLine];
  vsnprintf(text, sizeof text, format, args);  // NOLINT: the callers have started `args`
  logger(level, NCCL_INIT | NCCL_NET, "NET/OFI", 0, "%s", text);
}

}  // namespace

void setLogger(ncclDebugLogger_t logger) {
  theLogger.store(logger, std::memory_order_release);  // pairs with say()
}

ncclResult_t failed(ncclResult_t code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  say(NCCL_LOG_WARN, format, args);
  va_end(args);
  return code;
}

void inform(const char* format, ...) {
  va_list args;
  va_start(args, format);
  say(NCCL_LOG_INFO, format, args);
  va_end(args);
}

}  // namespace nccom::ofi
