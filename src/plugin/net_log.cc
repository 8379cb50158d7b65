#include "plugin/net_log.h"

#include <cstdarg>
#include <cstdio>
#include <utility>

#include "misc/log.h"

namespace nccom {
namespace {

// Of the thread, because the ABI's logger has no argument of the caller's to put it into.
thread_local std::string lastWarning;

LogLevel levelOf(ncclDebugLogLevel level) {
  switch (level) {
    case NCCL_LOG_NONE:
      return LogLevel::None;
    case NCCL_LOG_VERSION:
      return LogLevel::Version;
    case NCCL_LOG_WARN:
      return LogLevel::Warn;
    case NCCL_LOG_INFO:
      return LogLevel::Info;
    case NCCL_LOG_ABORT:
      return LogLevel::Abort;
    case NCCL_LOG_TRACE:
      return LogLevel::Trace;
  }
  return LogLevel::Trace;  // a level of a later ABI
}

const char* codeName(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "ncclSuccess";
    case ncclUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case ncclSystemError:
      return "ncclSystemError";
    case ncclInternalError:
      return "ncclInternalError";
    case ncclInvalidArgument:
      return "ncclInvalidArgument";
    case ncclInvalidUsage:
      return "ncclInvalidUsage";
    case ncclRemoteError:
      return "ncclRemoteError";
    case ncclInProgress:
      return "ncclInProgress";
    default:
      return nullptr;
  }
}

std::string withoutNewlines(std::string text) {
  while (text.ends_with('\n'))
    text.pop_back();
  return text;
}

}  // namespace

void netPluginLog(ncclDebugLogLevel level, unsigned long subsystems, const char* file, int line,
                  const char* format, ...) {
  const LogLevel ours = levelOf(level);
  const uint64_t subsys = subsystems | kLogNet;
  if (ours != LogLevel::Warn && !logEnabled(ours, subsys)) return;
  va_list args;
  va_start(args, format);
  const std::string text = withoutNewlines(formatted(format, args));
  va_end(args);
  if (ours == LogLevel::Warn) lastWarning = text;
  const std::string where =
      file != nullptr ? std::string(file) + ":" + std::to_string(line) + " " : std::string();
  logText(ours, subsys, (where + text).c_str());
}

std::string takeNetPluginWarning() {
  return std::exchange(lastWarning, {});
}

void forgetNetPluginWarning() {
  lastWarning.clear();
}

Error netCallFailed(const std::string& net, const char* call, ncclResult_t code) {
  const char* name = codeName(code);
  const std::string warning = takeNetPluginWarning();
  const std::string shown = name != nullptr ? name : "unknown code " + std::to_string(code);
  return fail(name != nullptr && code != ncclSuccess ? code : ncclInternalError,
              "net %s: %s failed with %s%s%s", net.c_str(), call, shown.c_str(),
              warning.empty() ? "" : ": ", warning.c_str());
}

}  // namespace nccom
