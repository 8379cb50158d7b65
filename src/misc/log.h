// The log: one line an event, on stderr or in NCCL_DEBUG_FILE, never on stdout.
//
// A line is `host:pid:tid [rank] NCCL LEVEL [SUBSYS] text`. No argument is evaluated when the level
// is off. The log is the one process-wide object of misc.
#pragma once

#include <cstdint>
#include <string>

namespace nccom {

// Values are NCCL's ncclDebugLogLevel and ncclDebugLogSubSys: plugins pass them.
enum class LogLevel : uint8_t { None = 0, Version = 1, Warn = 2, Info = 3, Abort = 4, Trace = 5 };

enum LogSubsys : uint64_t {
  kLogInit = 1,
  kLogColl = 2,
  kLogP2p = 4,
  kLogShm = 8,
  kLogNet = 16,
  kLogGraph = 32,
  kLogTuning = 64,
  kLogEnv = 128,
  kLogAlloc = 256,
  kLogCall = 512,
  kLogProxy = 1024,
  kLogNvls = 2048,
  kLogBootstrap = 4096,
  kLogReg = 8192,
  kLogProfile = 16384,
  kLogRas = 32768,
  kLogDestroy = 65536,
  kLogAll = ~0ULL,
};

struct LogConfig {
  LogLevel level = LogLevel::None;
  uint64_t subsys = kLogInit | kLogBootstrap | kLogEnv;
  std::string file;  // as NCCL_DEBUG_FILE: %h host name, %p pid; empty: stderr
};

/// Applies a configuration; a file that cannot be opened is said once on stderr, which then serves.
void logConfigure(const LogConfig& config);

bool logEnabled(LogLevel level, uint64_t subsys);

[[gnu::format(printf, 3, 4)]] void logWrite(LogLevel level, uint64_t subsys, const char* format,
                                            ...);

/// Writes an already formatted text; the logger that plugins get ends here.
void logText(LogLevel level, uint64_t subsys, const char* text);

/// Marks this thread's lines with a rank; -1: none.
void logSetRank(int rank);

}  // namespace nccom

#define WARN(...) ::nccom::logWrite(::nccom::LogLevel::Warn, ::nccom::kLogAll, __VA_ARGS__)
#define INFO(subsys, ...)                                                \
  do {                                                                   \
    if (::nccom::logEnabled(::nccom::LogLevel::Info, (subsys)))          \
      ::nccom::logWrite(::nccom::LogLevel::Info, (subsys), __VA_ARGS__); \
  } while (0)
#define TRACE(subsys, ...)                                                \
  do {                                                                    \
    if (::nccom::logEnabled(::nccom::LogLevel::Trace, (subsys)))          \
      ::nccom::logWrite(::nccom::LogLevel::Trace, (subsys), __VA_ARGS__); \
  } while (0)
