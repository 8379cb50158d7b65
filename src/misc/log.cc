#include "misc/log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string_view>

#include "misc/fd.h"
#include "misc/result.h"

namespace nccom {
namespace {

struct Sink {
  std::mutex mutex;  // guards file
  UniqueFd file;
  // relaxed: a reader may act on the old level for a line or two, nothing hangs on it
  std::atomic<LogLevel> level{LogLevel::None};
  std::atomic<uint64_t> subsys{0};
};

Sink& sink() {
  static Sink& theSink = *new Sink;  // NOLINT: lives as long as any thread that may still log
  return theSink;
}

thread_local int threadRank = -1;

std::string hostName() {
  char name[256] = "?";
  gethostname(name, sizeof name - 1);
  return std::string(name, strcspn(name, "."));
}

std::string expandPath(const std::string& pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || (next != 'h' && next != 'p' && next != '%')) {
      path += pattern[i];
      continue;
    }
    ++i;
    if (next == 'h') path += hostName();
    if (next == 'p') path += std::to_string(getpid());
    if (next == '%') path += '%';
  }
  return path;
}

const char* levelName(LogLevel level) {
  switch (level) {
    case LogLevel::None:
      return "NONE";
    case LogLevel::Version:
      return "VERSION";
    case LogLevel::Warn:
      return "WARN";
    case LogLevel::Info:
      return "INFO";
    case LogLevel::Abort:
      return "ABORT";
    case LogLevel::Trace:
      return "TRACE";
  }
  return "?";
}

void writeAll(int fd, const std::string& line) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = write(fd, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

}  // namespace

void logConfigure(const LogConfig& config) {
  Sink& out = sink();
  const std::lock_guard lock(out.mutex);
  out.level.store(config.level, std::memory_order_relaxed);
  out.subsys.store(config.subsys, std::memory_order_relaxed);
  out.file.reset();
  if (config.file.empty() || config.level == LogLevel::None) return;
  const std::string path = expandPath(config.file);
  out.file.reset(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!out.file) {
    const int error = errno;
    fprintf(stderr, "NCCL WARN NCCL_DEBUG_FILE '%s' cannot be opened: %s; logging to stderr\n",
            path.c_str(), strerror(error));
  }
}

bool logEnabled(LogLevel level, uint64_t subsys) {
  const Sink& out = sink();
  if (level > out.level.load(std::memory_order_relaxed)) return false;
  return level <= LogLevel::Warn || (subsys & out.subsys.load(std::memory_order_relaxed)) != 0;
}

void logText(LogLevel level, uint64_t subsys, const char* text) {
  if (!logEnabled(level, subsys)) return;
  static const std::string& host = *new std::string(hostName());  // NOLINT: see sink()
  std::string prefix =
      host + ":" + std::to_string(getpid()) + ":" + std::to_string(syscall(SYS_gettid)) + " ";
  if (threadRank >= 0) prefix += "[" + std::to_string(threadRank) + "] ";
  prefix += std::string("NCCL ") + levelName(level) + " ";
  std::string lines;  // each with the prefix, so that ranks can be told apart
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (end > 0) lines += prefix + std::string(rest.substr(0, end)) + "\n";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  Sink& out = sink();
  const std::lock_guard lock(out.mutex);
  writeAll(out.file ? out.file.get() : STDERR_FILENO, lines);
}

void logWrite(LogLevel level, uint64_t subsys, const char* format, ...) {
  if (!logEnabled(level, subsys)) return;
  va_list args;
  va_start(args, format);
  const std::string text = formatted(format, args);
  va_end(args);
  logText(level, subsys, text.c_str());
}

void logSetRank(int rank) {
  threadRank = rank;
}

}  // namespace nccom
